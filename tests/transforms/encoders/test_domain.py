"""Declared values: every column type against values looked up one at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.encoders import arrow, cell, dictionary
from transforms.columns import plain
from transforms.encoders.domain import DeclaredValues, IntegerRange, integer_range

SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
INTEGERS = [*SIGNED, *UNSIGNED]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
WORDS = ["", "a", "b", "ab", "a\0", "naïve", "日本", "null", "0"]
REFUSED = [
    pa.float32(),
    pa.float64(),
    pa.binary(),
    pa.binary_view(),
    pa.date32(),
    pa.timestamp("us"),
    pa.decimal128(9, 2),
    pa.list_(pa.int8()),
    pa.struct([("a", pa.int8())]),
    pa.null(),
    pa.dictionary(pa.int8(), pa.float64()),
]


def limits(kind: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(str(kind))
    return int(info.min), int(info.max)


# Values near the ends of every type, where widths and signs would show.
EDGES = sorted({end + step for k in INTEGERS for end in limits(k) for step in range(-2, 3)})
LOWS = [edge for edge in EDGES if -(2**62) <= edge <= 2**62 - 5] + [-(2**62), 2**62 - 5]
INT64_EDGES = [edge for edge in EDGES if -(2**63) <= edge < 2**63]


@st.composite
def integer_columns(draw):
    kind = draw(st.sampled_from(INTEGERS))
    low, high = limits(kind)
    values = st.sampled_from([edge for edge in EDGES if low <= edge <= high])
    return draw(columns(kind, values))


@st.composite
def columns(draw, kind, values):
    """A column with nulls, sliced out of a longer one, and the same as a list."""
    content = draw(st.lists(st.none() | values, max_size=20))
    return content, arrow(content, kind, draw(st.integers(0, 9)), draw(st.integers(0, 3)))


@st.composite
def dictionary_columns(draw, kind, values):
    content = draw(st.lists(st.none() | values, max_size=20))
    column = dictionary(content, kind, draw(st.lists(values, max_size=25)), draw(st.booleans()))
    start = draw(st.integers(0, len(content)))
    return content[start:], column.slice(start)


def encode_alone(domain, column) -> list[int]:
    """The cells of a column through the encoder's own preparation."""
    return domain.encode(plain(column)).tolist()


@given(integer_columns(), st.sampled_from(LOWS), st.integers(0, 5), st.booleans())
def test_integer_ranges(sample, low, width, other):
    values, column = sample
    domain = IntegerRange(low, low + width, other)
    assert domain.accepts(column.type)
    assert domain.encode(column).tolist() == [cell(domain, value) for value in values]


@given(
    integer_columns(),
    st.lists(st.sampled_from(INT64_EDGES), min_size=1, max_size=9, unique=True),
    st.booleans(),
)
def test_integers_declared_as_lines_of_text(sample, declared, other):
    values, column = sample
    domain = DeclaredValues(tuple(map(str, declared)), other)
    assert domain.accepts(column.type)
    assert domain.encode(column).tolist() == [cell(domain, value) for value in values]


@given(st.data(), st.lists(st.sampled_from(WORDS), min_size=1, unique=True), st.booleans())
def test_texts(data, declared, other):
    kind = data.draw(st.sampled_from(TEXTS))
    shape = data.draw(st.sampled_from([columns, dictionary_columns]))
    values, column = data.draw(shape(kind, st.sampled_from(WORDS)))
    domain = DeclaredValues(tuple(declared), other)
    assert domain.accepts(column.type)
    assert encode_alone(domain, column) == [cell(domain, value) for value in values]


@given(st.data(), st.sampled_from([("true", "false"), ("false",)]), st.booleans())
def test_booleans(data, declared, other):
    shape = data.draw(st.sampled_from([columns, dictionary_columns]))
    values, column = data.draw(shape(pa.bool_(), st.booleans()))
    domain = DeclaredValues(declared, other)
    assert domain.accepts(column.type)
    assert encode_alone(domain, column) == [cell(domain, value) for value in values]


@given(st.data(), st.sampled_from(INTEGERS))
def test_dictionaries_of_integers(data, kind):
    low, high = limits(kind)
    edges = st.sampled_from([edge for edge in EDGES if low <= edge <= high])
    values, column = data.draw(dictionary_columns(kind, edges))
    domain = DeclaredValues(("0", "-1", "127", "255", str(2**63 - 1)), other=True)
    assert encode_alone(domain, column) == [cell(domain, value) for value in values]


def test_what_int64_cannot_hold_does_not_wrap_around():
    """Cast without a check, 2^64 - 1 would be counted as the declared -1."""
    column = pa.array([2**64 - 1, 2**63, 7], pa.uint64())
    assert DeclaredValues(("-1", str(-(2**63)), "7")).encode(column).tolist() == [-2, -2, 2]
    assert IntegerRange(-1, 7).encode(column).tolist() == [-2, -2, 8]


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_other_types_are_refused(kind):
    assert not DeclaredValues(("1", "2")).accepts(kind)
    assert not IntegerRange(1, 2).accepts(kind)


@pytest.mark.parametrize("lines", [("yes", "true"), ("True", "False"), ("0", "1")])
def test_words_that_no_boolean_is_are_refused(lines):
    assert not DeclaredValues(lines).accepts(pa.bool_())
    assert not DeclaredValues(lines).accepts(pa.dictionary(pa.int8(), pa.bool_()))


def test_a_list_with_a_word_or_a_number_twice_is_no_list_of_integers():
    assert DeclaredValues(("1", "2")).accepts(pa.int8())
    for lines in [("1", "x"), ("1", ""), ("1", "01"), ("1", "1.5"), ("1", str(2**63))]:
        assert not DeclaredValues(lines).accepts(pa.int8())
        assert DeclaredValues(lines).accepts(pa.string())
    assert not IntegerRange(1, 2).accepts(pa.string())


def test_labels_are_the_declared_values_in_the_order_of_their_cells():
    for domain in [IntegerRange(-3, 4), DeclaredValues(("b", "a", ""))]:
        labels = domain.labels()
        assert len(labels) == domain.declared == domain.size
        assert domain.encode(labels).tolist() == list(range(domain.size))
    assert IntegerRange(0, 4, other=True).size == 6
    assert DeclaredValues(("a",), other=True).size == 2


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("0..9", (0, 9)),
        ("-3..-1", (-3, -1)),
        ("5..1", (5, 1)),
        ("0..", None),
        ("..9", None),
        ("0...9", None),
        ("a..b", None),
        ("1.5..2", None),
        ("0-9", None),
        ("", None),
        ("../values.txt", None),
    ],
)
def test_ranges_are_told_from_file_names(text, bounds):
    assert integer_range(text) == bounds
