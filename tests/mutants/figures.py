"""Bugs of what is made of noisy counts: wrong figures, and figures in the wrong place."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TREE = ("tests/pipelines/test_counted_distribution.py",)
_NAMES = ("tests/end_to_end/test_column_names.py",)
_CHANGES = ("tests/pipelines/compare/test_differences.py",)

MUTANTS = (
    Mutant(
        "shares-below-from-shares-raised-to-nothing",
        "Shares are made nonnegative one by one, and their bias adds up below each number.",
        "pipelines/metrics/counting/distribution.py",
        "cumulative = _fitted(known)",
        "cumulative = np.append(0.0, np.cumsum((s := np.maximum(np.diff(known), 0)) / s.sum()))",
        _TREE,
        known_by="least_squares",
    ),
    Mutant(
        "limits-cut-before-they-rise",
        "Limits are cut to 0 .. 1 before they are fitted, and miss where nothing is.",
        "pipelines/metrics/counting/distribution.py",
        "rising(shares[1:-1])",
        "rising(np.clip(shares[1:-1], 0, 1))",
        _TREE,
        known_by="cover",
    ),
    Mutant(
        "quantiles-behind-their-bin",
        "Of whole numbers a quantile's interval ends with the first one of the next bin.",
        "pipelines/metrics/counting/distribution.py",
        "upper - self.whole_numbers",
        "upper - 3 * self.whole_numbers",
        _TREE,
        known_by="quantiles",
    ),
    Mutant(
        "labels-named-as-the-log",
        "What a figure is of stands in a column that is called as the log's.",
        "pipelines/metrics/counting/metric.py",
        "            columns[name] = pa.concat_arrays(",
        "            columns[self.domains[place][0]] = pa.concat_arrays(",
        _NAMES,
        known_by="name_of_a_release",
    ),
    Mutant(
        "groups-that-are-values",
        "The group of a counted mean stands where values do, so nothing compares groups.",
        "pipelines/metrics/counting/metric.py",
        "first = 0 if self.grouped else",
        "first =",
        _NAMES,
        known_by="compared",
    ),
    Mutant(
        "changes-found-one-unit-early",
        "A difference that only reaches the end of its interval is stated as detectable.",
        "pipelines/compare/differences.py",
        "half + 1 + law.ppf(_FOUND)",
        "half + law.ppf(_FOUND)",
        _CHANGES,
        known_by="detectable",
    ),
)
