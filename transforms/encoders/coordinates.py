"""From rows to the few numbers of each that its user will report: the others are not even copied.

Which coordinates a user reports does not depend on the row, so it is drawn first, and only these
numbers are clipped, scaled and rounded. A row becomes one word for each of them, and the bound on
contributions, which comes later, moves words and not rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from transforms.encoders.attributes import Attribute, numeric, width
from transforms.encoders.block import CellBlock
from transforms.encoders.bounds import Rounding, scaled
from transforms.encoders.encoder import BATCH, Rows
from transforms.encoders.numbers import LARGEST_CELL
from transforms.encoders.rows import (
    LEFT_OUT,
    Absence,
    columns_of,
    looked_up,
    read_numbers,
    types_of,
    unusable_at,
)


class Choice(Protocol):
    """What chooses coordinates; `SampledCoordinates` does."""

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""

    @property
    def rounding(self) -> Rounding:
        """What rounds the number in one of them."""

    def choose(self, n: int, rng: RandomSource) -> NDArray[np.int64]:
        """(n, k) distinct coordinates of each of n users."""


@dataclass(frozen=True)
class CoordinateEncoder:
    """Each row to cells (n, k) of the coordinates that were drawn: coordinate * places + cell.

    Attributes:
        attributes: what a row consists of; numbers alone.
        choice: which of them are reported.
        absence: what stands in the place of numbers that cannot be used; a cell of its own is the
            last one of a coordinate.

    Raises:
        ValueError: rows have other numbers than are chosen from, or 32 bits do not hold a cell.
    """

    attributes: tuple[Attribute, ...]
    choice: Choice
    absence: Absence = LEFT_OUT
    kind: ClassVar = CellBlock
    batch_size: ClassVar = BATCH

    def __post_init__(self) -> None:
        choice, numbers = self.choice, width(self.attributes)
        if not choice.dimension == numbers > 0:
            raise ValueError(
                f"rows have {numbers} numbers, and coordinates are chosen of {choice.dimension}"
            )
        if not choice.dimension * self.places <= LARGEST_CELL:
            raise ValueError(
                f"{choice.dimension} coordinates of {self.places} cells each are more "
                f"than {LARGEST_CELL}; use fewer cells"
            )

    @property
    def places(self) -> int:
        """How many cells a coordinate has."""
        return self.choice.rounding.inputs + self.absence.hides

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.attributes)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return types_of(self.attributes)

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> CellBlock:
        coordinates = self.choice.choose(batch.num_rows, rng)
        numbers = rows.of(self._picked(batch, rows, coordinates)).reshape(-1)
        coordinates = rows.of(coordinates)
        flat, missing = coordinates.reshape(-1), np.isnan(numbers)
        low, high = self._limits
        # Rounded all the same where there is none: what is drawn tells nobody who has a number.
        usual = scaled(np.where(missing, low[flat], numbers), low[flat], high[flat])
        inner = self.choice.rounding.encode(usual, rng)
        inner = np.where(missing, np.uint32(self.places - 1), inner)
        cells = coordinates.astype(np.uint32) * np.uint32(self.places)
        return CellBlock(cells + inner.reshape(cells.shape), None)

    def _picked(
        self, batch: pa.RecordBatch, rows: Rows, coordinates: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """(n, k) the numbers that stand in given coordinates; NaN for none, if that is hidden."""
        flat, k = coordinates.reshape(-1), coordinates.shape[1]
        # Sorted by coordinate, each attribute is looked up once for all who report it; of narrow
        # integers the sort is a radix sort.
        order = np.argsort(flat.astype(np.min_scalar_type(self.choice.dimension)), kind="stable")
        ordered = flat[order]
        numbers = np.empty(flat.size)
        for start, attribute, spans in read_numbers(self.attributes, batch, rows, self.absence):
            first, last = np.searchsorted(ordered, [start, start + attribute.width])
            words = order[first:last]
            places = spans.starts[words // k] + flat[words] - start
            numbers[words] = looked_up(spans, places)
            if not self.absence.leaves_out:
                numbers[words[unusable_at(spans, attribute, words // k, places)]] = np.nan
        return self.absence.filled(numbers).reshape(coordinates.shape)

    @cached_property
    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(w,) the lower bound of each coordinate, and the upper one."""
        columns = numeric(self.attributes)
        ends = np.array([column.bounds for column in columns], np.float64)
        widths = [column.width for column in columns]
        return np.repeat(ends[:, 0], widths), np.repeat(ends[:, 1], widths)
