"""What a model sees of a row, and what it should tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mechanisms.learning.features import Features
from mechanisms.learning.scores import Numbers
from transforms.encoders.block import RowBlock


@dataclass(frozen=True)
class Examples:
    """What takes blocks of rows to what a model sees and what it should tell.

    Attributes:
        features: of the model.
        classified: whether the target is the last of the categories, rather than of the numbers.
    """

    features: Features
    classified: bool

    def __call__(self, block: RowBlock) -> tuple[Numbers, NDArray[Any]]:
        """((n, inputs) rows, (n,) targets) of a block whose last column is the target's."""
        if self.classified:
            rows = self.features.rows(block.numbers, block.categories[:, :-1])
            return rows, block.categories[:, -1]
        return self.features.rows(block.numbers[:, :-1], block.categories), block.numbers[:, -1]
