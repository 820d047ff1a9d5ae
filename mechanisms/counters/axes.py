"""A column of a cross-tab: its values, and the coarser groups that they belong to.

Each level of groups divides the one above it; level 0 is all values together. Where groups have
unequally many parts, each part is given an equal share of its group: that is how a coarse count is
spread when nothing finer is known, and what makes the levels of several columns orthogonal.

Tables of columns as sums of details: what each says beyond those that it holds.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats


@dataclass(frozen=True)
class Axis:
    """A column.

    Attributes:
        sizes: how many groups each level has, the coarsest first; the values are the last.
        parents: of each level but the first, the group of the level above for each of its groups.

    >>> cities = Axis((2, 3), ((0, 0, 1),))
    >>> cities.depth, cities.places(1).tolist(), cities.shares(2).tolist()
    (2, [0, 0, 1], [0.25, 0.25, 0.5])
    """

    sizes: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not (self.sizes and min(self.sizes) >= 1 and len(self.parents) == len(self.sizes) - 1):
            raise ValueError("a column has levels of at least one group, each with its parents")
        for above, size, parents in zip(self.sizes, self.sizes[1:], self.parents, strict=False):
            if not (len(parents) == size and {*parents} == {*range(above)}):
                raise ValueError("each group must have one parent, and each parent a group")

    @property
    def depth(self) -> int:
        """The level of the values."""
        return len(self.sizes)

    def size(self, level: int) -> int:
        """How many groups a level has."""
        return self.sizes[level - 1] if level else 1

    def places(self, level: int, of: int | None = None) -> NDArray[np.int64]:
        """The group of a level to which each group of a finer one belongs; of the values."""
        fine = self.depth if of is None else of
        if level == 0:
            return np.zeros(self.size(fine), np.int64)
        groups = np.arange(self.size(fine))
        for parents in reversed(self.parents[level - 1 : max(fine - 1, 0)]):
            groups = np.asarray(parents, np.int64)[groups]
        return groups

    @cached_property
    def _shares(self) -> list[Floats]:
        """Of all, what falls to each group of each level."""
        shares = [np.ones(1)]
        for level in range(1, self.depth + 1):
            above = self.places(level - 1, level)
            shares.append(shares[-1][above] / np.bincount(above)[above])
        return shares

    def shares(self, level: int) -> Floats:
        """(groups,) of all, what falls to each group of a level if nothing is known."""
        return self._shares[level]

    def summed(self, array: NDArray[Any], along: int, fine: int, level: int) -> NDArray[Any]:
        """Counts of a level's groups added up to those of a coarser one, which stay exact.

        Args:
            array: of which one dimension has the groups of the level `fine`.
            along: that dimension.
            fine, level: levels.
        """
        if fine == level:
            return array
        if level == 0:
            return np.asarray(array.sum(axis=along, keepdims=True))
        from scipy import sparse

        places = self.places(level, fine)
        ones = np.ones(places.size, array.dtype), (places, np.arange(places.size))
        adding = sparse.csr_array(ones, shape=(self.size(level), places.size))
        moved = np.moveaxis(array, along, 0)
        added = adding @ moved.reshape(places.size, -1)
        return np.moveaxis(added.reshape(-1, *moved.shape[1:]), 0, along)

    def spread(self, array: Floats, along: int, level: int, fine: int) -> Floats:
        """Counts of a level's groups divided among those of a finer one, by their shares."""
        if fine == level:
            return array
        places = self.places(level, fine)
        shares = self.shares(fine) / self.shares(level)[places]
        shape = [1] * array.ndim
        shape[along] = shares.size
        return np.asarray(np.take(array, places, axis=along) * shares.reshape(shape))

    def detail(self, array: Floats, along: int, level: int) -> Floats:
        """What counts of a level say beyond those of the level above."""
        if level == 0:
            return array
        above = self.summed(array, along, level, level - 1)
        return np.asarray(array - self.spread(above, along, level - 1, level))

    def overlap(
        self, array: Floats, along: int, at: int, table: int, one: int, other: int
    ) -> Floats:
        """What the details of two levels share, as one table tells them.

        Args:
            array: (..., groups of `table`, ...) how much each counter counts.
            along: the dimension of this column.
            at: the level of what is estimated.
            table: that of the counters which tell it.
            one, other: those of the details, neither finer than `at` nor than `table`.

        Returns:
            (..., groups of `at`, ...) the sum over the counters of the products of the two
            coefficients with which each of them enters the group's estimate.
        """
        total = np.zeros(())
        for low, sign in ((one, 1), (one - 1, -1)):
            for high, other_sign in ((other, 1), (other - 1, -1)):
                if low >= 0 and high >= 0:
                    common = self._common(array, along, at, table, low, high)
                    total = total + sign * other_sign * common
        return total

    def _common(
        self, array: Floats, along: int, at: int, table: int, one: int, other: int
    ) -> Floats:
        """The same of all that two levels say."""
        ends = [self.places(level, at) for level in (one, other)]
        shares = [self.shares(level)[end] for level, end in zip((one, other), ends, strict=True)]
        finer, end = max((one, ends[0]), (other, ends[1]), key=lambda side: side[0])
        counters = np.take(self.summed(array, along, table, finer), end, axis=along)
        shape = [1] * array.ndim
        shape[along] = end.size
        return np.asarray(
            (self.shares(at) ** 2 / (shares[0] * shares[1])).reshape(shape) * counters
        )


def flat(sizes: Sequence[int]) -> tuple[Axis, ...]:
    """Columns without coarser groups.

    Args:
        sizes: how many values each has.
    """
    return tuple(Axis((size,)) for size in sizes)


Table = tuple[tuple[int, int], ...]
"""(column, level) of each of its columns, none to three, in the order of the columns."""


@dataclass(frozen=True)
class Details:
    """The tables of some columns, and the details that they are sums of.

    Attributes:
        axes: the columns.

    >>> from mechanisms.counters.axes import flat
    >>> list(Details(flat([3, 4])).details(((0, 1), (1, 1))))
    [(), ((1, 1),), ((0, 1),), ((0, 1), (1, 1))]
    """

    axes: tuple[Axis, ...]

    def shape(self, table: Table) -> tuple[int, ...]:
        """How many groups each of its columns has."""
        return tuple(self.axes[column].size(level) for column, level in table)

    def cells(self, table: Table) -> int:
        """How many cells a table has."""
        return math.prod(self.shape(table))

    def own(self, array: Floats, table: Table, detail: Table) -> Floats:
        """What a table's counters say of a detail."""
        array = self.coarsened(array, table, detail)
        for along, (column, level) in enumerate(detail):
            array = self.axes[column].detail(array, along, level)
        return array

    def details(self, table: Table) -> Iterator[Table]:
        """All that a table is the sum of."""
        for levels in product(*(range(level + 1) for _, level in table)):
            yield tuple((c, lv) for (c, _), lv in zip(table, levels, strict=True) if lv)

    def dimension(self, detail: Table) -> int:
        """How many numbers say a detail."""
        axes = ((self.axes[column], level) for column, level in detail)
        return math.prod(axis.size(level) - axis.size(level - 1) for axis, level in axes)

    @staticmethod
    def holds(table: Table, detail: Table) -> bool:
        """Whether a table tells a detail, or sums up to another table."""
        own = dict(table)
        return all(level <= own.get(column, 0) for column, level in detail)

    def coarsened(self, array: NDArray[Any], table: Table, coarse: Table) -> NDArray[Any]:
        """A table added up to one of fewer columns, or of coarser groups."""
        own = dict(coarse)
        for along, (column, level) in enumerate(table):
            array = self.axes[column].summed(array, along, level, own.get(column, 0))
        return array.reshape(self.shape(coarse))

    def spread(self, array: Floats, detail: Table, table: Table) -> Floats:
        """A detail as a table of its own."""
        own = dict(detail)
        shape = [self.axes[c].size(own.get(c, 0)) for c, _ in table]
        array = array.reshape(shape)
        for along, (column, level) in enumerate(table):
            array = self.axes[column].spread(array, along, own.get(column, 0), level)
        return array

    def overlap(
        self, noise: Floats, table: Table, measured: Table, one: Table, other: Table
    ) -> Floats:
        """The sum over a table's counters of products of coefficients, times their noise."""
        at, own, first, second = (dict(levels_of) for levels_of in (table, measured, one, other))
        columns = sorted({*at, *own})
        overlap = noise.reshape([self.axes[c].size(own.get(c, 0)) for c in columns])
        for along, c in enumerate(columns):
            levels = (levels_of.get(c, 0) for levels_of in (at, own, first, second))
            overlap = self.axes[c].overlap(overlap, along, *levels)
        return overlap.reshape(self.shape(table))
