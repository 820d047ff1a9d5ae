"""One notion of what a column holds, however the files of a log lay it out.

The files of a month come from many writers: one has int32, the next int64, one writes doubles where
a value was missing, one a column of nulls alone, and one has no rows. They are read as one type.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MICROS = pa.timestamp("us", "UTC")

_TEXTS = {pa.string(), pa.large_string(), pa.string_view()}
_BYTES = {pa.binary(), pa.large_binary(), pa.binary_view()}
_UNVIEWED = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_DATES = {pa.date32(), pa.date64()}


class Agreed(NamedTuple):
    """As what columns are read whose files lay them out differently.

    Attributes:
        types: (column, type) each.
        of_nulls: whether that is said of columns without any type alone, and others stay.
        unseen: whether nobody has looked at all files: each is held to the types.
    """

    types: tuple[tuple[str, pa.DataType], ...] = ()
    of_nulls: bool = False
    unseen: bool = False

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of one file as all files are read."""
        for column, kind in self.types:
            place = schema.get_field_index(column)
            if place >= 0 and self._applies(schema.field(place).type):
                schema = schema.set(place, pa.field(column, kind))
        return schema

    def read(self, table: pa.Table, columns: Iterable[str] = ()) -> pa.Table:
        """A table of one file as all files are read.

        Args:
            table: of it.
            columns: that it should have.

        Raises:
            DisagreeError: it cannot be, and nobody has looked at the file before.
        """
        if self.unseen:
            self._require_alike(table.schema, columns)
        for column, kind in self.types:
            place = table.schema.get_field_index(column)
            if place >= 0 and self._applies(table.field(place).type):
                table = table.set_column(place, column, read_as(table.column(place), kind))
        if self.of_nulls:  # a stream takes rows apart by windows, and Arrow takes no view apart
            for place, field in enumerate(table.schema):
                if (kind := _UNVIEWED.get(field.type)) is not None:
                    table = table.set_column(place, field.name, table.column(place).cast(kind))
        return table

    def _require_alike(self, schema: pa.Schema, columns: Iterable[str]) -> None:
        known = dict(self.types)
        for name in columns:
            if (place := schema.get_field_index(name)) < 0:
                raise DisagreeError(f"it has no column {name!r}, or several")
            field = schema.field(place)
            kind = known.get(field.name, field.type)
            if agreed((field.type, kind)) != kind:
                raise DisagreeError(
                    f"column {field.name!r} holds {kind_of(field.type)} ({field.type}), but "
                    f"{kind_of(kind)} ({kind}) in the files that were looked at first; write the "
                    "files with one schema"
                )

    def _applies(self, kind: pa.DataType) -> bool:
        return not self.of_nulls or bool(pa.types.is_null(kind))


AS_WRITTEN = Agreed()


class DisagreeError(Exception):
    """A file holds another thing in a column than those that were looked at."""


def of_log(schemas: Sequence[pa.Schema], rows: Sequence[int]) -> Agreed:
    """The columns of several files that are not laid out alike, and may be read as one.

    Args:
        schemas: of n files.
        rows: of n files: one without any agrees with all, if there are others.
    """
    whole = distinct(s for s, number in zip(schemas, rows, strict=True) if number)
    types_of: dict[str, list[pa.DataType]] = {}
    for schema in whole or distinct(schemas):
        for field in schema:
            types_of.setdefault(field.name, []).append(field.type)
    laid_out: dict[str, set[pa.DataType]] = {}
    for schema in distinct(schemas):
        for field in schema:
            laid_out.setdefault(field.name, set()).add(field.type)
    agree = ((column, agreed(types)) for column, types in types_of.items())
    return Agreed(
        tuple(
            (column, kind)
            for column, kind in agree
            if kind is not None and laid_out[column] != {kind}
        )
    )


def of_some(schemas: Sequence[pa.Schema], rows: Sequence[int]) -> Agreed:
    """The columns of files of which some were looked at: of each kind the widest type.

    Args:
        schemas, rows: as of `of_log`, of these.
    """
    common = of_log(schemas, rows)
    fields = {field.name: field.type for schema in schemas for field in common.schema(schema)}
    wide = (
        (name, agreed((kind, _WIDEST.get(kind_of(kind), kind)))) for name, kind in fields.items()
    )
    return Agreed(tuple((name, kind or fields[name]) for name, kind in wide), unseen=True)


def shared(schemas: Iterable[pa.Schema]) -> Iterator[pa.Schema]:
    """The same schemas, one object for those alike: they are pickled for each worker."""
    known: dict[pa.Schema, pa.Schema] = {}
    last: pa.Schema | None = None
    for schema in schemas:
        if schema != last:
            last = known.setdefault(schema, schema)
        yield last


def distinct(schemas: Iterable[pa.Schema]) -> list[pa.Schema]:
    """Schemas, one object of those alike: to hash one takes as long as a tenth of a footer."""
    objects = {id(schema): schema for schema in schemas}
    return [*dict.fromkeys(objects.values())]


def of_stream(kinds: Mapping[str, str]) -> Agreed:
    """What columns of nulls alone are read as in a stream, by the kinds of those before."""
    known = ((column, _OF_KIND[kind]) for column, kind in kinds.items() if kind in _OF_KIND)
    return Agreed(tuple(known), of_nulls=True)


def kind_of(column: pa.DataType) -> str:
    """What a column holds, however it is laid out.

    >>> kind_of(pa.int8()), kind_of(pa.dictionary(pa.int32(), pa.large_string()))
    ('integers', 'text')
    >>> kind_of(pa.float32()), kind_of(pa.decimal128(9, 2)), kind_of(pa.null())
    ('numbers', 'numbers', 'nothing')
    """
    if pa.types.is_dictionary(column):
        return kind_of(column.value_type)
    for test, name in _NAMES:
        if test(column):
            return name
    if _is_list(column):
        return f"lists of {kind_of(column.value_type)}"
    return str(column)


def alike(one: str, other: str) -> bool:
    """Whether columns of two kinds, as `kind_of` names them, may be one column of a log.

    >>> alike("integers", "numbers"), alike("nothing", "text"), alike("integers", "text")
    (True, True, False)
    """
    return one == other or "nothing" in (one, other) or {one, other} <= {"integers", "numbers"}


def agreed(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type as which columns of several files are read; None if they do not hold the same.

    Args:
        types: of the column in each file.

    >>> agreed([pa.int32(), pa.null(), pa.int64()]), agreed([pa.int32(), pa.float64()])
    (DataType(int64), DataType(double))
    >>> agreed([pa.int64(), pa.string()]) is None
    True
    """
    different = {*types}
    if len(different) == 1:
        return next(iter(different))
    there = {_value(one) for one in different if not pa.types.is_null(one)}
    if len(there) == 1:
        return next(iter(there))
    kinds = {kind_of(one) for one in there}
    if kinds == {"integers"}:
        # A signed and an unsigned number of 64 bits have no type that holds both.
        if not any(pa.types.is_uint64(one) for one in there):
            return pa.int64()
        return pa.uint64() if all(map(pa.types.is_unsigned_integer, there)) else None
    if kinds <= {"integers", "numbers"}:
        return pa.float64()
    if len(kinds) == 1 and all(map(_is_list, there)):
        items = agreed(one.value_type for one in there)
        return None if items is None else pa.large_list(items)
    return _WIDEST.get(next(iter(kinds))) if len(kinds) == 1 else None


def read_as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column of one file as the type that all have agreed on."""
    if column.type == kind:
        return column
    if not len(column):  # of any type: a file without rows agrees with all
        return pa.chunked_array([], kind)
    if pa.types.is_dictionary(column.type):
        decoded = pa.chunked_array(
            [chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type
        )
        return read_as(decoded, kind)
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pa.chunked_array([micros(chunk) for chunk in column.chunks], _micros(column.type))
    # Whole numbers beyond 2^53 and decimals go to the nearest double: they stand beside doubles.
    return column.cast(kind, safe=not pa.types.is_floating(kind))


def micros(column: pa.Array) -> pa.Array:
    """Timestamps in nanoseconds as microseconds, rounded down on both sides of 1970.

    A cast would round towards 1970: what was a nanosecond before midnight would be the next day.
    """
    if column.type.unit != "ns":
        return column
    raw = np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy()) // 1000
    known = pc.if_else(column.is_valid(), pa.array(raw), None)
    return known.cast(_micros(column.type))


def _micros(column: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", column.tz)


def _value(column: pa.DataType) -> pa.DataType:
    return column.value_type if pa.types.is_dictionary(column) else column


def _is_list(column: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(column)
        or pa.types.is_large_list(column)
        or pa.types.is_fixed_size_list(column)
    )


_OF_KIND = {
    "integers": pa.int64(), "numbers": pa.float64(), "text": pa.string(), "bool": pa.bool_(),
    "dates": pa.date32(), "timestamps": MICROS,
}  # fmt: skip
_WIDEST = {
    "integers": pa.int64(), "numbers": pa.float64(), "text": pa.large_string(),
    "bytes": pa.large_binary(), "dates": pa.date32(), "timestamps": MICROS,
}  # fmt: skip
_NAMES = (
    (pa.types.is_null, "nothing"),
    (pa.types.is_integer, "integers"),
    (lambda column: pa.types.is_floating(column) or pa.types.is_decimal(column), "numbers"),
    (lambda column: column in _TEXTS, "text"),
    (lambda column: column in _BYTES, "bytes"),
    (lambda column: column in _DATES, "dates"),
    (pa.types.is_timestamp, "timestamps"),
)
