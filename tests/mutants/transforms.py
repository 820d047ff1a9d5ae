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
        "no-cell-for-what-is-missing",
        "An encoder leaves out what cannot be used where it should be one more cell.",
        "transforms/encoders/encoder.py",
        "        if instead is None:",
        "        if True:",
        ("tests/transforms/encoders/test_numbers.py", "tests/end_to_end/test_absence.py"),
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
        "    return rows[order[first]]",
        "    return rows[order]",
        ("tests/transforms/test_duplicates.py",),
    ),
    Mutant(
        "a-second-report-counts",
        "A report is named at random, so a user who reports again counts again.",
        "pipelines/parties/submit.py",
        "self._ids is None or users is None",
        "True",
        ("tests/pipelines/test_parties_identity.py",),
    ),
    Mutant(
        "permanent-noise-at-a-crowds-price",
        "Windows under one noise are promised what one of them, by itself, loses in a crowd.",
        "pipelines/metrics/permanent.py",
        "return whole, whole",
        "return guarantees",
        ("tests/pipelines/test_permanent_noise.py",),
    ),
    Mutant(
        "the-least-of-two-reports-stays",
        "Which of a user's reports counts is told by what they say, which says more of the value.",
        "transforms/duplicates.py",
        "rng.words(len(reports)) | np.uint64(1)",
        "reports.records.view(np.uint8).reshape(len(reports), -1)[:, 20] + np.uint64(1)",
        ("tests/transforms/test_duplicates.py",),
    ),
    Mutant(
        "a-user-id-encoded-by-its-type",
        "Digests depend on how wide a column's integers are, so a user of two files is two.",
        "transforms/encoders/users.py",
        "words ^ np.uint64(self.key)",
        "words ^ np.uint64(self.key ^ ids.type.bit_width)",
        ("tests/transforms/encoders/test_users.py", "tests/transforms/test_contributions.py"),
    ),
)
