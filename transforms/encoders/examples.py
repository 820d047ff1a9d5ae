"""Rows that a model learns from, those that cannot be used among them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mechanisms.randomness import RandomSource
from transforms.encoders.attributes import Category, categorical
from transforms.encoders.block import RowBlock
from transforms.encoders.encoder import Rows
from transforms.encoders.rows import HIDDEN, Absence, RowEncoder


@dataclass(frozen=True)
class ExampleEncoder(RowEncoder):
    """Each row to all its numbers and categories; what lacks any of them has no target.

    It then holds the middle of all bounds and the first of all values, and in the place of the
    target what says that there is none: see `mechanisms.learning.absent`.

    Attributes:
        attributes: what a model looks at, and the target, which is last among its like.
    """

    absence: Absence = HIDDEN

    def encode(self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource) -> RowBlock:
        block = super().encode(batch, rows, rng)
        sizes = np.array([category.size for category in categorical(self.attributes)], np.int64)
        lacking = np.isnan(block.numbers).any(axis=1) | (block.categories == sizes).any(axis=1)
        block.numbers[lacking], block.categories[lacking] = 0, 0
        if isinstance(self.attributes[-1], Category):
            block.categories[lacking, -1] = -1
        else:
            block.numbers[lacking, -1] = np.nan
        return block
