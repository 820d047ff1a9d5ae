"""Counts of ordered values from a noisy tree that is made to agree with itself.

A range of values is then made up of few nodes, so its count is far more precise than the sum of
as many noisy counts.

Counts of nested intervals made to agree: the least-squares fit of a tree of measurements.

Measured with noise, children seldom add up to their parent. The nearest tree in which they do is
the best linear unbiased estimate, and it is found in two passes. This is post-processing: it
costs no privacy.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Floats, Guarantee
from mechanisms.randomness import RandomSource

_LARGEST_DOMAIN = 1 << 31  # its square fits into 64 bits
_TOTAL = 1 << 53  # doubles hold all counts below it exactly
_WIDEST = 64  # fanouts up to this are compared for ranges


@dataclass(frozen=True)
class IntervalTree:
    """A tree of intervals over ordered values, with every value at the same depth.

    Level l < height splits the domain into fanout^l intervals whose sizes differ by at most 1;
    level `height` is the values themselves. So only nodes of the last level have siblings of
    varying number, between 1 and fanout, and no node is padding. The root's count is known
    exactly; every other node is measured once, with independent errors of the same variance.

    Attributes:
        domain_size: d, how many values.
        fanout: k, how many children a node has; one level is left if it is d or more.

    Source: Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private
        histograms through consistency", VLDB 2010, section 4; there d is a power of k and the
        root is measured like the other nodes.

    >>> tree = IntervalTree(domain_size=5, fanout=2)
    >>> [level.tolist() for level in tree.totals([1, 1, 1, 1, 6])]
    [[10], [2, 8], [1, 1, 1, 7], [1, 1, 1, 1, 6]]
    >>> fitted = tree.fit(10, [[3, 8], [1, 1, 1, 7], [1, 1, 1, 1, 6]])
    >>> [level.round(2).tolist() for level in fitted[:3]]
    [[10.0], [2.26, 7.74], [1.13, 1.13, 0.89, 6.85]]
    """

    domain_size: int
    fanout: int = 2

    def __post_init__(self) -> None:
        d, k = self.domain_size, self.fanout
        if not 2 <= d <= _LARGEST_DOMAIN or d != int(d):
            raise ValueError(f"domain_size must be an integer in 2 .. {_LARGEST_DOMAIN}, not {d}")
        if not 2 <= k < math.inf or k != int(k):
            raise ValueError(f"fanout must be an integer of at least 2, not {k}")

    @cached_property
    def height(self) -> int:
        """How many levels of nodes lie below the root."""
        return next(h for h in range(1, 32) if int(self.fanout) ** h >= self.domain_size)

    @cached_property
    def children(self) -> list[NDArray[np.int64]]:
        """For each level above the leaves, root first: where each node's children begin below."""
        d, k, bottom = int(self.domain_size), int(self.fanout), self.height - 1
        upper = [np.arange(k**level) * k for level in range(bottom)]
        return [*upper, np.arange(k**bottom) * d // k**bottom]

    @cached_property
    def pooled_variances(self) -> list[Floats]:
        """Variance of each node's count as the measurements of its own subtree tell it.

        Returns:
            `height` levels below the root, in units of the variance of one measurement. With S
            the sum over the children, it is S / (1 + S); for a leaf, 1.
        """
        levels = [np.ones(int(self.domain_size))]
        for starts in self.children[:0:-1]:
            below = _sums(levels[0], starts)
            levels.insert(0, below / (1 + below))
        return levels

    def totals(self, leaves: ArrayLike) -> list[Counts]:
        """Exact counts of all nodes.

        Args:
            leaves: (domain_size,) integers.

        Returns:
            height + 1 levels of int64, root first.
        """
        levels = [np.asarray(leaves, np.int64)]
        for starts in reversed(self.children):
            levels.insert(0, _sums(levels[0], starts))
        return levels

    def fit(self, n: int, measured: Sequence[ArrayLike]) -> list[Floats]:
        """The consistent tree nearest to the measurements in Euclidean distance, in O(d).

        Upwards, a node's own measurement is averaged with the sum of its children's averages, by
        precision. Downwards, what the children of a fitted node lack is shared out among them in
        proportion to their variances.

        Args:
            n: the root's count.
            measured: `height` levels below the root, (..., nodes) numbers each.

        Returns:
            height + 1 levels, root first; every node is the sum of its children.

        Source: Hay et al. 2010, Theorem 3, for siblings of any number.
        """
        pooled = [np.asarray(measured[-1], np.float64)]
        for level in range(self.height - 2, -1, -1):
            below = _sums(pooled[0], self.children[level + 1])
            weight = self.pooled_variances[level]  # S / (1 + S), what precision gives to its own
            pooled.insert(0, weight * np.asarray(measured[level]) + (1 - weight) * below)
        fitted = [np.full((*pooled[0].shape[:-1], 1), float(n))]
        for starts, variance, own in zip(self.children, self.pooled_variances, pooled, strict=True):
            lack = (fitted[-1] - _sums(own, starts)) / _sums(variance, starts)
            fitted.append(own + variance * _spread(lack, starts, variance.size))
        return fitted

    def variance(self, weights: ArrayLike) -> float:
        """Variance of a weighted sum of fitted leaves.

        Given its parent's fitted count, a node's is its share of the siblings' variances times
        that, plus an error that is independent of all but its siblings'. So a sum over a subtree
        is a slope times the subtree's count, plus an independent rest.

        Args:
            weights: (domain_size,) numbers; 0 and 1 for a range.

        Returns:
            The exact variance in units of that of one measurement, in O(d).
        """
        slope, rest = np.asarray(weights, np.float64), np.zeros(int(self.domain_size))
        for starts, variance in self._upwards():
            mean = _sums(slope * variance, starts) / _sums(variance, starts)
            off = slope - _spread(mean, starts, variance.size)
            slope, rest = mean, _sums(rest + variance * off**2, starts)
        return float(rest[0])

    def leaf_variances(self) -> Floats:
        """(domain_size,) `variance` of every single fitted leaf, in O(d) for all."""
        fitted = np.zeros(1)
        for starts, variance in zip(self.children, self.pooled_variances, strict=True):
            share = variance / _spread(_sums(variance, starts), starts, variance.size)
            parent = _spread(fitted, starts, variance.size)
            fitted = variance * (1 - share) + share**2 * parent
        return fitted

    def mean_range_variance(self) -> float:
        """`variance` of a range, averaged over all d (d + 1) / 2 of them, in O(d).

        A range is the difference of two prefixes C_0 .. C_d, and the variances of all such
        differences add up to (d + 1) sum Var C_j - Var sum C_j. Of the prefixes that end inside
        a node we carry up how many they are and the sums of their rests, slopes and squared slopes.
        """
        d = int(self.domain_size)
        many, rest, slope, square = np.ones(d), np.zeros(d), np.zeros(d), np.zeros(d)
        for starts, variance in self._upwards():
            whole = _sums(variance, starts)
            before = np.cumsum(variance) - variance  # of the siblings that lie before
            before -= _spread(before[starts], starts, variance.size)
            known = many * before + variance * slope
            squares = many * before**2 + (2 * before * slope + variance * square) * variance
            inside = _sums(rest + many * before + variance * square, starts)
            slope, square = _sums(known, starts) / whole, _sums(squares, starts) / whole**2
            many, rest = _sums(many, starts), inside - square * whole
        total = (d + 1) * float(rest[0]) - self.variance(np.arange(d, 0, -1))
        return total / (d * (d + 1) / 2)

    def _upwards(self) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """From the leaves to the root: where siblings begin, and their pooled variances."""
        return zip(self.children[::-1], self.pooled_variances[::-1], strict=True)


def _sums(values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """From children to parents: the sum of what begins at each start."""
    sums: NDArray[Any] = np.add.reduceat(values, starts, axis=-1)
    return sums


def _spread(values: Floats, starts: NDArray[np.int64], width: int) -> Floats:
    """From parents to children: each value once for every child."""
    return np.repeat(values, np.diff(starts, append=width), axis=-1)


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
