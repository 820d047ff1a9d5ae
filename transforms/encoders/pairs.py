"""Two numbers of each row, for whoever divides the total of one by that of the other."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from mechanisms.randomness import RandomSource
from transforms.columns import as_floats, decoded
from transforms.encoders.block import AmountBlock
from transforms.encoders.encoder import Rows
from transforms.encoders.groups import GroupEncoder


@dataclass(frozen=True)
class PairEncoder(GroupEncoder):
    """Each row to its group with one number, and to a group behind all others with the other one.

    Attributes:
        over: the column of the other numbers, which are at least 0; None counts rows.
        scales: what numbers are multiplied by, and the others.
    """

    over: str | None = None
    scales: tuple[float, float] = (1.0, 1.0)

    specification = None  # type: ignore[assignment]  # no client of another language knows it

    @property
    def columns(self) -> frozenset[str]:
        return super().columns | ({self.over} if self.over else set())

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return super().line_types | ({self.over: pa.float64()} if self.over else {})

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> AmountBlock:
        one = cast(AmountBlock, super().encode(batch, rows, rng))
        others = np.ones(batch.num_rows)
        if self.over:
            others = np.maximum(as_floats(decoded(batch.column(self.over))), 0)
        numbers = one.amounts * self.scales[0], rows.of(others) * self.scales[1]
        amounts = np.stack([np.where(np.isfinite(x), x, np.nan) for x in numbers], axis=1)
        return one._replace(cells=np.stack([one.cells, one.cells + self.size], 1), amounts=amounts)
