"""From numbers to bins between declared bounds, of everybody or by groups, for who counts them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.randomness import RandomSource
from transforms.columns import as_floats, decoded
from transforms.encoders import specification
from transforms.encoders.block import AmountBlock, CellBlock
from transforms.encoders.bounds import Bounds
from transforms.encoders.encoder import OneColumn, Rows
from transforms.encoders.groups import GroupEncoder


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

    value_type = pa.float64()

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
        cells = binned(as_floats(decoded(batch.column(self.column))), self.bounds, self.bins)
        return CellBlock(rows.of(cells).astype(np.uint32), None)


def edges_of(bounds: Bounds, bins: int) -> Floats:
    """(bins + 1,) where bins of one width begin and end."""
    return np.append(bounds.low + 2 * bounds.half * np.arange(bins) / bins, bounds.high)


def binned(numbers: Floats, bounds: Bounds, bins: int) -> NDArray[np.int64]:
    """(n,) the bins of numbers; of one that is not finite one more."""
    usable = np.isfinite(numbers)
    inside = np.where(usable, np.clip(numbers, *bounds), bounds.low)
    # By the edges themselves: a product may round a number over the edge that it lies on.
    cells = np.searchsorted(edges_of(bounds, bins)[1:-1], inside, side="right")
    return np.where(usable, cells, bins)


@dataclass(frozen=True, kw_only=True)
class GroupedBinEncoder(GroupEncoder):
    """Each row to the bin of its number in its group, the bins of one group after those of another.

    A number that is missing or not finite is of one more bin, behind all groups.

    Attributes:
        bounds: what numbers are clipped to.
        bins: how many bins a group has.
    """

    bounds: Bounds
    bins: int

    @property
    def kind(self) -> type[Any]:
        return CellBlock

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> CellBlock:
        block = super().encode(batch, rows, rng)
        if not isinstance(block, AmountBlock):
            raise TypeError("bins are of numbers, and no column of them is named")
        bins = binned(block.amounts, self.bounds, self.bins)
        cells = block.cells.astype(np.int64) * self.bins + bins
        cells[bins == self.bins] = self.size * self.bins
        return CellBlock(cells.astype(np.uint32), None, block.applies)
