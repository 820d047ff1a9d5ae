"""What expressions can compute: each function, and what it must be given, in its own few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.expressions.errors import ExpressionError
from transforms.expressions.regex import first_group
from transforms.expressions.tree import Call, Column, Expression
from transforms.expressions.values import (
    INTEGER,
    MOMENT,
    NAMES,
    NUMBER,
    OTHER,
    TEXT,
    TRUTH,
    Bound,
    Values,
    as_moment,
    as_number,
)

_LARGEST = 2.0**62  # of numbers that are made whole


@dataclass(frozen=True)
class Given:
    """What a function is given.

    Attributes:
        call: where it stands.
        bound: its arguments.
    """

    call: Call
    bound: Sequence[Bound]

    def refuse(self, why: str, place: int | None = None) -> ExpressionError:
        """Of an argument, or of all."""
        at = self.call if place is None else self.call.arguments[place]
        return ExpressionError(f"{self.call.name}: {why}", at.position)

    def many(self, least: int, most: int) -> None:
        """Refuse another number of arguments."""
        if not least <= len(self.bound) <= most:
            number = f"{least}" if least == most else f"{least} or {most}"
            raise self.refuse(f"takes {number} values, and is given {len(self.bound)}")

    def values(self, place: int, *kinds: pa.DataType) -> Callable[[pa.RecordBatch], Values]:
        """An argument of one of some types; of a number as doubles, if these are asked for."""
        bound = self.bound[place]
        if NUMBER in kinds and bound.kind == INTEGER:
            return as_number(bound)
        if bound.kind not in kinds:
            wanted = " or ".join(NAMES[kind] for kind in kinds)
            raise self.refuse(f"{wanted} is needed, and {self._said(place)}", place)
        return bound.values

    def written(self, place: int, *kinds: type) -> Any:
        """An argument that must be written out."""
        value = self.bound[place].written
        if type(value) not in kinds:
            wanted = "a text" if str in kinds else "a number"
            raise self.refuse(f"{wanted} that is written out is needed", place)
        return value

    def _said(self, place: int) -> str:
        return said(self.call.arguments[place], self.bound[place].kind)


def said(tree: Expression, kind: pa.DataType) -> str:
    """What an argument is, by the name of its column if it is one."""
    subject = f"column {tree.name!r} holds" if isinstance(tree, Column) else "this is"
    return f"{subject} {NAMES[kind]}"


@dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        usage: how it is written.
        text: what it is, for the table of docs/files.md.
        bind: holds it against what it is given.
    """

    usage: str
    text: str
    bind: Callable[[Given], Bound]


FUNCTIONS: dict[str, Function] = {}


def function(
    usage: str, text: str, *names: str
) -> Callable[[Callable[[Given], Bound]], Callable[[Given], Bound]]:
    """Register a function under what stands before its bracket, or under other names."""

    def register(bind: Callable[[Given], Bound]) -> Callable[[Given], Bound]:
        for name in names or (usage.partition("(")[0],):
            FUNCTIONS[name] = Function(usage, text, bind)
        return bind

    return register


_ARROW = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal,
    ">": pc.greater, ">=": pc.greater_equal, "+": pc.add, "-": pc.subtract,
    "*": pc.multiply, "/": pc.divide, "and": pc.and_kleene, "or": pc.or_kleene,
}  # fmt: skip


@function(
    "a == b",
    "also `!=`, `<`, `<=`, `>`, `>=`, of numbers, texts, timestamps (also a timestamp and a text "
    "such as '2026-11-20T08:00') or, `==` and `!=` alone, truths",
    "==", "!=", "<", "<=", ">", ">=",
)  # fmt: skip
def _compare(given: Given) -> Bound:
    compare, (left, right) = _ARROW[given.call.name], _like_moments(given)
    kinds = {left.kind, right.kind}
    if kinds == {INTEGER, NUMBER}:
        parts = as_number(left), as_number(right)
    elif len(kinds) == 1 and OTHER not in kinds:
        if TRUTH in kinds and given.call.name not in ("==", "!="):
            raise given.refuse("truths have no order")
        parts = left.values, right.values
    else:
        a, b = (
            said(*both) for both in zip(given.call.arguments, (left.kind, right.kind), strict=True)
        )
        raise given.refuse(f"two of a kind are needed: {a}, and {b}")
    return Bound(TRUTH, lambda batch: compare(parts[0](batch), parts[1](batch)))


def _like_moments(given: Given) -> list[Bound]:
    """Both sides, a text that is compared with a timestamp read as one."""
    bound = list(given.bound)
    for place, other in ((0, 1), (1, 0)):
        text = bound[place].written
        if bound[other].kind == MOMENT and type(text) is str:
            moment = as_moment(text)
            if moment is None:
                raise given.refuse("no timestamp is written so; as in 2026-11-20T08:00", place)
            bound[place] = Bound(MOMENT, partial(_constant, moment))
    return bound


def _constant(value: pa.Scalar, _: pa.RecordBatch) -> Values:
    return value


@function("a in (b, c)", "also `not in`: whether a is one of the values that are written out", "in")
def _among(given: Given) -> Bound:
    values, first = given.bound[0].values, given.bound[0]
    if not (len(given.bound) > 1 and first.kind in (INTEGER, NUMBER, TEXT)):
        raise given.refuse("a text or a number, and a list of them, are needed")
    if first.kind == TEXT:
        words = [given.written(place, str) for place in range(1, len(given.bound))]
        listed = pa.array(words, TEXT)
    else:
        words = [given.written(place, int, float) for place in range(1, len(given.bound))]
        if first.kind == INTEGER and all(type(word) is int for word in words):
            listed = pa.array(words, INTEGER)
        else:
            listed, values = pa.array([float(word) for word in words], NUMBER), as_number(first)

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


@function("x + y", "also `-`, `*`, `/`: a number with decimals", "+", "-", "*", "/")
def _arithmetic(given: Given) -> Bound:
    combine, left, right = _ARROW[given.call.name], given.values(0, NUMBER), given.values(1, NUMBER)
    return Bound(NUMBER, lambda batch: combine(left(batch), right(batch)))


@function("-x", "the number below 0, or above it", "0 -")
def _negative(given: Given) -> Bound:
    values = given.values(0, NUMBER)
    return Bound(NUMBER, lambda batch: pc.negate(values(batch)))


def _text_function(usage: str, text: str, step: Callable[[Values], Values]) -> None:
    @function(usage, text)
    def bind(given: Given) -> Bound:
        given.many(1, 1)
        values = given.values(0, TEXT)
        return Bound(TEXT, lambda batch: step(values(batch)))


_text_function("lower(s)", "in small letters", pc.utf8_lower)
_text_function("upper(s)", "in capitals", pc.utf8_upper)
_text_function("trim(s)", "without the blanks around it", pc.utf8_trim_whitespace)


@function("length(s)", "how many signs a text has")
def _length(given: Given) -> Bound:
    given.many(1, 1)
    values = given.values(0, TEXT)
    return Bound(INTEGER, lambda batch: pc.cast(pc.utf8_length(values(batch)), INTEGER))


@function("substring(s, first, n)", "n signs from the first on, counted from 1; without n the rest")
def _substring(given: Given) -> Bound:
    given.many(2, 3)
    values, start = given.values(0, TEXT), given.written(1, int) - 1
    length = given.written(2, int) if len(given.bound) == 3 else None
    if not start >= 0:
        raise given.refuse("signs are counted from 1", 1)
    if length is not None and not length >= 0:
        raise given.refuse("how many signs: 0 or more", 2)
    stop = None if length is None else start + length
    return Bound(TEXT, lambda batch: pc.utf8_slice_codeunits(values(batch), start, stop))


@function("extract(s, 'regex')", "what a regular expression finds, or its one group; null for none")
def _extract(given: Given) -> Bound:
    given.many(2, 2)
    values = given.values(0, TEXT)
    try:
        pattern, name = first_group(given.written(1, str))
        pc.extract_regex(pa.array([""]), pattern)
    except (pa.ArrowException, ValueError):
        raise given.refuse(
            "a regular expression of RE2 with at most one group is needed", 1
        ) from None

    def extract(batch: pa.RecordBatch) -> Values:
        return pc.struct_field(pc.extract_regex(values(batch), pattern), name)

    return Bound(TEXT, extract)


@function("bucket(x, width)", "the multiple of width below x; whole numbers, if width is one")
def _bucket(given: Given) -> Bound:
    given.many(2, 2)
    values, width = given.values(0, NUMBER), given.written(1, int, float)
    if not width > 0:
        raise given.refuse("the width must be above 0", 1)
    if type(width) is int:
        return Bound(
            INTEGER, lambda batch: _whole(values(batch), lambda x: np.floor(x / width) * width)
        )
    return Bound(
        NUMBER, lambda batch: pc.multiply(pc.floor(pc.divide(values(batch), width)), width)
    )


@function("round(x, digits)", "to so many digits behind the point; without, to a whole number")
def _round(given: Given) -> Bound:
    given.many(1, 2)
    values = given.values(0, NUMBER)
    if len(given.bound) == 1:
        return Bound(INTEGER, lambda batch: _whole(values(batch), np.rint))
    digits = given.written(1, int)
    if not 0 <= digits <= 15:
        raise given.refuse("0 to 15 digits", 1)
    return Bound(NUMBER, lambda batch: pc.round(values(batch), ndigits=digits))


def _whole(values: Values, step: Callable[[Any], Any]) -> Values:
    """Numbers made whole; null where they are not finite, or beyond what 64 bits hold."""
    if isinstance(values, pa.Scalar):
        return _whole(pa.array([values.as_py()], NUMBER), step)[0]
    numbers = step(np.asarray(values.to_numpy(zero_copy_only=False)))
    fits = np.abs(numbers) < _LARGEST  # not of NaN, which nulls are
    return pa.array(np.where(fits, numbers, 0).astype(np.int64), INTEGER, mask=~fits)


def _time_function(
    usage: str, text: str, kind: pa.DataType, step: Callable[[Values], Values]
) -> None:
    @function(usage, text)
    def bind(given: Given) -> Bound:
        given.many(1, 2)
        values = given.values(0, MOMENT)
        zone = given.written(1, str) if len(given.bound) == 2 else "UTC"
        try:
            ZoneInfo(zone)
        except (OSError, ValueError, KeyError):
            raise given.refuse("there is no such time zone; as in Europe/Berlin", 1) from None
        local = pa.timestamp("us", zone)
        return Bound(kind, lambda batch: pc.cast(step(pc.cast(values(batch), local)), kind))


_time_function("hour(t, 'zone')", "0 to 23, by the clocks of the zone (UTC)", INTEGER, pc.hour)
_time_function(
    "day(t, 'zone')", "as in 2026-11-20", TEXT, lambda moments: pc.strftime(moments, "%Y-%m-%d")
)
_time_function(
    "week(t, 'zone')", "of ISO 8601, as in 2026-W47", TEXT,
    lambda moments: pc.strftime(moments, "%G-W%V"),
)  # fmt: skip
_time_function(
    "weekday(t, 'zone')", "1 for Monday to 7", INTEGER,
    lambda moments: pc.day_of_week(moments, count_from_zero=False, week_start=1),
)  # fmt: skip
