"""Rows as a plan sees them: derived columns, and what becomes of those that are not asked for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.levels import Layout
from mechanisms.randomness import SeededRandom
from transforms.encoders.block import CellBlock, applicable, one_row, packed
from transforms.encoders.domain import DeclaredValues, IntegerRange
from transforms.encoders.encoder import encoded
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.part import NOT_APPLICABLE, Viewed
from transforms.encoders.reports import LIMITED, Reporting, reports_of
from transforms.encoders.users import UserDigest
from transforms.encoders.values import ValueEncoder
from transforms.expressions.view import View
from transforms.units.contributions import choose_one_per_user

BATCH = pa.record_batch(
    {
        "country": pa.array(["de", "FR", None, "DE", "fr"]).dictionary_encode(),
        "seconds": [1.0, 2.0, 3.0, None, 5.0],
        "user": [1, 1, 2, 2, None],
    }
)
DERIVED = [("home", "upper(country)")]
LONG = ["seconds >= 2"]
DOMAIN = DeclaredValues(("DE", "FR"), other=False)


def test_a_derived_column_is_encoded_like_one_of_the_file() -> None:
    encoder = Viewed(ValueEncoder("home", DOMAIN, 2), View.read(DERIVED, []))
    assert encoder.columns == {"country"}
    block, rejects = encoded(encoder, BATCH, None, SeededRandom(1))
    assert (block.cells.tolist(), block.applies, dict(rejects)) == ([0, 1, 2, 0, 1], None, {})


def test_where_absence_is_hidden_a_row_that_fails_is_one_without_a_value() -> None:
    for column in ("home", "country"):
        inner = ValueEncoder(column, DeclaredValues(("DE", "FR", "de", "fr"), other=False), 4)
        encoder = Viewed(inner, View.read(DERIVED, LONG), inner.columns)
        assert encoder.columns == {"country", "seconds"}
        block, rejects = encoded(encoder, BATCH, UserDigest("user", 1), SeededRandom(1))
        assert block.size == 4  # all but the row of nobody
        assert block.cells.tolist()[0::3] == [4, 4]
        assert block.cells.tolist()[1] == 1
        assert block.applies.tolist() == [False, True, True, False]
        assert dict(rejects) == {"null user": 1}


def test_where_absence_is_counted_it_is_left_out_and_counted() -> None:
    encoder = Viewed(ValueEncoder("home", DOMAIN), View.read(DERIVED, LONG), leaves_out=True)
    block, rejects = encoded(encoder, BATCH, None, SeededRandom(1))
    assert block.cells.tolist() == [1, 1]
    assert dict(rejects) == {NOT_APPLICABLE: 2, "null value": 1}


def test_one_row_of_a_user_is_drawn_among_those_that_pass() -> None:
    users = np.repeat(np.arange(3000, dtype=np.uint64), 4)
    cells = np.tile(np.arange(4, dtype=np.uint32), 3000)
    # Of each user's rows 1 and 3 pass; of every third user none does.
    applies = (cells % 2 == 1) & (users % 3 != 0)
    rows = packed(CellBlock(cells, users, applies))
    chosen = choose_one_per_user(iter([rows[:5000], rows[5000:]]), SeededRandom(5), 1000)
    assert len(chosen) == 3000
    some = chosen["users"] % 3 != 0
    counts = Counter(chosen["cells"][some].tolist())
    assert set(counts) == {1, 3}
    # 1,000 either way of 2,000; beyond 6.5 standard deviations once in 10^10 seeds.
    assert abs(counts[1] - 1000) < 6.5 * 2000**0.5 / 2
    assert set(chosen["cells"][~some].tolist()) == {0, 1, 2, 3}


def test_a_device_draws_its_row_among_those_that_pass() -> None:
    cells, none = np.arange(4, dtype=np.uint32), np.zeros(4, np.bool_)
    blocks = [CellBlock(cells, None, none), CellBlock(cells + 4, None, cells == 2)]
    drawn = {int(one_row(blocks, SeededRandom(k))[0].cells[0]) for k in range(20)}
    assert drawn == {6}
    (row,) = one_row([CellBlock(cells, None, none)], SeededRandom(1))
    assert row.size == 1
    assert applicable(row).size == 0


@pytest.mark.parametrize("by_user", [False, True])
def test_of_counters_a_unit_without_a_row_that_passes_raises_nothing_and_reports(by_user) -> None:
    encoder = Viewed(GroupEncoder((("n", IntegerRange(0, 4)),)), View.read([], ["n > 1"]))
    batch = pa.record_batch({"n": [0, 1, 2, 3, 4, 4]})
    block, rejects = encoded(encoder, batch, None, SeededRandom(1))
    assert not rejects
    most = 2 if by_user else 1
    reporting = Reporting(
        Amounts(groups=6, most_groups=most, most=1), beside=(LIMITED,), present=True
    )
    users = np.array([0, 0, 1, 1, 2, 0]) if by_user else None
    n = 3 if by_user else 6
    cells = block.cells.astype(np.int64)
    rng = SeededRandom(2)
    parts = reports_of(reporting, users, cells, None, n, block.applies, rng)
    words = np.concatenate([*parts])
    layout = Layout(reporting.levels)
    assert words.shape == (n, layout.types.size)
    raised = [sorted(row[row < layout.starts[-1]].tolist()) for row in words]
    present = int(layout.starts[-3])  # before what was cut, and the end
    alone = [[], [], [2, present], [3, present], [4, present], [4, present]]
    assert raised == ([[4, present], [2, 3, present], [4, present]] if by_user else alone)
    empty = reporting.nothing(1, rng)[0]
    assert by_user or (words[:2] == empty).all()


def test_a_column_of_any_type_can_be_without_a_value() -> None:
    columns = {
        "kind": pa.array(["a", "b"]).dictionary_encode(),
        "tags": pa.array([["a"], ["b"]]),
        "raw": pa.array([b"a", b"b"], pa.binary(1)),
        "fixed": pa.array([[1.0], [2.0]], pa.list_(pa.float64(), 1)),
    }
    batch = pa.record_batch(columns | {"ok": [True, False]})

    class Kept:
        batch_size, kind, columns = 9, CellBlock, frozenset(batch.schema.names) - {"ok"}

        def encode(self, seen, rows, rng):
            self.seen = seen
            return CellBlock(np.zeros(2, np.uint32), None)

    inner = Kept()
    encoded(Viewed(inner, View.read([], ["ok"]), inner.columns), batch, None, SeededRandom(1))
    for name in columns:
        assert inner.seen.column(name).to_pylist() == [columns[name][0].as_py(), None]
