"""Counts of ordered values from a noisy tree that is made to agree with itself.

A range of values is then made up of few nodes, so its count is far more precise than the sum of
as many noisy counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Floats, Guarantee
from mechanisms.papers.consistency import IntervalTree
from mechanisms.randomness import RandomSource

_TOTAL = 1 << 53  # doubles hold all counts below it exactly
_WIDEST = 64  # fanouts up to this are compared for ranges


@dataclass(frozen=True)
class Boost:
    """Noisy counts of all nodes of a tree over the domain, fitted by least squares.

    Neighbours differ by replacing one record, so the number of records is public and the root,
    which counts it, needs no noise. A replacement lowers the other nodes on one path from the
    root by 1 and raises those on another. Two paths may share the root alone, and every path has
    `height` nodes below it: the sensitivity is 2 height in L1 norm, and it is attained.

    Attributes:
        epsilon: privacy loss, in nats.
        domain_size: d, how many values; neighbours in the order are siblings in the tree.
        fanout: k, how many children a node has; from d on the tree is a plain noisy histogram
            that is made to add up to the number of records. `for_ranges` chooses it.

    Source: Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private
        histograms through consistency", VLDB 2010, section 4. There a neighbour adds a record,
        the root is noisy as well, and so the sensitivity is the number of levels, root included.

    >>> from mechanisms.randomness import SeededRandom
    >>> mechanism = Boost(epsilon=1.0, domain_size=600, fanout=36)
    >>> mechanism.sensitivity, mechanism.guarantee.epsilon, round(mechanism.variance(50, 350), 1)
    (4, 1.0, 270.3)
    >>> estimate = mechanism.release([10] * 600, SeededRandom(1))
    >>> estimate.shape, round(float(estimate.sum()), 6)
    ((600,), 6000.0)
    """

    epsilon: float
    domain_size: int
    fanout: int = 2

    def __post_init__(self) -> None:
        # Both refuse what they cannot do: the tree a domain or fanout, the noise an epsilon.
        DiscreteLaplace(self.epsilon, 2 * IntervalTree(self.domain_size, self.fanout).height)

    @cached_property
    def tree(self) -> IntervalTree:
        """The nodes and their fit."""
        return IntervalTree(self.domain_size, self.fanout)

    @property
    def sensitivity(self) -> int:
        """The most by which one replacement changes the noisy nodes together, in L1 norm."""
        return 2 * self.tree.height

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """What every node but the root gets."""
        return DiscreteLaplace(self.epsilon, self.sensitivity)

    @property
    def guarantee(self) -> Guarantee:
        """That of the noise: the fit sees nothing else but the public number of records."""
        why = f"a replaced record changes at most {self.sensitivity} nodes of the tree by 1"
        return replace(self.noise.guarantee, how=f"{why}; {self.noise.guarantee.how}")

    def release(self, counts: ArrayLike, rng: RandomSource) -> Floats:
        """Unbiased counts of all values; their sum over a range estimates the range's count.

        Args:
            counts: (domain_size,) integers of at least 0, below 2^53 in total.
            rng: the generator of this process.

        Returns:
            (domain_size,) estimates that add up to the number of records; never clipped.

        Raises:
            ValueError: the counts are not integers, not of that shape, or out of range.
        """
        # The root is the public number of records: noise on it would protect nothing.
        root, *nodes = self.tree.totals(self._checked(counts))
        noisy = [self.noise.perturb(level, rng) for level in nodes]
        return self.tree.fit(int(root[0]), noisy)[-1]

    def _checked(self, counts: ArrayLike) -> Counts:
        """The counts as int64, or a ValueError."""
        array = np.asarray(counts)
        if array.dtype.kind not in "iu" or array.shape != (self.domain_size,):
            raise ValueError(
                f"counts must be {self.domain_size} integers, not {array.dtype} of shape "
                f"{array.shape}"
            )
        if not (array.min() >= 0 and array.sum(dtype=np.float64) < _TOTAL):
            raise ValueError(f"counts must be at least 0 and below {_TOTAL} in total")
        return array.astype(np.int64)

    def variance(self, start: int, stop: int) -> float:
        """Variance of the estimated count of values start .. stop - 1; (i, i + 1) is one value.

        Args:
            start: 0 .. stop.
            stop: start .. domain_size, exclusive.

        Returns:
            The exact variance in squared counts, in O(d); 0 for the whole domain.

        Raises:
            ValueError: the range does not lie in the domain.
        """
        if not 0 <= start <= stop <= self.domain_size:
            raise ValueError(f"the range {start} .. {stop} is not within 0 .. {self.domain_size}")
        place = np.arange(self.domain_size)
        return self.noise.variance() * self.tree.variance((start <= place) & (place < stop))

    def leaf_variances(self) -> Floats:
        """(domain_size,) `variance` of every single value, in squared counts."""
        return self.noise.variance() * self.tree.leaf_variances()

    def mean_range_variance(self) -> float:
        """`variance` averaged over all d (d + 1) / 2 ranges, in squared counts, in O(d)."""
        return self.noise.variance() * self.tree.mean_range_variance()


def for_ranges(epsilon: float, domain_size: int) -> Boost:
    """The tree whose ranges have the least variance on average.

    Args:
        epsilon: privacy loss, in nats.
        domain_size: d, how many values.

    Returns:
        The best of the fanouts 2 .. 64 and d.

    Raises:
        ValueError: the domain is too small or large, or epsilon too small for a binary tree.

    Source: Qardaji, Yang, Li, "Understanding hierarchical methods for differentially private
        histograms", VLDB 2013, who compare approximations of the same average.

    >>> for_ranges(epsilon=1.0, domain_size=600).fanout
    36
    """
    tallest = Boost(epsilon, domain_size)
    fanouts = {*range(2, 1 + min(_WIDEST, domain_size)), domain_size}
    others = (replace(tallest, fanout=fanout) for fanout in sorted(fanouts))
    return min(others, key=Boost.mean_range_variance)
