"""From strings to the cells of users' groups, and what is left out on the way."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Schedule
from mechanisms.randomness import SeededRandom
from tests.oracles.encoders import arrow, dictionary, encode_table
from tests.oracles.statistics import follows, sample_size, tilted
from transforms.encoders.encoder import BATCH, NULL_USER, NULL_VALUE
from transforms.encoders.prefixes import OUTSIDE_ALPHABET, PrefixEncoder, accepts
from transforms.encoders.users import UserDigest

WIDTH = 1 << 20  # so that distinct prefixes have distinct buckets here
SCHEDULE = Schedule((2, 1, 2), (1, 2, 1), (1, 1, 2))
WORDS = Protocol(PrefixCode(alphabet(["abc", "0123456789"]), 5), SCHEDULE, k_ary(1.0, WIDTH), 9)
ENCODER = PrefixEncoder("value", WORDS)
TEXT = Protocol(PrefixCode("", 5), SCHEDULE, k_ary(1.0, WIDTH), 9)


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


@given(tables(), st.booleans(), st.booleans(), st.sampled_from([1, 2, 5, BATCH]))
@settings(max_examples=150)
def test_rows_come_out_as_if_taken_one_at_a_time(sample, bounded, text, size) -> None:
    table, rows = sample
    protocol = TEXT if text else WORDS
    users = UserDigest("user", 99) if bounded else None
    block, rejects = encode_table(PrefixEncoder("value", protocol), table, users, size=size)
    usable, counted = [], Counter()
    for value, user in rows:
        if bounded and user is None:
            counted[NULL_USER] += 1
        elif value is None:
            counted[NULL_VALUE] += 1
        elif not (text or KEPT.issuperset(value[:5])):
            counted[OUTSIDE_ALPHABET] += 1
        else:
            usable.append((value, user))
    assert rejects == dict(counted)
    check_cells(protocol, block.cells, [value for value, _ in usable])
    if bounded:
        digests = block.users.tolist()
        pairs = set(zip(digests, [user for _, user in usable], strict=True))
        assert len(pairs) == len(set(digests)) == len({user for _, user in usable})
    else:
        assert block.users is None


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64()])
def test_integers_are_their_decimal_digits(kind) -> None:
    numbers = [0, 7, 12, None, 127]
    for column in (pa.array(numbers, kind), pa.array(numbers, kind).dictionary_encode()):
        assert accepts(column.type)
        block, rejects = encode_table(ENCODER, pa.table({"value": column}))
        check_cells(WORDS, block.cells, ["0", "7", "12", "127"])
        assert rejects == {NULL_VALUE: 1}
    _, rejects = encode_table(ENCODER, pa.table({"value": pa.array([-5, 5], pa.int8())}))
    assert rejects == {OUTSIDE_ALPHABET: 1}


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
    law = np.array([1, 1, 1, 2]) / 5
    n = sample_size(law, tilted(law))
    values = ["abc", "0"] * n
    block, _ = encode_table(ENCODER, pa.table({"value": values}), rng=SeededRandom(5))
    groups = block.cells // WIDTH
    for place in range(2):
        counts = np.bincount(groups[place::2], minlength=4)
        assert follows(counts, law)
        assert not follows(counts, tilted(law))


def test_only_what_a_group_looks_at_matters() -> None:
    """Strings with a common beginning have one bucket where no more of them is looked at."""
    table = pa.table({"value": ["abcab"] * 400 + ["abcc"] * 400})
    cells = encode_table(ENCODER, table)[0].cells
    groups, buckets = np.divmod(cells, WIDTH)
    first = np.arange(800) < 400
    for group, alike in enumerate([True, True, True, False]):  # lengths 2, 3, 3 and all
        one, other = ({*buckets[part & (groups == group)].tolist()} for part in (first, ~first))
        assert len(one) == len(other) == 1
        assert (one == other) == alike


SECRET, USER = "abcacbacbabc", "u-7731-quedlinburg"


def test_neither_values_nor_users_leave() -> None:
    table = pa.table({"value": [SECRET, "x" + SECRET, None], "user": [USER, USER, None]})
    pickled = pickle.dumps(encode_table(ENCODER, table, UserDigest("user", 12345)))
    for raw in (SECRET.encode(), SECRET[:5].encode(), USER.encode()):
        assert raw not in pickled
