"""Tables in chunks are the dictionaries that they stand for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.journal.tables import (
    Columns,
    FactTable,
    chunk_of,
    merged,
    opened,
    text,
    with_row,
    written,
)

BODIES = st.one_of(
    st.none(),  # takes a row out
    st.integers(),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 1, "x", [2.5], {"y": 3}])),
)
FACTS = st.lists(st.tuples(st.sampled_from(["x", "y", "z", "\udcff", ""]), BODIES), max_size=12)


@given(st.lists(FACTS, min_size=1, max_size=4), st.booleans())
def test_a_table_is_the_dictionary_of_its_facts(parts: list[Any], together: bool) -> None:
    truth: dict[str, Any] = {}
    laters: list[dict[Any, Any]] = []
    for facts in parts:
        laters.append({})
        for name, body in facts:
            with_row(laters[-1], name, body)
            if body is None:
                truth.pop(name, None)
            else:
                truth[name] = body
    chunks = [opened(written(chunk_of(later))) for later in laters[:-1]]
    if together and len(chunks) > 1:
        chunks = [chunks[0], merged(chunks[1:], False)]
    table = FactTable(Columns(chunks), laters[-1])
    assert table == truth
    assert [*table] == [*truth]
    assert [*table.rows()] == [*truth.values()]
    assert [table.row(place) for place in range(len(truth))] == [*truth.values()]
    assert len(table) == len(truth)
    for field in "abcd":
        column = table.column(field)
        said = [body.get(field, KeyError) if isinstance(body, dict) else KeyError
                for body in truth.values()]  # fmt: skip
        assert [column.texts[code].as_py() for code in column.codes] == [
            None if value is KeyError else text(value) for value in said
        ]
        assert column.equals("x").tolist() == [value == "x" for value in said]


def test_a_text_stands_once_in_a_column() -> None:
    many = {str(k): {"losses": "as long as you like" * 100, "window": k} for k in range(999)}
    chunk = chunk_of(many)
    more = chunk_of({"more": {"losses": "as long as you like" * 100}})
    for whole in (chunk, merged([chunk, more], True)):
        assert len(written(whole)) < 60_000
    assert len(Columns([chunk, more]).column("losses").texts) == 2  # and that of no text


def test_what_is_no_chunk_is_refused() -> None:
    whole = chunk_of({"x": {"a": 1}})
    content = bytearray(written(whole))
    with pytest.raises(Exception, match=r".+"):
        opened(bytes(content[: len(content) // 2]))
    for other in (whole.drop_columns(["whole"]), whole.set_column(2, '"a"', pa.array([[1.5]]))):
        with pytest.raises((ValueError, pa.ArrowException)):  # before a column of it is looked at
            opened(written(other))
