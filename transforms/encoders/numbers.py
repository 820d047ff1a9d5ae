"""From numbers to cells: clipped to declared bounds, and rounded to a grid by a coin."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from transforms.columns import as_floats, decoded, null, plain
from transforms.encoders import specification
from transforms.encoders.block import CellBlock
from transforms.encoders.bounds import Bounds, Rounding
from transforms.encoders.domain import Domain
from transforms.encoders.encoder import BATCH, NULL_VALUE, Rows

NOT_A_NUMBER = "value is not a number"
INFINITE = "infinite value"
NULL_GROUP = "null group"
OUTSIDE_GROUPS = "outside the groups"

LARGEST_CELL = 1 << 32  # cells travel in 32 bits


@dataclass(frozen=True)
class GroupColumn:
    """A second column, whose value says which of several means a number belongs to.

    Attributes:
        column: its name.
        groups: the declared groups.
        instead: the group of rows that are in none of them, and of those whose number cannot be
            told; None to leave the former out, and counted.
    """

    column: str
    groups: Domain
    instead: int | None = None

    @property
    def size(self) -> int:
        """How many groups there are."""
        return self.groups.size + (self.instead is not None)

    def encode(self, batch: pa.RecordBatch, rows: Rows) -> NDArray[np.int64]:
        """(n,) groups, below 0 in rejected rows."""
        groups = self.groups.encode(plain(batch.column(self.column)))
        if self.instead is not None:
            groups = np.where(groups < 0, self.instead, groups)  # may be the column's own memory
        rows.reject(NULL_GROUP, groups == -1)
        rows.reject(OUTSIDE_GROUPS, groups == -2)
        return groups


@dataclass(frozen=True)
class NumberEncoder:
    """Each number to a cell, or with groups to group * inputs + cell; coins round it.

    How many numbers were clipped is not counted, for such a count tells of single rows where
    bounds are chosen to single them out.

    Attributes:
        column: the name of the column.
        bounds: what numbers are clipped to.
        rounding: what takes them to cells.
        groups: the column that says which mean a number belongs to, or None for one mean.
        instead: the cell of numbers that cannot be used, or None to leave these out, and counted.
        fill: the number in the place of one that cannot be used, or None for none.

    Raises:
        ValueError: groups and cells together are more than 32 bits hold.
    """

    column: str
    bounds: Bounds
    rounding: Rounding
    groups: GroupColumn | None = None
    instead: int | None = None
    fill: float | None = None
    kind: ClassVar = CellBlock
    batch_size: ClassVar = BATCH

    def __post_init__(self) -> None:
        groups = 1 if self.groups is None else self.groups.size
        if not groups * self.width <= LARGEST_CELL:
            raise ValueError(
                f"{groups} groups of {self.width} cells each are more than {LARGEST_CELL}"
            )

    @property
    def width(self) -> int:
        """How many cells a group has."""
        return max(self.rounding.inputs, 0 if self.instead is None else self.instead + 1)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset([self.column] + ([] if self.groups is None else [self.groups.column]))

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        group = {} if self.groups is None else {self.groups.column: self.groups.groups.kind}
        return group | {self.column: pa.float64()}

    @property
    def specification(self) -> specification.NumbersSpecification | None:
        """What a client in another language needs; None if it is not written."""
        bounds, cells = self.bounds, getattr(self.rounding, "cells", None)
        if not isinstance(bounds, Bounds) or cells is None or self.groups is not None:
            return None
        return specification.NumbersSpecification(
            column=self.column, low=bounds.low, high=bounds.high, cells=int(cells),
            unusable=self.instead, fill=self.fill,
        )  # fmt: skip

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> CellBlock:
        groups = None if self.groups is None else self.groups.encode(batch, rows)
        rows.settle()  # a row is in no group whatever its number is
        numbers = self._numbers(batch.column(self.column), rows)
        groups = self._regrouped(groups, rows)
        values = rows.filled(rows.of(numbers), self.fill)
        # Clipped here, before anything is drawn: what is sent is the same for all values beyond a
        # bound.
        cells = rows.filled(self.rounding.encode(self.bounds.scale(values), rng), self.instead)
        if groups is not None:
            cells = cells + rows.of(groups).astype(np.uint32) * np.uint32(self.width)
        return CellBlock(cells, None)

    def _regrouped(self, groups: NDArray[np.int64] | None, rows: Rows) -> NDArray[np.int64] | None:
        """(n,) groups, those of numbers that cannot be used hidden with them."""
        if groups is None or self.groups is None or self.groups.instead is None:
            return groups
        return groups if self.instead is None else np.where(rows.kept, groups, self.groups.instead)

    def _numbers(self, column: pa.Array, rows: Rows) -> NDArray[np.float64]:
        """(n,) numbers; those of rows that are used are finite."""
        column = decoded(column)
        numbers = as_floats(column)
        rows.reject(NULL_VALUE, null(column))
        if not np.isfinite(numbers).all():
            rows.reject(NOT_A_NUMBER, np.isnan(numbers))
            rows.reject(INFINITE, np.isinf(numbers))
        return numbers
