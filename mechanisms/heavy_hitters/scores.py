"""How much a bucket's count speaks for a prefix, and how much chance alone would say.

The public hash puts a prefix that nobody holds into a uniform random bucket, whatever the reports
are. So the counts of *all* buckets of a group are, as they stand, the law of the count that such a
prefix gets: noise, frequent strings that happen to share its bucket, and all. No model of the
noise and no assumption on the population is needed to say how often chance goes as far.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from mechanisms.channel import Counts, Floats

Scores = NDArray[np.int16]  # of the largest of 2^64 buckets some 2,300

_STEPS = 256  # of a score per standard deviation of the largest group
_NEGLIGIBLE = 1e-60  # of a law of sums, at either end: most of its places, and no threshold's
_SPREAD = 16  # of supports, times the buckets: up to it a table of them is faster than a sort
_FEW = 512  # scores: of so many on, products of the library's are faster than shifted sums


class Row(NamedTuple):
    """What one group of users says.

    Attributes:
        n: how many users reported.
        supports: (distinct,) of how many reports support a bucket, ascending.
        places: (width,) which of them is each bucket's: a byte for most, where a count takes eight.
        scores: (width,) the supports as normal scores, in whole steps.
    """

    n: int
    supports: Counts
    places: NDArray[np.unsignedinteger]
    scores: Scores


def row(support: Counts, n: int, largest: int) -> Row:
    """One group's buckets with their scores.

    A score is where a bucket stands among all buckets, on the scale of the normal law: those that
    are equal share the mean of the places they take. It is weighted by the root of the group's
    size, as estimates of one frequency would be.

    Args:
        support: (width,) how many reports of one group support each bucket.
        n: how many users it has.
        largest: how many users the largest group has.
    """
    supports, places, ties = _ranked(support)
    # The mean of the normal law between two of its quantiles is the difference of the densities
    # there, over the probability between them.
    ends = np.concatenate([[0.0], np.cumsum(ties) / support.size])
    density = np.exp(-(special.ndtri(ends) ** 2) / 2) / np.sqrt(2 * np.pi)
    mean = -np.diff(density) * support.size / ties
    scale = _STEPS * np.sqrt(n / max(largest, 1))
    return Row(n, supports, places, np.rint(scale * mean).astype(np.int16)[places])


def _ranked(support: Counts) -> tuple[Counts, NDArray[np.unsignedinteger], Counts]:
    """The distinct supports, ascending; which is each bucket's; how many buckets have each."""
    least = support.min()
    above = support - least
    if above.max() > _SPREAD * support.size:
        # A string that a good part of 10^9 users hold: a table would be as long as they are many.
        supports, places, ties = np.unique(support, return_inverse=True, return_counts=True)
        return supports, places.astype(np.min_scalar_type(ties.size)), ties
    # Counts lie close together, so that a table of them ranks the buckets. To sort shares took ten
    # times as long.
    counts = np.bincount(above)
    taken = np.flatnonzero(counts)
    ranks = np.zeros(counts.size, np.min_scalar_type(taken.size))
    ranks[taken] = np.arange(taken.size)
    return taken + least, ranks[above], counts[taken]


@dataclass(frozen=True)
class Chance:
    """The law of the sum of the scores that several groups give a prefix nobody holds.

    It is exact for a hash that is an ideal random function, but for rounding. Only probabilities
    are multiplied and added, so that rounding is relative and the farthest tail keeps its digits:
    Fourier transforms, whose errors are those of the bulk, had to be taken under several tilts.

    Attributes:
        least: the least sum that is looked at.
        law: (sums,) P(sum = least + i); of no group by default.
        outside: a bound on the probability of all other sums.
        roundings: how many a probability has gone through, at most.
    """

    least: int = 0
    law: Floats = field(default_factory=lambda: np.ones(1))
    outside: float = _NEGLIGIBLE  # also more than what may underflow
    roundings: int = 0

    @staticmethod
    def of(rows: Iterable[Row]) -> "Chance":
        """The law of a sum over these groups, whose hashes are independent."""
        chance = Chance()
        for scored in rows:
            chance = chance.plus(scored)
        return chance

    def plus(self, scored: Row) -> "Chance":
        """The law of the sum with one more group."""
        low = int(scored.scores.min())
        buckets = np.bincount(scored.scores - low)
        places = np.flatnonzero(buckets)
        if places.size < _FEW:
            law = np.zeros(self.law.size + buckets.size - 1)
            for place in places.tolist():
                law[place : place + self.law.size] += buckets[place] / scored.scores.size * self.law
        else:
            law = np.convolve(self.law, buckets / scored.scores.size)
        first = int(np.searchsorted(law.cumsum(), _NEGLIGIBLE))
        behind = int(np.searchsorted(law[::-1].cumsum(), _NEGLIGIBLE))
        return Chance(
            self.least + low + first,
            law[first : law.size - behind],
            self.outside + 2 * _NEGLIGIBLE,
            self.roundings + places.size + 2,
        )

    @cached_property
    def tail(self) -> Floats:
        """(sums,) P(sum >= least + i), rounded up."""
        error = 2 * np.finfo(np.float64).eps * (self.roundings + self.law.size)
        return np.minimum(self.law[::-1].cumsum()[::-1] * (1 + error) + self.outside, 1)

    def exceeding(self, sums: ArrayLike) -> Floats:
        """P(a sum at least as large), for each of some sums."""
        place = np.asarray(sums) - self.least
        inside = np.clip(place, 0, self.tail.size - 1)
        return np.where(place < self.tail.size, self.tail[inside], self.outside)

    def threshold(self, probability: float) -> int:
        """The least sum that chance reaches with at most this probability."""
        return self.least + int(np.searchsorted(-self.tail, -probability))


def rows_of(supports: Iterable[Counts], users: Counts) -> list[Row]:
    """The rows of all groups, weighted alike.

    Args:
        supports: of each group, (width,).
        users: (groups,) how many each has.
    """
    largest = int(users.max(initial=0))
    return [row(support, int(n), largest) for support, n in zip(supports, users, strict=True)]
