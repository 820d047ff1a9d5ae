"""No place in a file of reports tells whose they are, or when their rows were read."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire.report import Form, Reports
from tests.oracles.transforms import run, source
from tests.oracles.wire import PLAN, fields
from transforms.reports.repeats import ByIds, in_order

FORM = Form()


def made(n: int) -> Reports:
    """Of two metrics, by turns."""
    reports = Reports.submitted(PLAN, 0, np.arange(n) % 9, SeededRandom(1))
    reports.records["metric"] = np.arange(n) % 2
    return reports


@pytest.mark.parametrize("seed", [None, 2])
def test_which_reports_stand_together_follows_from_their_ids(seed) -> None:
    """In order of rows and in another one there are the same blocks, one for each range of ids."""
    reports, places = made(3000), np.arange(3000)
    if seed is not None:
        places = SeededRandom(seed).permutation(3000).astype(np.intp)
    parts = np.array_split(reports.records[places], 7)
    blocks = [Reports(PLAN, FORM, part) for part in parts]
    found = run(lambda p: p | source(blocks, Reports) | ByIds(PLAN, FORM, 4)).elements
    ranges = [int(block.records["report_id"][0, 0] >> np.uint64(62)) for block in found]
    assert sorted(ranges) == [0, 1, 2, 3]
    expected = reports.records["report_id"][:, 0] >> np.uint64(62)
    for block, kind in zip(found, ranges, strict=True):
        assert sorted(fields(block)) == sorted(fields(reports.where(expected == kind)))


def test_reports_are_put_in_order_of_metrics_and_ids() -> None:
    """The slow way, one after another."""
    records = made(500).records
    rows = sorted(records.tolist(), key=lambda row: (row[1], int(row[2][0])))
    assert (in_order(records) == np.array(rows, records.dtype)).all()
