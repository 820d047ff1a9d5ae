"""Means by split and mix: a total and how many it is of, in one number that everybody splits.

Whoever has a number is x from the lower bound and R - x from the upper one. These two always add up
to R, so that Laplace noise for a change of R, in the totals of either, is paid for once; and what
they add up to over all people, over R, is how many people have a number. So the count costs
nothing, and the noise of total and count together is that of the K-norm mechanism. Of the second
total the count alone is sent, rounded to people, or to parts of one where epsilon is above 1: that
is made of both totals with their noises, and tells no more than they do.

Source: Hardt, Talwar, "On the geometry of differential privacy", STOC 2010, for noise that follows
    the body of all that one person may change: here a parallelogram.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats, Neighbours
from mechanisms.counters.levels import Slots
from mechanisms.counters.split_mix import SplitMix
from mechanisms.randomness import RandomSource
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum


class Moments(NamedTuple):
    """Of the noise of a total, from the middle of the bounds in halves of the range, and a count.

    Attributes:
        total: its standard deviation.
        people: that of the count.
        covariance: of the two.
    """

    total: float
    people: float
    covariance: float


@dataclass(frozen=True)
class SplitMean(SplitMix):
    """How much there is above the lower bound, and how many people have a number.

    Attributes:
        low: 0.
        high: R, of a number in units from the lower bound; odd, so that rounding has no side.

    >>> design = SplitMean.meeting(0, 4095, 10**6, 9 * 10**5, "add or remove", 1.0, 1e-6,
    ...     everybody=True)
    >>> design.shares, [round(x, 2) for x in design.moments]
    (9, [2.02, 2.02, -0.08])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.low == 0 and self.high % 2 == 1):
            raise ValueError(f"units must be 0 to an odd number, not {self.low:,} .. {self.high:,}")

    @staticmethod
    def shift(low: int, high: int, neighbours: Neighbours) -> int:
        # Changes x and R - x of two totals show no more than R of one: see `ShufflerNoise.seen`.
        return 2 * high if neighbours == "replace" else high

    @cached_property
    def grain(self) -> int:
        """Into how many parts a person is counted, so that rounding adds next to nothing."""
        return 1 << max(0, math.ceil(math.log2(self.epsilon)))

    @cached_property
    def base(self) -> int:
        """What a part of a person counts for, beyond all totals."""
        return self.most * self.high + 2 * self.noise.mu + 1

    @property
    def ends(self) -> tuple[int, int]:
        return 0, self.base * self.grain + self.high

    @property
    def farthest(self) -> int:
        return self.noise.mu + self.base * self._most_people

    def summands(self, units: Slots, present: NDArray[np.bool_]) -> Slots:
        return np.where(present, units + self.base * self.grain, 0)

    def draw(self, rng: RandomSource) -> Counts:
        below, above = self.noise.draw(2, rng) - self.noise.mu
        return np.asarray(below + self.base * self._people(below + above), np.int64).reshape(1)

    def _people(self, both: NDArray[np.int64]) -> NDArray[np.int64]:
        """Noise of both totals, in parts of people."""
        return np.asarray((both * self.grain + self.high // 2) // self.high)

    def parts(self, total: int) -> tuple[float, float]:
        """(the total from the middle of the bounds, in halves of the range; how many people).

        Args:
            total: as `decode` gives it.
        """
        parts = (total + self.noise.mu) // self.base
        people = parts / self.grain
        return 2 * (total - parts * self.base) / self.high - people, people

    @cached_property
    def people_law(self) -> IntegerNoise:
        """The exact law of the count's noise, in parts of people."""
        pmf = np.bincount(self._places, self._both.pmf).astype(np.float64)
        return IntegerNoise(-self._most_people, pmf)

    @cached_property
    def total_law(self) -> IntegerNoise:
        """The law of the total's noise in units, but for how the count is rounded."""
        one = -self.noise.mu, self.noise.pmf
        return weighted_sum([(*one, 1), (*one, -1)])

    @cached_property
    def moments(self) -> Moments:
        """Of the noise of `parts`."""
        units, people = self.high, self.people_law.var() / self.grain**2
        # Either total's noise goes with the rounded sum of both as the other's does.
        parts = self._places - self._most_people
        with_both = float(self._both.pmf @ (self._sums * parts)) / self.grain
        total = 4 * self.noise.variance - 2 * units * with_both + units**2 * people
        covariance = with_both / units - people
        return Moments(math.sqrt(total) / units, math.sqrt(people), covariance)

    @cached_property
    def _both(self) -> IntegerNoise:
        one = -self.noise.mu, self.noise.pmf, 1
        return weighted_sum([one, one])

    @property
    def _sums(self) -> Floats:
        return self._both.first + np.arange(float(self._both.pmf.size))

    @property
    def _most_people(self) -> int:
        return int(self._people(np.array(2 * self.noise.mu)))

    @property
    def _places(self) -> NDArray[np.int64]:
        return np.asarray(self._people(self._sums.astype(np.int64)) + self._most_people)
