"""Rows that lack values: a cell of its own, or a public number, in the place of what they lack."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_optimal
from tests.oracles.encoders import encode_table
from transforms.encoders.attributes import Category, Number, NumberList
from transforms.encoders.bounds import Bounds
from transforms.encoders.coordinates import CoordinateEncoder
from transforms.encoders.domain import IntegerRange
from transforms.encoders.rows import Absence, RowEncoder

BOUNDS = Bounds(0.0, 4.0)
NUMBERS = (Number("x", BOUNDS), NumberList("v", 2, BOUNDS))
LISTS: list[list[float | None] | None] = [
    [1.0, 2.0], None, [1.0], [1.0, 2.0, 3.0], [None, 2.0], [1.0, float("nan")], [], [4.0, 9.0],
]  # fmt: skip
X = [1.0, None, float("nan"), float("inf"), 2.0, 3.0, 4.0, 5.0]
LACKS = np.array([
    [0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 1, 0], [0, 0, 1], [0, 1, 1], [0, 0, 0],
], bool)  # fmt: skip


def table() -> pa.Table:
    lists = pa.array(LISTS, pa.list_(pa.float64()))
    kinds = pa.array([0, 1, None, 7, 2, 2, 1, 0], pa.int64())
    return pa.table({"x": pa.array(X, pa.float64()), "v": lists, "k": kinds})


def test_each_coordinate_that_cannot_be_used_has_a_cell_of_its_own() -> None:
    choice = multi_optimal(8.0, 3, cells=4, sampled=3, hides=True)
    encoder = CoordinateEncoder(NUMBERS, choice, Absence(hides=True))
    block, rejects = encode_table(encoder, table(), rng=SeededRandom(1))
    assert rejects == {}
    coordinates, cells = np.divmod(block.cells.astype(np.int64), encoder.places)
    assert coordinates.tolist() == [[0, 1, 2]] * 8
    assert np.array_equal(cells == choice.unusable, LACKS)
    assert cells[7].tolist() == [4, 4, 4]  # clipped


def test_whole_rows_say_what_they_lack() -> None:
    kinds = Category("k", IntegerRange(0, 2))
    encoder = RowEncoder((*NUMBERS, kinds), absence=Absence(hides=True))
    block, rejects = encode_table(encoder, table(), rng=SeededRandom(1))
    assert rejects == {}
    assert np.array_equal(np.isnan(block.numbers), LACKS)
    assert block.categories[:, 0].tolist() == [0, 1, 3, 3, 2, 2, 1, 0]


def test_what_they_lack_is_not_written_into_the_column() -> None:
    """A range from 0 over whole numbers without nulls is the column's own memory."""
    encoder = RowEncoder((Category("k", IntegerRange(0, 2)),), absence=Absence(hides=True))
    for values, expected in (([0, 1, 2], [0, 1, 2]), ([0, 7, 2], [0, 3, 2])):
        column = pa.table({"k": pa.array(values, pa.int64())})
        block, rejects = encode_table(encoder, column)
        assert (block.categories[:, 0].tolist(), rejects) == (expected, {})
        assert column["k"].to_pylist() == values


@pytest.mark.parametrize("whole", [False, True])
def test_a_public_number_stands_in_the_place_of_those(whole: bool) -> None:
    absence = Absence(fill=2.0)
    choice = multi_optimal(8.0, 3, cells=4, sampled=3)
    encoder = RowEncoder(NUMBERS, None, absence) if whole else CoordinateEncoder(
        NUMBERS, choice, absence)  # fmt: skip
    block, rejects = encode_table(encoder, table(), rng=SeededRandom(1))
    assert rejects == {}
    if whole:
        assert np.all(block.numbers[LACKS] == 0)
    else:
        assert np.all(block.cells[LACKS] % encoder.places == 2)
