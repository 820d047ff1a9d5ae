"""A cell plus integer noise from a table: what additive mechanisms share.

Noise weights are integers out of 2^64, symmetric, and fall away from 0. Two cells' codes then
differ most for the two ends of the grid: shifting a falling table further lowers it, weight by
weight, wherever the likelier cell's weight is the larger one.
"""

from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.mean.scalar import ScalarMean
from mechanisms.randomness import RandomSource, Words
from mechanisms.sampling.integer_tables import AliasTable

WORD = 1 << 64
FILLED = WORD * (1 - 2.0**-50)  # what rounded weights may add up to; the rest goes to 0


class Additive(ScalarMean):
    """The cell plus noise from a table; what would fall off either end is counted at the end."""

    @property
    @abstractmethod
    def half_table(self) -> Words:
        """(L,) the weights of the noise 0, 1, 2, ..., L - 1; those of -1, -2, ... mirror them."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """B, by how much codes exceed the grid at either end."""

    @property
    def codes(self) -> int:
        return self.cells + 2 * self.reach + 1

    @cached_property
    def noise(self) -> Words:
        """(2 L - 1,) the weights of all noise values; they add up to 2^64."""
        return np.concatenate([self.half_table[:0:-1], self.half_table])

    @cached_property
    def _sampler(self) -> AliasTable:
        return AliasTable.of(self.noise)

    def _code(self, cells: NDArray[Any], draws: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes of cells and indices into `noise`."""
        codes: NDArray[np.int64] = draws + cells
        codes += self.reach + 1 - self.half_table.size
        # What would leave the codes stays at the end: post-processing, and a finite alphabet.
        np.maximum(codes, 0, out=codes)
        np.minimum(codes, self.codes - 1, out=codes)
        return codes

    def _perturb_block(self, cells: Words, rng: RandomSource) -> Messages:
        draws = self._sampler.draw(rng.words(cells.size))
        return self._code(cells.view(np.int64), draws).view(np.uint64)

    def weights(self, cell: int) -> tuple[Words, int]:
        codes = self._code(self._checked([cell]), np.arange(self.noise.size))
        table = np.zeros(self.codes, np.uint64)
        np.add.at(table, codes, self.noise)
        return table, WORD

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: the ends of the grid are the farthest apart, and the mirror swaps them."""
        return [(0, self.cells)]


def symmetric_table(half: Words) -> Words:
    """A half table that makes up 2^64 with its mirror image: noise 0 gets what is left over.

    Args:
        half: (L,) weights of the noise 0, 1, 2, ..., which add up to 2^64 or a little less.

    Raises:
        ArithmeticError: they add up to more.
    """
    left = WORD - 2 * int(half[1:].sum()) - int(half[0])
    if not left >= 0:
        raise ArithmeticError("the noise table does not fit into 64 bits")
    # More weight at 0 is less noise by parts in 10^15; the callers check the table that results.
    return np.append(half[:1] + np.uint64(left), half[1:])
