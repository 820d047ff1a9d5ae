"""Bugs of what people read: numbers that are right, shown as what they are not."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "withheld-by-the-share-and-not-its-interval",
        "A metric is withheld where its noisy share is high, however little is known of it.",
        "pipelines/metrics/unusable/verdict.py",
        "if min(part.lower for part in sure.values()) > ALL:",
        "if min(part.estimate for part in sure.values()) > ALL:",
        ("tests/pipelines/test_unusable_law.py",),
    ),
    Mutant(
        "what-is-withheld-for-its-share-costs-nothing",
        "The share of unusable values is published, and the ledger gives its price back.",
        "pipelines/ledger/publication.py",
        'and "unusable" not in missing[name]',
        "and True",
        ("tests/end_to_end/test_unusable_withheld.py",),
    ),
    Mutant(
        "a-refusal-names-the-cells-of-a-first-row",
        "The first row of a CSV file without a header is printed as names of columns.",
        "transforms/files/names.py",
        'if format_of(file).name == "CSV" and not',
        'if format_of(file).name == "never" and not',
        ("tests/transforms/files/test_names.py",),
    ),
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
