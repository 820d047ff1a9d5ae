"""The client of a tree of counters: a unit's rows to paths, one in each of its groups."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms import specification
from mechanisms.channel import Floats, Messages
from mechanisms.counters.contributions import Contributions, Pairs, pairs
from mechanisms.counters.levels import Layout, Level, Slots
from mechanisms.counters.tree import Tree
from mechanisms.randomness import RandomSource
from transforms.encoders.reports import LIMITED, UNUSABLE, WORDS, Levelled, shown
from transforms.encoders.sharing import added_up, counted


@dataclass(frozen=True)
class PathReporting(Levelled):
    """A unit's rows to paths through a tree over bins, which every group has.

    In the place of all rows of a unit in a group one stands that is drawn uniformly; or all share
    what it would raise, or some of them raise each for itself, where whole numbers add up.

    Attributes:
        tree: over the bins of a group. A cell is a bin of a group, group by group; behind the last
            one is that of rows without a number.
        groups: how many there are.
        most_groups: k, how many of them a unit may have, drawn uniformly if it has more.
        rows: how many rows of a unit count, each for itself; None where those of a group are one.
        parts: into how many parts what a unit raises in a group is divided among all of its rows
            there; 1 where it is not. Of rows without a number nothing is then raised.
        limited: whether units are counted of which something was left out.

    >>> from mechanisms.randomness import SeededRandom
    >>> path = PathReporting(Tree.uniform(4, 2))
    >>> [words] = path.words(np.zeros(1, np.int64), np.array([3]), None, 1, SeededRandom(0))
    >>> words.tolist()  # the right half, its right half, and nothing that cannot be used
    [[1, 5, 9]]
    """

    tree: Tree
    groups: int = 1
    most_groups: int = 1
    rows: int | None = None
    parts: int = 1
    limited: bool = False

    @property
    def beside(self) -> tuple[str, ...]:
        """As of `Reporting`."""
        return (*(LIMITED,) * self.limited, UNUSABLE)

    @property
    def sides(self) -> tuple[Level, ...]:
        """The level beside the tree's."""
        return (Level(len(self.beside), len(self.beside)),)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Of the tree, and then of what stands beside it."""
        of = (
            level._replace(slots=self.most_groups, counters=self.groups * level.counters)
            for level in self.tree.levels
        )
        return (*of, *self.sides)

    @property
    def divides(self) -> bool:
        """Whether what units raise is added up, and no report is one unit's."""
        return self.parts > 1 or self.rows is not None

    @property
    def whole(self) -> bool:
        return self.divides

    @property
    def specification(self) -> specification.CountersSpecification:
        """What a client in another language needs.

        Raises:
            TypeError: these clients know of no groups.
        """
        if self.groups > 1:
            raise TypeError("clients in other languages have no bins by groups")
        unit = specification.TreePath(bins=self.tree.cells, sizes=list(self.tree.sizes[1:]))
        return specification.CountersSpecification(levels=shown(self.levels), unit=unit)

    def divided(
        self,
        users: NDArray[np.int64],
        cells: NDArray[np.int64],
        n: int,
        applies: NDArray[np.bool_] | None,
        rng: RandomSource,
    ) -> Messages:
        """As of `Reporting`."""
        if applies is not None:
            users, cells = users[applies], cells[applies]
        some = cells != self._none
        unusable = np.unique(users).size - np.unique(users[some]).size
        users, cells = users[some], cells[some]
        if self.rows is None:
            few, places, kept = self.chosen(users, cells, n, rng)
            cells, totals = added_up(places, cells[kept], few.users.size, self.parts, rng)
            cut = few.cut
        else:
            drawn = Contributions.drawn(users, cells, n, self.rows, rng, None)
            cells, totals = np.unique(drawn.groups[drawn.groups >= 0], return_counts=True)
            cut = drawn.cut
        lost = [int(np.count_nonzero(cut)), unusable][-len(self.beside) :]
        return counted(Layout(self.levels), self._encoded(cells), totals, lost)

    def words(
        self,
        users: NDArray[np.int64] | None,
        groups: NDArray[np.int64],
        numbers: Floats | None,
        n: int,
        rng: RandomSource,
    ) -> Iterator[Messages]:
        """As of `Reporting`; groups are cells."""
        cells, cut = groups, np.zeros(n, np.bool_)
        if users is not None and n:
            order = np.lexsort((rng.words(users.size), users))
            cells = groups[order[np.searchsorted(users[order], np.arange(n))]]
        none, chosen = cells == self._none, cells[:, None]
        if users is not None and self.groups > 1:
            chosen, cut = self._drawn(users, groups, n, rng)
            none = (chosen < 0).all(axis=1)
        chosen = np.where(chosen == self._none, -1, chosen)
        layout = Layout(self.levels)
        lost = np.stack([*(cut,) * self.limited, none], axis=1)
        marks = lost * np.arange(1, 1 + lost.shape[1]) - 1
        step = max(1, WORDS // layout.types.size)
        for start in range(0, n, step):
            part = slice(start, start + step)
            yield layout.reports([*self._encoded(chosen[part]), marks[part]])

    @property
    def _none(self) -> int:
        """The cell of rows without a number."""
        return self.groups * self.tree.cells

    def _encoded(self, cells: Slots) -> list[Slots]:
        """For each level of the tree the places of cells, of any shape; -1 where there is none."""
        groups, bins = np.divmod(cells, self.tree.cells)
        nodes = zip(self.tree.sizes[1:], self.tree.levels, strict=True)
        return [
            np.where(cells < 0, -1, groups * level.counters + bins // size) for size, level in nodes
        ]

    def chosen(
        self, users: NDArray[np.int64], cells: NDArray[np.int64], n: int, rng: RandomSource
    ) -> tuple[Pairs, NDArray[np.int64], NDArray[np.bool_]]:
        """The groups that units may have; of which of them each row is that stays, and which do."""
        own = cells // self.tree.cells
        few = pairs(users, own, n, self.most_groups, rng)
        keys, sought = few.users * self.groups + few.groups, users * self.groups + own
        order = np.argsort(keys)
        places = np.searchsorted(keys, sought, sorter=order)
        places = order[np.minimum(places, max(keys.size - 1, 0))]
        kept = keys[places] == sought
        return few, places[kept], kept

    def _drawn(
        self, users: NDArray[np.int64], cells: NDArray[np.int64], n: int, rng: RandomSource
    ) -> tuple[Slots, NDArray[np.bool_]]:
        """(n, k) a cell of each group that a unit may have; (n,) which units have more groups."""
        some = cells != self._none
        few, places, kept = self.chosen(users[some], cells[some], n, rng)
        order = np.lexsort((rng.words(places.size), places))
        first = np.searchsorted(places[order], np.arange(few.users.size))
        drawn = np.full((n, self.most_groups), -1)
        drawn[few.users, few.places] = cells[some][kept][order[first]]
        return drawn, few.cut
