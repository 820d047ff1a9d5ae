"""The first of a list of counts that is above a threshold: the sparse vector, once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Floats, require_integer
from mechanisms.randomness import RandomSource

_QUERY = 2 ** (-1 / 3)  # of the threshold's epsilon: makes the comparison's variance least


@dataclass(frozen=True)
class FirstAbove:
    """Compares counts with a noisy threshold, one after the other, and tells the first above it.

    However many are passed over, they cost nothing: where a unit raises counts, by up to the
    sensitivity each, a threshold that is as much higher passes over the same ones, and the noise of
    the one that is told makes up for the rest: a loss of a + b. Where it lowers them, the same
    threshold does, and the loss is b. So losses span a + 2 b, and that is what is paid for.

    Attributes:
        span: of the losses between neighbours, in nats: see `gaussian_filter.gaussian_of_range`.
        sensitivity: the most by which a unit raises any of the counts; it lowers none meanwhile.

    Source: Lyu, Su, Li, "Understanding the sparse vector technique for differential privacy", VLDB
        2017, Algorithm 1 and section 4.3 (counts that all move one way need half the noise; a to b
        as 1 to 2^(2/3) or so); that the span is less than twice a + b follows from their proof.

    >>> from mechanisms.randomness import SeededRandom
    >>> FirstAbove(span=40.0).choose([3, 80, 5, 900], 70, SeededRandom(1))
    1
    """

    span: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.span < math.inf:
            raise ValueError(f"a span must be positive and finite, not {self.span}")
        _ = self.threshold_noise, self.query_noise

    @cached_property
    def threshold_noise(self) -> DiscreteLaplace:
        """a, of the threshold."""
        return DiscreteLaplace(self.span / (1 + 2 * _QUERY) * (1 - 1e-14), self.sensitivity)

    @cached_property
    def query_noise(self) -> DiscreteLaplace:
        """b, of each count."""
        return DiscreteLaplace(self.threshold_noise.epsilon * _QUERY, self.sensitivity)

    @property
    def standard_error(self) -> float:
        """Of one comparison."""
        return math.sqrt(self.threshold_noise.variance() + self.query_noise.variance())

    def distance(self, counts: int) -> float:
        """A bound of the total variation between this and the same with tables that never end.

        Beyond its last weight w a table would go on as w a, w a^2, ... on either side.

        Args:
            counts: how many there are.
        """

        def beyond(noise: DiscreteLaplace) -> float:
            return 2 * noise.half_table[-1] / math.expm1(noise.decay) / noise.weights[1]

        return (beyond(self.threshold_noise) + counts * beyond(self.query_noise)) * (1 + 1e-9)

    def choose(self, counts: ArrayLike, threshold: int, rng: RandomSource) -> int | None:
        """The place of the first count above the threshold, as far as noise tells.

        Args:
            counts: (k,) integers, in an order that does not depend on them.
            threshold: an integer, that does not either.
            rng: the generator of this process.

        Returns:
            0 .. k - 1, or None if none is.
        """
        require_integer("threshold", threshold)
        noisy = self.query_noise.perturb(counts, rng)
        above = np.flatnonzero(noisy >= self.threshold_noise.perturb([threshold], rng))
        return int(above[0]) if above.size else None

    def probabilities(self, counts: Sequence[int], threshold: int) -> Floats:
        """(k + 1,) of each place, and of none: the exact law, but for rounding, for audits."""
        levels, weights = _law(self.threshold_noise)
        probabilities, open_ = [], weights
        for count in counts:
            noise, law = _law(self.query_noise)
            least = np.searchsorted(noise, threshold + levels - count)
            # Each from its own end, so that rare ones are not what rounding leaves of 1.
            probabilities.append(float(open_ @ np.append(law[::-1].cumsum()[::-1], 0.0)[least]))
            open_ = open_ * np.append(0.0, law.cumsum())[least]
        return np.array([*probabilities, float(open_.sum())])


def _law(noise: DiscreteLaplace) -> tuple[Counts, Floats]:
    """Values in ascending order, and their probabilities."""
    weights, total = noise.weights
    return np.arange(-noise.bound, noise.bound + 1), weights / float(total)
