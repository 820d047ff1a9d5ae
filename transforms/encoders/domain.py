"""The values that a column may hold, declared beforehand, and the index of each."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.columns import is_integer, is_text, value_type
from transforms.encoders.specification import MOST_VALUES, DeclaredDomain
from transforms.encoders.texts import Texts


class Domain(ABC):
    """The values a histogram may contain, declared beforehand: it must not come from the data."""

    other: bool

    @property
    @abstractmethod
    def declared(self) -> int:
        """How many values are declared, the bin for all others not counted."""

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.declared + self.other

    @abstractmethod
    def labels(self) -> pa.Array:
        """(declared,) the values in the order of their cells."""

    @property
    @abstractmethod
    def specification(self) -> DeclaredDomain:
        """What a client in another language needs to know of it."""

    @property
    def kind(self) -> pa.DataType:
        """Of values that are written one by one."""
        return pa.string()

    @abstractmethod
    def accepts(self, column: pa.DataType) -> bool:
        """Whether a column of this type can hold the declared values."""

    @abstractmethod
    def _indices(self, column: pa.Array) -> NDArray[np.int64]:
        """(n,) the index of each non-null value, or `declared` where it is none of them."""

    def place(self, text: str) -> int | None:
        """The cell of a value as people write it, or None if it was not declared.

        >>> IntegerRange(3, 5).place("4"), IntegerRange(3, 5).place("x")
        (1, None)
        """
        try:
            cell = int(self._indices(pa.array([text]).cast(self.kind))[0])
        except pa.ArrowInvalid:  # no integer
            return None
        return cell if cell < self.declared else None

    def encode(self, column: pa.Array) -> NDArray[np.int64]:
        """Cells of one column.

        Args:
            column: n values of a type that `accepts` admits; nulls, if any, outside its dictionary.

        Returns:
            (n,) int64: a cell, -1 for a null, or -2 for a value outside the domain. With `other`
            values outside the domain get the last cell instead.
        """
        if column.null_count:
            present = column.is_valid().to_numpy(zero_copy_only=False)
            cells = np.full(len(column), -1, np.int64)
            cells[present] = self._indices(column.drop_null())
        else:
            cells = self._indices(column)
        if self.other or cells.max(initial=-1) < self.declared:
            return cells
        return np.where(cells == self.declared, -2, cells)


@dataclass(frozen=True)
class IntegerRange(Domain):
    """The integers low .. high, both included and both within -2^62 .. 2^62.

    >>> IntegerRange(3, 5).encode(pa.array([3, 5, None, 6])).tolist()
    [0, 2, -1, -2]
    """

    low: int
    high: int
    other: bool = False
    kind: ClassVar[pa.DataType] = pa.int64()

    @property
    def declared(self) -> int:
        return self.high - self.low + 1

    @property
    def specification(self) -> DeclaredDomain:
        return DeclaredDomain(declared=self.declared, other=self.other, low=str(self.low))

    def labels(self) -> pa.Array:
        return pa.array(np.arange(self.low, self.high + 1))

    def accepts(self, column: pa.DataType) -> bool:
        return is_integer(column)

    def _indices(self, column: pa.Array) -> NDArray[np.int64]:
        if pa.types.is_dictionary(column.type):
            return self._indices(column.dictionary)[column.indices.to_numpy()]
        values = column.to_numpy(zero_copy_only=False)
        # The ends alone tell of most batches that all lies inside, and take no memory.
        if not len(values) or self.low <= values.min() <= values.max() <= self.high:
            indices = values.astype(np.int64, copy=False)
            return indices - self.low if self.low else indices
        inside = (values >= self.low) & (values <= self.high)
        indices = np.full(len(values), self.declared, np.int64)
        indices[inside] = values[inside].astype(np.int64) - self.low
        return indices


@dataclass(frozen=True)
class DeclaredValues(Domain):
    """A list of values, as text; for an integer column they are read as integers.

    >>> DeclaredValues(("EWR", "JFK"), other=True).encode(pa.array(["JFK", "LGA"])).tolist()
    [1, 2]
    """

    values: Sequence[str]
    other: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", Texts.of(self.values))

    @property
    def _texts(self) -> Texts:
        return cast(Texts, self.values)

    @property
    def declared(self) -> int:
        return len(self.values)

    @property
    def specification(self) -> DeclaredDomain:
        listed = list(self.values) if self.declared <= MOST_VALUES else None
        lines = "".join(f"{value}\n" for value in self.labels().to_pylist()).encode()
        return DeclaredDomain(
            declared=self.declared, other=self.other, values=listed,
            sha256=hashlib.sha256(lines).hexdigest(),
        )  # fmt: skip

    def labels(self) -> pa.Array:
        return self._texts.column

    def accepts(self, column: pa.DataType) -> bool:
        if is_integer(column):
            return self._texts.integers is not None
        if pa.types.is_boolean(value_type(column)):
            return {"true", "false"}.issuperset(self.values)
        return is_text(column)

    def _indices(self, column: pa.Array) -> NDArray[np.int64]:
        if pa.types.is_dictionary(column.type):
            # Look up each distinct value once, then follow the indices.
            return self._indices(column.dictionary)[column.indices.to_numpy()]
        if pa.types.is_integer(column.type):
            if pa.types.is_uint64(column.type):  # what int64 cannot hold was not declared
                largest = pa.scalar((1 << 63) - 1, pa.uint64())
                column = pc.if_else(pc.greater(column, largest), None, column)
            return self._texts.places_of_integers(column.cast(pa.int64()))
        return self._texts.places(column.cast(pa.string()))


def integer_range(text: str) -> tuple[int, int] | None:
    """The bounds in "LOW..HIGH", or None if the text is not of that form.

    >>> integer_range("-3..12"), integer_range("airports.txt")
    ((-3, 12), None)
    """
    low, dots, high = text.partition("..")
    try:
        return (int(low), int(high)) if dots else None
    except ValueError:
        return None
