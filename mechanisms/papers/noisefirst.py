"""Counts of ordered values, noised one by one and then averaged where they look alike.

Where neighbouring counts are nearly equal, their average has a fraction of the noise. Which ones
to average is read off the noisy counts, so it costs no privacy.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Floats, Guarantee
from mechanisms.papers.central_histogram import histogram
from mechanisms.randomness import RandomSource

_LARGEST_DOMAIN = 1 << 16  # the search may take d^2 / 2 steps


@dataclass(frozen=True)
class NoiseFirst:
    """A noisy histogram, merged into the buckets of least estimated error.

    Let V be the variance of the noise. Take any partition into k buckets and publish each
    bucket's noisy mean for all its m values. Averaging leaves an error of V in the bucket beside
    the spread s of the true counts, while the spread of the noisy ones is s + (m - 1) V on
    average. So the total error is, without bias, the noisy spread - (d - 2 k) V, and the best
    partition is the one of least

        sum over buckets of (noisy spread + 2 V).

    A sum over buckets needs no table by number of buckets, as the paper has it: one pass over
    the prefixes finds the same optimum in O(d^2) time at most and O(d) memory.

    Attributes:
        epsilon: privacy loss, in nats.
        domain_size: d, how many values, at most 65536; buckets are runs of neighbouring ones.
        penalty: the price of a bucket, in V. The paper's is 2. It is fair to a partition chosen
            beforehand, but the least of many estimates is too low: fewer buckets would do better
            on flat data. About ln d guards against that; much more blurs a rough histogram.

    Source: Xu, Zhang, Xiao, Yang, Yu, Winslett, "Differentially private histogram publication",
        VLDB Journal 22, 2013 (ICDE 2012): algorithm NoiseFirst, with its estimate
        SSE - 2 (d - 2 k) / epsilon^2 for real Laplace noise of V = 2 / epsilon^2. Discrete noise
        has another V, and replacing a record instead of adding one doubles its scale.

    >>> from mechanisms.randomness import SeededRandom
    >>> mechanism = NoiseFirst(epsilon=1.0, domain_size=6, penalty=3.0)
    >>> mechanism.buckets([98, 103, 101, 7, 1, 4]).tolist()
    [0, 3]
    >>> mechanism.merge([98, 103, 101, 7, 1, 4]).round(2).tolist()
    [100.67, 100.67, 100.67, 4.0, 4.0, 4.0]
    >>> mechanism.release([100, 100, 100, 5, 5, 5], SeededRandom(1)).shape
    (6,)
    """

    epsilon: float
    domain_size: int
    penalty: float = 2.0

    def __post_init__(self) -> None:
        d = self.domain_size
        if not 2 <= d < math.inf or d != int(d):
            raise ValueError(f"domain_size must be an integer of at least 2, not {d}")
        if not d <= _LARGEST_DOMAIN:
            raise ValueError(
                f"domain_size must be at most {_LARGEST_DOMAIN}, not {d}: the time grows with its "
                "square; count coarser values, or publish a tree (Boost)"
            )
        if not 0 <= self.penalty < math.inf:
            raise ValueError(f"penalty must be at least 0 and finite, not {self.penalty}")
        histogram(self.epsilon)  # refuses what no noise table can hold

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """What every count gets."""
        return histogram(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """That of the noise: merging sees nothing else."""
        how = f"{self.noise.guarantee.how}; merging is post-processing"
        return replace(self.noise.guarantee, how=how)

    def release(self, counts: ArrayLike, rng: RandomSource) -> Floats:
        """Noisy counts, averaged within the buckets they suggest.

        Args:
            counts: (domain_size,) integers, |count| <= 2^62.
            rng: the generator of this process.

        Returns:
            (domain_size,) estimates; never clipped. Merging biases single counts towards their
            neighbours, in return for less noise.

        Raises:
            ValueError: the counts are not integers, not of that shape, or too large.
        """
        array = np.asarray(counts)
        if array.shape != (self.domain_size,):
            raise ValueError(f"counts must be {self.domain_size} integers, not {array.shape}")
        return self.merge(self.noise.perturb(array, rng))

    def merge(self, noisy: ArrayLike) -> Floats:
        """The noisy counts, each replaced by the mean of its bucket.

        Args:
            noisy: (domain_size,) finite numbers.

        Returns:
            (domain_size,) means; they have the same sum.

        Raises:
            ValueError: the counts are not finite or not of that shape.
        """
        return self._means(self._checked(noisy), self.buckets(noisy))

    def buckets(self, noisy: ArrayLike) -> NDArray[np.intp]:
        """Where the buckets of least estimated error begin.

        Over all starts of the last bucket at once, its spread is updated value by value
        (Welford), which adds squares only and so loses no digits. A start that is no better now
        than opening a new bucket here never will be, because cutting a bucket never increases its
        spread: it is dropped. That makes the search nearly linear where there are many buckets,
        and changes no optimum.

        Args:
            noisy: (domain_size,) finite numbers.

        Returns:
            (k,) ascending indices, the first 0; among equals, the last buckets are the longest.

        Raises:
            ValueError: the counts are not finite or not of that shape.

        Source: Jackson et al., "An algorithm for optimal partitioning of data on an interval",
            IEEE Signal Processing Letters 2005; Killick, Fearnhead, Eckley, "Optimal detection of
            changepoints with a linear computational cost", JASA 2012, Theorem 3.1.
        """
        price = self.penalty * self.noise.variance()
        start, cost = np.zeros(1, np.intp), np.full(1, price)  # cost: of all up to the last bucket
        mean, spread = np.zeros(1), np.zeros(1)  # of the last bucket
        previous: list[int] = []
        for here, value in enumerate(self._checked(noisy).tolist(), start=1):
            off, size = value - mean, here - start
            mean += off / size
            spread += off**2 * (1 - 1 / size)
            total = cost + spread
            best = int(total.argmin())
            previous.append(int(start[best]))
            reopened = total[best] + price
            # A start that costs no less than reopening here never becomes the best one again.
            keep = total < reopened
            start, cost = np.append(start[keep], here), np.append(cost[keep], reopened)
            mean, spread = np.append(mean[keep], 0.0), np.append(spread[keep], 0.0)
        begins = [previous[-1]]
        while begins[-1]:
            begins.append(previous[begins[-1] - 1])
        return np.array(begins[::-1])

    def _checked(self, noisy: ArrayLike) -> Floats:
        """The noisy counts as doubles, or a ValueError."""
        values = np.asarray(noisy, np.float64)
        if values.shape != (self.domain_size,) or not np.isfinite(values).all():
            raise ValueError(f"noisy counts must be a vector of {self.domain_size} finite numbers")
        return values

    def _means(self, values: Floats, starts: NDArray[np.intp]) -> Floats:
        """Each value replaced by the mean of its bucket."""
        sizes = np.diff(starts, append=values.size)
        return np.repeat(np.add.reduceat(values, starts) / sizes, sizes)
