"""From strings to the cells of users' groups, and what is left out on the way."""

from __future__ import annotations

import io
import pickle
from collections import Counter
from unittest import mock

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Schedule
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted
from tests.oracles.transforms import arrow, dictionary, fresh_stream, restart, run
from transforms import encode_prefixes
from transforms.encode import NULL_USER, NULL_VALUE, CellBlock
from transforms.encode_prefixes import OUTSIDE_ALPHABET, EncodePrefixesDoFn, accepts
from transforms.progress import ROWS
from transforms.users import UserDigest

WIDTH = 1 << 20  # so that distinct prefixes have distinct buckets here
SCHEDULE = Schedule((2, 1, 2), (1, 2, 1), (1, 1, 2))
WORDS = Protocol(PrefixCode(alphabet(["abc", "0123456789"]), 5), SCHEDULE, k_ary(1.0, WIDTH), 9)
TEXT = Protocol(PrefixCode("", 5), SCHEDULE, k_ary(1.0, WIDTH), 9)


def outputs(dofn: EncodePrefixesDoFn, table: pa.Table) -> tuple[list[CellBlock], dict[str, int]]:
    """Blocks and tallies of one table; no name is told twice for one table."""
    dofn.setup()
    blocks, tallies = [], Counter()
    for output in dofn.process(table):
        if isinstance(output, beam.pvalue.TaggedOutput):
            assert output.tag == EncodePrefixesDoFn.TALLIES
            name, amount = output.value
            assert name not in tallies
            assert amount > 0
            tallies[name] = amount
        else:
            blocks.append(output)
    return blocks, dict(tallies)


def cells_of(blocks: list[CellBlock]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.uint32), *(block.cells for block in blocks)])


def expected_bucket(protocol: Protocol, text: str, group: int) -> int:
    """Where a group's hash puts a string, one at a time."""
    codes, _ = protocol.code.encode([text])
    return int(protocol.hash.buckets(codes, np.array([group]))[0])


def check_cells(protocol: Protocol, cells: np.ndarray, texts: list[str]) -> None:
    """Each cell is the bucket of its string under the hash of the group that was drawn."""
    assert cells.dtype == np.uint32
    assert len(cells) == len(texts)
    for cell, text in zip(cells.tolist(), texts, strict=True):
        group, bucket = divmod(cell, WIDTH)
        assert bucket == expected_bucket(protocol, text, group)


def dofn(protocol: Protocol, users: UserDigest | None = None) -> EncodePrefixesDoFn:
    return EncodePrefixesDoFn("value", protocol, users, fresh_stream)


STRINGS = ["", "a", "ab", "abcab", "abcabc", "0", "17", "x", "é", "abé", "日本語", "abcabé"]
KEPT = set("abc0123456789")


@st.composite
def tables(draw):
    """A table of some chunks, its values and its users, in one of the layouts that Arrow has."""
    shape, hide = (
        draw(st.sampled_from(["plain", "large", "view", "dictionary"])),
        draw(st.booleans()),
    )
    chunks, rows = [], []
    for _ in range(draw(st.integers(1, 3))):
        row = st.tuples(st.none() | st.sampled_from(STRINGS), st.none() | st.integers(0, 5))
        new = draw(st.lists(row, max_size=12))
        values, ids, pad = [v for v, _ in new], [u for _, u in new], draw(st.integers(0, 4))
        if shape == "dictionary":
            column = dictionary(values, pa.string(), STRINGS[:3], hide)
        else:
            kind = {"plain": pa.string(), "large": pa.large_string(), "view": pa.string_view()}
            column = arrow(values, kind[shape], pad)
        chunks.append(pa.table([column, arrow(ids, pa.int64(), pad)], names=["value", "user"]))
        rows += new
    return pa.concat_tables(chunks), rows


@given(tables(), st.booleans(), st.booleans(), st.integers(1, 9))
@settings(max_examples=150)
def test_rows_come_out_as_if_taken_one_at_a_time(sample, bounded, text, block) -> None:
    table, rows = sample
    protocol = TEXT if text else WORDS
    users = UserDigest("user", 99) if bounded else None
    with mock.patch.object(encode_prefixes, "_BLOCK", block):
        blocks, tallies = outputs(dofn(protocol, users), table)
    usable, counted = [], Counter()
    for value, user in rows:
        counted[ROWS] += 1
        if bounded and user is None:
            counted[NULL_USER] += 1
        elif value is None:
            counted[NULL_VALUE] += 1
        elif not (text or KEPT.issuperset(value[:5])):
            counted[OUTSIDE_ALPHABET] += 1
        else:
            usable.append((value, user))
    assert tallies == dict(counted)
    check_cells(protocol, cells_of(blocks), [value for value, _ in usable])
    if bounded:
        digests = [u for b in blocks for u in b.users.tolist()]
        pairs = set(zip(digests, [user for _, user in usable], strict=True))
        assert len(pairs) == len(set(digests)) == len({user for _, user in usable})
    else:
        assert all(b.users is None for b in blocks)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64()])
def test_integers_are_their_decimal_digits(kind) -> None:
    numbers = [0, 7, 12, None, 127]
    for column in (pa.array(numbers, kind), pa.array(numbers, kind).dictionary_encode()):
        assert accepts(column.type)
        blocks, tallies = outputs(dofn(WORDS), pa.table({"value": column}))
        check_cells(WORDS, cells_of(blocks), ["0", "7", "12", "127"])
        assert tallies == {ROWS: 5, NULL_VALUE: 1}
    blocks, tallies = outputs(dofn(WORDS), pa.table({"value": pa.array([-5, 5], pa.int8())}))
    assert tallies == {ROWS: 2, OUTSIDE_ALPHABET: 1}


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.uint8(),
     pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.int64())],
    ids=str,
)  # fmt: skip
def test_strings_and_integers_are_accepted(kind) -> None:
    assert accepts(kind)


@pytest.mark.parametrize(
    "kind",
    [pa.float64(), pa.bool_(), pa.binary(), pa.timestamp("s"), pa.list_(pa.string()), pa.null(),
     pa.dictionary(pa.int8(), pa.float32())],
    ids=str,
)  # fmt: skip
def test_other_types_are_not(kind) -> None:
    assert not accepts(kind)


def test_groups_are_drawn_by_their_shares_whatever_the_value() -> None:
    """The law of the group, for each of two values; another one is told from it."""
    restart(5)
    law = np.array([1, 1, 1, 2]) / 5
    n = sample_size(law, tilted(law))
    values = ["abc", "0"] * n
    blocks, _ = outputs(dofn(WORDS), pa.table({"value": values}))
    groups = cells_of(blocks) // WIDTH
    for place in range(2):
        counts = np.bincount(groups[place::2], minlength=4)
        assert follows(counts, law)
        assert not follows(counts, tilted(law))


def test_only_what_a_group_looks_at_matters() -> None:
    """Strings with a common beginning have one bucket where no more of them is looked at."""
    table = pa.table({"value": ["abcab"] * 400 + ["abcc"] * 400})
    cells = cells_of(outputs(dofn(WORDS), table)[0])
    groups, buckets = np.divmod(cells, WIDTH)
    first = np.arange(800) < 400
    for group, alike in enumerate([True, True, True, False]):  # lengths 2, 3, 3 and all
        one, other = ({*buckets[part & (groups == group)].tolist()} for part in (first, ~first))
        assert len(one) == len(other) == 1
        assert (one == other) == alike


SECRET, USER = "abcacbacbabc", "u-7731-quedlinburg"


def test_neither_values_nor_users_leave() -> None:
    table = pa.table({"value": [SECRET, "x" + SECRET, None], "user": [USER, USER, None]})
    worker = dofn(WORDS, UserDigest("user", 12345))
    pickled = pickle.dumps(worker)
    worker.setup()
    pickled += pickle.dumps(list(worker.process(table)))
    for raw in (SECRET.encode(), SECRET[:5].encode(), USER.encode()):
        assert raw not in pickled


def test_tallies_add_up_in_a_pipeline_and_agree_with_its_counters() -> None:
    """Through Parquet, so that columns are what Parquet makes of them."""
    buffer = io.BytesIO()
    column = pa.array(["a", "bb", None, "z"] * 25).dictionary_encode()
    pq.write_table(pa.table({"value": column}), buffer, row_group_size=7)
    groups = pq.ParquetFile(io.BytesIO(buffer.getvalue()))
    parts = [groups.read_row_group(i) for i in range(groups.num_row_groups)]

    def build(pipeline):
        encoded = (
            pipeline
            | beam.Create(parts).with_output_types(pa.Table)
            | beam.ParDo(dofn(WORDS)).with_outputs(EncodePrefixesDoFn.TALLIES, main="cells")
        )
        return encoded[EncodePrefixesDoFn.TALLIES] | beam.CombinePerKey(sum)

    outcome = run(build)
    assert dict(outcome.elements) == {ROWS: 100, NULL_VALUE: 25, OUTSIDE_ALPHABET: 25}
    assert outcome.counters == dict(outcome.elements)


def test_seeds_are_not_shared_between_workers() -> None:
    """A generator is opened by each; one that travelled would repeat its draws."""
    worker = pickle.loads(pickle.dumps(dofn(WORDS)))
    table = pa.table({"value": ["abc"] * 500})
    restart(8)
    first, second = (cells_of(outputs(each, table)[0]) for each in (worker, dofn(WORDS)))
    assert (first != second).any()
    assert isinstance(fresh_stream(), SeededRandom)
