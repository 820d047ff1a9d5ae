"""From numbers to bins between declared bounds, for whoever counts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mechanisms.randomness import RandomSource
from transforms.columns import as_floats, decoded
from transforms.encoders import specification
from transforms.encoders.block import CellBlock
from transforms.encoders.bounds import Bounds
from transforms.encoders.encoder import OneColumn, Rows


@dataclass(frozen=True)
class BinEncoder(OneColumn):
    """Each number to its bin; nothing is drawn, or left out.

    A bin holds its lower end, and the last one the upper bound as well. A number that is missing or
    not finite is of one more bin.

    Attributes:
        column: the name of the column.
        bounds: what numbers are clipped to.
        bins: how many bins lie between them, all of one width.

    >>> from mechanisms.randomness import SeededRandom
    >>> batch = pa.record_batch({"x": [0.0, 4.9, 5.0, 99.0, None]})
    >>> BinEncoder("x", Bounds(0.0, 10.0), 2).encode(batch, Rows(5), SeededRandom(0)).cells.tolist()
    [0, 0, 1, 1, 2]
    """

    bounds: Bounds
    bins: int

    @property
    def specification(self) -> specification.BinsSpecification:
        """What a client in another language needs."""
        low, high = self.bounds
        return specification.BinsSpecification(
            column=self.column, low=low, high=high, bins=self.bins
        )

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> CellBlock:
        numbers = as_floats(decoded(batch.column(self.column)))
        usable = np.isfinite(numbers)
        inside = np.where(usable, np.clip(numbers, *self.bounds), self.bounds.low)
        # By the edges themselves: a product may round a number over the edge that it lies on.
        cells = np.searchsorted(self.edges[1:-1], inside, side="right")
        return CellBlock(rows.of(np.where(usable, cells, self.bins)).astype(np.uint32), None)

    @property
    def edges(self) -> np.ndarray:
        """(bins + 1,) where bins begin and end."""
        low, half = self.bounds.low, self.bounds.half
        return np.append(low + 2 * half * np.arange(self.bins) / self.bins, self.bounds.high)
