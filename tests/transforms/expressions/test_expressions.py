"""Expressions: what they compute, what they refuse and where, and nothing else."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.wire import EXAMPLES
from transforms.expressions.functions import FUNCTIONS
from transforms.expressions.parser import parse
from transforms.expressions.tree import ExpressionError
from transforms.expressions.view import View, ViewError

INF = float("inf")
BATCH = pa.record_batch(
    {
        "country": ["DE", " at ", None, "FR"],
        "seconds": [0.5, 61.0, None, INF],
        "n": pa.array([1, -7, None, 2**63 - 1]),
        "at": pa.array(
            [datetime(2026, 11, 20, 23, 30), None, datetime(2026, 1, 1), datetime(2024, 12, 30, 5)]
        ),
        "kind": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "flag": [True, False, None, True],
        "tags": [["a"], [], None, ["b"]],
        "my col": pa.array([1, 2, 3, 4], pa.uint64()),
        "price": pa.array([1, 2, None, 3], pa.int8()).cast(pa.decimal128(20, 2)),
    }
)


def computed(text: str, batch: pa.RecordBatch = BATCH) -> list[object]:
    view = View.read([("found", text)], [])
    kind = view.schema(batch.schema).field("found").type
    column = view.seen(batch, ["found"]).column("found")
    assert column.type == kind
    assert len(column) == batch.num_rows
    return column.to_pylist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("country == 'DE' and seconds > 0", [True, False, None, False]),
        ("country = 'DE' or flag", [True, False, None, True]),
        ("not (country <> 'DE')", [True, False, None, False]),
        ("lower(trim(country))", ["de", "at", None, "fr"]),
        ("upper(country)", ["DE", " AT ", None, "FR"]),
        ("length(country)", [2, 4, None, 2]),
        ("substring(country, 2, 1)", ["E", "a", None, "R"]),
        ("substring(country, 2)", ["E", "at ", None, "R"]),
        ("extract(country, '^([A-Z])')", ["D", None, None, "F"]),
        ("extract(country, '[A-Z]+')", ["DE", None, None, "FR"]),
        ("extract(country, '(?P<x>E)$')", ["E", None, None, None]),
        ("bucket(seconds, 30)", [0, 60, None, None]),
        ("bucket(n, 5)", [0, -10, None, 2**63 - 3]),
        ("bucket(seconds, 0.25)", [0.5, 61.0, None, INF]),
        ("round(seconds)", [0, 61, None, None]),
        ("round(price / 3, 2)", [0.33, 0.67, None, 1.0]),
        ("seconds / 0", [None] * 4),
        ("`my col` * 2 - -1", [3.0, 5.0, 7.0, 9.0]),
        ("1 + 2 * 3", [7.0] * 4),
        ("-(n)", [-1, 7, None, 1 - 2**63]),
        ("n == 9223372036854775807", [False, False, None, True]),
        ("n > 0.5", [True, False, None, True]),
        ("hour(at, 'Europe/Berlin')", [0, None, 1, 6]),
        ("hour(at)", [23, None, 0, 5]),
        ("day(at, 'Asia/Tokyo')", ["2026-11-21", None, "2026-01-01", "2024-12-30"]),
        ("week(at)", ["2026-W47", None, "2026-W01", "2025-W01"]),
        ("weekday(at)", [5, None, 4, 1]),
        ("at >= '2026-01-01'", [True, None, True, False]),
        ("at < '2026-01-01T01:00+01:00'", [False, None, False, True]),
        ("kind in ('x', 'z')", [True, False, None, True]),
        ("n not in (1, 2)", [False, True, None, True]),
        ("n in (1.0)", [True, False, None, False]),
        ("flag is null", [False, False, True, False]),
        ("tags is not null", [True, True, False, True]),
        ("flag == false", [False, True, None, False]),
        ("'it''s'", ["it's"] * 4),
        ("if(n > 0, 'up', 'down')", ["up", "down", "down", "up"]),
        ("if(flag, n, null)", [1, None, None, 2**63 - 1]),
        ("if(n > 0, 1, 0.5)", [1.0, 0.5, 0.5, 1.0]),
        ("coalesce(country, 'none')", ["DE", " at ", "none", "FR"]),
        ("coalesce(price, n, 7)", [1, 2, 7, 3]),
        ("lookup(trim(country), 'DE', 'north', 'at', 'south')", ["north", "south", None, None]),
        ("lookup(n, 1, true, -7, false)", [True, False, None, None]),
    ],
)
def test_what_expressions_compute(text: str, values: list[object]) -> None:
    assert computed(text) == values
    assert computed(text, BATCH.slice(0, 0)) == []


@pytest.mark.parametrize(
    ("text", "why", "position"),
    [
        ("secods > 1", "no such column: 'secods'", 1),
        ("lowr(country)", "there is no function 'lowr'; did you mean lower?", 1),
        ("country > 3", "cannot compare two kinds: column 'country' holds a text", 9),
        ("flag < true", "truths have no order", 6),
        ("lower(seconds)", "a text is needed, and column 'seconds' holds a number", 7),
        ("tags == 'a'", "column 'tags' holds neither text, nor number", 6),
        ("at >= 'yesterday'", "no timestamp is written so", 7),
        ("hour(at, 'Nowhere')", "there is no such time zone", 10),
        ("hour(at, country)", "a text that is written out is needed", 10),
        ("extract(country, '(a)(b)')", "with at most one group", 18),
        ("extract(country, '[')", "a regular expression of RE2", 18),
        ("bucket(n, 0)", "the width must be above 0", 11),
        ("substring(country, 0)", "signs are counted from 1", 20),
        ("round(n, 99)", "0 to 15 digits", 10),
        ("lower()", "takes 1 values, and is given 0", 1),
        ("a < b < c", "one comparison follows another", 7),
        ("1 +", "a column, a value or a bracket was expected", 4),
        ("(1", ") was expected", 3),
        ("n n", "an operator, or the end, was expected", 3),
        ("'CANARY", "a quote is opened and not closed", 1),
        ("n ; m", "there is a sign that no expression has", 3),
        ("1e999", "a number is beyond all doubles", 1),
        ("99999999999999999999", "a whole number is beyond 64 bits", 1),
        ("(" * 100 + "1", "too many brackets", 65),
        (" or ".join(["flag"] * 400), "too many operators follow each other", 3190),
        ("x" * 70_000, "longer than 65,536 signs", 65536),
        ("if(n, 1, 2)", "a truth is needed, and column 'n' holds a whole number", 4),
        ("if(flag, 1, 'a')", "if: values of one type are needed", 1),
        ("coalesce(tags, null)", "coalesce: values of one type are needed", 1),
        ("lookup(seconds, 1, 2)", "a text or a whole number, and pairs", 1),
        ("lookup(country, 'DE')", "takes 3 to 65536 values, and is given 2", 1),
        ("", "a column, a value or a bracket was expected", 1),
        ("__import__('os')", "there is no function '__import__'", 1),
    ],
)
def test_a_refusal_names_the_column_and_the_position(text: str, why: str, position: int) -> None:
    with pytest.raises(ViewError) as caught:
        View.read([("found", text)], []).schema(BATCH.schema)
    assert why in str(caught.value)
    assert str(caught.value).startswith("found: ")
    assert str(caught.value).endswith(f", at position {position}")


def test_a_view_derives_in_order_and_needs_no_more_than_it_must() -> None:
    view = View.read(
        [("minutes", "seconds / 60"), ("long", "minutes > 1"), ("other", "lower(country)")],
        ["long", "n is not null"],
    )
    assert view.needed(["long"]) == {"seconds", "n"}
    assert view.needed(["other"]) == {"country", "seconds", "n"}
    seen = view.seen(BATCH, ["other"])
    assert "other" in seen.schema.names
    np.testing.assert_array_equal(view.holds(seen), [False, True, False, True])


def test_a_view_refuses_a_name_that_is_taken_and_what_is_no_condition() -> None:
    with pytest.raises(ViewError, match="n: the file has a column of that name"):
        View.read([("n", "1")], []).schema(BATCH.schema)
    with pytest.raises(ViewError, match="yes or no is needed: column 'n' holds a whole number"):
        View.read([], ["n"]).schema(BATCH.schema)


def test_a_value_that_a_function_cannot_take_is_null_and_its_neighbours_are_not() -> None:
    broken = pa.array([b"ok", b"\xff\xff", b"Fine"]).view(pa.string())
    batch = pa.record_batch({"s": broken})
    assert computed("upper(s)", batch) == ["OK", None, "FINE"]
    far = pa.record_batch({"t": pa.array([0, 2**62, 5]).cast(pa.timestamp("s"))})
    assert computed("hour(t)", far) == [0, None, 0]


def test_columns_of_other_layouts_are_read_alike() -> None:
    moment = datetime(2026, 11, 20, 8, 30, tzinfo=timezone.utc)
    for kind in (pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.timestamp("ms", "Asia/Tokyo")):
        batch = pa.record_batch({"t": pa.array([moment, None]).cast(pa.timestamp("us")).cast(kind)})
        assert computed("hour(t)", batch) == [8, None]
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        batch = pa.record_batch({"s": pa.array(["A", None]).cast(kind)})
        assert computed("lower(s) == 'a'", batch) == [True, None]
    for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(20, 1)):
        batch = pa.record_batch({"x": pa.array([3, None], pa.int8()).cast(kind)})
        assert computed("x == 3", batch) == [True, None]


# ---- whatever is written

ATOMS = st.sampled_from(
    [
        *BATCH.schema.names[:6],
        "`my col`",
        "'CANARY-TEXT'",
        "1",
        "2.5",
        "true",
        "null",
        "'UTC'",
        "'('",
    ]
)
SIGNS = ["+", "-", "*", "/", "<", "<=", "==", "!=", "and", "or", "in"]
NAMES = sorted(name for name in FUNCTIONS if name.isidentifier())
TREES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(SIGNS), inner).map(" ".join),
        st.tuples(st.sampled_from(NAMES), st.lists(inner, max_size=3)).map(
            lambda part: f"{part[0]}({', '.join(part[1])})"
        ),
        inner.map("({})".format), inner.map("not {}".format), inner.map("{} is null".format),
    ),
    max_leaves=6,
)  # fmt: skip


@given(st.one_of(st.text(max_size=30), TREES, TREES.map(lambda text: text[:-1])))
@settings(max_examples=EXAMPLES)
def test_fuzz_an_expression_is_computed_or_refused_without_a_value(text: str) -> None:
    try:
        found = len(computed(text))
    except ViewError as refusal:
        said = str(refusal)
    else:
        assert found == BATCH.num_rows
        return
    assert "CANARY" not in said
    assert ", at position " in said


@given(st.text(max_size=60))
@settings(max_examples=EXAMPLES)
def test_fuzz_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse(text)
    except ExpressionError as refusal:
        position = refusal.position
    else:
        position = 1
    assert 1 <= position <= len(text) + 1
