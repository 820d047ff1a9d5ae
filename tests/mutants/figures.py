"""Bugs of what people get: a figure, its error, its intervals, its label."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TREE = ("tests/pipelines/test_counted_distribution.py",)
_NAMES = ("tests/end_to_end/test_column_names.py",)
_CHANGES = ("tests/pipelines/compare/test_differences.py",)
_CONTRACT = ("tests/contract/test_figures.py",)
_ALARMS = ("tests/mechanisms/postprocess/test_alarms.py",)

MUTANTS = (
    Mutant(
        "alarms-twice-a-year",
        "Each of two CUSUMs has the rate of false alarms that both may have together.",
        "mechanisms/postprocess/alarms.py",
        "_run_length(h) / (2 * windows)",
        "_run_length(h) / windows",
        _ALARMS,
        known_by="threshold_is_that_of_tables",
    ),
    Mutant(
        "alarms-that-count-noise-as-known",
        "What is not known yet of a law narrows predictions no more, and false alarms are many.",
        "mechanisms/postprocess/alarms.py",
        "self._variance = np.maximum(self._with[:, seen].sum(-1), new) + error**2",
        "self._variance = np.maximum(0.5 * self._with[:, seen].sum(-1), new / 2) + error**2",
        _ALARMS,
        known_by="once_a_year",
    ),
    Mutant(
        "shares-below-from-shares-raised-to-nothing",
        "Shares are made nonnegative one by one, and their bias adds up below each number.",
        "pipelines/metrics/counting/shapes/tree.py",
        "cumulative = fitted_shares(known)",
        "cumulative = np.append(0.0, np.cumsum((s := np.maximum(np.diff(known), 0)) / s.sum()))",
        _TREE,
        known_by="least_squares",
    ),
    Mutant(
        "limits-cut-before-they-rise",
        "Limits are cut to 0 .. 1 before they are fitted, and miss where nothing is.",
        "pipelines/metrics/counting/shapes/tree.py",
        "rising(own[1:-1])",
        "rising(np.clip(own[1:-1], 0, 1))",
        _TREE,
        known_by="cover",
    ),
    Mutant(
        "quantiles-behind-their-bin",
        "Of whole numbers a quantile's interval ends with the first one of the next bin.",
        "pipelines/metrics/counting/shapes/tree.py",
        "high - whole)",
        "high - 0 * whole)",
        _TREE,
        known_by="quantiles",
    ),
    Mutant(
        "labels-named-as-the-log",
        "What a figure is of stands in a column that is called as the log's.",
        "pipelines/metrics/statistics/labels.py",
        "        name = names[max(place - first, 0)]",
        "        name = domains[place][0]",
        _NAMES,
        known_by="name_of_a_release",
    ),
    Mutant(
        "groups-that-are-values",
        "The group of a counted mean stands where values do, so nothing compares groups.",
        "pipelines/metrics/statistics/labels.py",
        "LABELS[: len(domains)]",
        "LABELS[len(LABELS) - len(domains) :]",
        _NAMES,
        known_by="compared",
    ),
    Mutant(
        "changes-found-one-unit-early",
        "A difference that only reaches the end of its interval is stated as detectable.",
        "pipelines/compare/differences.py",
        "half + 1 + law.ppf(_DETECTED)",
        "half + law.ppf(_DETECTED)",
        _CHANGES,
        known_by="detectable",
    ),
    Mutant(
        "figures-errors-a-third-of-what-they-are",
        "Standard errors of shares are a third of what they should be.",
        "mechanisms/postprocess/intervals.py",
        "return np.sqrt(mechanism.variance(np.clip(estimate, 0, 1), n))",
        "return np.sqrt(mechanism.variance(np.clip(estimate, 0, 1), n)) / 3",
        _CONTRACT,
        known_by="figures_are_true and histogram and local and 100",
    ),
    Mutant(
        "figures-intervals-of-one-point",
        "Intervals of a share reach from its estimate to its estimate.",
        "pipelines/metrics/statistics/histogram.py",
        "np.minimum(shares.lower, estimates)",
        "np.minimum(estimates, estimates)",
        _CONTRACT,
        known_by="figures_are_true and histogram and shuffler and 250",
    ),
    Mutant(
        "figures-one-less-the-share",
        "A histogram publishes the share of all others.",
        "pipelines/metrics/statistics/histogram.py",
        '"unbiased": unbiased, "standard_error"',
        '"unbiased": 1 - unbiased, "standard_error"',
        _CONTRACT,
        known_by="figures_are_true and histogram and shuffler and 250",
    ),
    Mutant(
        "figures-joint-band-too-narrow",
        "Intervals that are said to hold together hold one by one.",
        "pipelines/metrics/statistics/histogram.py",
        "evidence.shares(confidence, evidence.totals.size)",
        "evidence.shares(confidence, 1)",
        _CONTRACT,
        known_by="figures_are_true and histogram and shuffler and 250",
    ),
    Mutant(
        "figures-quantiles-outside-their-intervals",
        "A quantile is published with the interval of its neighbour.",
        "pipelines/metrics/reports/bins.py",
        "scaled(known.quantiles, bounds)",
        "scaled((q := known.quantiles) * [1, 0, 0] + np.roll(q, 1, 0) * [0, 1, 1], bounds)",
        _CONTRACT,
        known_by="figures_are_true and distribution and local and 100",
    ),
    Mutant(
        "figures-two-columns-swapped",
        "What was projected stands as unbiased, and what is unbiased as the estimate.",
        "pipelines/metrics/statistics/histogram.py",
        '"estimate": estimates, "unbiased": unbiased,',
        '"estimate": unbiased, "unbiased": estimates,',
        _CONTRACT,
        known_by="figures_are_true and histogram and shuffler and 250",
    ),
    Mutant(
        "figures-labels-in-the-wrong-column",
        "A group stands in the column of values, and a value in that of groups.",
        "pipelines/metrics/statistics/labels.py",
        "LABELS[max(len(LABELS) - len(domains), 0) :]",
        "LABELS[: len(domains)]",
        _CONTRACT,
        known_by="figures_are_true and count and 100",
    ),
)
