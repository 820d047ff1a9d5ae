"""Choosing the best of a list of options privately: the exponential mechanism.

The first of a list of counts that is above a threshold: the sparse vector, once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Floats, Guarantee, require_epsilon, require_integer
from mechanisms.randomness import RandomSource

_WORD = 1 << 64
_EXPONENT_ERROR = 1e-13  # what rounding the exponents to doubles may add to the loss
_QUERY = 2 ** (-1 / 3)  # of the threshold's epsilon: makes the comparison's variance least


@dataclass(frozen=True)
class ExponentialMechanism:
    """Picks option i with probability proportional to e^(epsilon score_i / (2 sensitivity)).

    Probabilities are integer weights over one total. Rounded weights of unlikely options could
    differ by any factor between neighbours, so each gets the same few units extra, which bounds
    the ratio of any two of them again and moves next to no probability.

    Attributes:
        epsilon: privacy loss, in nats.
        sensitivity: the most by which one record changes any option's score.
        resolution: scores are rounded down to multiples of sensitivity / resolution.

    Source: McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007, Theorem 6;
        in integers after Ilvento, "Implementing the exponential mechanism with base-2
        differential privacy", CCS 2020.

    >>> mechanism = ExponentialMechanism(epsilon=1.0)
    >>> mechanism.probabilities([3, 2, 1, 0]).round(4).tolist()
    [0.4551, 0.276, 0.1674, 0.1015]
    >>> round(mechanism.tight_epsilon(options=2), 6), round(mechanism.tight_epsilon(1000), 3)
    (0.5, 0.999)
    """

    epsilon: float
    sensitivity: float = 1.0
    resolution: int = 1024

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if not 0 < self.sensitivity < math.inf:
            raise ValueError(f"sensitivity must be positive and finite, not {self.sensitivity}")
        if not 1 <= self.resolution <= 1 << 20 or self.resolution != int(self.resolution):
            raise ValueError(f"resolution must be an integer in 1 .. 2^20, not {self.resolution}")

    def weights(self, scores: ArrayLike) -> tuple[NDArray[np.uint64], int]:
        """The exact distribution over options.

        An option g steps below the best has weight floor(W a^g) + c with ln a = -decay. For
        c >= 2/(1 - a) two such weights differ by at most a^(difference in g), however small, and
        the sum exceeds the ideal one by at most k c, which `decay` makes up for.

        Args:
            scores: (k,) finite numbers, one for each option; any large negative number serves
                for an option that is never to be competitive.

        Returns:
            ((k,) uint64 numerators, their sum).

        Raises:
            ValueError: a score is not finite, or 64 bits do not suffice for so many options at
                so small an epsilon.
        """
        # Cells of a long table share few scores: each is turned into a weight once.
        array, places = np.unique(np.asarray(scores, np.float64), return_inverse=True)
        steps = self._steps(array if np.ndim(scores) == 1 else scores)
        best, extra = max(steps), self._extra
        top, decay = self._top(places.size), self._decay(places.size)
        farthest = math.ceil(64 / decay)  # beyond it nothing but the extra is left
        gaps = [min(best - step, farthest) for step in steps]
        by_gap = {
            gap: math.floor(top * exponential_bounds(-gap * decay)[0]) + extra for gap in {*gaps}
        }
        times = np.bincount(places).tolist()
        total = sum(by_gap[gap] * n for gap, n in zip(gaps, times, strict=True))
        return np.array([by_gap[gap] for gap in gaps], np.uint64)[places], total

    def _steps(self, scores: ArrayLike) -> list[int]:
        """The scores in units of sensitivity / resolution, rounded down exactly."""
        array = np.asarray(scores, np.float64)
        if not (array.ndim == 1 and array.size and np.isfinite(array).all()):
            raise ValueError("scores must be a vector of at least one finite number")
        unit = Fraction(self.sensitivity) / int(self.resolution)
        # In rationals: quotients of doubles may fall on either side of a step, and the score of a
        # neighbour then moves by a step too many.
        return [math.floor(Fraction(score) / unit) for score in array.tolist()]

    @property
    def _extra(self) -> int:
        """c, the units that every weight gets: 2/(1 - a) at most, even if decay were halved."""
        return 2 + ceiling(Fraction(8 * int(self.resolution)) / Fraction(self.epsilon))

    def _top(self, options: int) -> int:
        """W, the weight of the best option before its extra."""
        return _WORD // options - self._extra - 1

    def _decay(self, options: int) -> float:
        """The fall of the log weight per step that leaves room for the extra weights."""
        top = self._top(options)
        room = options * self._extra / top + _EXPONENT_ERROR if top > 0 else math.inf
        if not room <= self.epsilon / 2:
            raise ValueError(
                f"64 bits do not suffice for {options} options at epsilon {self.epsilon}; "
                "a lower resolution needs fewer"
            )
        return (self.epsilon - room) / (2 * int(self.resolution))

    def probabilities(self, scores: ArrayLike) -> Floats:
        """P(option), rounded to doubles; `weights` holds the exact rationals."""
        numerators, total = self.weights(scores)
        return numerators / float(total)

    def select(self, scores: ArrayLike, rng: RandomSource, times: int = 1) -> NDArray[np.intp]:
        """Choose an option, or several independently: every choice spends epsilon.

        Args:
            scores: (k,) finite numbers, computed from the records.
            rng: the generator of this process.
            times: how many choices.

        Returns:
            (times,) indices of options, 0 .. k - 1.
        """
        numerators, total = self.weights(scores)
        return np.searchsorted(numerators.cumsum(), rng.integers(total, times), side="right")

    @property
    def guarantee(self) -> Guarantee:
        """What one choice reveals, whatever the scores."""
        return Guarantee(
            "central",
            self.epsilon,
            0.0,
            "record",
            "closed form: scores change by at most the sensitivity, the best one as well; the "
            "integer weights are rounded to the private side",
        )

    def tight_epsilon(self, options: int, spread: float = 1.0) -> float:
        """The true loss of the shipped weights when all scores lie within a known range.

        The worst neighbours raise the lowest score by one sensitivity and lower all others,
        which are as high as the range allows. It tends to epsilon with more options or range.

        Args:
            options: k, how many, at least 2.
            spread: R, largest minus smallest possible score, in sensitivities, at least 1.

        Returns:
            e/2 + ln((1 + (k-1) e^(R e/2)) / (e^(e/2) + (k-1) e^((R-1) e/2))) with the e that the
            weights are computed for, plus all that their rounding can add: never below the
            truth, usually above it by less than 10^-9, and at most epsilon.
        """
        if not 2 <= options < math.inf:
            raise ValueError(f"options must be at least 2, not {options}")
        if not 1 <= spread < math.inf:
            raise ValueError(f"spread must be at least 1 and finite, not {spread}")
        decay = self._decay(options)
        one = decay * int(self.resolution)  # e/2
        reach = decay * math.ceil(spread * self.resolution)
        before = np.logaddexp(0.0, math.log(options - 1) + reach)
        after = np.logaddexp(one, math.log(options - 1) + reach - one)
        rounding = self.epsilon - 2 * one + 1e-15 * (reach + 1)
        return min(self.epsilon, float(one + before - after) + rounding)


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

    @classmethod
    def of_epsilon(cls, epsilon: float, sensitivity: int = 1) -> "FirstAbove":
        """The one with a + b of at most so much."""
        return cls(epsilon * (1 + 2 * _QUERY) / (1 + _QUERY) * (1 - 1e-14), sensitivity)

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

    def passes(self, count: int, threshold: int, times: int) -> float:
        """The probability that none of so many equal counts is above: the exact law."""
        levels, weights = _law(self.threshold_noise)
        noise, law = _law(self.query_noise)
        below = np.append(0.0, law.cumsum())[np.searchsorted(noise, threshold + levels - count)]
        return float(weights @ below**times)


def _law(noise: DiscreteLaplace) -> tuple[Counts, Floats]:
    """Values in ascending order, and their probabilities."""
    weights, total = noise.weights
    return np.arange(-noise.bound, noise.bound + 1), weights / float(total)
