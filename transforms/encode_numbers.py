"""From numbers to cells: clipped to declared bounds, and rounded to a grid by a coin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, SecureRandom
from transforms.blocks import Generator
from transforms.encode import (
    NULL_USER,
    NULL_VALUE,
    CellBlock,
    Domain,
    _plain,
)
from transforms.progress import ROWS, tally
from transforms.users import UserDigest

NOT_A_NUMBER = "value is not a number"
INFINITE = "infinite value"
NULL_GROUP = "null group"
OUTSIDE_GROUPS = "outside the groups"

_BLOCK = 1 << 16  # rows encoded at a time
_LARGEST_CELL = 1 << 32  # cells travel in 32 bits


class Rounding(Protocol):
    """What takes values in [-1, 1] to cells; every mechanism for means does."""

    @property
    def inputs(self) -> int:
        """How many cells there are."""

    def encode(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[np.uint32]:
        """(n,) values in [-1, 1] to (n,) cells in 0 .. inputs - 1."""


class Scale(Protocol):
    """What prepares numbers for rounding."""

    def scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) finite numbers to (n,) that the rounding takes."""


class Bounds(NamedTuple):
    """Declared bounds; what lies beyond them is moved to the nearer one.

    Attributes:
        low: L, finite.
        high: U, finite and above L by a finite amount.

    >>> bounds = Bounds(0.0, 10.0)
    >>> bounds.scale(np.array([0.0, 5.0, 99.0])).tolist()
    [-1.0, 0.0, 1.0]
    >>> bounds.unscale(0.5)
    7.5
    """

    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the distance between them: what one unit of the scaled value is."""
        return self.high / 2 - self.low / 2

    def scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) finite numbers, clipped and mapped to [-1, 1]."""
        # Differences of clipped numbers never round past the difference of the bounds.
        shifted = np.clip(values, self.low, self.high)
        shifted -= self.low
        shifted /= self.high - self.low
        shifted *= 2
        shifted -= 1
        return shifted

    def unscale(self, value: float) -> float:
        """A number on the scale of [-1, 1], in the units of the bounds; it may lie beyond them."""
        return self.low + (value + 1) * self.half


@dataclass(frozen=True)
class GroupColumn:
    """A second column, whose value says which of several means a number belongs to.

    Attributes:
        column: its name.
        groups: the declared groups.
    """

    column: str
    groups: Domain


def is_numeric(column: pa.DataType) -> bool:
    """Whether a column of this type holds numbers: integers, floats, decimals; not booleans."""
    if pa.types.is_dictionary(column):
        return is_numeric(column.value_type)
    return any(
        test(column) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    )


@typehints.with_input_types(pa.Table)
@typehints.with_output_types(CellBlock)
class EncodeNumbersDoFn(beam.DoFn):
    """Tables to blocks of cells; rows that cannot be used are counted under their reason.

    With groups a cell is group * inputs + the number's own cell. The main output holds
    `CellBlock`s; the output tagged `TALLIES` holds (name, count) pairs. Neither a value nor a user
    ever reaches the tallies; how many numbers were clipped is not counted, for such a count tells
    of single rows where bounds are chosen to single them out.
    """

    TALLIES = "tallies"

    def __init__(
        self,
        column: str,
        bounds: Scale,
        rounding: Rounding,
        users: UserDigest | None,
        groups: GroupColumn | None = None,
        open_rng: Generator = SecureRandom,
    ) -> None:
        if groups is not None and not groups.groups.size * rounding.inputs <= _LARGEST_CELL:
            raise ValueError(
                f"{groups.groups.size} groups of {rounding.inputs} cells each are more than "
                f"{_LARGEST_CELL}"
            )
        self._column, self._bounds, self._rounding = column, bounds, rounding
        self._users, self._groups, self._open_rng = users, groups, open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, table: pa.Table) -> Iterator[CellBlock | beam.pvalue.TaggedOutput]:
        counted: Counter[str] = Counter()
        for batch in table.to_batches(max_chunksize=_BLOCK):
            block = self._encode(batch, counted)
            if block.cells.size:
                yield block
        for name, amount in counted.items():
            tally(name, amount)
            yield beam.pvalue.TaggedOutput(self.TALLIES, (name, amount))

    def _encode(self, batch: pa.RecordBatch, counted: Counter[str]) -> CellBlock:
        rows = _Rows(batch.num_rows, counted)
        users, groups = self._digests(batch, rows), self._places(batch, rows)
        values = self._values(batch, rows)
        if not rows.kept.all():
            values = values[rows.kept]
            users = None if users is None else users[rows.kept]
            groups = None if groups is None else groups[rows.kept]
        cells = self._rounding.encode(self._bounds.scale(values), self._rng)
        if groups is not None:
            cells = cells + groups.astype(np.uint32) * np.uint32(self._rounding.inputs)
        return CellBlock(cells, users)

    def _digests(self, batch: pa.RecordBatch, rows: _Rows) -> NDArray[np.uint64] | None:
        """(n,) users, if they are protected."""
        if self._users is None:
            return None
        ids = _plain(batch.column(self._users.column))
        if ids.null_count:
            rows.reject(NULL_USER, _null(ids))
        return self._users(ids)

    def _places(self, batch: pa.RecordBatch, rows: _Rows) -> NDArray[np.int64] | None:
        """(n,) groups, if there are any."""
        if self._groups is None:
            return None
        groups = self._groups.groups.encode(_plain(batch.column(self._groups.column)))
        rows.reject(NULL_GROUP, groups == -1)
        rows.reject(OUTSIDE_GROUPS, groups == -2)
        return groups

    def _values(self, batch: pa.RecordBatch, rows: _Rows) -> NDArray[np.float64]:
        """(n,) numbers; those of kept rows are finite."""
        column = _decoded(batch.column(self._column))
        values = as_floats(column)
        if column.null_count:
            rows.reject(NULL_VALUE, _null(column))
        if not np.isfinite(values).all():
            rows.reject(NOT_A_NUMBER, np.isnan(values))
            rows.reject(INFINITE, np.isinf(values))
        return values


class _Rows:
    """Which rows of a batch are used; each of the others is counted under its first reason."""

    def __init__(self, size: int, counted: Counter[str]) -> None:
        counted[ROWS] += size
        self.kept, self._counted = np.ones(size, bool), counted

    def reject(self, reason: str, rows: NDArray[np.bool_]) -> None:
        """Drop rows that are not dropped yet."""
        amount = int(np.count_nonzero(rows & self.kept))
        if amount:
            self._counted[reason] += amount
            self.kept &= ~rows


def as_floats(column: pa.Array) -> NDArray[np.float64]:
    """(n,) a column of numbers as doubles, to which nulls are NaN.

    Args:
        column: of a type that `is_numeric` admits.
    """
    column = _decoded(column)
    if not pa.types.is_float64(column.type):
        # Integers beyond 2^53 go to the nearest double: nobody measures so finely.
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _decoded(column: pa.Array) -> pa.Array:
    """The column without its dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _null(column: pa.Array) -> NDArray[np.bool_]:
    """(n,) which entries are null."""
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
