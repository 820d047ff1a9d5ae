"""From values of a declared domain to cells."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mechanisms.randomness import RandomSource
from transforms.columns import plain
from transforms.encoders import specification
from transforms.encoders.block import CellBlock
from transforms.encoders.domain import Domain
from transforms.encoders.encoder import BATCH, NULL_VALUE, OUTSIDE_DOMAIN, OneColumn, Rows


@dataclass(frozen=True)
class ValueEncoder(OneColumn):
    """Each value to its index in the domain; nothing is drawn.

    Attributes:
        column: the name of the column.
        domain: the declared values.
        instead: the cell of values that cannot be used, or None to leave them out, and counted.

    >>> from mechanisms.randomness import SeededRandom
    >>> from transforms.encoders.domain import IntegerRange
    >>> batch, rows = pa.record_batch({"hour": [7, None, 99]}), Rows(3)
    >>> ValueEncoder("hour", IntegerRange(0, 23)).encode(batch, rows, SeededRandom(0)).cells
    array([7], dtype=uint32)
    >>> dict(rows.rejects)
    {'null value': 1, 'outside the domain': 1}
    """

    domain: Domain
    instead: int | None = None
    batch_size: ClassVar = 4 * BATCH  # little is made of a row on the way: a call costs more

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.column: self.domain.kind}

    @property
    def specification(self) -> specification.ValuesSpecification:
        """What a client in another language needs."""
        return specification.ValuesSpecification(
            column=self.column, domain=self.domain.specification, unusable=self.instead
        )

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> CellBlock:
        cells = self.domain.encode(plain(batch.column(self.column)))
        if cells.min(initial=0) < 0:
            rows.reject(NULL_VALUE, cells == -1)
            rows.reject(OUTSIDE_DOMAIN, cells == -2)
        return CellBlock(rows.filled(rows.of(cells).astype(np.uint32), self.instead), None)
