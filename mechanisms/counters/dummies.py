"""The shuffler's dummies on all counters: level by level, correlated, or both beside each other."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Neighbours
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import Gaussian, Laplace, ShufflerNoise
from mechanisms.counters.price import Charge
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum

Seen = Callable[[ShufflerNoise, int], BinLaw]


class PlacedNoise(NamedTuple):
    """One noise and where it goes.

    Attributes:
        law: of Z.
        effect: (levels,) how often Z is added to a counter of each level.
    """

    law: ShufflerNoise
    effect: NDArray[np.int64]


def complete(level: Level, neighbours: Neighbours) -> bool:
    """Whether null dummies make up a level's others to a number that is known.

    Where users are replaced their number is public, and so are the nulls once the counters are
    seen. Elsewhere nulls get noise of their own, as if they were `slots` more counters. That
    costs nothing but here, where a user who raises a counter would lower a null besides.
    """
    return neighbours == "replace" and level.counters < 2 * level.slots


def telling(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Levels without the counters that a price does not look at: no two inputs raise more."""
    return tuple(lv._replace(counters=min(lv.counters, 2 * lv.slots)) for lv in levels)


def moved(weights: Sequence[int], level: Level, neighbours: Neighbours) -> tuple[int, int]:
    """(by how much one user moves a sum of digits, of how many sums), at the most.

    Args:
        weights: of the digits.
        level: of any of them.
        neighbours: what is to look alike.
    """
    up, down = sum(w for w in weights if w > 0), -sum(w for w in weights if w < 0)
    if neighbours == "add or remove" or not down:
        return max(up, down), level.counters
    # A sum goes from one end to the other; or one falls where another rises, which together show
    # less than one that moves by both: see `ShufflerNoise.seen`.
    alone = level.counters == level.slots
    return up + down if alone else 2 * max(up, down), level.slots


class Dummies(ABC):
    """The law of the dummies: of one counter of each level, and all such columns alike."""

    @property
    @abstractmethod
    def groups(self) -> list[tuple[int, ...]]:
        """The levels, those together whose dummies depend on each other."""

    @property
    @abstractmethod
    def parts(self) -> list[PlacedNoise]:
        """The noises of a column, independent."""

    @property
    @abstractmethod
    def means(self) -> tuple[int, ...]:
        """Of each level's counters; no counter ever has more than twice as many dummies."""

    @abstractmethod
    def null_laws(self, level: int) -> tuple[ShufflerNoise, ...]:
        """The null dummies of a level with noise of their own are as many as `slots` draws of each
        of these."""

    @abstractmethod
    def charges(
        self, levels: Sequence[Level], neighbours: Neighbours, seen: Seen = ShufflerNoise.seen
    ) -> list[Charge]:
        """What they cost, nulls included; `seen` is how laws are tabulated."""

    @abstractmethod
    def widened(self, factor: float) -> "Dummies":
        """Those whose noises are so many times as wide; see `ShufflerNoise.widened`."""

    def number(self, levels: Sequence[Level]) -> int:
        """How many there are on average, nulls left out."""
        return sum(m * level.counters for m, level in zip(self.means, levels, strict=True))

    def variance(self, weights: Sequence[float], rough: bool = False) -> float:
        """Of a weighted sum of one counter of each level; levels that are not named count 0.

        Args:
            weights: of the levels.
            rough: whether doubles will do, so that no table is made.
        """
        given = self._padded(weights).astype(np.float64)
        parts = [(law, float(effect @ given)) for law, effect in self.parts]
        return sum(w**2 * (law.rough_variance if rough else law.variance) for law, w in parts if w)

    def error_law(self, weights: Sequence[int], columns: int = 1) -> IntegerNoise:
        """The exact law of a weighted sum's error, for intervals.

        Args:
            weights: of one counter of each level, whole numbers; of the last ones 0 if they are
                not named.
            columns: how many such sums are added or taken away: 2 where parts have signs.

        Raises:
            ValueError: the law is too long to tabulate; it is all but normal then.
        """
        given = self._padded(weights).astype(np.int64)
        parts = [(law, int(effect @ given)) for law, effect in self.parts]
        return weighted_sum(columns * [(-law.mu, law.pmf, w) for law, w in parts if w])

    def _padded(self, weights: Sequence[float]) -> NDArray[Any]:
        return np.pad(np.asarray(weights), (0, len(self.means) - len(weights)))

    def draw(self, levels: Sequence[int], size: int, rng: RandomSource) -> Counts:
        """Numbers of dummies.

        Args:
            levels: one or several whole `groups`.
            size: on how many counters of each.
            rng: the generator of the shuffler's process.

        Returns:
            (levels, size) int64, at least 0.
        """
        chosen = list(levels)
        if not all(len({i in chosen for i in group}) == 1 for group in self.groups):
            raise ValueError("correlated dummies are drawn for all levels at once")
        drawn = np.repeat(np.array(self.means, np.int64)[chosen, None], size, axis=1)
        for law, effect in self.parts:
            if effect[chosen].any():
                drawn += effect[chosen, None] * (law.draw(size, rng) - law.mu)
        return drawn


def dummies_of(record: Any) -> Any:
    """What `noise.recorded` has written: dummies, a law, or a part of either.

    Raises:
        KeyError, TypeError, ValueError: it is none of these.

    >>> dummies_of({"law": "independent", "laws": [{"law": "laplace", "mu": 4, "slope": 2.0}]})
    Independent(laws=(Laplace(mu=4, slope=2.0),))
    """
    if isinstance(record, list):
        return tuple(map(dummies_of, record))
    if not isinstance(record, dict):
        return record
    laws = {
        law.__name__.lower(): law for law in (Laplace, Gaussian, Independent, Correlated, Beside)
    }
    parts = {name: dummies_of(part) for name, part in record.items() if name != "law"}
    return laws[record["law"]](**parts)


@dataclass(frozen=True)
class Independent(Dummies):
    """Every counter's dummies on their own.

    Attributes:
        laws: of each level.
    """

    laws: tuple[ShufflerNoise, ...]

    @property
    def groups(self) -> list[tuple[int, ...]]:
        return [(i,) for i in range(len(self.laws))]

    @property
    def parts(self) -> list[PlacedNoise]:
        unit = np.eye(len(self.laws), dtype=np.int64)
        return [PlacedNoise(law, effect) for law, effect in zip(self.laws, unit, strict=True)]

    @property
    def means(self) -> tuple[int, ...]:
        return tuple(law.mu for law in self.laws)

    def null_laws(self, level: int) -> tuple[ShufflerNoise, ...]:
        # A sum of `slots` counters, one of which a user raises for each that it leaves alone: no
        # news for whoever sees each of them.
        return (self.laws[level],)

    def widened(self, factor: float) -> "Independent":
        return Independent(tuple(law.widened(factor) for law in self.laws))

    def charges(
        self, levels: Sequence[Level], neighbours: Neighbours, seen: Seen = ShufflerNoise.seen
    ) -> list[Charge]:
        both = zip(self.laws, levels, strict=True)
        return [Charge(seen(law, 1), level.slots, level.counters) for law, level in both]


@dataclass(frozen=True)
class Correlated(Dummies):
    """Digits whose weighted sum carries one noise alone, while masks hide each of them.

    M_i is added to digit i, and w_i M_i is taken from the lowest digit, whose weight is 1. Who
    sees the digits' counters sees, but for a bijection, the sum with its noise and the other
    digits with their masks.

    Attributes:
        weights: of the digits, whole numbers and none of them 0, the first one 1.
        total: the noise of the sum.
        mask: the noise of each other digit.
    """

    weights: tuple[int, ...]
    total: Laplace
    mask: Gaussian

    def __post_init__(self) -> None:
        if not (self.weights and self.weights[0] == 1 and all(self.weights)):
            raise ValueError("digits must have whole weights, the first one 1")

    @property
    def groups(self) -> list[tuple[int, ...]]:
        return [tuple(range(len(self.weights)))]

    @property
    def parts(self) -> list[PlacedNoise]:
        unit = np.eye(len(self.weights), dtype=np.int64)
        rows = list(zip(self.weights, unit, strict=True))
        masks = [PlacedNoise(self.mask, effect - weight * unit[0]) for weight, effect in rows[1:]]
        return [PlacedNoise(self.total, unit[0]), *masks]

    @property
    def means(self) -> tuple[int, ...]:
        others = self.mask.mu * sum(map(abs, self.weights[1:]))
        return (self.total.mu + others, *[self.mask.mu] * (len(self.weights) - 1))

    def null_laws(self, level: int) -> tuple[ShufflerNoise, ...]:
        return (self.mask,)

    def widened(self, factor: float) -> "Correlated":
        # By no more may a user raise a sum of digits, nor by much less.
        span = sum(map(abs, self.weights))
        total, mask = self.total.widened(factor, span), self.mask.widened(factor)
        return Correlated(self.weights, total, mask)

    def charges(
        self, levels: Sequence[Level], neighbours: Neighbours, seen: Seen = ShufflerNoise.seen
    ) -> list[Charge]:
        (slots, counters, _), more = levels[0], len(self.weights) - 1
        if len(levels) != more + 1 or {level[:2] for level in levels} != {(slots, counters)}:
            raise ValueError("there is a level for each digit, and all have as many counters")
        shift, reach = moved(self.weights, levels[0], neighbours)
        charges = [Charge(seen(self.total, shift), slots, reach)]
        if more:
            charges.append(Charge(seen(self.mask, 1), slots * more, counters * more))
        if not complete(levels[0], neighbours):
            charges.append(Charge(seen(self.mask, 1), slots, slots))  # the lowest digit's nulls
        return charges


@dataclass(frozen=True)
class Beside(Dummies):
    """Dummies of some levels and, independent of them, of those that come after: priced jointly.

    Attributes:
        blocks: of the first levels, of those after them, and so on.

    >>> digits = Correlated((1, 2), Laplace(9, 0.4), Gaussian(5, 0.9))
    >>> both = Beside((digits, Independent((Laplace(40, 0.1),))))
    >>> both.means, both.groups
    ((19, 5, 40), [(0, 1), (2,)])
    """

    blocks: tuple[Dummies, ...]

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((len(block.means) for block in self.blocks), initial=0))

    @property
    def groups(self) -> list[tuple[int, ...]]:
        rows = zip(self._starts, self.blocks, strict=False)
        return [tuple(start + i for i in g) for start, block in rows for g in block.groups]

    @property
    def parts(self) -> list[PlacedNoise]:
        rows, levels = zip(self._starts, self.blocks, strict=False), self._starts[-1]
        return [
            PlacedNoise(law, np.pad(effect, (start, levels - start - effect.size)))
            for start, block in rows
            for law, effect in block.parts
        ]

    @property
    def means(self) -> tuple[int, ...]:
        return tuple(mean for block in self.blocks for mean in block.means)

    def null_laws(self, level: int) -> tuple[ShufflerNoise, ...]:
        block = bisect_right(self._starts, level) - 1
        return self.blocks[block].null_laws(level - self._starts[block])

    def widened(self, factor: float) -> "Beside":
        return Beside(tuple(block.widened(factor) for block in self.blocks))

    def charges(
        self, levels: Sequence[Level], neighbours: Neighbours, seen: Seen = ShufflerNoise.seen
    ) -> list[Charge]:
        rows = zip(self.blocks, pairwise(self._starts), strict=True)
        return [
            charge
            for block, (first, last) in rows
            for charge in block.charges(levels[first:last], neighbours, seen)
        ]
