"""Columns as Arrow holds them, made ready for numpy."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second

# Views, which few of Arrow's kernels take, and what holds the same.
_UNVIEWED = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def type_name(column: pa.DataType) -> str:
    """A column's type as it is said to people.

    >>> type_name(pa.int32()), type_name(pa.struct([]))
    ('int32', 'records, maps or values of several types')
    """
    # As which columns of Avro are read whose values are of no use here: struct<> says nothing.
    return "records, maps or values of several types" if column == pa.struct([]) else str(column)


def plain(column: pa.Array) -> pa.Array:
    """The column, without views, or a dictionary that hides nulls or is longer than the column."""
    column = _unviewed(column)
    if pa.types.is_dictionary(column.type):
        dictionary = column.dictionary
        # An empty one serves a column of nulls alone, and has no entry to stand for them.
        if dictionary.null_count or not 0 < len(dictionary) <= len(column):
            return column.dictionary_decode()
    return column


def decoded(column: pa.Array) -> pa.Array:
    """The column without its dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def null(column: pa.Array) -> NDArray[np.bool_] | None:
    """(n,) which entries are null, or None if none is."""
    if not column.null_count:
        return None
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def as_texts(column: pa.Array) -> pa.Array:
    """A column of strings, or of integers as their decimal digits, as large strings."""
    return decoded(plain(column)).cast(pa.large_string())


def bytes_of(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of n large strings without nulls, and (n + 1,) where among them each ends."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), ends


def value_type(column: pa.DataType) -> pa.DataType:
    """The type of what a column holds, behind its dictionary if it has one."""
    return column.value_type if pa.types.is_dictionary(column) else column


def is_integer(column: pa.DataType) -> bool:
    """Whether a column of this type holds whole numbers."""
    return bool(pa.types.is_integer(value_type(column)))


def is_numeric(column: pa.DataType) -> bool:
    """Whether a column of this type holds numbers: integers, floats, decimals; not booleans."""
    kind = value_type(column)
    return bool(is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(column: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    return value_type(column) in (pa.string(), pa.large_string(), pa.string_view())


def is_moment(column: pa.DataType) -> bool:
    """Whether a column of this type says when something was."""
    return bool(pa.types.is_timestamp(value_type(column)) or pa.types.is_date(value_type(column)))


def as_floats(column: pa.Array) -> NDArray[np.float64]:
    """(n,) a column of numbers as doubles, to which nulls are NaN; of moments, seconds since 1970.

    Args:
        column: of a type that `is_numeric` or `is_moment` admits.
    """
    if pa.types.is_float64(column.type) and not column.null_count:
        # Of 400 columns, a few thousand rows at a time, most of it is asking for types.
        return np.asarray(column.to_numpy())
    column, scale = decoded(column), 1
    if is_moment(column.type):
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("s"))
        scale = _UNITS[column.type.unit]
        column = column.cast(pa.int64())
    if not pa.types.is_float64(column.type):
        # Integers beyond 2^53 go to the nearest double: nobody measures so finely.
        column = column.cast(pa.float64(), safe=False)
    numbers = np.asarray(column.to_numpy(zero_copy_only=False))
    return numbers if scale == 1 else numbers / scale


def _unviewed(column: pa.Array) -> pa.Array:
    """The same in a layout that every kernel takes."""
    if pa.types.is_dictionary(column.type) and column.type.value_type in _UNVIEWED:
        return pa.DictionaryArray.from_arrays(column.indices, _unviewed(column.dictionary))
    kind = _UNVIEWED.get(column.type)
    return column if kind is None else column.cast(kind)
