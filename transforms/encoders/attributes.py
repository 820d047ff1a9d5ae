"""What a row consists of: numbers, lists of numbers and categories, each from a declared column."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from transforms.columns import as_floats, is_numeric, null
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import Domain

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


class Spans(NamedTuple):
    """Rows of numbers as Arrow holds them: one array, and where in it each row begins and ends.

    Attributes:
        values: (m,) numbers of any dtype; NaN where a number is null, if it is a float.
        starts: (n,) where each row begins.
        lengths: (n,) how many numbers each row has.
        missing: (n,) which rows are null, or None if none is.
        holes: (m,) which numbers are null, or None if none is.
    """

    values: NDArray[Any]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    missing: NDArray[np.bool_] | None
    holes: NDArray[np.bool_] | None


@dataclass(frozen=True)
class Number:
    """One number, from a numeric column.

    Attributes:
        column: its name.
        bounds: what it is clipped to.

    >>> Number("age", Bounds(0.0, 100.0)).labels()
    ['age']
    """

    column: str
    bounds: Bounds
    # How many numbers of a row it is
    width: ClassVar[int] = 1
    # Of values that are written one by one
    kind: ClassVar[pa.DataType] = pa.float64()

    def labels(self) -> list[str]:
        """(width,) what its numbers are called."""
        return [self.column]

    def accepts(self, column: pa.DataType) -> bool:
        """Whether a column of this type holds it."""
        return is_numeric(column)

    def spans(self, column: pa.Array) -> Spans:
        """The numbers of a batch.

        Args:
            column: n values of a type that `accepts` admits.
        """
        n = len(column)
        missing = null(column)
        return Spans(as_floats(column), np.arange(n), np.ones(n, np.int64), missing, None)


@dataclass(frozen=True)
class NumberList:
    """Several numbers, from a column of lists of them, or of bytes that stand for 0 .. 255.

    Attributes:
        column: its name.
        length: how many numbers each list must have.
        bounds: what every one of them is clipped to.

    >>> NumberList("pixels", 2, Bounds(0.0, 255.0)).labels()
    ['pixels[0]', 'pixels[1]']
    """

    column: str
    length: int
    bounds: Bounds
    # Of values that are written one by one
    kind: ClassVar[pa.DataType] = pa.list_(pa.float64())

    @property
    def width(self) -> int:
        """How many numbers of a row it is."""
        return self.length

    def labels(self) -> list[str]:
        """(width,) what its numbers are called."""
        return [f"{self.column}[{index}]" for index in range(self.length)]

    def accepts(self, column: pa.DataType) -> bool:
        """Whether a column of this type can hold it; a type of fixed size must have its length."""
        if any(test(column) for test in _LISTS):
            fixed = column.list_size if pa.types.is_fixed_size_list(column) else self.length
            return is_numeric(column.value_type) and fixed == self.length
        if pa.types.is_fixed_size_binary(column):
            return bool(column.byte_width == self.length)
        return any(test(column) for test in _BINARIES)

    def spans(self, column: pa.Array) -> Spans:
        """The numbers of a batch.

        Args:
            column: n lists of a type that `accepts` admits.
        """
        offsets, flat = _binary(column) if _is_binary(column) else _lists(column)
        first = int(offsets[0]) if len(offsets) else 0
        flat = flat.slice(first, int(offsets[-1]) - first)  # of a row group these rows alone
        return Spans(
            _as_numbers(flat), offsets[:-1] - first, np.diff(offsets), null(column), null(flat)
        )


@dataclass(frozen=True)
class Category:
    """One of several declared values.

    Attributes:
        column: its name.
        domain: the declared values.
    """

    column: str
    domain: Domain

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.domain.size

    @property
    def kind(self) -> pa.DataType:
        """Of values that are written one by one."""
        return self.domain.kind

    def accepts(self, column: pa.DataType) -> bool:
        """Whether a column of this type can hold the declared values."""
        return self.domain.accepts(column)


Attribute = Number | NumberList | Category


def numeric(attributes: Iterable[Attribute]) -> tuple[Number | NumberList, ...]:
    """Those that are numbers, in declared order."""
    return tuple(one for one in attributes if not isinstance(one, Category))


def categorical(attributes: Iterable[Attribute]) -> tuple[Category, ...]:
    """Those that are categories, in declared order."""
    return tuple(one for one in attributes if isinstance(one, Category))


def width(attributes: Iterable[Attribute]) -> int:
    """How many numbers a row has."""
    return sum(attribute.width for attribute in numeric(attributes))


def _as_numbers(column: pa.Array) -> NDArray[Any]:
    """Numbers as Arrow holds them, where numpy can look at them; elsewhere as doubles."""
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    # Without a copy: of images this is most of what reading costs.
    if plain and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return as_floats(column)


def _is_binary(column: pa.Array) -> bool:
    return any(test(column.type) for test in _BINARIES)


def _lists(column: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        return size * (column.offset + np.arange(len(column) + 1)), column.values
    return column.offsets.to_numpy().astype(np.int64), column.values


def _binary(column: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """The same of strings of bytes."""
    if pa.types.is_fixed_size_binary(column.type):
        offsets = column.type.byte_width * (column.offset + np.arange(len(column) + 1))
        data = column.buffers()[1]
    else:
        column = column.cast(pa.large_binary())
        _, ends, data = column.buffers()
        offsets = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
    length = data.size if data is not None else 0
    return offsets, pa.Array.from_buffers(pa.uint8(), length, [None, data])
