"""From rows to the few numbers of each that its user will report: the others are not even copied.

Which coordinates a user reports does not depend on the row, so it is drawn first, and only these
numbers are clipped, scaled and rounded. A row becomes one word for each of them, and the bound on
contributions, which comes later, moves words and not rows.
"""

from __future__ import annotations

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
from transforms.encoders.rows import columns_of, looked_up, read_numbers


class Choice(Protocol):
    """What chooses coordinates; `SampledCoordinates` does."""

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""

    @property
    def mechanism(self) -> Rounding:
        """What rounds the number in one of them."""

    def choose(self, n: int, rng: RandomSource) -> NDArray[np.int64]:
        """(n, k) distinct coordinates of each of n users."""


@dataclass(frozen=True)
class CoordinateEncoder:
    """Each row to cells (n, k) of the coordinates that were drawn: coordinate * inputs + cell.

    Attributes:
        attributes: what a row consists of; numbers alone.
        choice: which of them are reported.

    Raises:
        ValueError: rows have other numbers than are chosen from, or 32 bits do not hold a cell.
    """

    attributes: tuple[Attribute, ...]
    choice: Choice
    kind: ClassVar = CellBlock
    batch_size: ClassVar = BATCH

    def __post_init__(self) -> None:
        choice, numbers = self.choice, width(self.attributes)
        if not choice.dimension == numbers > 0:
            raise ValueError(
                f"rows have {numbers} numbers, and coordinates are chosen of {choice.dimension}"
            )
        if not choice.dimension * choice.mechanism.inputs <= LARGEST_CELL:
            raise ValueError(
                f"{choice.dimension} coordinates of {choice.mechanism.inputs} cells each are more "
                f"than {LARGEST_CELL}; use fewer cells"
            )

    @property
    def columns(self) -> frozenset[str]:
        return columns_of(self.attributes)

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> CellBlock:
        coordinates = self.choice.choose(batch.num_rows, rng)
        numbers = rows.of(self._picked(batch, rows, coordinates)).reshape(-1)
        coordinates = rows.of(coordinates)
        rounding, flat = self.choice.mechanism, coordinates.reshape(-1)
        cells = coordinates.astype(np.uint32) * np.uint32(rounding.inputs)
        low, high = self._limits
        cells += rounding.encode(scaled(numbers, low[flat], high[flat]), rng).reshape(cells.shape)
        return CellBlock(cells, None)

    def _picked(
        self, batch: pa.RecordBatch, rows: Rows, coordinates: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """(n, k) the numbers that stand in given coordinates."""
        flat, k = coordinates.reshape(-1), coordinates.shape[1]
        # Sorted by coordinate, each attribute is looked up once for all who report it; of narrow
        # integers the sort is a radix sort.
        order = np.argsort(flat.astype(np.min_scalar_type(self.choice.dimension)), kind="stable")
        ordered = flat[order]
        numbers = np.empty(flat.size)
        for start, attribute, spans in read_numbers(self.attributes, batch, rows):
            first, last = np.searchsorted(ordered, [start, start + attribute.width])
            words = order[first:last]
            numbers[words] = looked_up(spans, spans.starts[words // k] + flat[words] - start)
        return numbers.reshape(coordinates.shape)

    @cached_property
    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(w,) the lower bound of each coordinate, and the upper one."""
        columns = numeric(self.attributes)
        ends = np.array([column.bounds for column in columns], np.float64)
        widths = [column.width for column in columns]
        return np.repeat(ends[:, 0], widths), np.repeat(ends[:, 1], widths)
