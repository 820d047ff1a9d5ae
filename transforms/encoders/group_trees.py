"""From rows to trees of counters of groups that nobody declared."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.counters.contributions import Contributions
from mechanisms.counters.tree import Tree
from mechanisms.randomness import RandomSource
from transforms.encoders.bins import binned
from transforms.encoders.bounds import Bounds
from transforms.encoders.paths import PathReporting
from transforms.encoders.sharing import added_up
from transforms.encoders.strings import Words, distinct
from transforms.encoders.undeclared import GroupSums, as_words


@dataclass(frozen=True, kw_only=True)
class GroupTrees(GroupSums):
    """What units add to the trees of the groups that they have.

    Attributes:
        tree: over the bins of each group, between bounds.
        parts: into how many what a unit raises in a group is divided among its rows there.
    """

    tree: Tree
    bounds: Bounds
    parts: int = 1

    @property
    def numbers(self) -> int:
        return 2 + sum(level.counters for level in self.tree.levels)

    def table(
        self, users: NDArray[np.int64], cells: Words, numbers: Floats | None, n: int,
        rng: RandomSource,
    ) -> Words:  # fmt: skip
        own = np.empty(0) if numbers is None else numbers
        usable = np.isfinite(own)
        users, cells = users[usable], cells[usable]
        (first, kinds), bins = distinct(cells), self.tree.cells
        placed = kinds * bins + binned(own[usable], self.bounds, bins)
        if self.rows is None:
            paths = PathReporting(self.tree, max(first.size, 1), self.design.most_groups)
            few, places, kept = paths.chosen(users, placed, n, rng)
            owners, groups = few.users, few.groups
            raised, totals = added_up(places, placed[kept], owners.size, self.parts, rng)
        else:
            drawn = Contributions.drawn(users, placed, n, self.rows, rng, None).groups
            owners, groups = np.nonzero(drawn >= 0)[0], drawn[drawn >= 0] // bins
            raised, totals = np.unique(drawn[drawn >= 0], return_counts=True)
        sums = np.zeros((first.size, self.numbers), np.int64)
        sums[:, 0], start = 1, 2  # so that a lost one is missed
        np.add.at(sums[:, 1], groups, self._weights(owners, groups, n))
        for size, level in zip(self.tree.sizes[1:], self.tree.levels, strict=True):
            np.add.at(sums, (raised // bins, start + raised % bins // size), totals)
            start += level.counters
        some = np.unique(groups)  # of others nobody counts, and they may not be found
        return np.concatenate([cells[first][some], as_words([*sums[some].T])], axis=1)
