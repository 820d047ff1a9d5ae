"""The central model's histograms behind one face: exact counts in, a private release out.

Nothing is randomised before the collector, who is trusted with the raw counts. That is the model
to compare others with, and the one to use where the collector may see everything anyway.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.central.boost import Boost, for_ranges
from mechanisms.central.laplace import DiscreteLaplace, histogram
from mechanisms.central.noisefirst import NoiseFirst
from mechanisms.channel import Counts, Floats, Guarantee, Messages
from mechanisms.frequency.noise_laws import Normal, TwoSidedGeometric
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.intervals import Noise
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register


class CentralHistogram(FrequencyOracle):
    """A mechanism whose client changes nothing, and whose collector adds noise to all counts.

    Subclasses are frozen dataclasses of `epsilon` and `domain_size`.
    """

    epsilon: float

    @property
    def keep(self) -> float:
        """Holders are counted once each."""
        return 1.0

    @property
    def other(self) -> float:
        """Nobody else is."""
        return 0.0

    @property
    def contrast(self) -> float:
        return 1.0

    @property
    def local(self) -> Guarantee:
        """What the collector sees."""
        return Guarantee.none("the collector sees every value as it is")

    @property
    def codes(self) -> int:
        """How many counters the collector holds: one for each value."""
        return self.domain_size

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        return self._checked(cells).astype(np.uint64)

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        (value,) = self._checked([cell])
        return np.eye(1, self.codes, value, dtype=np.uint64)[0], 1

    def pairs(self) -> Iterable[tuple[int, int]]:
        return [(0, 1)]

    def support(self, counts: Counts) -> Counts:
        return counts

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        return np.asarray(histogram, np.int64)

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """Refused: it would publish exact counts. `release` draws the noise, once."""
        raise TypeError("exact counts are no estimate to be published; release draws their noise")

    @abstractmethod
    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        """Draw the noise, once.

        Args:
            counts: (domain_size,) exact counts, at least one in all.
            rng: the generator of this process.
            n: the number of users; by default as many as there are counts.

        Returns:
            ((domain_size,) unbiased frequencies, (domain_size,) the system's estimate of them).
        """

    @property
    def trial_users(self) -> int:
        """More than one, so that a value may change among others that stay."""
        return 4

    def released(self, cells: Sequence[int], times: int, rng: RandomSource) -> NDArray[Any]:
        counts = np.bincount(np.asarray(cells), minlength=self.domain_size)
        return np.array([np.concatenate(self.release(counts, rng)) for _ in range(times)])

    @abstractmethod
    def count_variance(self) -> float:
        """Variance of an unbiased count, averaged over the domain, in squared counts."""

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        """As `FrequencyOracle.variance`; noise that is added to counts ignores the frequency."""
        return np.full(np.shape(frequency), self.count_variance() / n**2)

    def average_variance(self, n: int) -> float:
        return self.count_variance() / n**2

    @abstractmethod
    def added(self, n: int) -> Noise:
        """The law of the noise in an unbiased count, or one with wider tails."""


@dataclass(frozen=True)
class SumOfLaplace:
    """Quantiles that a weighted sum of Laplace variables of known variance does not exceed.

    Such a sum is a normal mixture whose random variance is a weighted mean of exponentials, which
    lies between a constant (the normal law) and one exponential (the Laplace law) in convex
    order. The further of these two quantiles is taken; for equal weights, any number of them, the
    tests find by quadrature that it is never exceeded.

    >>> round(SumOfLaplace(1.0).isf(0.025), 3), round(SumOfLaplace(1.0).isf(0.2), 3)
    (2.118, 0.842)
    """

    variance: float

    def mean(self) -> float:
        """0."""
        return 0.0

    def excess_kurtosis(self) -> float:
        """As if all of it were one of them."""
        return 3.0

    def isf(self, q: float) -> float:
        """For q below 1/2."""
        reach = max(Normal(1.0).isf(q), -math.sqrt(0.5) * math.log(2 * q))
        return math.sqrt(self.variance) * reach

    def ppf(self, q: float) -> float:
        """Its mirror image."""
        return -self.isf(q)


@register(
    "laplace",
    task="frequency",
    sends="the value; each count is published with discrete Laplace noise",
    source="Dwork, McSherry, Nissim, Smith, TCC 2006",
    models=["central"],
    searched=True,
    postprocess="auto",
    small={"epsilon": 1.0, "domain_size": 4},
    stands_in="tests.oracles.stand_ins:counts",
)
@dataclass(frozen=True)
class LaplaceHistogram(CentralHistogram):
    """Every count with its own two-sided geometric noise.

    >>> from mechanisms.randomness import SeededRandom
    >>> unbiased, _ = LaplaceHistogram(1.0, 3).release(np.array([50, 30, 20]), SeededRandom(1))
    >>> unbiased.shape
    (3,)
    """

    epsilon: float
    domain_size: int

    def __post_init__(self) -> None:
        _require_domain(self.domain_size)
        histogram(self.epsilon)  # refuses an epsilon that no noise table can hold

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Of each count; a replaced value changes two of them by 1."""
        return histogram(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return self.noise.guarantee

    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        unbiased = self.noise.perturb(counts, rng) / counts.sum()
        return unbiased, unbiased.copy()

    def count_variance(self) -> float:
        return self.noise.variance()

    def added(self, n: int) -> Noise:
        return TwoSidedGeometric(self.noise.decay)


@register(
    "boost",
    task="frequency",
    sends="the value; a noisy tree of counts is made consistent, best for ranges",
    source="Hay, Rastogi, Miklau, Suciu, VLDB 2010",
    models=["central"],
    small={"epsilon": 1.0, "domain_size": 4},
    stands_in="tests.oracles.stand_ins:nodes",
)
@dataclass(frozen=True)
class BoostHistogram(CentralHistogram):
    """`Boost`: a noisy tree made consistent; made for ranges of an ordered domain."""

    epsilon: float
    domain_size: int
    fanout: int | None = None

    def __post_init__(self) -> None:
        _require_domain(self.domain_size)
        if self.fanout is None:
            # Chosen here, so that whoever receives the parameters has the tree.
            object.__setattr__(self, "fanout", for_ranges(self.epsilon, self.domain_size).fanout)
        Boost(self.epsilon, self.domain_size, self.fanout or 2)

    @cached_property
    def tree(self) -> Boost:
        """The mechanism."""
        return Boost(self.epsilon, self.domain_size, self.fanout or 2)

    @property
    def guarantee(self) -> Guarantee:
        return self.tree.guarantee

    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        unbiased = self.tree.release(counts, rng) / counts.sum()
        return unbiased, unbiased.copy()

    def count_variance(self) -> float:
        return float(self.tree.leaf_variances().mean())

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        """The largest of any value's variance: leaves differ a little by where they stand."""
        return np.full(np.shape(frequency), float(self.tree.leaf_variances().max()) / n**2)

    def added(self, n: int) -> Noise:
        return SumOfLaplace(float(self.tree.leaf_variances().max()))


@register(
    "noisefirst",
    task="frequency",
    sends="the value; noisy counts are averaged over runs that look alike, up to 65,536 values",
    source="Xu, Zhang, Xiao et al., VLDB Journal 2013",
    models=["central"],
    small={"epsilon": 1.0, "domain_size": 4},
    stands_in="tests.oracles.stand_ins:merged_counts",
)
@dataclass(frozen=True)
class NoiseFirstHistogram(CentralHistogram):
    """`NoiseFirst`: noisy counts, averaged over runs of values that look alike.

    Averaging is a bias where a run is not flat: the noisy counts themselves are the unbiased ones.
    """

    epsilon: float
    domain_size: int

    def __post_init__(self) -> None:
        NoiseFirst(self.epsilon, self.domain_size)

    @cached_property
    def buckets(self) -> NoiseFirst:
        """The mechanism."""
        return NoiseFirst(self.epsilon, self.domain_size)

    @property
    def guarantee(self) -> Guarantee:
        return self.buckets.guarantee

    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        noisy = self.buckets.noise.perturb(counts, rng)
        return noisy / counts.sum(), self.buckets.merge(noisy) / counts.sum()

    def count_variance(self) -> float:
        return self.buckets.noise.variance()

    def added(self, n: int) -> Noise:
        return TwoSidedGeometric(self.buckets.noise.decay)


def _require_domain(domain_size: int) -> None:
    """Refuse a histogram of fewer than two values."""
    if not (domain_size >= 2 and domain_size == int(domain_size)):
        raise ValueError(f"domain_size must be an integer of at least 2, not {domain_size}")
