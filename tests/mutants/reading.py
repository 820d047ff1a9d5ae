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
    Mutant(
        "rows-of-users-are-counted",
        "A statement says how many rows users have: one user's third row shows.",
        "pipelines/metrics/statement.py",
        '**({"rows_read": tallies.get(ROWS, 0)} if unit == "row" else {}),',
        '"rows_read": tallies.get(ROWS, 0),',
        ("tests/pipelines/test_numbers.py",),
        known_by="no_rows_of_users",
    ),
    Mutant(
        "engines-count-rows-of-users",
        "An engine's counters say how many rows users have.",
        "transforms/encode.py",
        "            if self._told:\n",
        "            if True:\n",
        ("tests/transforms/test_encode.py",),
        known_by="no_counts_of_users_rows",
    ),
    Mutant(
        "a-large-delta-without-a-word",
        "A delta of one half is taken like any other.",
        "pipelines/requests.py",
        "if delta is not None and delta > LARGEST_DELTA and not meant:",
        "if delta is not None and delta > 1 and not meant:",
        ("tests/pipelines/test_large_delta.py",),
    ),
    Mutant(
        "yes-is-a-number",
        "A request takes True for an epsilon of 1.",
        "pipelines/requests.py",
        'if isinstance(value, bool) and "bool" not in repr(field.annotation):',
        "if False:",
        ("tests/pipelines/test_large_delta.py",),
        known_by="truth_is_no_number",
    ),
    Mutant(
        "days-come-round",
        "A time beyond the calendar is counted as another day.",
        "transforms/files/moments.py",
        "return pc.if_else(inside, times, pa.scalar(None, TIME))",
        "return times",
        ("tests/transforms/expressions/test_times.py",),
        known_by="beyond_the_calendar",
    ),
)
