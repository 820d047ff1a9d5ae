"""Strings as words: what goes in comes out, cut at the end of a character if it is cut."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.randomness import SeededRandom
from tests.oracles.encoders import dictionary
from transforms.encoders.block import applicable
from transforms.encoders.encoder import NULL_VALUE, encoded
from transforms.encoders.strings import StringEncoder, distinct, texts_of, width_of, words_of
from transforms.encoders.users import UserDigest

texts = st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=20)


def cut(text: str, most: int) -> tuple[str, bool]:
    """The longest beginning of so many bytes that is text, and whether it is all of it."""
    kept = text
    while len(kept.encode()) > most:
        kept = kept[:-1]
    return kept, kept == text


@given(texts, st.integers(1, 13), st.integers(0, 3))
def test_strings_come_out_as_they_went_in(values: list[str], most: int, skipped: int) -> None:
    column = pa.array(values, pa.large_string()).slice(skipped)
    words = words_of(column, most)
    assert (words.dtype, words.shape) == (np.uint32, (len(column), width_of(most)))
    found, whole = texts_of(words)
    assert [*zip(found, whole.tolist(), strict=True)] == [cut(v, most) for v in values[skipped:]]


@given(texts, st.integers(1, 13))
def test_rows_are_equal_where_strings_are(values: list[str], most: int) -> None:
    """A string that was cut is not one that ends there."""
    shown = [cut(value, most) for value in values]
    first, places = distinct(words_of(pa.array(values, pa.large_string()), most))
    assert [shown[k] for k in first] == [*dict.fromkeys(shown)]
    assert [shown[first[k]] for k in places] == shown


def test_what_is_no_text_is_shown_and_kept_apart() -> None:
    """A file may hold any bytes where it says that it holds text; nothing of it is raised."""
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int64))
    column = pa.LargeStringArray.from_buffers(2, offsets, pa.py_buffer(b"a\xffa\xfe"))
    assert texts_of(words_of(column, 8))[0] == ["a\\xff", "a\\xfe"]


def test_rows_without_a_string_are_left_out_and_integers_are_digits() -> None:
    values = pa.array([12, None, -7, 12], pa.int32()).dictionary_encode()
    batch = pa.record_batch({"value": values, "user": pa.array(["a", "b", None, "c"])})
    encoder = StringEncoder("value", 8)
    block, rejects = encoded(encoder, batch, None, SeededRandom(0))
    assert texts_of(block.cells)[0] == ["12", "-7", "12"]
    assert rejects == Counter({NULL_VALUE: 1})
    block, rejects = encoded(encoder, batch, UserDigest("user", 5), SeededRandom(0))
    assert texts_of(block.cells)[0] == ["12", "12"]
    assert block.users.tolist() == UserDigest("user", 5)(pa.array(["a", "c"])).tolist()
    assert rejects.total() == 2
    assert StringEncoder("value", 1 << 12).batch_size < encoder.batch_size


def test_a_pool_has_each_string_once_and_counts_the_rows_that_apply() -> None:
    values = ["b", "a", None, "b", "never", "b"]
    block, rejects = encoded(
        StringEncoder("value", 8, pools=True), pa.record_batch({"value": values}), None,
        SeededRandom(0),
    )  # fmt: skip
    assert (block.size, rejects[NULL_VALUE]) == (5, 1)
    assert texts_of(block.pool)[0] == ["b", "a", "never"]
    assert texts_of(block.pool[block.cells])[0] == [one for one in values if one]
    some = applicable(block._replace(applies=np.array([True, True, True, False, False])))
    assert (some.size, some.applies) == (3, None)
    strings, times = some.counted
    assert dict(zip(texts_of(strings)[0], times.tolist(), strict=True)) == {"b": 2, "a": 1}


@given(texts, st.booleans(), st.integers(0, 3), st.booleans())
def test_a_column_with_a_dictionary_is_the_same_rows(
    values: list[str], hides: bool, skipped: int, twice: bool
) -> None:
    """Whatever the dictionary holds beside them: what no row has, nulls, or a text twice."""
    held = [None if text == "" else text for text in values]
    coded = dictionary(held, pa.string(), ["unused"], hides)
    if twice:
        indices = coded.indices.to_pylist()
        moved = [i if i is None or k % 2 else i + len(coded.dictionary) for k, i in
                 enumerate(indices)]  # fmt: skip
        both = pa.concat_arrays([coded.dictionary] * 2)
        coded = pa.DictionaryArray.from_arrays(pa.array(moved, pa.int16()), both)
    users = pa.array(range(len(held)))
    plain, found = (
        [
            encoded(
                StringEncoder("value", 5, pools),
                pa.record_batch({"value": column, "user": users}).slice(skipped),
                UserDigest("user", 3),
                SeededRandom(0),
            )
            for pools in (False, True)
        ]
        for column in (pa.array(held, pa.string()), coded)
    )
    for (expected, reasons), (block, rejects) in zip(plain, found, strict=True):
        assert rejects == reasons
        assert block.users.tolist() == expected.users.tolist()
        of = [one.pool[one.cells] if hasattr(one, "pool") else one.cells for one in
              (expected, block)]  # fmt: skip
        assert of[0].tolist() == of[1].tolist()
