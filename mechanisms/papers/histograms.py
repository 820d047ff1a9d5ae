"""Two histograms of the central model that smooth their noise, for ranges or runs of values."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Guarantee
from mechanisms.papers.boost import Boost, for_ranges
from mechanisms.papers.central_histogram import CentralHistogram, TwoSidedGeometric, require_domain
from mechanisms.papers.noisefirst import NoiseFirst
from mechanisms.papers.public_seed import Normal
from mechanisms.postprocess.intervals import Noise
from mechanisms.randomness import RandomSource
from mechanisms.registry import register


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
        require_domain(self.domain_size)
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
