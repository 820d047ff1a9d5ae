"""Rows to blocks: every column type, each reject counted once, and one row a user."""

from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.mean.two_point import duchi
from mechanisms.randomness import SeededRandom
from mechanisms.vector.meanest import Meanest
from mechanisms.vector.privunit import privunit
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles.statistics import follows, sample_size
from tests.oracles.transforms import drive, fresh_stream, grouped, restart, run, source
from transforms import contributions_rows
from transforms.attributes import Category, Number, NumberList
from transforms.collect_vector import CountRows
from transforms.contributions_rows import (
    ChooseRowsDoFn,
    OneRowPerUser,
    PartitionRowsDoFn,
    choose_one_row_per_user,
    packed,
)
from transforms.encode import NULL_USER, NULL_VALUE, OUTSIDE_DOMAIN, DeclaredValues, IntegerRange
from transforms.encode_numbers import INFINITE, NOT_A_NUMBER, Bounds
from transforms.encode_rows import WRONG_LENGTH, EncodeRowsDoFn, RowBlock
from transforms.perturb_rows import SHORTENED, PerturbRows, PerturbRowsDoFn
from transforms.pick_coordinates import PickCoordinatesDoFn, PickedBlock
from transforms.progress import REPORTS, ROWS
from transforms.users import UserDigest

TEN = Bounds(-10.0, 10.0)
LISTS = [
    pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 3),
    pa.list_(pa.int8()), pa.list_(pa.float16()), pa.list_(pa.decimal128(5, 1)),
]  # fmt: skip


def outputs(dofn, table) -> tuple[list, dict[str, int]]:
    """The blocks of a table, and its tallies."""
    blocks, tallies = [], Counter()
    for output in dofn.process(table):
        if isinstance(output, beam.pvalue.TaggedOutput):
            assert output.tag == EncodeRowsDoFn.TALLIES
            name, amount = output.value
            assert name not in tallies
            assert amount > 0
            tallies[name] = amount
        else:
            blocks.append(output)
    return blocks, dict(tallies)


def encoded(attributes, table, users=None) -> tuple[RowBlock, dict[str, int]]:
    blocks, tallies = outputs(EncodeRowsDoFn(attributes, users), table)
    if not blocks:
        return RowBlock(np.empty((0, 0)), np.empty((0, 0)), None), tallies
    for block in blocks:
        assert block.numbers.dtype == np.float32
        assert block.categories.dtype == np.int32
    joined = [np.concatenate(parts) for parts in zip(*(b[:2] for b in blocks), strict=True)]
    ids = None if users is None else np.concatenate([b.users for b in blocks])
    return RowBlock(*joined, ids), tallies


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
    block, tallies = encoded((attribute,), pa.table({"v": column}))
    expected = np.array([[1, 2, 3], [-10, 0, 10], [4, 4, 4]]) / 10
    np.testing.assert_allclose(block.numbers, expected, atol=1e-7)
    assert tallies == {ROWS: 4, NULL_VALUE: 1}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(3)], ids=str)
@pytest.mark.parametrize("before", [0, 2])
def test_bytes_are_numbers_from_0_to_255(kind, before):
    attribute = NumberList("v", 3, Bounds(0.0, 255.0))
    assert attribute.accepts(kind)
    rows = [b"\x00\x33\xff", None, b"\xff\xff\x00"]
    column = pa.array(rows[:1] * before + rows, kind).slice(before)
    block, tallies = encoded((attribute,), pa.table({"v": column}))
    np.testing.assert_allclose(block.numbers, [[-1, -0.6, 1], [1, 1, -1]], atol=1e-7)
    assert tallies == {ROWS: 3, NULL_VALUE: 1}


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
    block, tallies = encoded((attribute,), pa.table({"v": [b"\x01\x02", b"", b"\x01\x02\x03"]}))
    np.testing.assert_allclose(block.numbers, [[0.1, 0.2]], atol=1e-7)
    assert tallies == {ROWS: 3, WRONG_LENGTH: 2}


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
    for each in ([number], vector):
        if each is None:
            return NULL_VALUE
        if each is vector and len(vector) != 2:
            return WRONG_LENGTH
        if None in each:
            return NULL_VALUE
        if any(math.isnan(x) for x in each):
            return NOT_A_NUMBER
        if any(math.isinf(x) for x in each):
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
    kept, tallies = [], Counter()
    for row in content:
        tallies[ROWS] += 1
        reason = first_reason(*row)
        if reason is None:
            kept.append(row)
        else:
            tallies[reason] += 1
    users = UserDigest("u", 99)
    block, found = encoded(ATTRIBUTES, mixed_table(content, before), users)
    assert found == dict(tallies)
    assert len(block.numbers) == len(kept)
    if kept:
        clip = [[np.clip(x, -10, 10) / 10 for x in (row[0], *row[1])] for row in kept]
        np.testing.assert_allclose(block.numbers, clip, atol=1e-7)
        assert block.categories[:, 0].tolist() == ["ab".index(row[2]) for row in kept]
        expected = users(pa.array([row[3] for row in kept], pa.int64()))
        assert block.users.tolist() == expected.tolist()


@given(st.lists(ENTRIES, max_size=25), st.integers(0, 3))
def test_picking_rejects_the_same_rows(content, before):
    """A row with a hole is no use, also where the hole is in no coordinate that was chosen."""
    table, attributes = mixed_table(content, before), ATTRIBUTES[:2]
    _, whole = encoded(attributes, table, UserDigest("u", 99))
    mechanism = SampledCoordinates(1.0, 3, 1, duchi(1.0, cells=4))
    dofn = PickCoordinatesDoFn(attributes, mechanism, UserDigest("u", 99), lambda: SeededRandom(3))
    dofn.setup()
    assert outputs(dofn, table)[1] == whole


def test_long_columns_come_in_blocks_and_short_ones_alike(monkeypatch):
    rows = np.arange(24.0).reshape(12, 2) % 7
    table = pa.table({"v": pa.array(rows.tolist())})
    whole, _ = encoded((NumberList("v", 2, TEN),), table)
    monkeypatch.setattr("transforms.encode_rows._NUMBERS", 10)
    blocks, tallies = outputs(EncodeRowsDoFn((NumberList("v", 2, TEN),), None), table)
    assert [len(block.numbers) for block in blocks] == [5, 5, 2]
    np.testing.assert_array_equal(np.concatenate([b.numbers for b in blocks]), whole.numbers)
    assert tallies == {ROWS: 12}


# ---- one row a user ------------------------------------------------------------------------------


def block_of(users, rows) -> RowBlock:
    numbers = np.asarray(rows, np.float32)
    return RowBlock(
        numbers, np.arange(len(rows), dtype=np.int32)[:, None], np.array(users, np.uint64)
    )


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]), st.integers(0, 99))),
    st.sampled_from([1, 100, 1 << 25]), st.integers(1, 4),
)  # fmt: skip
def test_each_user_keeps_one_of_their_own_rows(content, limit, size):
    owned = defaultdict(set)
    for user, row in content:
        owned[user].add(row)
    blocks = [
        block_of([user for user, _ in part], [[row, -row] for _, row in part])
        for part in (content[i : i + size] for i in range(0, len(content), size))
    ]
    partition, choose = PartitionRowsDoFn(3), ChooseRowsDoFn(RowBlock, fresh_stream)
    choose.setup()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contributions_rows, "_BYTES", limit)
        groups = grouped(drive(partition, [blocks])) if blocks else {}
        chosen = [block for group in groups.items() for block in choose.process(group)]
    assert sum(len(block.numbers) for block in chosen) == len(owned)
    kept = Counter()
    for block in chosen:
        assert block.users is None
        assert (block.numbers[:, 0] == -block.numbers[:, 1]).all()
        kept.update(block.numbers[:, 0].astype(int).tolist())
    possible = Counter(row for rows in owned.values() for row in rows)
    assert kept <= possible


def test_every_row_of_a_user_is_as_likely():
    """Of three rows each; a law that is 30 % off in one of them would be noticed."""
    law, off = np.full(3, 1 / 3), np.array([1.3, 0.85, 0.85]) / 3
    n = sample_size(law, off)
    rows = np.repeat(np.arange(n, dtype=np.uint64), 3)
    block = PickedBlock(np.tile(np.arange(3, dtype=np.uint32), n)[:, None], rows)
    pieces = []
    for part in (slice(0, n), slice(n, 3 * n)):
        some = packed(PickedBlock(block.cells[part], block.users[part]))
        pieces.append(contributions_rows._to_bytes(some))
    chosen = choose_one_row_per_user(pieces, SeededRandom(11))
    counts = np.bincount(chosen["cells"][:, 0], minlength=3)
    assert counts.sum() == n
    assert follows(counts, law)


def test_users_are_bounded_across_blocks_in_a_pipeline():
    restart(5)
    blocks = [block_of(range(40), [[k, i] for k in range(40)]) for i in range(5)]
    bound = OneRowPerUser(7, fresh_stream)
    found = run(lambda p: p | source(blocks, RowBlock) | bound).elements
    rows = np.concatenate([block.numbers for block in found])
    assert sorted(rows[:, 0].tolist()) == list(range(40))
    assert len(set(rows[:, 1].tolist())) > 1


def test_all_rows_of_a_user_meet_in_one_bucket():
    """Whatever the size of the bundle that they come in."""
    users = UserDigest("user", 7)(pa.array(range(200)))
    parts = [users[i::k] for k in (2, 3, 5) for i in range(k)]
    bundles = [[block_of(part, np.zeros((len(part), 2)))] for part in parts]
    buckets = defaultdict(set)
    for bucket, pieces in grouped(drive(PartitionRowsDoFn(16), bundles)).items():
        for piece in pieces:
            for user in contributions_rows._from_bytes(piece)["user"].tolist():
                buckets[user].add(bucket)
    assert len(buckets) == 200
    assert set(map(len, buckets.values())) == {1}
    assert len(set.union(*buckets.values())) == 16


def test_rows_without_users_cannot_be_bounded():
    with pytest.raises(ValueError, match="without users"):
        packed(block_of([1], [[0.5]])._replace(users=None))


# ---- perturbing and counting ---------------------------------------------------------------------


def test_whole_rows_are_perturbed_and_counted():
    mechanism, rows = Meanest(2.0, 3), np.full((500, 3), 0.5, np.float32)
    block = RowBlock(rows, np.empty((500, 0), np.int32), None)
    found = run(
        lambda p: p | source([block], RowBlock) | PerturbRows(mechanism, None, fresh_stream)
    )
    messages = np.concatenate(found.elements)
    assert messages.size == 1500
    assert found.counters == {REPORTS: 500}


def test_long_rows_are_shortened_and_counted():
    """PrivUnit refuses a row that is longer than its radius; here none reaches it."""
    mechanism = privunit(2.0, dimension=2, radius=0.5, codebooks=64)
    rows = np.array([[0.3, 0.4], [0.6, 0.8], [-1, -1], [0, 0]], np.float32)
    block = RowBlock(rows, np.empty((4, 0), np.int32), None)
    found = run(lambda p: p | source([block], RowBlock) | PerturbRows(mechanism, 0.5, fresh_stream))
    assert found.counters[REPORTS] == 4
    assert found.counters[SHORTENED] in (2, 3)  # the first is as long as the radius, but for floats
    assert np.concatenate(found.elements).size == 4


def test_rows_go_through_in_small_portions(monkeypatch):
    monkeypatch.setattr("transforms.perturb_rows._NUMBERS", 9)
    dofn = PerturbRowsDoFn(Meanest(2.0, 3), None, lambda: SeededRandom(1))
    dofn.setup()
    block = RowBlock(np.zeros((8, 3), np.float32), np.empty((8, 0), np.int32), None)
    assert [messages.size for messages in dofn.process(block)] == [9, 9, 6]


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=8), st.sampled_from([1, 99]))
def test_any_split_of_the_messages_counts_alike(parts, waiting):
    """What no client could have sent is dropped and counted, wherever it turns up."""
    mechanism = SampledCoordinates(1.0, 4, 1, duchi(1.0))  # 8 codes: 8 and 9 are impossible
    combine = CountRows(mechanism, waiting)
    states = []
    for part in parts:
        state = combine.create_accumulator()
        for message in part:
            state = combine.add_input(state, np.array([message], np.uint64))
        states.append(pickle.loads(pickle.dumps(state)))
    found = combine.extract_output(combine.merge_accumulators(states))
    every = np.array([m for part in parts for m in part], np.int64)
    np.testing.assert_array_equal(found.counts, np.bincount(every[every < 8], minlength=8))
    assert (found.messages, found.invalid) == ((every < 8).sum(), (every >= 8).sum())
    assert not found.waiting


def test_tables_of_counters_are_made_only_where_they_fill():
    combine = CountRows(SampledCoordinates(1.0, 50, 1, duchi(1.0)), waiting=10)
    state = combine.add_input(combine.create_accumulator(), np.zeros(60, np.uint64))
    assert state.counts is None
    state = combine.add_input(state, np.zeros(60, np.uint64))
    assert state.counts is not None
    assert state.counts[0] == 120
    merged = combine.merge_accumulators([state, combine.create_accumulator()])
    assert merged.counts is not state.counts  # a runner may use a state again


def test_what_waits_is_a_few_blocks_however_many_came():
    """Else a table of 2^26 counters would wait for a row of blocks as long, looked at each time."""
    combine = CountRows(SampledCoordinates(1.0, 50, 1, duchi(1.0)))
    halves = []
    for _ in range(2):
        state = combine.create_accumulator()
        for code in range(1000):
            state = combine.add_input(state, np.arange(code % 7, dtype=np.uint64))
        halves.append(state)
    for state in (*halves, combine.merge_accumulators(halves)):
        assert state.counts is None
        assert len(state.waiting) <= 13  # each is over twice the next, and 2^13 exceed them all
        assert sum(block.size for block in state.waiting) == state.messages
    found = combine.extract_output(combine.merge_accumulators(halves)).counts
    assert found[:7].tolist() == [2 * sum(c % 7 > m for c in range(1000)) for m in range(7)]


def test_encoders_travel():
    dofn = EncodeRowsDoFn((*ATTRIBUTES, Category("n", IntegerRange(0, 3))), UserDigest("u", 1))
    assert pickle.loads(pickle.dumps(dofn))._width == 3
