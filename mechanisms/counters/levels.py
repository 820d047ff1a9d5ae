"""Counters in levels: their codes, the slots of a report, and what a collector may count.

Every report has the same typed slots: as many of each level as a user may raise, and some more if
devices send dummies, padded with nulls. A code counts in a slot of its own level only, so that
nobody raises one counter by more than the slots of its level, whatever is sent. The nulls of a
level are a counter, too: they would tell how many users there are.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import AsFields, Counts, Messages

LARGEST = 1 << 28  # counters; the collector's table takes 8 bytes for each

Slots = NDArray[np.int64]


class Level(NamedTuple):
    """Counters with one law of noise.

    Attributes:
        slots: k, how many of them a user raises at the most.
        counters: how many there are.
        weight: what one of them counts for in the statistic, not 0.
    """

    slots: int
    counters: int
    weight: float = 1.0


class Portion(NamedTuple):
    """Levels whose counters whole numbers of a unit are added to, one for each slot.

    Attributes:
        levels: how many, alike; a number may be divided among them.
        low, high: the least and the largest number; not above 0, and not below it.
    """

    levels: int = 1
    low: int = 0
    high: int = 1


def require_portions(parts: Sequence[Portion]) -> None:
    """Refuse numbers that no unit adds."""
    for part in parts:
        if not operator.index(part.levels) >= 1:
            raise ValueError("a number is divided among one level or more")
        if not operator.index(part.low) <= 0 <= operator.index(part.high) != part.low:
            raise ValueError("numbers reach from not above 0 to not below it")


def require_unit(unit: float | None) -> None:
    """Refuse a size that no unit of numbers has."""
    if unit is not None and not 0 < unit < float("inf"):
        raise ValueError(f"a unit of numbers must be positive and finite, not {unit}")


def require_levels(levels: Sequence[Level]) -> None:
    """Refuse levels that no counters have."""
    if not levels:
        raise ValueError("there must be at least one level of counters")
    for level in levels:
        slots, counters = operator.index(level.slots), operator.index(level.counters)
        if not 1 <= slots <= counters:
            raise ValueError(
                f"a user must raise 1 to all of a level's {counters} counters, not {slots}"
            )
        if not 0 < abs(level.weight) < float("inf"):
            raise ValueError(f"a weight must be finite and not 0, not {level.weight}")


@dataclass(frozen=True)
class Layout:
    """The codes 0, 1, ... of all counters, level by level, and after them a null for each level.

    Attributes:
        levels: at least one.
        room: of each level, how many more slots a report has; none if it is empty.

    >>> layout = Layout((Level(1, 2), Level(2, 3)))
    >>> layout.codes, layout.nulls.tolist(), layout.types.tolist()
    (7, [5, 6], [0, 1, 1])
    """

    levels: tuple[Level, ...]
    room: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require_levels(self.levels)
        if not self.codes <= LARGEST:
            raise ValueError(f"{self.codes:,} counters are more than the {LARGEST:,} there may be")

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(levels + 1,) where each level's codes begin, and where the nulls do."""
        return np.cumsum([0, *(level.counters for level in self.levels)]).astype(np.int64)

    @property
    def nulls(self) -> NDArray[np.int64]:
        """(levels,) the code of an empty slot of each level."""
        return np.asarray(self.starts[-1] + np.arange(len(self.levels)))

    @property
    def places(self) -> np.dtype[Any]:
        """The narrowest signed words that hold all codes, and -1."""
        return np.min_scalar_type(-self.codes)

    @property
    def codes(self) -> int:
        """How many there are, nulls included."""
        return int(self.starts[-1]) + len(self.levels)

    @cached_property
    def types(self) -> NDArray[np.int64]:
        """(F,) the level of each slot of a report."""
        return np.repeat(np.arange(len(self.levels)), self.poisoning)

    def idle(self, n: int) -> Messages:
        """(n, F) the reports of users who raise nothing."""
        return np.tile(self.nulls[self.types].astype(np.uint64), (n, 1))

    def level_of(self, codes: ArrayLike) -> NDArray[np.int64]:
        """The levels of some codes, nulls included: the slots that dummies are to stand in."""
        places = np.asarray(codes, np.int64)
        within = np.searchsorted(self.starts, places, side="right") - 1
        return np.where(places < self.starts[-1], within, places - self.starts[-1])

    def reports(self, sets: Sequence[Slots]) -> Messages:
        """What users send.

        Args:
            sets: for each level (n, slots) the places 0 .. counters - 1 of counters that are
                raised, distinct within a row, and -1 where there is none.

        Returns:
            (n, F) codes, in the narrowest unsigned words that hold them all.

        Raises:
            ValueError: a place is out of range, or stands twice. The message never holds it.
        """
        # Slot by slot in memory: so they are made, and so whoever drops the empty ones reads them.
        words = np.empty((self.types.size, len(sets[0])), np.min_scalar_type(self.codes))
        column = 0
        for i, (level, places) in enumerate(zip(self.levels, sets, strict=True)):
            if not (places.ndim == 2 and places.shape[1] == level.slots):
                raise ValueError(f"level {i} has {level.slots} slots, not {places.shape[1:]}")
            if places.size and not (places.min() >= -1 and places.max() < level.counters):
                raise ValueError(f"a place of level {i} lies outside 0 .. {level.counters - 1}")
            if has_twice(places):
                raise ValueError(f"a counter of level {i} stands twice in a report")
            codes, null = places + int(self.starts[i]), int(self.nulls[i])
            # Bit by bit where a place is -1: `np.where` takes four times as long if that is random.
            codes ^= (codes ^ null) & (places >> (8 * places.dtype.itemsize - 1))
            words[column : column + level.slots] = codes.T
            column += level.slots
        return words.T

    def count(self, messages: ArrayLike, types: ArrayLike) -> Counts:
        """The collector's state; that of several batches is the sum of theirs.

        Args:
            messages: (m,) uint64 codes, of reports and of dummies.
            types: (m,) the level of the slot that each stood in.

        Returns:
            (codes,) int64. A code in another level's slot is dropped.
        """
        words, slots = np.asarray(messages, np.uint64), np.asarray(types, np.int64)
        first, last = self.starts[slots], self.starts[slots + 1]
        kept = words < np.uint64(self.codes)
        places = np.where(kept, words, 0).astype(np.int64)
        own = ((places >= first) & (places < last)) | (places == self.nulls[slots])
        return np.bincount(places[kept & own], minlength=self.codes).astype(np.int64)

    def split(self, values: ArrayLike) -> list[NDArray[np.float64]]:
        """The counters of each level, nulls left out."""
        return np.split(np.asarray(values, np.float64), self.starts[1:])[:-1]

    @property
    def poisoning(self) -> list[int]:
        """How far one liar moves a counter of each level, at the most."""
        room = self.room or [0] * len(self.levels)
        return [level.slots + more for level, more in zip(self.levels, room, strict=True)]


_FEW = 4  # slots, of which pairs are sooner compared than rows sorted


class InLevels(AsFields):
    """Counters of which the last levels may stand beside a statistic, and be no part of it.

    Attributes:
        levels: the footprint.
        beside: how many levels are no part of the statistic.
    """

    levels: tuple[Level, ...]
    beside: int

    @cached_property
    def layout(self) -> Layout:
        """The codes of all counters, and the slots of a report."""
        return Layout(self.levels)

    @property
    def codes(self) -> int:
        """How many a message may have, nulls among them."""
        return self.layout.codes

    @property
    def statistic(self) -> tuple[Level, ...]:
        """The levels of the statistic."""
        return self.levels[: len(self.levels) - self.beside]

    def _require_statistic(self) -> None:
        require_levels(self.levels)
        if not 0 <= self.beside < len(self.levels):
            raise ValueError("beside must leave levels to the statistic")

    @property
    def lifts(self) -> list[int]:
        """How far a user who follows the protocol moves a counter of each level."""
        return [1] * len(self.levels)


def has_twice(places: Slots) -> bool:
    """Whether a place, and not -1, stands twice in a row."""
    if places.shape[1] > _FEW:
        places = np.sort(places, axis=1).T
        return bool(((places[1:] == places[:-1]) & (places[1:] >= 0)).any())
    pairs = combinations(places.T, 2)
    return any(bool(((one == other) & (one >= 0)).any()) for one, other in pairs)
