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
        "a-lost-block-is-published",
        "What was sent is not held against what has come, so an engine may lose a block unseen.",
        "transforms/conservation.py",
        "(shuffled.passed(flow), arrived),",
        "(arrived, arrived),",
        ("tests/transforms/test_conservation.py",),
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
        "bucket_of(rows[_USERS], self._buckets)",
        "bucket_of(rows[_USERS] * np.uint64(2 * rows.size + 1), self._buckets)",
        ("tests/transforms/test_contributions.py",),
    ),
    Mutant(
        "survivors-draw-again",
        "The row of a user that has stayed draws anew whenever more rows come: late ones win.",
        "transforms/contributions.py",
        "[chosen.priorities, *drawn]",
        "[rng.words(chosen.rows.size), *drawn]",
        ("tests/transforms/test_contributions.py",),
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
