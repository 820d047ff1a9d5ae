"""Rows to blocks: every column type, and each reject counted once."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.mean.two_point import duchi
from mechanisms.randomness import SeededRandom
from mechanisms.vector.privunit import privunit
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles.encoders import encode_table
from transforms.encoders.attributes import Category, Number, NumberList
from transforms.encoders.block import RowBlock
from transforms.encoders.bounds import Bounds
from transforms.encoders.coordinates import CoordinateEncoder
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.encoder import NULL_USER, NULL_VALUE, OUTSIDE_DOMAIN, Rows
from transforms.encoders.numbers import INFINITE, NOT_A_NUMBER
from transforms.encoders.rows import WRONG_LENGTH, RowEncoder
from transforms.encoders.users import UserDigest

TEN = Bounds(-10.0, 10.0)
LISTS = [
    pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 3),
    pa.list_(pa.int8()), pa.list_(pa.float16()), pa.list_(pa.decimal128(5, 1)),
]  # fmt: skip


def encoded(attributes, table, users=None) -> tuple[RowBlock, dict[str, int]]:
    block, rejects = encode_table(RowEncoder(attributes), table, users)
    assert block.numbers.dtype == np.float32
    assert block.categories.dtype == np.int32
    return block, rejects


def test_many_columns_are_scaled_together_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    kinds = [pa.float64(), pa.float32(), pa.int16()]
    attributes = tuple(Number(f"x{i}", Bounds(-1.0 - i, 2.0 * i)) for i in range(35))
    columns = {f"x{i}": pa.array(rng.normal(0, 40, 70).round(), kinds[i % 3]) for i in range(35)}
    whole, rejects = encoded(attributes, pa.table(columns))
    assert not rejects
    monkeypatch.setattr(RowEncoder, "_fill", lambda *_: False)
    alone, _ = encoded(attributes, pa.table(columns))
    assert np.array_equal(whole.numbers, alone.numbers)


@pytest.mark.parametrize("hole", [None, math.nan, math.inf])
def test_one_hole_among_many_columns_rejects_its_row(hole: float | None) -> None:
    attributes = tuple(Number(f"x{i}", TEN) for i in range(35))
    columns = {f"x{i}": pa.array([1.0, hole if i == 33 else 2.0]) for i in range(35)}
    block, rejects = encoded(attributes, pa.table(columns))
    assert np.array_equal(block.numbers, np.full((1, 35), np.float32(0.1)))
    assert sum(rejects.values()) == 1


# ---- what columns hold ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LISTS, ids=str)
@pytest.mark.parametrize("before", [0, 2])
def test_lists_of_every_type_are_read(kind, before):
    attribute = NumberList("v", 3, TEN)
    assert attribute.accepts(kind)
    rows = [[1, 2, 3], None, [-10, 0, 10], [4, 4, 4]]
    if pa.types.is_float16(kind.value_type):
        rows = [None if row is None else [np.float16(x) for x in row] for row in rows]
    column = pa.array(rows[:1] * before + rows, kind).slice(before)
    block, rejects = encoded((attribute,), pa.table({"v": column}))
    expected = np.array([[1, 2, 3], [-10, 0, 10], [4, 4, 4]]) / 10
    np.testing.assert_allclose(block.numbers, expected, atol=1e-7)
    assert rejects == {NULL_VALUE: 1}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(3)], ids=str)
@pytest.mark.parametrize("before", [0, 2])
def test_bytes_are_numbers_from_0_to_255(kind, before):
    attribute = NumberList("v", 3, Bounds(0.0, 255.0))
    assert attribute.accepts(kind)
    rows = [b"\x00\x33\xff", None, b"\xff\xff\x00"]
    column = pa.array(rows[:1] * before + rows, kind).slice(before)
    block, rejects = encoded((attribute,), pa.table({"v": column}))
    np.testing.assert_allclose(block.numbers, [[-1, -0.6, 1], [1, 1, -1]], atol=1e-7)
    assert rejects == {NULL_VALUE: 1}


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.string()), pa.list_(pa.float64(), 4), pa.binary(2), pa.float64(), pa.string(),
     pa.list_(pa.bool_())],
    ids=str,
)  # fmt: skip
def test_other_types_are_no_lists_of_numbers(kind):
    assert not NumberList("v", 3, TEN).accepts(kind)


def test_bytes_of_another_length_are_rejected():
    attribute = NumberList("v", 2, TEN)
    block, rejects = encoded((attribute,), pa.table({"v": [b"\x01\x02", b"", b"\x01\x02\x03"]}))
    np.testing.assert_allclose(block.numbers, [[0.1, 0.2]], atol=1e-7)
    assert rejects == {WRONG_LENGTH: 2}


# ---- rejects, against an oracle that looks at one row at a time ----------------------------------

NUMBERS = st.sampled_from([-99.0, -10.0, 0.0, 5.0, 10.0, 1e308, None, math.nan, math.inf])
USUAL = st.sampled_from([-10.0, 0.0, 5.0])
ENTRIES = st.tuples(
    st.one_of(USUAL, NUMBERS),
    st.one_of(st.none(), st.lists(USUAL, min_size=2, max_size=2), st.lists(NUMBERS, max_size=3)),
    st.sampled_from([None, "a", "b", "z"]),
    st.sampled_from([None, 7, 8, 9, 9]),
)  # fmt: skip


def first_reason(number, vector, value, user) -> str | None:
    """Why a row cannot be used."""
    if user is None:
        return NULL_USER
    for part in ([number], vector):
        if part is None:
            return NULL_VALUE
        if part is vector and len(vector) != 2:
            return WRONG_LENGTH
        if None in part:
            return NULL_VALUE
        if any(math.isnan(x) for x in part):
            return NOT_A_NUMBER
        if any(math.isinf(x) for x in part):
            return INFINITE
    if value is None:
        return NULL_VALUE
    return None if value in ("a", "b") else OUTSIDE_DOMAIN


ATTRIBUTES = (
    Number("x", TEN), NumberList("v", 2, TEN), Category("c", DeclaredValues(("a", "b"))),
)  # fmt: skip


def mixed_table(content, before: int) -> pa.Table:
    around = [(0.0, [1.0, 2.0], "a", 7)] * before
    names, kinds = "xvcu", (pa.float64(), pa.list_(pa.float64()), pa.string(), pa.int64())
    rows = [*around, *content]
    columns = {
        name: pa.array([row[i] for row in rows], kind)
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    return pa.table(columns).slice(before)


@given(st.lists(ENTRIES, max_size=25), st.integers(0, 3))
def test_rows_are_encoded_or_counted_under_their_first_reason(content, before):
    kept, expected = [], Counter()
    for row in content:
        reason = first_reason(*row)
        if reason is None:
            kept.append(row)
        else:
            expected[reason] += 1
    users = UserDigest("u", 99)
    block, rejects = encoded(ATTRIBUTES, mixed_table(content, before), users)
    assert rejects == dict(expected)
    assert len(block.numbers) == len(kept)
    if kept:
        clip = [[np.clip(x, -10, 10) / 10 for x in (row[0], *row[1])] for row in kept]
        np.testing.assert_allclose(block.numbers, clip, atol=1e-7)
        assert block.categories[:, 0].tolist() == ["ab".index(row[2]) for row in kept]
        digests = users(pa.array([row[3] for row in kept], pa.int64()))
        assert block.users.tolist() == digests.tolist()


@given(st.lists(ENTRIES, max_size=25), st.integers(0, 3))
def test_picking_rejects_the_same_rows(content, before):
    """A row with a hole is no use, also where the hole is in no coordinate that was chosen."""
    table, attributes = mixed_table(content, before), ATTRIBUTES[:2]
    users, mechanism = UserDigest("u", 99), SampledCoordinates(1.0, 3, 1, duchi(1.0, cells=4))
    whole, rejects = encoded(attributes, table, users)
    picked, same = encode_table(CoordinateEncoder(attributes, mechanism), table, users)
    assert same == rejects
    assert picked.users.tolist() == whole.users.tolist()


def test_long_rows_are_encoded_a_few_at_a_time():
    """And short tables alike: a block of rows is a matrix in memory."""
    rows = np.arange(24.0).reshape(12, 2) % 7
    table, encoder = (
        pa.table({"v": pa.array(rows.tolist())}),
        RowEncoder((NumberList("v", 2, TEN),)),
    )
    whole, _ = encode_table(encoder, table)
    some, _ = encode_table(encoder, table, size=5)
    np.testing.assert_array_equal(some.numbers, whole.numbers)
    sizes = [RowEncoder((NumberList("v", d, TEN),)).batch_size for d in (2, 1 << 10, 1 << 20)]
    assert sizes == [1 << 16, 1 << 11, 2]


def test_long_rows_are_shortened():
    """PrivUnit refuses a row that is longer than its radius by more than rounding; none is."""
    mechanism = privunit(2.0, dimension=2, radius=0.5, codebooks=64)
    table = pa.table({"v": [[3.0, 4.0], [6.0, 8.0], None, [-10.0, -10.0], [0.0, 0.0]]})
    encoder, rows = RowEncoder((NumberList("v", 2, TEN),), 0.5), Rows(5)
    (batch,) = table.to_batches()
    block = encoder.encode(batch, rows, SeededRandom(1))
    np.testing.assert_allclose(np.hypot(*block.numbers.T), [0.5, 0.5, 0.5, 0], rtol=1e-7)
    assert rows.rejects == {NULL_VALUE: 1}
    assert block.perturbed(mechanism, SeededRandom(2)).size == 4


def test_columns_are_what_is_read():
    assert RowEncoder(ATTRIBUTES).columns == {"x", "v", "c"}
