"""Numbers to cells: every column type, each reject counted once, and rounding that is unbiased."""

from __future__ import annotations

import decimal
import math
import pickle
from collections import Counter
from fractions import Fraction

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import piecewise
from mechanisms.randomness import SeededRandom
from tests.oracles.transforms import arrow, dictionary, fresh_stream, restart, run, source
from transforms.collect_counts import CountMessages
from transforms.encode import NULL_USER, NULL_VALUE, CellBlock, IntegerRange
from transforms.encode_numbers import (
    INFINITE,
    NOT_A_NUMBER,
    NULL_GROUP,
    OUTSIDE_GROUPS,
    Bounds,
    EncodeNumbersDoFn,
    GroupColumn,
    as_floats,
    is_numeric,
)
from transforms.progress import ROWS
from transforms.users import UserDigest

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
        found = as_floats(sliced)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, [0, 1, np.nan, 100, 7])


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


# ---- the DoFn ------------------------------------------------------------------------------------


def encoder(rounding, bounds=Bounds(-10.0, 10.0), users=None, groups=None) -> EncodeNumbersDoFn:  # noqa: B008
    dofn = EncodeNumbersDoFn("v", bounds, rounding, users, groups, lambda: SeededRandom(3))
    dofn.setup()
    return dofn


def outputs(dofn, table) -> tuple[list[CellBlock], dict[str, int]]:
    blocks, tallies = [], Counter()
    for output in dofn.process(table):
        if isinstance(output, beam.pvalue.TaggedOutput):
            assert output.tag == EncodeNumbersDoFn.TALLIES
            name, amount = output.value
            assert name not in tallies
            assert amount > 0
            tallies[name] = amount
        else:
            assert output.cells.dtype == np.uint32
            blocks.append(output)
    return blocks, dict(tallies)


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
        tallies[ROWS] += 1
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
    blocks, found = outputs(encoder(rounding, users=users, groups=groups), table)
    assert [int(c) for block in blocks for c in block.cells] == expected
    assert found == {name: amount for name, amount in tallies.items() if amount}
    for block in blocks:
        assert (block.users is not None) == by_user
        if by_user:
            assert block.users.size == block.cells.size


@given(
    st.lists(st.sampled_from([-10, 0, 5, 400, None]), max_size=20),
    st.booleans(),
    st.integers(0, 20),
)
def test_dictionaries_of_numbers(values, hide_nulls, start):
    column = dictionary(values, pa.int32(), [5, 77], hide_nulls).slice(start)
    kept = values[start:]
    blocks, tallies = outputs(encoder(duchi(1.0, cells=4)), pa.table({"v": column}))
    wanted = [int((min(v, 10) + 10) / 5) for v in kept if v is not None]
    assert [int(c) for block in blocks for c in block.cells] == wanted
    assert tallies.get(NULL_VALUE, 0) == kept.count(None)
    assert tallies.get(ROWS, 0) == len(kept)


def test_rounding_between_grid_points_is_unbiased():
    """40,000 coins: the mean is within 6.2 standard deviations of the value."""
    value, n = Fraction(7, 3), 40_000
    table = pa.table({"v": pa.array(np.full(n, float(value)))})
    blocks, _ = outputs(encoder(duchi(1.0, cells=4)), table)
    cells = np.concatenate([block.cells for block in blocks])
    position = (value + 10) / 5
    assert set(cells.tolist()) == {math.floor(position), math.floor(position) + 1}
    share = float(position - math.floor(position))
    assert abs(cells.mean() - float(position)) < 6.2 * math.sqrt(share * (1 - share) / n)


def test_large_tables_are_encoded_by_blocks():
    table = pa.table({"v": pa.array(np.linspace(-20, 20, 200_000))})
    blocks, tallies = outputs(encoder(piecewise(1.0, cells=64)), table)
    assert len(blocks) > 1
    assert sum(block.cells.size for block in blocks) == tallies[ROWS] == 200_000
    whole = np.concatenate([block.cells for block in blocks]).astype(int)
    assert (whole[:50_000] == 0).all()
    assert (whole[-50_000:] == 64).all()
    assert (np.diff(whole) >= -1).all()


def test_it_travels_to_workers_without_a_generator():
    dofn = encoder(piecewise(1.0, cells=64))
    fresh = EncodeNumbersDoFn("v", Bounds(0.0, 1.0), duchi(1.0), None)
    assert len(pickle.dumps(fresh)) < 2000
    assert hasattr(dofn, "_rng")
    assert not hasattr(fresh, "_rng")


def test_groups_times_cells_must_fit_into_32_bits():
    groups = GroupColumn("g", IntegerRange(1, 5000))
    with pytest.raises(ValueError, match="groups of 1048577 cells each are more"):
        EncodeNumbersDoFn("v", Bounds(0.0, 1.0), duchi(1.0, cells=1 << 20), None, groups)


# ---- counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 500])
def test_codes_are_counted_however_they_are_bundled(size):
    """Blocks with fewer messages than codes, and with more, and with some that nobody sends."""
    restart(6)
    mechanism = piecewise(1.0, cells=40)
    rng = fresh_stream()
    blocks = [rng.integers(mechanism.codes + 2, size) for _ in range(7)]
    counted = run(
        lambda p: p | source(blocks) | beam.CombineGlobally(CountMessages(mechanism))
    ).elements[0]
    everything = np.concatenate(blocks)
    valid = everything[everything < mechanism.codes]
    np.testing.assert_array_equal(counted.counts, mechanism.count(valid))
    assert counted.invalid == everything.size - valid.size
    empty = run(lambda p: p | source([]) | beam.CombineGlobally(CountMessages(mechanism))).elements[
        0
    ]
    assert empty.counts.sum() == 0
