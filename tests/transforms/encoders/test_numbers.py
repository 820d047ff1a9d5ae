"""Numbers to cells: every column type, each reject counted once, and rounding that is unbiased."""

from __future__ import annotations

import decimal
import math
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import piecewise
from mechanisms.randomness import SeededRandom
from tests.oracles.encoders import arrow, dictionary, encode_table
from transforms.columns import as_floats, is_numeric
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import IntegerRange
from transforms.encoders.encoder import NULL_USER, NULL_VALUE, Rows
from transforms.encoders.numbers import (
    INFINITE,
    NOT_A_NUMBER,
    NULL_GROUP,
    OUTSIDE_GROUPS,
    GroupColumn,
    NumberEncoder,
)
from transforms.encoders.users import UserDigest

NUMERIC = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 2),
    pa.decimal256(40, 3), pa.dictionary(pa.int8(), pa.int32()),
]  # fmt: skip
OTHERS = [
    pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.duration("s"),
    pa.list_(pa.float64()), pa.null(), pa.dictionary(pa.int8(), pa.string()),
]  # fmt: skip


@pytest.mark.parametrize("kind", NUMERIC, ids=str)
def test_numbers_of_every_type_are_read(kind):
    assert is_numeric(kind)
    values = [0, 1, None, 100, 7]
    if pa.types.is_decimal(kind):
        values = [None if v is None else decimal.Decimal(v) for v in values]
    if pa.types.is_float16(kind):
        column = pa.array([None if v is None else np.float16(v) for v in values], kind)
    elif pa.types.is_dictionary(kind):
        column = pa.array(values, kind.value_type).dictionary_encode()
    else:
        column = pa.array(values, kind)
    for sliced in (column, pa.concat_arrays([column, column]).slice(5)):
        numbers = as_floats(sliced)
        assert numbers.dtype == np.float64
        np.testing.assert_array_equal(numbers, [0, 1, np.nan, 100, 7])


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_other_types_are_refused(kind):
    assert not is_numeric(kind)


# ---- bounds --------------------------------------------------------------------------------------


@given(
    st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.lists(st.floats(allow_nan=False))
)  # fmt: skip
def test_scaled_numbers_lie_within_one_and_come_back(one, other, numbers):
    low, high = sorted((one, other))
    if not low < high:
        return
    bounds, finite = Bounds(low, high), np.array([x for x in numbers if math.isfinite(x)])
    scaled = bounds.scale(finite.copy())
    assert ((scaled >= -1) & (scaled <= 1)).all()
    size = max(abs(low), abs(high), high - low)
    for number, value in zip(finite, scaled, strict=True):
        clipped = min(max(number, low), high)
        assert abs(bounds.unscale(float(value)) - clipped) <= 1e-12 * size
    assert bounds.scale(np.array([low, high])).tolist() == [-1, 1]


def test_scaling_leaves_its_input_alone():
    numbers = np.array([1.0, 50.0])
    Bounds(0.0, 10.0).scale(numbers)
    assert numbers.tolist() == [1, 50]


# ---- the encoder ---------------------------------------------------------------------------------


def encoder(rounding, bounds=Bounds(-10.0, 10.0), groups=None) -> NumberEncoder:  # noqa: B008
    return NumberEncoder("v", bounds, rounding, groups)


@st.composite
def rows(draw):
    value = st.sampled_from([-99.0, -10.0, -5.0, 0.0, 10.0, 1e308, None, math.nan, math.inf])
    return draw(
        st.lists(
            st.tuples(value, st.sampled_from([None, 0, 1, 2, 5]), st.sampled_from([None, 7, 8])),
            max_size=30,
        )
    )


@given(rows(), st.booleans(), st.booleans(), st.integers(0, 3))
def test_rows_are_encoded_or_counted_under_their_first_reason(content, by_user, by_group, before):
    """On a grid of four cells over -10 .. 10 these values are grid points: nothing is drawn."""
    rounding = duchi(1.0, cells=4)
    users = UserDigest("u", 99) if by_user else None
    groups = GroupColumn("g", IntegerRange(0, 2)) if by_group else None
    expected, tallies = [], Counter()
    for value, group, user in content:
        if by_user and user is None:
            tallies[NULL_USER] += 1
        elif by_group and group is None:
            tallies[NULL_GROUP] += 1
        elif by_group and group == 5:
            tallies[OUTSIDE_GROUPS] += 1
        elif value is None:
            tallies[NULL_VALUE] += 1
        elif math.isnan(value):
            tallies[NOT_A_NUMBER] += 1
        elif math.isinf(value):
            tallies[INFINITE] += 1
        else:
            cell = int((min(max(value, -10), 10) + 10) / 5)
            expected.append(cell + (group * 5 if by_group else 0))
    columns = {"v": (0, pa.float64()), "g": (1, pa.int32()), "u": (2, pa.int64())}
    table = pa.table(
        {
            name: arrow([row[at] for row in content], kind, before)
            for name, (at, kind) in columns.items()
        }
    )
    block, rejects = encode_table(encoder(rounding, groups=groups), table, users)
    assert block.cells.dtype == np.uint32
    assert block.cells.tolist() == expected
    assert rejects == dict(tallies)
    assert (block.users is not None) == by_user
    if by_user:
        assert block.users.size == block.size


@given(
    st.lists(st.sampled_from([-10, 0, 5, 400, None]), max_size=20),
    st.booleans(),
    st.integers(0, 20),
)
def test_dictionaries_of_numbers(values, hide_nulls, start):
    column = dictionary(values, pa.int32(), [5, 77], hide_nulls).slice(start)
    kept = values[start:]
    block, rejects = encode_table(encoder(duchi(1.0, cells=4)), pa.table({"v": column}))
    assert block.cells.tolist() == [int((min(v, 10) + 10) / 5) for v in kept if v is not None]
    assert rejects.get(NULL_VALUE, 0) == kept.count(None)


def test_rounding_between_grid_points_is_unbiased():
    """40,000 coins: the mean is within 6.2 standard deviations of the value."""
    value, n = Fraction(7, 3), 40_000
    table = pa.table({"v": pa.array(np.full(n, float(value)))})
    cells = encode_table(encoder(duchi(1.0, cells=4)), table, rng=SeededRandom(3))[0].cells
    position = (value + 10) / 5
    assert set(cells.tolist()) == {math.floor(position), math.floor(position) + 1}
    share = float(position - math.floor(position))
    assert abs(cells.mean() - float(position)) < 6.2 * math.sqrt(share * (1 - share) / n)


def test_it_travels_as_a_few_numbers():
    whole = pickle.dumps(NumberEncoder("v", Bounds(0.0, 1.0), piecewise(1.0, cells=1 << 16)))
    assert len(whole) < 2000


def test_columns_are_what_is_read():
    groups = GroupColumn("g", IntegerRange(0, 2))
    assert encoder(duchi(1.0)).columns == {"v"}
    assert encoder(duchi(1.0), groups=groups).columns == {"v", "g"}


def test_groups_times_cells_must_fit_into_32_bits():
    groups = GroupColumn("g", IntegerRange(1, 5000))
    with pytest.raises(ValueError, match="groups of 1048577 cells each are more"):
        NumberEncoder("v", Bounds(0.0, 1.0), duchi(1.0, cells=1 << 20), groups)


# ---- numbers that cannot be used -----------------------------------------------------------------

HOLES = {"x": [0.0, None, math.nan, math.inf, 4.0], "group": [0, 0, 7, 1, None]}


def cells(**how):
    """The cells of `HOLES` on a grid that rounds nothing, and the rejects."""
    encoder = NumberEncoder("x", Bounds(0.0, 4.0), duchi(1.0, cells=2), **how)
    block, rejects = encode_table(encoder, pa.table(HOLES))
    return block.cells.tolist(), rejects


def test_groups_are_not_written_into_the_column_that_they_are_of():
    """A range from 0 over whole numbers without nulls is the column's own memory."""
    for values, expected in (([0, 1, 2], [0, 1, 2]), ([0, 7, 2], [0, 3, 2])):
        batch, rows = pa.record_batch({"g": pa.array(values, pa.int64())}), Rows(3)
        groups = GroupColumn("g", IntegerRange(0, 2), instead=3).encode(batch, rows)
        assert (groups.tolist(), rows.rejects) == (expected, {})
        assert batch["g"].to_pylist() == values


def test_numbers_that_cannot_be_used_become_one_more_cell():
    assert cells(instead=3) == ([0, 3, 3, 3, 2], {})


def test_numbers_that_cannot_be_used_become_the_one_that_was_named():
    assert cells(fill=2.0) == ([0, 1, 1, 1, 2], {})
    assert cells(fill=99.0) == ([0, 2, 2, 2, 2], {})  # clipped like any other


def test_public_groups_keep_numbers_that_cannot_be_used_and_lose_rows_of_no_group():
    groups = GroupColumn("group", IntegerRange(0, 1))
    rejects = {NULL_GROUP: 1, OUTSIDE_GROUPS: 1}
    assert cells(groups=groups, instead=3) == ([0, 3, 4 + 3], rejects)
    assert cells(groups=groups, fill=2.0) == ([0, 1, 3 + 1], rejects)


def test_private_groups_hide_whoever_is_in_none_and_has_no_number():
    groups = GroupColumn("group", IntegerRange(0, 1), instead=2)
    assert cells(groups=groups, instead=0) == ([0, 6, 6, 6, 6 + 2], {})
    assert cells(groups=groups, fill=2.0) == ([0, 1, 6 + 1, 3 + 1, 6 + 2], {})
