"""PrivUnit's finite channel: what is private of it, whatever rows and directions are.

A user has ranked the lines of a codebook and reports one of its 2 H directions, those of the cap,
the near ends of the first K lines, being likelier. Nothing else bears on privacy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Guarantee, Kinds, Messages
from mechanisms.privacy.coordinate_laws import one_law
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource
from mechanisms.vector.base import VectorMean
from mechanisms.vector.cap_law import CapLaw
from mechanisms.vector.rows import require_listed


class CapChannel(VectorMean):
    """A direction of a public codebook, drawn whatever the row, likelier one of the user's cap.

    Attributes:
        lines: H, how many lines a codebook has.
        codebooks: S. A message is (codebook * H + line) * 2, plus 1 for the negative end.
    """

    lines: int
    codebooks: int

    @property
    @abstractmethod
    def law(self) -> CapLaw:
        """The integers that are shipped."""

    @property
    def ends(self) -> int:
        """2 H, how many directions a codebook has."""
        return 2 * self.lines

    @property
    def codes(self) -> int:
        return self.codebooks * self.ends

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            "local",
            self.epsilon,
            0.0,
            "report",
            "closed form: whatever the row, K of a codebook's directions have one probability and "
            "the others another, whose ratio in integers is at most e^epsilon",
        )

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        """The channel behind the ranking, for tests and audits.

        Args:
            cells: (n, lines) directions of a codebook, of whichever codebook will be drawn: those
                of the cap, then an end of each other line.
            rng: the generator of this process.

        Returns:
            (n,) uint64.
        """
        ranked = np.asarray(cells)
        shaped = ranked.ndim == 2 and ranked.shape[1] == self.lines and ranked.dtype.kind in "iu"
        if not (shaped and np.all(np.sort(ranked // 2, axis=1) == np.arange(self.lines))):
            raise ValueError(f"cells must be rows of an end of each of {self.lines} lines")
        # Drawn without the row: which codebook it is tells nothing.
        books = rng.integers(self.codebooks, len(ranked)).view(np.int64)
        return self.picked(ranked.astype(np.int64), books, rng)

    def picked(
        self, ranked: NDArray[np.int64], books: NDArray[np.int64], rng: RandomSource
    ) -> Messages:
        """Messages, given the codebooks and each one's directions, those of the cap first.

        Args:
            ranked: (n, lines) directions, an end of each line.
            books: (n,) codebooks.
            rng: the generator of this process.

        Returns:
            (n,) uint64.
        """
        ends = self.law.pick(rng.integers(self.law.total, len(ranked)), ranked)
        return (books * self.ends + ends).view(np.uint64)

    # ---- the exact law of a report -----------------------------------------------------------

    @property
    def inputs(self) -> int:
        """How many caps there are: sets of K lines, and an end of each."""
        return self.law.caps

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        require_listed(self.codes)
        table = self.law.weights(self.law.cap(cell))
        return np.tile(table, self.codebooks), self.law.total * self.codebooks

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        cap = self.law.cap(cell)
        others = np.setdiff1d(np.arange(self.lines), cap // 2) * 2
        return self.count(self.perturb(np.tile(np.append(cap, others), (size, 1)), rng))

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        shared = np.intersect1d(self.law.cap(one), self.law.cap(other)).size
        kinds = {pair: self.codebooks * n for pair, n in self.law.kinds(shared).items()}
        return kinds, (self.law.total * self.codebooks,) * 2

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: a cap and the one opposite, which share no direction; others share some."""
        return [(0, (1 << self.law.size) - 1)]

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals: every direction is as likely as one outside the cap."""
        law = self.law
        ratio = Fraction(law.inside, law.outside)
        # The blanket is exact: every direction is outside of somebody's cap.
        mass = Fraction(law.outside * law.ends, law.total)
        return one_law(mass, ratio)
