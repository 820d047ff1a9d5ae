"""Bugs of what people read: numbers that are right, shown as what they are not."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a-selected-interval-shown-as-single",
        "The largest values, picked by looking, are shown with intervals that cover one alone.",
        "pipelines/views/selected.py",
        'LOWER, UPPER = "lower_simultaneous", "upper_simultaneous"',
        'LOWER, UPPER = "lower", "upper"',
        ("tests/pipelines/test_report.py",),
    ),
    Mutant(
        "a-risk-without-the-slope",
        "A rule is judged by its distance from the estimates: whatever stays at them wins.",
        "mechanisms/postprocess/risk.py",
        "return apart + 2 * float(",
        "return apart + 0 * float(",
        ("tests/mechanisms/postprocess/test_choice.py",),
    ),
    Mutant(
        "compare-whole-noise-as-if-it-were-smooth",
        "Of whole numbers, differences count as beyond noise from the number that noise takes on.",
        "pipelines/compare/differences.py",
        "grain = float(earlier.whole and later.whole)",
        "grain = 0.0",
        ("tests/pipelines/compare/test_differences.py",),
    ),
)
