"""Encoding: every column type against rows taken one at a time, and each reject counted once."""

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

from tests.oracles.transforms import arrow, cell, dictionary, encoded, run
from transforms import encode
from transforms.encode import (
    NULL_USER,
    NULL_VALUE,
    OUTSIDE_DOMAIN,
    CellBlock,
    DeclaredValues,
    EncodeDoFn,
    IntegerRange,
    integer_range,
)
from transforms.progress import ROWS
from transforms.users import UserDigest

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
    """The cells of a column through the DoFn's own preparation."""
    return domain.encode(encode._plain(column)).tolist()


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


# ---- the DoFn ------------------------------------------------------------------------------------


def outputs(dofn: EncodeDoFn, table: pa.Table) -> tuple[list[CellBlock], dict[str, int]]:
    """Blocks and tallies of one table; no name is told twice for one table."""
    blocks, tallies = [], Counter()
    for output in dofn.process(table):
        if isinstance(output, beam.pvalue.TaggedOutput):
            assert output.tag == EncodeDoFn.TALLIES
            name, amount = output.value
            assert name not in tallies
            assert amount > 0
            tallies[name] = amount
        else:
            blocks.append(output)
    return blocks, dict(tallies)


USERS = {
    pa.int16(): st.integers(-3, 3),
    pa.uint64(): st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    pa.string(): st.sampled_from(WORDS),
    pa.large_binary(): st.binary(max_size=2),
}


@st.composite
def tables(draw):
    """A table of some chunks, its values and its users, as columns of types drawn for all."""
    users = draw(st.sampled_from(list(USERS)))
    shape = draw(st.sampled_from([arrow, None]))
    hide, chunks, rows = draw(st.booleans()), [], []
    for _ in range(draw(st.integers(1, 3))):
        row = st.tuples(st.none() | st.sampled_from(WORDS), st.none() | USERS[users])
        new = draw(st.lists(row, max_size=12))
        values, ids = [r[0] for r in new], [r[1] for r in new]
        pad = draw(st.integers(0, 5))
        columns = [
            arrow(values, pa.string(), pad) if shape else dictionary(values, pa.string(), [], hide),
            arrow(ids, users, pad) if shape else dictionary(ids, users, [], hide),
        ]
        chunks.append(pa.table(columns, names=["value", "user"]))
        rows += new
    return pa.concat_tables(chunks), [r[0] for r in rows], [r[1] for r in rows]


@given(tables(), st.booleans(), st.booleans(), st.integers(1, 9))
@settings(max_examples=200)
def test_rows_come_out_as_if_taken_one_at_a_time(sample, bounded, other, block):
    table, values, ids = sample
    domain = DeclaredValues(("a", "b", ""), other)
    dofn = EncodeDoFn("value", domain, UserDigest("user", 99) if bounded else None)
    with mock.patch.object(encode, "_BLOCK", block):
        blocks, tallies = outputs(dofn, table)
    rows, counted = encoded(domain, values, ids if bounded else None)

    assert tallies == counted
    assert all(0 < b.cells.size <= block and b.cells.dtype == np.uint32 for b in blocks)
    assert [c for b in blocks for c in b.cells.tolist()] == [place for place, _ in rows]
    if bounded:
        digests = [u for b in blocks for u in b.users.tolist()]
        pairs = set(zip(digests, [user for _, user in rows], strict=True))
        assert len(pairs) == len(set(digests)) == len({user for _, user in rows})
    else:
        assert all(b.users is None for b in blocks)


def test_every_row_has_one_reason_and_a_null_user_comes_first():
    table = pa.table(
        {
            "value": ["a", None, "z", None, "z", "a"],
            "user": pa.array([1, 1, 1, None, None, None], pa.int64()),
        }
    )
    blocks, tallies = outputs(
        EncodeDoFn("value", DeclaredValues(("a",)), UserDigest("user", 1)), table
    )
    assert tallies == {ROWS: 6, NULL_USER: 3, NULL_VALUE: 1, OUTSIDE_DOMAIN: 1}
    assert sum(b.cells.size for b in blocks) == 6 - 5


@pytest.mark.parametrize("rows", [0, 3])
def test_dictionaries_without_entries(rows):
    """A row group of nulls alone has an empty dictionary: no entry stands for them."""
    nulls = pa.array([None] * rows, pa.string()).dictionary_encode()
    assert len(nulls.dictionary) == 0
    dofn = EncodeDoFn("value", DeclaredValues(("a",)), UserDigest("user", 1))
    blocks, tallies = outputs(dofn, pa.table({"value": nulls, "user": nulls}))
    assert not blocks
    assert tallies == ({ROWS: rows, NULL_USER: rows} if rows else {})


def test_the_value_may_be_the_user():
    table = pa.table({"user": ["a", "b", None]})
    blocks, tallies = outputs(
        EncodeDoFn("user", DeclaredValues(("a", "b")), UserDigest("user", 1)), table
    )
    assert blocks[0].cells.tolist() == [0, 1]
    assert tallies == {ROWS: 3, NULL_USER: 1}


def test_a_long_dictionary_is_not_looked_up_for_every_slice():
    """Slices of a row group share its dictionary; each looks up no more than its own rows."""
    words = pa.array([f"{i:06d}" for i in range(5000)]).dictionary_encode()
    seen = []

    class Watched(DeclaredValues):
        def _indices(self, column):
            seen.append(len(column))
            return super()._indices(column)

    dofn = EncodeDoFn("value", Watched(("000007",)), None)
    with mock.patch.object(encode, "_BLOCK", 100):
        blocks, tallies = outputs(dofn, pa.table({"value": words}))
    assert tallies == {ROWS: 5000, OUTSIDE_DOMAIN: 4999}
    assert [b.cells.tolist() for b in blocks] == [[0]]
    assert max(seen) <= 100


SECRET, USER = "Wernigerode", "u-7731-quedlinburg"


def test_neither_values_nor_users_leave():
    """Not in blocks, nor in tallies, nor in the names of counters, whatever the reason."""
    number = 0x1122334455667788
    table = pa.table(
        {
            "value": [SECRET, None, "a", "a", SECRET],
            "user": [USER, USER, None, USER, None],
            "number": pa.array([number] * 5, pa.int64()),
        }
    )
    for user in ["user", "number"]:
        dofn = EncodeDoFn("value", DeclaredValues(("a",)), UserDigest(user, 12345))
        pickled = pickle.dumps(list(dofn.process(table))) + pickle.dumps(dofn)
        for raw in [SECRET.encode(), USER.encode(), number.to_bytes(8, "little")]:
            assert raw not in pickled
            assert raw[::-1] not in pickled


def test_errors_about_columns_do_not_show_values():
    table = pa.table({"value": [SECRET], "user": [USER]})
    with pytest.raises(KeyError) as caught:
        outputs(EncodeDoFn("city", DeclaredValues(("a",)), None), table)
    assert SECRET not in str(caught.value)


def test_tallies_add_up_in_a_pipeline_and_agree_with_its_counters():
    """Through Parquet, so that dictionaries are what Parquet makes of them."""
    buffer = io.BytesIO()
    values = ["a", "b", None, "z"] * 25
    column = pa.array(values).dictionary_encode()
    pq.write_table(pa.table({"value": column}), buffer, row_group_size=7)
    groups = pq.ParquetFile(io.BytesIO(buffer.getvalue()))
    parts = [groups.read_row_group(i) for i in range(groups.num_row_groups)]

    def build(pipeline):
        encoded = (
            pipeline
            | beam.Create(parts).with_output_types(pa.Table)
            | beam.ParDo(EncodeDoFn("value", DeclaredValues(("a", "b")), None)).with_outputs(
                EncodeDoFn.TALLIES, main="cells"
            )
        )
        return encoded[EncodeDoFn.TALLIES] | beam.CombinePerKey(sum)

    outcome = run(build)
    assert dict(outcome.elements) == {ROWS: 100, NULL_VALUE: 25, OUTSIDE_DOMAIN: 25}
    assert outcome.counters == dict(outcome.elements)
