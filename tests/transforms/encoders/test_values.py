"""Values to cells: rows as if taken one at a time, and each reject counted once."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.encoders import arrow, dictionary, encode_table, encoded
from transforms.encoders.block import CellBlock
from transforms.encoders.domain import DeclaredValues, IntegerRange
from transforms.encoders.encoder import BATCH, NULL_USER, NULL_VALUE, OUTSIDE_DOMAIN
from transforms.encoders.users import UserDigest
from transforms.encoders.values import ValueEncoder

WORDS = ["", "a", "b", "ab", "a\0", "naïve", "日本", "null", "0"]
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


@given(tables(), st.booleans(), st.booleans(), st.sampled_from([1, 2, 5, BATCH]))
@settings(max_examples=200)
def test_rows_come_out_as_if_taken_one_at_a_time(sample, bounded, other, size):
    table, values, ids = sample
    domain = DeclaredValues(("a", "b", ""), other)
    users = UserDigest("user", 99) if bounded else None
    block, rejects = encode_table(ValueEncoder("value", domain), table, users, size=size)
    rows, expected = encoded(domain, values, ids if bounded else None)
    assert rejects == expected
    assert block.cells.dtype == np.uint32
    assert block.cells.tolist() == [cell for cell, _ in rows]
    if bounded:
        digests = block.users.tolist()
        pairs = set(zip(digests, [user for _, user in rows], strict=True))
        assert len(pairs) == len(set(digests)) == len({user for _, user in rows})
    else:
        assert block.users is None


def test_every_row_has_one_reason_and_a_null_user_comes_first():
    table = pa.table(
        {
            "value": ["a", None, "z", None, "z", "a"],
            "user": pa.array([1, 1, 1, None, None, None], pa.int64()),
        }
    )
    encoder = ValueEncoder("value", DeclaredValues(("a",)))
    block, rejects = encode_table(encoder, table, UserDigest("user", 1))
    assert rejects == {NULL_USER: 3, NULL_VALUE: 1, OUTSIDE_DOMAIN: 1}
    assert block.size == 6 - 5


@pytest.mark.parametrize("rows", [0, 3])
def test_dictionaries_without_entries(rows):
    """A row group of nulls alone has an empty dictionary: no entry stands for them."""
    nulls = pa.array([None] * rows, pa.string()).dictionary_encode()
    assert len(nulls.dictionary) == 0
    table = pa.table({"value": nulls, "user": nulls})
    encoder = ValueEncoder("value", DeclaredValues(("a",)))
    block, rejects = encode_table(encoder, table, UserDigest("user", 1))
    assert block.size == 0
    assert rejects == ({NULL_USER: rows} if rows else {})


def test_the_value_may_be_the_user():
    encoder = ValueEncoder("user", DeclaredValues(("a", "b")))
    block, rejects = encode_table(
        encoder, pa.table({"user": ["a", "b", None]}), UserDigest("user", 1)
    )
    assert block.cells.tolist() == [0, 1]
    assert rejects == {NULL_USER: 1}


def test_a_long_dictionary_is_not_looked_up_for_every_slice():
    """Slices of a row group share its dictionary; each looks up no more than its own rows."""
    words = pa.array([f"{i:06d}" for i in range(5000)]).dictionary_encode()
    seen = []

    class Watched(DeclaredValues):
        def _indices(self, column):
            seen.append(len(column))
            return super()._indices(column)

    encoder = ValueEncoder("value", Watched(("000007",)))
    block, rejects = encode_table(encoder, pa.table({"value": words}), size=100)
    assert rejects == {OUTSIDE_DOMAIN: 4999}
    assert block.cells.tolist() == [0]
    assert max(seen) <= 100


SECRET, USER = "Wernigerode", "u-7731-quedlinburg"


def test_neither_values_nor_users_leave():
    """Not in blocks, nor among rejects, whatever the reason."""
    number = 0x1122334455667788
    table = pa.table(
        {
            "value": [SECRET, None, "a", "a", SECRET],
            "user": [USER, USER, None, USER, None],
            "number": pa.array([number] * 5, pa.int64()),
        }
    )
    encoder = ValueEncoder("value", DeclaredValues(("a",)))
    for user in ["user", "number"]:
        pickled = pickle.dumps(encode_table(encoder, table, UserDigest(user, 12345)))
        for raw in [SECRET.encode(), USER.encode(), number.to_bytes(8, "little")]:
            assert raw not in pickled
            assert raw[::-1] not in pickled


def test_errors_about_columns_do_not_show_values():
    table = pa.table({"value": [SECRET], "user": [USER]})
    with pytest.raises(KeyError) as caught:
        encode_table(ValueEncoder("city", DeclaredValues(("a",))), table)
    assert SECRET not in str(caught.value)


def test_columns_are_what_is_read():
    encoder = ValueEncoder("value", DeclaredValues(("a",)))
    assert encoder.columns == {"value"}
    assert encoder.kind is CellBlock


def test_values_that_cannot_be_used_become_one_more_cell_that_nobody_counts():
    table = pa.table({"value": ["a", None, "z", "b"], "user": [1, 2, 3, None]})
    encoder = ValueEncoder("value", DeclaredValues(("a", "b")), instead=2)
    block, rejects = encode_table(encoder, table)
    assert (block.cells.tolist(), rejects) == ([0, 2, 2, 1], {})
    block, rejects = encode_table(encoder, table, UserDigest("user", 9))
    assert (block.cells.tolist(), rejects) == ([0, 2, 2], {NULL_USER: 1})
    assert len(block.users) == 3


def test_a_value_is_found_as_people_write_it():
    assert DeclaredValues(("7", "b")).place("b") == 1
    assert DeclaredValues(("7", "b"), other=True).place("c") is None
    assert IntegerRange(-3, 5).place("-3") == 0
    assert IntegerRange(-3, 5).place("6") is None
    assert IntegerRange(-3, 5).place("b") is None
