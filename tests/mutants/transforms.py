"""Bugs of the Beam steps that hold the promises about users and batches."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "min-reports-minus-one",
        "A shuffler lets a batch through that lacks one report.",
        "transforms/shuffle.py",
        ">= self._min_reports",
        ">= self._min_reports - 1",
        ("tests/transforms/test_shuffle.py",),
    ),
    Mutant(
        "sealed-min-reports-minus-one",
        "A shuffler of sealed reports lets a batch through that lacks one report.",
        "transforms/unseal.py",
        "size >= self._min_reports",
        "size >= self._min_reports - 1",
        ("tests/transforms/test_unseal.py",),
    ),
    Mutant(
        "first-row-of-a-user",
        "The first of a user's rows is taken, and not a uniform one.",
        "transforms/contributions.py",
        "rng.words(rows.size)",
        "np.zeros(rows.size, np.uint64)",
        ("tests/transforms/test_contributions.py",),
    ),
    Mutant(
        "users-bounded-in-each-block",
        "A user is bounded in every block alone, so rows in two blocks become two reports.",
        "transforms/contributions.py",
        'high = rows["user"] >> np.uint64(32)',
        'high = rows["user"] * np.uint64(2 * rows.size + 1) >> np.uint64(32)',
        ("tests/transforms/test_contributions.py",),
    ),
    Mutant(
        "rows-of-a-user-in-each-block",
        "A user's whole rows are bounded in every block alone.",
        "transforms/contributions_rows.py",
        "high = rows[_USER] >> np.uint64(32)",
        "high = rows[_USER] * np.uint64(2 * rows.size + 1) >> np.uint64(32)",
        ("tests/transforms/test_encode_rows.py",),
        known_by="user",
    ),
    Mutant(
        "copies-of-a-report-count",
        "Copies of one report all count, so one client can speak for many.",
        "transforms/duplicates.py",
        "    return records[order[first]]",
        "    return records[order]",
        ("tests/transforms/test_duplicates.py",),
    ),
)
