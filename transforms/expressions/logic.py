"""Comparisons, and what is made of truths."""

from collections.abc import Sequence
from functools import partial
from typing import Any

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
    WIDE,
    Bound,
    Values,
    as_moment,
    as_number,
    as_wide,
    of_all,
    whole_literal,
    wide_array,
)

_MANY = 1 << 16  # arguments

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


@function("if(a, x, y)", "x where a holds, else y: both of one type, or null")
def _choice(given: Given) -> Bound:
    given.many(3, 3)
    holds, (kind, first, second) = given.values(0, TRUTH), _one_kind(given, given.bound[1:])

    def chosen(batch: pa.RecordBatch) -> Values:
        truth = pc.fill_null(holds(batch), False)
        return pc.if_else(truth, first(batch), second(batch))

    return Bound(kind, chosen)


@function("coalesce(x, y, ...)", "the first of them that is not null, all of one type")
def _coalesce(given: Given) -> Bound:
    given.many(1, _MANY)
    kind, *values = _one_kind(given, given.bound)
    return Bound(kind, lambda batch: pc.coalesce(*(one(batch) for one in values)))


@function("lookup(a, b, x, c, y, ...)", "x where a is b, y where a is c, and so on; else null")
def _lookup(given: Given) -> Bound:
    given.many(3, _MANY)
    first, places = given.bound[0], range(1, len(given.bound) - 1, 2)
    if not (len(given.bound) % 2 and first.kind in (*WHOLE, TEXT)):
        raise given.refuse("a text or a whole number, and pairs of a key and a value, are needed")
    written = [given.written(place, str if first.kind == TEXT else int) for place in places]
    keys = pa.array(written, TEXT) if first.kind == TEXT else wide_array(written)
    kind, *values = _one_kind(given, [given.bound[place + 1] for place in places])
    column = first.values if first.kind == TEXT else as_wide(first)
    nothing = pa.RecordBatch.from_arrays([], [])
    table = pa.array([value(nothing).as_py() for value in values], kind)

    def looked_up(batch: pa.RecordBatch) -> Values:
        return of_all(lambda part: table.take(pc.index_in(part, value_set=keys)), column(batch))

    return Bound(kind, looked_up)


def _one_kind(given: Given, bound: Sequence[Bound]) -> list[Any]:
    """The type that all of some values have, and what takes a batch to each of them as that."""
    kinds = {one.kind for one in bound if not _null_written(one)}
    if kinds <= {*WHOLE, NUMBER} and len(kinds) > 1:
        kind = NUMBER if NUMBER in kinds else WIDE
    elif len(kinds) == 1 and OTHER not in kinds:
        (kind,) = kinds
    else:
        raise given.refuse("values of one type are needed")
    none = partial(_constant, pa.scalar(None, kind))
    taken = {kind: lambda one: one.values, NUMBER: as_number, WIDE: as_wide}
    return [kind, *(none if _null_written(one) else taken[kind](one) for one in bound)]


def _null_written(bound: Bound) -> bool:
    """Whether null is written there, and no column that nothing can be computed with."""
    if bound.kind != OTHER:
        return False
    try:
        return isinstance(bound.values(pa.RecordBatch.from_arrays([], [])), pa.NullScalar)
    except KeyError:
        return False


@function("a and b", "also `or`: null where that cannot be told", "and", "or")
def _logic(given: Given) -> Bound:
    combine, left, right = _ARROW[given.call.name], given.values(0, TRUTH), given.values(1, TRUTH)
    return Bound(TRUTH, lambda batch: combine(left(batch), right(batch)))


@function("not a", "the opposite", "not")
def _negation(given: Given) -> Bound:
    values = given.values(0, TRUTH)
    return Bound(TRUTH, lambda batch: pc.invert(values(batch)))
