"""Strings as symbols, and the ways in which they can go on."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.heavy_hitters import utf8
from mechanisms.heavy_hitters.prefix_code import END, MORE, PrefixCode, alphabet
from mechanisms.randomness import SeededRandom

TEXT = PrefixCode("", 6)
LETTERS = PrefixCode("abc", 4)


# What may end a character that was begun: one of these does, if any bytes do.
ENDS = (b"", b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xa0\x80", b"\x90\x80\x80")


def begins_text(data: bytes) -> bool:
    """Whether some text begins with these bytes, by Python's own decoder."""
    for end in ENDS:
        try:
            (data + end).decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


TABLE = utf8.transitions().tolist()


def state_after(data: bytes) -> int:
    state = utf8.BOUNDARY
    for byte in data:
        state = TABLE[state][byte]
        if state < 0:
            return state
    return state


def test_the_automaton_knows_utf8() -> None:
    """All beginnings of two bytes, and beginnings at random of more."""
    rng = SeededRandom(1)
    longer = (bytes(rng.integers(256, 4).astype(np.uint8)) for _ in range(3000))
    leads = ([lead, *rng.integers(0x88, 3)] for lead in range(0xC0, 256) for _ in range(40))
    tails = (bytes([lead, *(0x78 + int(x) for x in rest)]) for lead, *rest in leads)
    for data in itertools.chain(map(bytes, itertools.product(range(256), repeat=2)), longer, tails):
        assert (state_after(data) >= 0) == begins_text(data), data


@given(st.lists(st.text(max_size=9), max_size=8))
def test_text_comes_back_as_far_as_it_is_kept(texts: list[str]) -> None:
    codes, usable = TEXT.encode(texts)
    assert usable.all()
    for text, code in zip(texts, codes, strict=True):
        data = text.encode()
        kept = data[: TEXT.max_length].decode(errors="ignore")
        assert TEXT.text(code) == (kept, len(data) <= TEXT.max_length)


@given(st.lists(st.text("abcx\0é", max_size=7), max_size=8))
def test_a_string_is_usable_if_what_is_kept_is_of_the_alphabet(texts: list[str]) -> None:
    codes, usable = LETTERS.encode(texts)
    for text, code, known in zip(texts, codes, usable.tolist(), strict=True):
        kept = text[: LETTERS.max_length]
        assert known == set("abc").issuperset(kept)
        if known:
            assert LETTERS.text(code) == (kept, len(text) <= LETTERS.max_length)


def test_codes_are_read_from_the_middle_of_a_buffer() -> None:
    data = np.frombuffer(b"zzabcazz", np.uint8)
    codes, usable = LETTERS.encode_bytes(data, np.array([2, 4, 4, 6]))
    assert codes.tolist() == [[1, 2, 0, 0, 0], [0, 0, 0, 0, 0], [3, 1, 0, 0, 0]]
    assert usable.all()


def test_many_strings_are_encoded_as_each_alone_is() -> None:
    """More than are encoded at a time; of some thousands in a row none is cut."""
    texts = [*itertools.islice(itertools.cycle(["", "a", "cab", "abca"]), 9000), "abcab", "bx"]
    codes, usable = LETTERS.encode(texts)
    alone = {text: LETTERS.encode([text])[0][0] for text in set(texts)}
    np.testing.assert_array_equal(codes, [alone[text] for text in texts])
    assert np.flatnonzero(~usable).tolist() == [9001]


def test_strings_of_full_length_are_told_from_longer_ones() -> None:
    codes, _ = LETTERS.encode(["abca", "abcab"])
    assert codes[:, -1].tolist() == [END, MORE]
    assert codes[0, :-1].tolist() == codes[1, :-1].tolist()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_letters_go_on_in_all_ways_and_in_no_other(steps: int, last: bool) -> None:
    found = LETTERS.extensions(0, steps, last)
    words = {
        tuple(word) + (0,) * (steps - length)
        for length in range(steps)
        for word in itertools.product((1, 2, 3), repeat=length)
    }
    open_ = set(itertools.product((1, 2, 3), repeat=steps))
    if last:
        words = {(*word, END) for word in words}
        words |= {(*word, end) for word in open_ for end in (END, MORE)}
        open_ = set()
    assert sorted(map(tuple, found.complete.tolist())) == sorted(words)
    assert sorted(map(tuple, found.open.tolist())) == sorted(open_)
    assert found.states.tolist() == [0] * len(open_)
    assert LETTERS.growth(steps, last) == (len(open_), len(words))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_text_goes_on_in_all_ways_that_utf8_has(steps: int, last: bool) -> None:
    """Byte by byte, against Python's decoder; a text that is over has no more bytes."""
    found = TEXT.extensions(0, steps, last)
    valid = [
        data
        for length in range(steps + 1)
        for data in map(bytes, itertools.product(range(256), repeat=length))
        if begins_text(data)
    ]
    over = [data for data in valid if len(data) < steps and state_after(data) == 0]
    going = [data for data in valid if len(data) == steps]
    if last:
        whole = [data for data in going if state_after(data) == 0]
        expected = {(code(d, steps), END) for d in over + whole}
        expected |= {(code(d, steps), MORE) for d in going}
        assert {(tuple(c[:-1]), c[-1]) for c in found.complete.tolist()} == expected
        assert not len(found.open)
    else:
        assert {*map(tuple, found.complete.tolist())} == {code(d, steps) for d in over}
        assert {*map(tuple, found.open.tolist())} == {code(d, steps) for d in going}
    assert TEXT.growth(steps, last) == (len(found.open), len(found.complete))


def code(data: bytes, steps: int) -> tuple[int, ...]:
    return tuple(byte + 1 for byte in data) + (0,) * (steps - len(data))


@pytest.mark.parametrize("last", [False, True])
def test_no_prefix_has_more_ways_to_go_on_than_growth_says(last: bool) -> None:
    most = TEXT.growth(2, last)
    for state in {*TEXT.extensions(0, 1).states.tolist()}:
        found = TEXT.extensions(state, 2, last)
        assert (len(found.open), len(found.complete)) <= most
        assert len(found.open) <= most[0]
        assert len(found.complete) <= most[1]


def test_prefixes_go_on_from_the_states_they_are_left_in() -> None:
    """Two steps of one symbol reach what one step of two symbols does."""
    first = TEXT.extensions(0, 1)
    twice = [
        (*code_, *more)
        for code_, state in zip(first.open.tolist(), first.states.tolist(), strict=True)
        for more in TEXT.extensions(state, 1).open.tolist()
    ]
    assert sorted(twice) == sorted(map(tuple, TEXT.extensions(0, 2).open.tolist()))


def test_growth_is_known_where_nobody_could_list_it() -> None:
    assert PrefixCode("ab", 200).growth(100) == (2**100, 2**100 - 1)


def test_alphabets_are_named_in_parts() -> None:
    assert alphabet(["digits"]) == "0123456789"
    assert alphabet(["lower", "upper", "cab"]) == alphabet(["upper", "lower"])
    assert len(alphabet(["printable"])) == 95
    assert alphabet(["lower", "bytes"]) == ""
    for names in ([], [""]):
        with pytest.raises(ValueError, match="at least one character"):
            alphabet(names)
    with pytest.raises(ValueError, match="ASCII"):
        alphabet(["aé"])


@pytest.mark.parametrize("length", [0, -1, 257, 2.0, "3", None, math.nan])
def test_lengths_that_mean_nothing_are_refused(length: object) -> None:
    with pytest.raises(ValueError, match="max_length"):
        PrefixCode("ab", length)


def test_alphabets_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        PrefixCode("aba", 3)
    with pytest.raises(ValueError, match="ASCII"):
        PrefixCode("é", 3)


def test_it_travels_as_its_fields() -> None:
    assert TEXT.growth(1)[0] == 179  # fills caches
    assert len(pickle.dumps(TEXT)) < 200
    assert pickle.loads(pickle.dumps(TEXT)) == TEXT
