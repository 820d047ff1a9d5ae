"""Tables of columns as sums of details: what each says beyond those that it holds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.counters.axes import Axis

Table = tuple[tuple[int, int], ...]
"""(column, level) of each of its columns, none to two, in the order of the columns."""


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
