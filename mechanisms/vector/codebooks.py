"""Public codebooks of random lines: which are near to a row, and what reported ones add up to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.vector.directions import PublicDirections

_NUMBERS = 1 << 22  # of directions treated at a time


@dataclass(frozen=True)
class Codebooks:
    """Any number of codebooks of H lines through 0, the same for all clients of a collection.

    Direction e of a codebook is numbered 2 * line, plus 1 for the negative end.

    Attributes:
        seed: the public randomness of the lines.
        sphere: D, the dimension of the directions.
        lines: H.

    >>> books = Codebooks(seed=0, sphere=3, lines=4)
    >>> line = books.directions.rows([4 + 2])  # line 2 of codebook 1
    >>> int(books.ranked(-line, np.array([1]))[0, 0])
    5
    """

    seed: int
    sphere: int
    lines: int

    @cached_property
    def directions(self) -> PublicDirections:
        """The positive ends of all lines of all codebooks."""
        return PublicDirections(self.seed, self.sphere)

    @property
    def at_once(self) -> int:
        """Of how many rows the codebooks can be held, one for each."""
        return max(1, _NUMBERS // (self.lines * self.sphere))

    def ranked(self, units: Floats, books: NDArray[np.int64]) -> NDArray[np.int64]:
        """The near ends of a codebook's lines, nearest first.

        Args:
            units: (n, sphere) unit vectors, not many more than `at_once`.
            books: (n,) the codebook of each.

        Returns:
            (n, lines) directions.
        """
        numbers = (books * self.lines)[:, None] + np.arange(self.lines)
        lines = self.directions.rows(numbers.ravel()).reshape(len(units), self.lines, -1)
        projections = np.einsum("nhd,nd->nh", lines, units)
        # However ties and rounding rank the lines, a cap has K directions: privacy does not depend
        # on it.
        order = np.argsort(-np.abs(projections), axis=1, kind="stable")
        return 2 * order + (np.take_along_axis(projections, order, axis=1) < 0)

    def total(self, counts: Counts) -> Floats:
        """(sphere,) the sum of all reported directions.

        Only directions that were reported are rebuilt, in time proportional to their number.

        Args:
            counts: (codes,) how often each direction came: codebook by codebook, line by line,
                both ends.
        """
        # The ends of a line cancel, so each line is rebuilt once, and only if it has a say.
        surplus = counts[::2] - counts[1::2]
        lines, total = np.flatnonzero(surplus), np.zeros(self.sphere)
        step = max(1, _NUMBERS // self.sphere)
        for start in range(0, lines.size, step):
            part = lines[start : start + step]
            total += surplus[part].astype(np.float64) @ self.directions.rows(part)
        return total
