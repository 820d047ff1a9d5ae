"""Comparisons, and what is made of truths."""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from transforms.expressions.registry import Given, function, said
from transforms.expressions.values import (
    MOMENT,
    NUMBER,
    OTHER,
    TEXT,
    TRUTH,
    WHOLE,
    Bound,
    Values,
    as_moment,
    as_number,
    as_wide,
    whole_literal,
    wide_array,
)

_ARROW = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal,
    ">": pc.greater, ">=": pc.greater_equal, "and": pc.and_kleene, "or": pc.or_kleene,
}  # fmt: skip


@function(
    "a == b",
    "also `!=`, `<`, `<=`, `>`, `>=`, of numbers, texts, timestamps (also a timestamp and a text "
    "such as '2026-11-20T08:00') or, `==` and `!=` alone, truths",
    "==", "!=", "<", "<=", ">", ">=",
)  # fmt: skip
def _compare(given: Given) -> Bound:
    compare, (left, right) = _ARROW[given.call.name], _alike(given)
    kinds = {left.kind, right.kind}
    if kinds <= WHOLE and len(kinds) > 1:
        parts = as_wide(left), as_wide(right)
    elif kinds <= {*WHOLE, NUMBER} and len(kinds) > 1:
        parts = as_number(left), as_number(right)
    elif len(kinds) == 1 and OTHER not in kinds:
        if TRUTH in kinds and given.call.name not in ("==", "!="):
            raise given.refuse("truths have no order")
        parts = left.values, right.values
    else:
        a, b = (
            said(*both) for both in zip(given.call.arguments, (left.kind, right.kind), strict=True)
        )
        raise given.refuse(f"cannot compare two kinds: {a}, and {b}")
    return Bound(TRUTH, lambda batch: compare(parts[0](batch), parts[1](batch)))


def _alike(given: Given) -> list[Bound]:
    """Both sides, what is written out as what the other side holds: a timestamp, a whole number."""
    bound = list(given.bound)
    for place, other in ((0, 1), (1, 0)):
        written = bound[place].written
        if bound[other].kind == MOMENT and type(written) is str:
            moment = as_moment(written)
            if moment is None:
                raise given.refuse("no timestamp is written so; as in 2026-11-20T08:00", place)
            bound[place] = Bound(MOMENT, partial(_constant, moment))
        elif bound[other].kind in WHOLE and (number := whole_literal(written)) is not None:
            bound[place] = number
    return bound


def _constant(value: pa.Scalar, _: pa.RecordBatch) -> Values:
    return value


@function("a in (b, c)", "also `not in`: whether a is one of the values that are written out", "in")
def _among(given: Given) -> Bound:
    first, rest = given.bound[0], range(1, len(given.bound))
    values = first.values
    if not (rest and first.kind in (*WHOLE, NUMBER, TEXT)):
        raise given.refuse("a text or a number, and a list of them, are needed")
    if first.kind == TEXT:
        listed = pa.array([given.written(place, str) for place in rest], TEXT)
    elif first.kind == NUMBER:
        listed = pa.array([float(given.written(place, int, float)) for place in rest], NUMBER)
    else:  # a number that is not whole is none of them
        numbers = [whole_literal(given.written(place, int, float)) for place in rest]
        listed = wide_array(number.written for number in numbers if number is not None)
        values = as_wide(first)

    def among(batch: pa.RecordBatch) -> Values:
        column = values(batch)
        return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=listed), None)

    return Bound(TRUTH, among)


@function("a is null", "also `is not null`: whether there is no value", "is null")
def _is_null(given: Given) -> Bound:
    values = given.bound[0].values
    return Bound(TRUTH, lambda batch: pc.is_null(values(batch)))


@function("a and b", "also `or`: null where that cannot be told", "and", "or")
def _logic(given: Given) -> Bound:
    combine, left, right = _ARROW[given.call.name], given.values(0, TRUTH), given.values(1, TRUTH)
    return Bound(TRUTH, lambda batch: combine(left(batch), right(batch)))


@function("not a", "the opposite", "not")
def _negation(given: Given) -> Bound:
    values = given.values(0, TRUTH)
    return Bound(TRUTH, lambda batch: pc.invert(values(batch)))
