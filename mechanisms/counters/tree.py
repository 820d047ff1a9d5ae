"""Ranges, distribution functions and quantiles over many cells: a uniform tree of counters.

A user raises one node a level, those on the path to its cell. Weighted least squares makes levels
agree. In a uniform tree that has a closed form: let S_l be the leaves of a node of level l, v_l its
variance, and Pi_l the mean over the leaves of each node. The normal equations' matrix is then sum
of (S_l / v_l) Pi_l, and as the projections are nested, its inverse is a sum of their differences.

Source: Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms
    through consistency", VLDB 2010, Theorems 3 and 4; with a variance for each level.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats, require_integer
from mechanisms.counters.levels import Level, Slots


@dataclass(frozen=True)
class Tree:
    """Cells 0 .. m - 1 as the first leaves of a tree.

    Attributes:
        cells: m.
        branching: how many children a node has, from the root down; their product is at least m.
        weights: of each level, for sharing the budget; noise goes with one over them.

    >>> tree = Tree.uniform(cells=512, fanout=8)
    >>> tree.branching, [level.counters for level in tree.levels]
    ((8, 8, 8), [8, 64, 512])
    """

    cells: int
    branching: tuple[int, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (self.branching and min(self.branching) >= 2):
            raise ValueError("a tree has at least one level, and nodes have at least two children")
        require_integer("cells", self.cells, 2, self.leaves)
        if self.weights and len(self.weights) != len(self.branching):
            raise ValueError("there must be as many weights as levels")

    @classmethod
    def uniform(cls, cells: int, fanout: int, growth: float = 1.0) -> "Tree":
        """A tree of one fan-out; its root has no more children than cells need.

        Args:
            cells: m.
            fanout: children of each other node.
            growth: of a level's weight from one level to the next one down.
        """
        require_integer("fanout", fanout)
        if not (fanout >= 2 and 0 < growth < math.inf):
            raise ValueError("the fan-out must be at least 2, and growth positive")
        height = 1
        while fanout**height < cells:
            height += 1
        below = fanout ** (height - 1)
        branching = (max(2, -(-cells // below)), *(fanout,) * (height - 1))
        return cls(cells, branching, tuple(growth**i for i in range(height)))

    @property
    def leaves(self) -> int:
        """How many there are, those that stand for no cell included."""
        return math.prod(self.branching)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The leaves below a node of each level, the root's first."""
        return tuple(math.prod(self.branching[depth:]) for depth in range(len(self.branching) + 1))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """One for each depth. Nodes without cells have dummies, too: noise has to be uniform."""
        weights = self.weights or (1.0,) * len(self.branching)
        return tuple(
            Level(1, self.leaves // size, weight)
            for size, weight in zip(self.sizes[1:], weights, strict=True)
        )

    def encode(self, cells: ArrayLike) -> list[Slots]:
        """The counters that users raise.

        Args:
            cells: (n,) 0 .. cells - 1, and -1 for a user who has none.

        Returns:
            For each level (n, 1) places, and -1 where there is none.

        Raises:
            ValueError: a cell is out of range. The message never holds it.
        """
        array = np.asarray(cells, np.int64)
        if array.size and not (array.min() >= -1 and array.max() < self.cells):
            raise ValueError(f"a cell lies outside 0 .. {self.cells - 1}")
        return [np.where(array < 0, -1, array // size)[:, None] for size in self.sizes[1:]]

    def estimate(
        self, counts: Sequence[Floats], variances: Sequence[float], total: float | None = None
    ) -> Floats:
        """The cells' counts on which all levels agree best.

        Args:
            counts: for each level (counters,) less the dummies that were expected.
            variances: of each level's counters.
            total: how many users there are, where that is public.

        Returns:
            (cells,) unbiased; nodes' and ranges' are their sums.
        """
        sums = np.zeros(self.leaves)
        for row, size, variance in zip(counts, self.sizes[1:], variances, strict=True):
            sums += np.repeat(np.asarray(row, np.float64) / variance, size)
        parts = self._parts(sums)
        scales = self._scales(variances, total is not None)
        leaves = np.full(self.leaves, 0.0 if total is None else total / self.leaves)
        for scale, part in zip(scales, parts, strict=True):
            leaves += scale * part
        return leaves[: self.cells]

    def variance(
        self, weights: ArrayLike, variances: Sequence[float], known: bool = False
    ) -> float:
        """Of a linear function of the cells' estimated counts, exactly.

        Args:
            weights: (cells,) what each cell counts for.
            variances: of each level's counters.
            known: whether the number of users is public.
        """
        padded = np.zeros(self.leaves)
        padded[: self.cells] = np.asarray(weights, np.float64)
        parts = self._parts(padded)
        rows = zip(self._scales(variances, known), parts, strict=True)
        return float(sum(scale * (part * part).sum() for scale, part in rows))

    def range_variances(
        self, first: ArrayLike, end: ArrayLike, variances: Sequence[float], known: bool = False
    ) -> Floats:
        """Of the estimated numbers of users in ranges of cells; all ranges at once.

        Args:
            first: (k,) where they begin.
            end: (k,) the first cell behind each.
            variances: of each level's counters.
            known: whether the number of users is public.

        Returns:
            (k,) what `variance` says of (first <= index < end).
        """
        a, b = np.asarray(first, np.int64), np.asarray(end, np.int64)
        total = before = np.zeros(a.shape)
        for scale, size in zip(self._scales(variances, known), self.sizes, strict=True):
            left, right = a // size, b // size
            # A whole node has the mean 1, and those at both ends a fraction of it.
            ends = (size - a % size) ** 2 + (b % size) ** 2 + (right - left - 1) * size**2
            level = np.where(left == right, (b - a) ** 2, ends) / size
            total = total + scale * (level - before)
            before = level
        return total

    def below_variances(self, shares: ArrayLike, variances: Sequence[float]) -> Floats:
        """Of how many lie below each end of a cell, less a share of all; all ends at once.

        The squares of what each level adds have a closed form: a node that lies below an end as a
        whole has the mean 1 there, and one node of each level a fraction of it.

        Args:
            shares: (cells + 1,) of all users, for the ends from the first to the last.
            variances: of each level's counters.

        Returns:
            (cells + 1,) what `variance` says of (index < k) - shares[k].
        """
        ends, all_ = np.arange(self.cells + 1), self.cells
        products = np.zeros((3, ends.size))  # of the ends alone, of them with all, of all
        before = np.zeros_like(products)
        for scale, size in zip(self._scales(variances, False), self.sizes, strict=True):
            whole, part = ends // size, ends % size / size
            last, rest = divmod(all_, size)
            of_all = np.where(whole == last, rest / size, 1.0)
            level = np.stack([
                size * (whole + part**2), size * (whole + part * of_all),
                np.full(ends.size, size * (last + (rest / size) ** 2)),
            ])  # fmt: skip
            products += scale * (level - before)
            before = level
        share = np.asarray(shares, np.float64)
        own, crossed, total = products
        return np.maximum(own - 2 * share * crossed + share**2 * total, 0.0)

    def _scales(self, variances: Sequence[float], known: bool) -> list[float]:
        """The inverse's eigenvalues: of the mean of all leaves, and of what each level adds."""
        worth = [size / v for size, v in zip(self.sizes[1:], variances, strict=True)]
        below = [sum(worth[depth:]) for depth in range(len(worth))]
        return [0.0 if known else 1 / below[0], *(1 / rest for rest in below)]

    def _parts(self, leaves: Floats) -> list[Floats]:
        """A vector split into its mean and what the means over each level's nodes add to it."""
        means = [np.repeat(leaves.reshape(-1, size).mean(axis=1), size) for size in self.sizes]
        return [means[0], *(low - high for high, low in pairwise(means))]
