"""Duplicates: one report of each id, whatever the order, the bundles and the flood."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import FixedWindows

from mechanisms.randomness import SeededRandom
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import DUPLICATE
from tests.oracles.transforms import drive, grouped, run, source
from tests.oracles.wire import PLAN, fields
from transforms.reports import duplicates
from transforms.reports.duplicates import (
    DropCopiedSeals,
    DropDuplicates,
    OneOfEachDoFn,
    PartitionIdsDoFn,
    distinct,
    distinct_seals,
    drawn,
    lots,
)

FORM = Form()
SEALED = Form(sealed=True)


def made(n: int, seed: int = 1) -> Reports:
    return Reports.submitted(PLAN, 0, np.arange(n) % 9, SeededRandom(seed))


def rows_of(reports: Reports, seed: int = 8) -> np.ndarray:
    """With their lots."""
    return drawn(reports, SeededRandom(seed))


def blocks_of(reports: Reports, order: np.ndarray, pieces: int) -> list[Reports]:
    """Reports in some order, with repeats, in pieces."""
    return [Reports(PLAN, FORM, part) for part in np.array_split(reports.records[order], pieces)]


def test_every_id_stays_once():
    reports = made(3000)
    order = SeededRandom(2).integers(3000, 9000).astype(np.intp)
    outcome = run(
        lambda p: (
            (p | source(blocks_of(reports, order, 7), Reports) | DropDuplicates(PLAN, FORM)).reports
        )
    )
    rows = [row for block in outcome.elements for row in fields(block)]
    there = np.unique(order)
    assert sorted(rows) == sorted(fields(Reports(PLAN, FORM, reports.records[there])))
    assert outcome.counters == {DUPLICATE: 9000 - there.size}


@pytest.mark.parametrize("sealed", [False, True])
def test_what_is_dropped_is_counted_where_it_is_dropped(sealed):
    """Within a bundle, in a bucket, and by the seal: what is left and what is not are all."""
    reports = seals(300) if sealed else made(300)
    copies = Reports(PLAN, reports.form, reports.records[:40].copy())
    copies.records["report_id"] += np.uint64(sealed)
    blocks = [reports, reports, copies]
    counted = run(
        lambda p: (p | source(blocks, Reports) | DropDuplicates(PLAN, reports.form)).dropped
    )
    assert sum(counted.elements) == 340


def test_of_different_reports_with_one_id_any_order_keeps_the_same():
    reports = made(200)
    reports.records["report_id"][:150] = reports.records["report_id"][150:].repeat(3, axis=0)
    rows = rows_of(reports)
    kept = distinct(rows)
    assert kept.size == 50
    for seed in range(20):
        order = SeededRandom(seed).permutation(200).astype(np.intp)
        assert (distinct(rows[order]) == kept).all()


@pytest.mark.parametrize("sealed", [False, True])
def test_which_of_two_reports_stays_does_not_depend_on_what_they_say(sealed):
    """Of 4,000 pairs of messages 0 and 1 half keep the 0; 390 are 12 standard deviations.

    Were the least kept, 0 would say that it is the value of a user who drew it once in two draws.
    """
    n, form = 4000, SEALED if sealed else FORM
    records = form.empty(2 * n)
    records["report_id"] = SeededRandom(5).words(2 * n).reshape(n, 2).repeat(2, axis=0)
    records["sealed" if sealed else "message"].reshape(2 * n, -1)[:, 0] = np.arange(2 * n) % 2
    kept = distinct(rows_of(Reports(PLAN, form, records)))["record"]
    assert kept.size == n
    ones = kept["sealed" if sealed else "message"].reshape(n, -1)[:, 0].sum()
    assert abs(int(ones) - n / 2) < 390


def test_the_first_half_of_an_id_tells_it_from_others():
    """A Parquet file has no more of it; so a report counts once whichever file it is in."""
    reports = made(400)
    reports.records["report_id"][:, 1] = 5
    assert distinct(rows_of(reports)).size == 400
    again = Reports(PLAN, FORM, reports.records.copy())
    again.records["report_id"][:, 1] = 0
    # Wherever it comes from: in one bundle they would be told apart before they are in buckets.
    first, second = (SeededRandom(1).words(2) | np.uint64(1)).tolist()
    buckets = PartitionIdsDoFn(64, (first, second)).assign
    assert np.array_equal(buckets(rows_of(reports)), buckets(rows_of(again)))
    outcome = run(
        lambda p: (p | source([reports, again], Reports) | DropDuplicates(PLAN, FORM)).reports
    )
    assert outcome.counters == {DUPLICATE: 400}


def test_windows_are_apart():
    reports = made(10)
    outcome = run(
        lambda p: (
            (
                p
                | source([reports] * 3, Reports, spread=6)
                | beam.WindowInto(FixedWindows(10))
                | DropDuplicates(PLAN, FORM)
            ).reports
        )
    )
    assert outcome.counters == {DUPLICATE: 10}
    assert sum(map(len, outcome.elements)) == 20


def test_a_flood_of_one_report_is_one_row_to_its_bucket(monkeypatch):
    """A million copies leave a worker as one row a bundle, and a bucket never holds them all."""
    flood = Reports(PLAN, FORM, made(1).records.repeat(500_000))
    dofn = PartitionIdsDoFn(64, (3, 5))
    dofn.setup()
    sent = drive(dofn, [[flood], [flood]])
    groups = grouped([each for each in sent if not isinstance(each, TaggedOutput)])
    assert [len(b"".join(pieces)) for pieces in groups.values()] == [2 * lots(FORM).itemsize]

    sizes = []
    honest = duplicates.distinct
    monkeypatch.setattr(
        duplicates, "distinct", lambda rows: (sizes.append(rows.size), honest(rows))[1]
    )
    pieces = [rows_of(made(10)).tobytes()] * 1000
    lost, block = OneOfEachDoFn(PLAN, FORM, compact_at=100).process((0, iter(pieces)))
    assert lost.value == 9990
    assert sorted(fields(block)) == sorted(fields(made(10)))
    assert max(sizes) <= 120


def test_ids_made_alike_do_not_meet_in_one_bucket():
    """Counters for ids, at either end: over drawn multipliers no bucket has far beyond its share.

    Multiply-shift is universal in pairs, no more: an eighth of all is what is asked of it here.
    """
    rows = rows_of(made(6400))
    for end in (0, 48):
        rows["record"]["report_id"][:, 0] = np.arange(6400) << end
        for seed in range(10):
            first, second = (SeededRandom(seed).words(2) | np.uint64(1)).tolist()
            buckets = PartitionIdsDoFn(64, (first, second)).assign(rows)
            assert buckets.max() < 64
            assert np.bincount(buckets.astype(int)).max() < 800


def test_shuffled_reports_have_no_ids():
    with pytest.raises(ValueError, match="before the shuffle"):
        DropDuplicates(PLAN, Form(shuffled=True))


def seals(n: int, seed: int = 1, shuffled: bool = False) -> Reports:
    """Sealed reports, which nobody has to open here."""
    rng = SeededRandom(seed)
    records = SEALED.empty(n)
    records["report_id"] = rng.words(2 * n).reshape(n, 2)
    records["key_id"] = 7
    records["sealed"] = rng.words(7 * n).view(np.uint8).reshape(n, 56)
    reports = Reports(PLAN, SEALED, records)
    return reports.without_ids() if shuffled else reports


def test_a_sealed_report_under_other_ids_stays_once():
    """Whoever carries a seal can put any id on it, and cannot read it: 500 copies are one."""
    reports = seals(300)
    copies = reports.records[:1].repeat(500)
    copies["report_id"] = SeededRandom(2).words(1000).reshape(500, 2)
    outcome = run(
        lambda p: (
            (
                p
                | source([reports, Reports(PLAN, SEALED, copies)], Reports)
                | DropDuplicates(PLAN, SEALED)
            ).reports
        )
    )
    kept = np.concatenate([block.records["sealed"] for block in outcome.elements])
    assert np.array_equal(np.unique(kept, axis=0), np.unique(reports.records["sealed"], axis=0))
    assert kept.shape == (300, 56)
    assert outcome.counters == {DUPLICATE: 500}


def test_seals_are_told_apart_after_the_shuffle_too():
    form, reports = Form(sealed=True, shuffled=True), seals(300, shuffled=True)
    outcome = run(
        lambda p: (p | source([reports] * 3, Reports) | DropCopiedSeals(PLAN, form)).reports
    )
    assert sum(map(len, outcome.elements)) == 300
    assert outcome.counters == {DUPLICATE: 600}


def test_any_order_keeps_the_same_seal_and_a_spoilt_copy_takes_no_place():
    """Under another metric or key a seal does not open: that is no copy of the report."""
    records = seals(40).records.repeat(3)
    records["report_id"] = SeededRandom(4).words(240).reshape(120, 2)
    records["metric"][::3], records["key_id"][1::3] = 1, 8
    assert distinct_seals(rows_of(Reports(PLAN, SEALED, records))).size == 120
    rows = rows_of(Reports(PLAN, SEALED, np.concatenate([records, seals(40).records])))
    kept = distinct_seals(rows)
    assert kept.size == 160 - 40
    for seed in range(20):
        order = SeededRandom(seed).permutation(160).astype(np.intp)
        assert (distinct_seals(rows[order]) == kept).all()
