"""Digests of users: the same for the same id however it is stored, and never for two."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.encoders import arrow, dictionary, digest, mix, unmix
from tests.oracles.statistics import follows, sample_size, tilted
from transforms.encoders.users import UserDigest

KEY = 0x9E3779B97F4A7C15
DIGEST = UserDigest("user", KEY)
SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
VIEWS = [pa.string_view(), pa.binary_view()]

# Ids that a careless hash confuses: prefixes, lengths around a word, NULs at either end.
AWKWARD = [
    "",
    *("x" * n for n in (1, 6, 7, 8, 9, 15, 16, 17, 24, 25)),
    *("x" * n + "y" for n in (6, 7, 8, 15, 16)),
    *("\0" * n for n in (1, 7, 8, 9, 16)),
    *("a" + "\0" * n for n in (1, 6, 7, 8)),
    *("\0" * n + "a" for n in (1, 6, 7, 8)),
    "a\0b",
    "abcdefgh" + "12345678",
    "12345678" + "abcdefgh",
    "é",
    "日本語",
]
texts = st.sampled_from(AWKWARD) | st.text(max_size=20)


def test_awkward_ids_are_awkward():
    assert len(set(AWKWARD)) == len(AWKWARD)


@given(st.lists(texts, max_size=30), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_texts_are_absorbed_eight_bytes_at_a_time(ids, key, before):
    column = arrow(ids, pa.string(), before)
    expected = [digest(user, key) for user in ids]
    assert UserDigest("user", key)(column).tolist() == expected


@given(st.lists(st.binary(max_size=40), max_size=20), st.sampled_from([pa.binary(), pa.binary(5)]))
def test_bytes_are_digested_like_texts(ids, kind):
    if kind == pa.binary(5):
        ids = [user[:5].ljust(5, b"\0") for user in ids]
    column = arrow(ids, kind, before=3)
    assert DIGEST(column).tolist() == [digest(user, KEY) for user in ids]


@given(st.lists(st.integers(-128, 127), max_size=20), st.integers(0, 2**64 - 1))
def test_width_and_sign_of_integers_do_not_matter(ids, key):
    expected = [digest(user, key) for user in ids]
    for kind in SIGNED if any(user < 0 for user in ids) else [*SIGNED, *UNSIGNED]:
        assert UserDigest("user", key)(arrow(ids, kind, before=2)).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**64 - 1), max_size=20), st.booleans())
def test_as_text_an_integer_is_its_decimals(ids, coded):
    users = UserDigest("user", KEY, as_text=True)
    kind = pa.uint64() if max(ids, default=0) >= 2**63 else pa.int64()
    ids = [max(user, 0) if kind == pa.uint64() else user for user in ids]
    column, decimals = pa.array(ids, kind), pa.array(map(str, ids), pa.string())
    expected = [digest(str(user), KEY) for user in ids]
    for each in (column, decimals, decimals.cast(pa.large_string())):
        assert users(each.dictionary_encode() if coded and ids else each).tolist() == expected


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(2**63 - 2, 2**63 + 2), max_size=20))
def test_unsigned_ids_beyond_int64_stay_apart(ids):
    assert DIGEST(pa.array(ids, pa.uint64())).tolist() == [digest(user, KEY) for user in ids]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_storage_does_not_change_a_digest(kind):
    """Width of offsets, dictionary, slice, chunk and neighbours: the id alone counts."""
    ids = AWKWARD * 2
    values = ids if kind in TEXTS[:2] else [user.encode() for user in ids]
    expected = [digest(user, KEY) for user in ids]
    whole = pa.array(values, kind)
    assert DIGEST(whole).tolist() == expected
    assert DIGEST(dictionary(values, kind, values[::-1], hide_nulls=False)).tolist() == expected
    for size in (1, 7, 10**3):
        slices = [whole.slice(start, size) for start in range(0, len(whole), size)]
        assert [d for s in slices for d in DIGEST(s).tolist()] == expected
        coded = [s.dictionary_encode() for s in slices]
        assert [d for s in coded for d in DIGEST(s).tolist()] == expected


@given(st.lists(st.none() | texts, max_size=20), st.sampled_from(VIEWS), st.booleans())
def test_views_are_digested_like_texts(ids, kind, coded):
    plain = pa.array([user for user in ids if user is not None] if coded else ids, pa.string())
    viewed = plain.cast(pa.binary() if kind == VIEWS[1] else pa.string()).cast(kind)
    if coded:
        places = pa.array(range(len(plain)), pa.int8())
        viewed = pa.DictionaryArray.from_arrays(places, viewed)
    assert (DIGEST(viewed) == DIGEST(plain)).all()


@given(st.lists(st.none() | texts, max_size=20), st.booleans())
def test_nulls_do_not_disturb_their_neighbours(ids, coded):
    column = pa.array(ids, pa.string())
    digests = DIGEST(column.dictionary_encode() if coded and any(ids) else column)
    assert len(digests) == len(ids)
    known = [(user, d) for user, d in zip(ids, digests.tolist(), strict=True) if user is not None]
    assert all(d == digest(user, KEY) for user, d in known)


def test_nulls_among_integers_do_not_disturb_their_neighbours():
    digests = DIGEST(pa.array([2**53 + 1, None, -1], pa.int64())).tolist()
    assert digests[0::2] == [digest(2**53 + 1, KEY), digest(-1, KEY)]


@pytest.mark.parametrize("kind", [pa.int32(), *TEXTS, pa.binary(3)], ids=str)
def test_empty_columns(kind):
    empty = pa.array([], kind)
    for column in [empty, pa.array([None], kind).slice(1), empty.dictionary_encode()]:
        assert DIGEST(column).tolist() == []
        assert DIGEST(column).dtype == np.uint64


MILLION = 10**6


def joined(before, after):
    return pc.binary_join_element_wise(
        before, pc.cast(pa.array(np.arange(MILLION)), "string"), after, ""
    )


@pytest.mark.verify
@pytest.mark.parametrize(
    "made",
    [
        lambda: pa.array(np.arange(MILLION)),
        lambda: pa.array(np.arange(MILLION) * 2**20 - 2**62),
        lambda: joined("", ""),
        lambda: joined("user-", ""),
        lambda: joined("", "@post.org"),
    ],
    ids=["counted", "far apart", "digits", "same start", "same end"],
)
def test_a_million_users_stay_apart_and_fill_the_buckets_evenly(made):
    """Two of 10^6 uniform digests collide once in 37 million jobs; a bucket a third too full, or
    a bit that leans, would fail too."""
    law = np.full(64, 1 / 64)
    assert sample_size(law, tilted(law)) <= MILLION
    digests = DIGEST(made())
    assert len(np.unique(digests)) == MILLION
    for shift in (0, 29, 58):
        places = (digests >> np.uint64(shift) & np.uint64(63)).astype(int)
        assert follows(np.bincount(places, minlength=64), law)


@pytest.mark.parametrize("ids", [pa.array(range(5000)), pa.array(map(str, range(5000)))])
def test_another_key_gives_unrelated_digests(ids):
    """Every bit of the key changes every digest, in half of its bits; an id only XORed with the
    key would, for another key, give the same digests in another order."""
    before = DIGEST(ids)
    for bit in range(0, 64, 7):
        after = UserDigest("user", KEY ^ 1 << bit)(ids)
        assert not np.isin(after, before).any()
        flipped = np.unpackbits((before ^ after).view(np.uint8)).mean()
        assert abs(flipped - 0.5) < 0.02  # 320,000 bits: 22 standard deviations


@pytest.mark.parametrize("ids", [[17, 18, 2**40], ["ann", "bob", "eve"]], ids=["integers", "texts"])
def test_digests_do_not_show_how_ids_differ(ids):
    """After one round of mixing alone they would: the public rounds undone, the key drops out."""
    words = [
        user if isinstance(user, int) else int.from_bytes(user.encode(), "little") for user in ids
    ]
    assert [unmix(mix(word)) for word in words] == words
    undone = [unmix(int(d)) for d in DIGEST(pa.array(ids))]
    for (a, x), (b, y) in itertools.combinations(zip(words, undone, strict=True), 2):
        assert x ^ y != a ^ b
        assert (x - y) % 2**64 != (a - b) % 2**64


def test_types_that_tell_users_apart():
    accepted = [*SIGNED, *UNSIGNED, *TEXTS, *VIEWS, pa.binary(16)]
    refused = [
        pa.float64(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("s"),
        pa.decimal128(9, 2),
        pa.list_(pa.int8()),
    ]
    for kind, index in itertools.product([*accepted, *refused], [None, pa.int8()]):
        column = pa.dictionary(index, kind) if index else kind
        assert UserDigest.accepts(column) == (kind in accepted)


def test_a_column_without_a_value_tells_no_users_and_is_not_refused() -> None:
    """As in the file of a log without rows: a refusal would tell that nobody took part."""
    assert UserDigest.accepts(pa.null())
    assert UserDigest("user", 7)(pa.nulls(3)).shape == (3,)
