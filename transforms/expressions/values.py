"""The few types that expressions know, and columns of any of Arrow's as one of them."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from transforms.columns import is_moment, is_numeric, is_text, value_type
from transforms.files.kinds import micros
from transforms.files.moments import TIME, tolerant
from transforms.files.reading import parsed

INTEGER, NUMBER, TEXT, TRUTH, MOMENT = pa.int64(), pa.float64(), pa.string(), pa.bool_(), TIME
# Whole numbers that 64 bits with a sign may not hold: of uint64, and what is computed of them.
WIDE = pa.decimal128(37, 0)
WHOLE = {INTEGER, WIDE}
OTHER = pa.null()  # nothing that can be computed with
UNSAID = pa.list_(pa.null())  # of an argument that may be left out, and is

NAMES = {
    INTEGER: "a whole number", WIDE: "a whole number", NUMBER: "a number", TEXT: "a text",
    TRUTH: "a truth", MOMENT: "a timestamp", OTHER: "neither text, nor number, truth or timestamp",
    UNSAID: "nothing",
}  # fmt: skip

Values = Any
"""(n,) of one type, or one value for all rows: a pa.Array or a pa.Scalar."""


class Bound(NamedTuple):
    """An expression that fits the columns it is about.

    Attributes:
        kind: of its values.
        values: takes a batch to them.
        written: the value, where it is written out.
    """

    kind: pa.DataType
    values: Callable[[pa.RecordBatch], Values]
    written: Any = None


def kind_of(column: pa.DataType) -> pa.DataType:
    """What a column of one of Arrow's types is here."""
    column = value_type(column)
    if pa.types.is_integer(column):
        return WIDE if pa.types.is_uint64(column) else INTEGER
    if pa.types.is_decimal128(column) and column.scale == 0 and column.precision <= WIDE.precision:
        return WIDE
    tests = (is_numeric, NUMBER), (is_text, TEXT), (pa.types.is_boolean, TRUTH), (is_moment, MOMENT)
    return next((kind for test, kind in tests if test(column)), OTHER)


def column_values(column: pa.Array) -> Values:
    """A column as one of the types here; null where a value is beyond it."""
    if pa.types.is_dictionary(column.type):
        return column_values(column.dictionary_decode())
    kind = kind_of(column.type)
    if kind in (OTHER, column.type):
        return column
    if kind == NUMBER:  # what 53 bits do not hold goes to the nearest double
        return column.cast(NUMBER, safe=False)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    if kind == MOMENT:
        column = micros(column)
    return tolerant(lambda part: part.cast(kind), column, kind)


def as_number(bound: Bound) -> Callable[[pa.RecordBatch], Values]:
    """The values of a number as doubles."""
    if bound.kind == NUMBER:
        return bound.values
    return lambda batch: pc.cast(bound.values(batch), NUMBER, safe=False)


def as_wide(bound: Bound) -> Callable[[pa.RecordBatch], Values]:
    """The values of a whole number as decimals of 37 digits."""
    if bound.kind == WIDE:
        return bound.values
    return lambda batch: pc.cast(bound.values(batch), WIDE)


def narrowed(values: Values, kind: pa.DataType) -> Values:
    """Decimals without a fraction as whole numbers of a kind; null where one is beyond it."""
    most = (1 << 63) - 1 if kind == INTEGER else 10**WIDE.precision - 1
    least = -most - (kind == INTEGER)
    low, high = (pa.scalar(Decimal(end), WIDE).cast(values.type) for end in (least, most))
    inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return pc.cast(pc.if_else(inside, values, pa.scalar(None, values.type)), kind)


def whole_literal(written: Any) -> Bound | None:
    """A number that is written out, if it is whole and of at most 37 digits, without rounding."""
    if type(written) not in (int, float) or written != written // 1:
        return None
    number = int(written)
    if abs(number) >= 10**WIDE.precision:
        return None
    kind = INTEGER if -(1 << 63) <= number < 1 << 63 else WIDE
    scalar = pa.scalar(number if kind == INTEGER else Decimal(number), kind)
    return Bound(kind, lambda _: scalar, number)


def wide_array(numbers: Iterable[int]) -> pa.Array:
    """(n,) whole numbers of at most 37 digits."""
    return pa.array([Decimal(number) for number in numbers], WIDE)


def of_all(step: Callable[[pa.Array], pa.Array], values: Values) -> Values:
    """A step of arrays, also of what is one value for all rows."""
    if isinstance(values, pa.Scalar):
        return step(pa.array([values], values.type))[0]
    return step(values)


def as_moment(text: str) -> pa.Scalar | None:
    """A moment as people write it, in UTC if they name no zone; None if it is none."""
    moment = parsed(pa.array([text]), MOMENT)[0]
    return moment if moment.is_valid else None


def whole(values: Values, batch: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
    """(n,) values, also of what is one for all rows."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values.cast(kind), batch.num_rows)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
