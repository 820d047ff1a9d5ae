"""Bugs of what people get: a figure, its error, its intervals, its label."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CONTRACT = ("tests/contract/test_figures.py",)

MUTANTS = (
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
        "pipelines/metrics/histogram/result.py",
        '        "lower": lower,\n        "upper": upper,\n',
        '        "lower": estimate,\n        "upper": estimate,\n',
        _CONTRACT,
        known_by="figures_are_true and histogram and shuffle and 100",
    ),
    Mutant(
        "figures-one-less-the-share",
        "A histogram publishes the share of all others.",
        "pipelines/metrics/histogram/result.py",
        '        "unbiased": unbiased,\n        "standard_error": error,',
        '        "unbiased": 1 - unbiased,\n        "standard_error": error,',
        _CONTRACT,
        known_by="figures_are_true and histogram and shuffle and 100",
    ),
    Mutant(
        "figures-joint-band-too-narrow",
        "Intervals that are said to hold together hold one by one.",
        "pipelines/metrics/histogram/result.py",
        "for together in (False, True)",
        "for together in (False, False)",
        _CONTRACT,
        known_by="figures_are_true and histogram and local and 100",
    ),
    Mutant(
        "figures-quantiles-outside-their-intervals",
        "A quantile is published with the interval of its neighbour.",
        "pipelines/metrics/distribution/result.py",
        '{"p": list(probabilities), "estimate": estimate, "lower": lower, "upper": upper}',
        '{"p": list(probabilities), "estimate": estimate, "lower": np.roll(lower, 1), '
        '"upper": np.roll(upper, 1)}',
        _CONTRACT,
        known_by="figures_are_true and distribution and local and 100",
    ),
    Mutant(
        "figures-two-columns-swapped",
        "What was projected stands as unbiased, and what is unbiased as the estimate.",
        "pipelines/metrics/histogram/result.py",
        '        "estimate": estimate,\n        "unbiased": unbiased,\n',
        '        "estimate": unbiased,\n        "unbiased": estimate,\n',
        _CONTRACT,
        known_by="figures_are_true and histogram and shuffle and 100",
    ),
    Mutant(
        "figures-labels-in-the-wrong-column",
        "A group stands in the column of values, and a value in that of groups.",
        "pipelines/metrics/schema.py",
        'return {"value": value} | ({"group": groups[0]} if groups else {})',
        'return {"group": value} | ({"value": groups[0]} if groups else {})',
        _CONTRACT,
        known_by="figures_are_true and unknown and 100",
    ),
)
