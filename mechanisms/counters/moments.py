"""Totals of numbers, of their squares, and how many there are: what variances are made of.

Of a number v in [-1, 1] the job adds (v^2 + v) / 2, (v^2 - v) / 2 and (1 - v^2) / 2 to a total
each. All three together move by 1 at the most, as far as a mean alone has totals move
(`WholeEnds`), and v, v^2 and 1 are sums of them. Where numbers are spread evenly, noise of a
variance is 0.13 times that of an equal split of epsilon among v, v^2 and 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from mechanisms.channel import Floats
from mechanisms.counters.amounts import Ends, WholeEnds, whole_amounts
from mechanisms.counters.levels import Level, Portion, Slots
from mechanisms.randomness import RandomSource
from mechanisms.specification import Digits

Three = tuple[Floats, Floats, Floats]
"""Of each group: how many have a number, the sum of these, and that of their squares."""


@dataclass(frozen=True)
class MomentDigits(Ends):
    """Digits of each number and of its square, both told from both ends."""

    digits: ClassVar[Digits] = "moments"
    # Of what `moments` returns, in variances of the weighted sum of one counter of each level.
    covariance: ClassVar[Sequence[Sequence[float]]] = ((1, 0, 0.5), (0, 2, 0), (0.5, 0, 0.75))

    @cached_property
    def _both(self) -> Ends:
        """As of twice the groups."""
        return Ends(2 * self.groups, 2 * self.most_groups, self.most)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return self._both.levels

    def rounded(self, numbers: Floats, bound: float, most: int, rng: RandomSource) -> Slots:
        """(n, k, 2) numbers and their squares in units, each rounded by a coin of its own.

        Args:
            numbers: (n, k) how far they are from the lower end, at most `bound`.
            bound, most, rng: as of `whole_amounts`.
        """
        squares = bound * np.square(2 * numbers / bound - 1)
        return np.stack([whole_amounts(x, bound, most, rng) for x in (numbers, squares)], axis=-1)

    def encode(self, groups: Slots, amounts: Slots) -> list[Slots]:
        both = np.hstack([groups, np.where(groups < 0, -1, groups + self.groups)])
        return self._both.encode(both, np.hstack([*np.moveaxis(amounts, -1, 0)]))

    def moments(self, counts: Sequence[Floats]) -> Three:
        """What counters tell, unbiased; arguments as of `estimate`."""
        sums, squares = np.split(self._both.estimate(counts) / self.most, 2)
        people = np.mean(np.split(self._both.number(counts) / self.most, 2), axis=0)
        return people, sums, (squares + people) / 2


@dataclass(frozen=True)
class WholeMoments(WholeEnds):
    """The same for who adds them up: three whole numbers that reach as far as one.

    >>> [part.tolist() for part in WholeMoments(groups=1, most=4).added(np.array([[[3, 1]]]))]
    [[[2]], [[0]], [[1]]]
    """

    covariance: ClassVar[Sequence[Sequence[float]]] = ((6, 0, 2), (0, 2, 0), (2, 0, 2))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return (Level(self.most_groups, self.groups),) * 3

    @property
    def parts(self) -> tuple[Portion, ...]:
        # One unit more than a mean has: a square is rounded up where its number is rounded down.
        # And v^2 + v may be below 0, by a quarter; one total then moves farther under replace.
        return (Portion(3, -(self.most // 8) - 2, self.most + 1),)

    def rounded(self, numbers: Floats, bound: float, most: int, rng: RandomSource) -> Slots:
        """As of `MomentDigits`, but in the place of v^2 half of 1 - v^2."""
        cells = whole_amounts(numbers, bound, most, rng)
        # A cell's own square is too large by what its rounding scatters: the last term, on average.
        off = np.abs(numbers / bound * most - cells)
        rest = (2 * cells * (most - cells) + off) / most
        return np.stack([cells, whole_amounts(rest, most, most, rng)], axis=-1)

    def encode(self, groups: Slots, amounts: Slots) -> list[Slots]:
        if np.abs(self.added(amounts)).sum(axis=0).max(initial=0) > self.most + 1:
            raise ValueError(f"amounts reach farther than {self.most + 1} together")
        return [groups] * len(self.levels)

    def added(self, amounts: Slots) -> list[Slots]:
        cells, rest = np.moveaxis(amounts, -1, 0)
        return [cells - rest, self.most - cells - rest, rest]

    def moments(self, counts: Sequence[Floats]) -> Three:
        """As of `MomentDigits`."""
        above, below, rest = (np.asarray(count) / self.most for count in counts)
        return above + below + 2 * rest, above - below, above + below
