"""The client of counters: what all rows of a unit come to, as the words of one report."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms import specification
from mechanisms.channel import Counts, Floats, Messages
from mechanisms.counters.amounts import Amounts, WholeAmounts, digit_weights, tallied, whole_amounts
from mechanisms.counters.contributions import Contributions, pairs
from mechanisms.counters.crosstabs import CrossTabs
from mechanisms.counters.levels import Layout, Level, Slots
from mechanisms.counters.rows import RowCounters, SummedRows
from mechanisms.counters.split_mix import SplitMix
from mechanisms.randomness import RandomSource
from transforms.encoders.block import NUMBERED, RowBlock, pieces
from transforms.encoders.sharing import added_up
from transforms.encoders.strings import distinct

LIMITED, UNUSABLE, LACKING, MISSING = "limited", "unusable", "lacking", "missing"

WORDS = 1 << 20  # made at a time
_CUT = 0.01  # the weight of what was cut


@dataclass(frozen=True)
class Clip:
    """The least and the largest number of a group, and the units that it is told in.

    Attributes:
        low: finite.
        high: above it.
        units: how many lie between the origin and the end that is farther from it.
        origin: from which numbers are told.

    >>> Clip(-5.0, 20.0, 10).bound, Clip(-5.0, 20.0, 10).signed, Clip(-9.0, -1.0, 3).sign
    (20.0, True, -1)
    """

    low: float
    high: float
    units: int
    origin: float = 0.0

    @property
    def bound(self) -> float:
        """Of the distance from the origin."""
        return max(abs(self.low - self.origin), abs(self.high - self.origin))

    @property
    def signed(self) -> bool:
        """Whether there may be numbers on both sides of the origin."""
        return self.low < self.origin < self.high

    @property
    def sign(self) -> int:
        """Of all differences that are not 0, where they have one; else 1."""
        return -1 if self.high <= self.origin else 1

    @property
    def specification(self) -> specification.NumberUnits:
        """What a client in another language needs."""
        return specification.NumberUnits(
            low=self.low, high=self.high, origin=self.origin, bound=self.bound, units=self.units,
            sign=self.sign,
        )  # fmt: skip


class Levelled(ABC):
    """A report in levels."""

    words: Callable[..., Iterator[Messages]]  # where a unit's rows are cells: see `Reporting`

    @property
    @abstractmethod
    def levels(self) -> tuple[Level, ...]:
        """Of the statistic, and then of what stands beside it."""

    @property
    def whole(self) -> bool:
        """Whether whole numbers are added to counters, as who counts them by itself can."""
        return False

    def totals(self, *known: Any) -> Counts:
        """(counters,) of all levels: what reports raise them by; as `words`, and drawn alike."""
        layout = Layout(self.levels)
        totals = np.zeros(layout.codes, np.int64)
        for words in self.words(*known):
            flat: Any = words.ravel("K")
            if flat.dtype == NUMBERED:
                totals += tallied(flat["code"].astype(np.int64), layout.codes, flat["times"])
            else:
                totals += np.bincount(flat, minlength=layout.codes)
        return totals[: layout.starts[-1]]

    def nothing(self, n: int, rng: RandomSource) -> Messages:
        """(n, F) the reports of units that raise nothing."""
        levels = self.levels
        sets = [np.full((n, level.slots), -1, np.int64) for level in levels]
        return self.reported(Layout(levels), sets)

    def reported(
        self, layout: Layout, sets: Sequence[Slots], added: Sequence[Slots] | None = None
    ) -> Messages:
        """(n, F) words, and how much each adds to its counter where that is not always 1.

        Args:
            layout: of the levels.
            sets: as of `Layout.reports`.
            added: for the first levels, as `sets`; None where every one is 1.
        """
        words = layout.reports(sets)
        if not self.whole:
            return words
        table: NDArray[Any] = np.empty(words.shape, NUMBERED)
        table["code"], table["times"] = words, 1
        column = 0
        for part in added or ():
            table["times"][:, column : column + part.shape[1]] = part
            column += part.shape[1]
        return table


@dataclass(frozen=True)
class Reporting(Levelled):
    """A unit's rows to its report; nothing but roundings and choices among its groups is drawn.

    Attributes:
        amounts: the counters of what is asked.
        clip: of numbers that are added up; None where rows are counted.
        averaged: whether a unit's number of a group is the average of its rows.
        present: whether all units are counted, by a level of their own.
        beside: what else is told of units, by counters of its own: `LIMITED`, whether something
            was left out or clipped, and `UNUSABLE`, whether a number cannot be used; where numbers
            are averaged, whether none can be.
        rows: how many rows of a unit count, each for itself, drawn uniformly where it has more;
            None where those of a group are put together. A report then has the slots of a row for
            each of them.
        parts: into how many parts what a unit raises is divided among its different groups, by who
            adds whole numbers up; amounts are of as many. 1 where it is not.

    >>> from mechanisms.randomness import SeededRandom
    >>> events = Reporting(Amounts(groups=3, most_groups=2, most=2), beside=(LIMITED,))
    >>> rows = np.zeros(4, np.int64), np.array([2, 2, 2, 0])
    >>> [words] = events.words(*rows, None, 1, SeededRandom(0))
    >>> np.sort(words).tolist()  # values 0 and 2; of value 2 another; and something was left out
    [[0, 2, 5, 6, 8]]
    """

    amounts: Amounts
    clip: Clip | None = None
    beside: tuple[str, ...] = ()
    averaged: bool = False
    present: bool = False
    rows: int | None = None
    parts: int = 1

    @property
    def levels(self) -> tuple[Level, ...]:
        """Of the statistic, and then of what stands beside it."""
        return (*self.amounts.levels, *self.sides)

    def nothing(self, n: int, rng: RandomSource) -> Messages:
        return np.tile(super().nothing(n, rng), (1, self.rows or 1))

    @property
    def whole(self) -> bool:
        return isinstance(self.amounts, WholeAmounts)

    @property
    def sides(self) -> tuple[Level, ...]:
        """The levels beside the statistic's: of all units, if asked, and of what was cut."""
        several, counted = len(self.beside), (Level(1, 1),) * self.present
        # What was cut may be known far less well than what shares are divided by.
        return (*counted, Level(several, several, _CUT if counted else 1.0)) if several else counted

    @property
    def specification(self) -> specification.CountersSpecification:
        """What a client in another language needs."""
        amounts = self.amounts
        numbers = None if self.clip is None else self.clip.specification
        unit = specification.GroupTotals(
            groups=amounts.groups, most_groups=amounts.most_groups, most=amounts.most,
            digits=amounts.digits, least=getattr(amounts, "least", 0),
            weights=list(digit_weights(amounts.most)), numbers=numbers, averaged=self.averaged,
            present=self.present, beside=list(self.beside),
        )  # fmt: skip
        return specification.CountersSpecification(levels=shown(self.levels), unit=unit)

    @property
    def divides(self) -> bool:
        """Whether what units raise is added up, and no report is one unit's."""
        return self.parts > 1

    def divided(
        self,
        users: NDArray[np.int64],
        cells: NDArray[np.int64],
        n: int,
        applies: NDArray[np.bool_] | None,
        rng: RandomSource,
    ) -> Messages:
        """(k, F) the reports of n units, whose different groups share what each raises, added up.

        Args:
            users, cells, n, applies, rng: as of `reports_of`.
        """
        some, groups = slice(None) if applies is None else applies, self.amounts.groups
        whose, different = np.divmod(np.unique(users[some] * groups + cells[some]), groups)
        places, totals = added_up(whose, different, n, self.parts, rng)
        return self.reported(Layout(self.levels), [places[:, None]], [totals[:, None]])

    def words(
        self,
        users: NDArray[np.int64] | None,
        groups: NDArray[np.int64],
        numbers: Floats | None,
        n: int,
        rng: RandomSource,
    ) -> Iterator[Messages]:
        """The reports of n units, in their order, some at a time.

        Args:
            users: (rows,) 0 .. n - 1; None where each row is a unit.
            groups: (rows,) of each row; or (rows, m), of a row with several numbers.
            numbers: likewise of each, NaN where it cannot be used; None where rows are counted.
            n: how many units there are.
            rng: the generator of the client's process.

        Yields:
            (units, F) words of `Layout`.
        """
        contributions, amounts, beside = self._put(users, groups, numbers, n, rng)
        layout = Layout(self.levels)
        chosen, one = contributions.groups.astype(layout.places), layout.places.type(1)
        columns = [slice(None)]
        if self.rows is not None:  # the slots of one row after the other
            columns = [slice(place, place + 1) for place in range(chosen.shape[1])]
        step = max(1, WORDS // (layout.types.size * len(columns)))
        for start in range(0, n, step):
            part = slice(start, start + step)
            words = []
            for place, column in enumerate(columns):
                taken: Any = amounts[part, column]
                sets = self.amounts.encode(chosen[part, column], taken)
                if self.present:
                    sets.append(np.zeros((len(taken), 1), layout.places))
                if self.beside:
                    marks = [
                        (beside[name][part] & (place == 0)) * (i * one + one) - one
                        for i, name in enumerate(self.beside)
                    ]
                    sets.append(np.array(marks).T)
                whole = self.amounts if isinstance(self.amounts, WholeAmounts) else None
                added = None if whole is None else whole.added(taken)
                words.append(self.reported(layout, sets, added))
            yield words[0] if len(words) == 1 else np.concatenate(words, axis=1)

    def totals(self, *known: Any) -> Counts:
        contributions, amounts, beside = self._put(*known)
        chosen = contributions.groups
        own = self.amounts.totals(chosen.ravel(), amounts.reshape(chosen.size, *amounts.shape[2:]))
        # Every slot of a report has its unit's mark of presence, and the first one what was cut.
        everybody = [len(chosen) if self.rows is None else chosen.size] * self.present
        cut = [np.count_nonzero(beside[name]) for name in self.beside]
        return np.concatenate([own, np.array(everybody + cut, np.int64)])

    def _put(
        self,
        users: NDArray[np.int64] | None,
        groups: NDArray[np.int64],
        numbers: Floats | None,
        n: int,
        rng: RandomSource,
    ) -> tuple[Contributions, NDArray[Any], dict[str, NDArray[np.bool_]]]:
        """What units contribute, how many whole units each, and what stands beside; as `words`."""
        if numbers is not None and numbers.ndim > 1:
            users = np.repeat(np.arange(n) if users is None else users, numbers.shape[1])
            groups, numbers = groups.ravel(), numbers.ravel()
        beside, k = {}, self.amounts.most_groups
        none = None if numbers is None else np.isnan(numbers)
        some = slice(None) if none is None or not none.any() else ~none
        own = None if numbers is None else numbers[some]
        if users is None:
            contributions = Contributions.of_rows(groups, numbers)
        elif self.rows is not None:
            contributions = Contributions.drawn(users[some], groups[some], n, self.rows, rng, own)
        else:
            contributions = pairs(users[some], groups[some], n, k, rng, own).placed(k)
        if self.clip is None or none is None:
            contributions = contributions.at_most(self.amounts.most)
            amounts = contributions.amounts
        else:
            beside[UNUSABLE] = none if users is None else self._unusable(users, none, n)
            totals = contributions.averages if self.averaged else contributions.amounts
            known = self.clip, contributions.groups, totals, rng
            amounts, beyond = in_units(*known, self.amounts.rounded)
            contributions = contributions._replace(cut=contributions.cut | beyond)
        beside[LIMITED] = contributions.cut
        return contributions, amounts, beside

    def _unusable(
        self, users: NDArray[np.int64], none: NDArray[np.bool_], n: int
    ) -> NDArray[np.bool_]:
        """(n,) who has a row without a number; of averages, which leave it out, no row with one."""
        if not none.any():  # as of most buckets: then no row is looked at
            return np.zeros(n, np.bool_)
        some: NDArray[np.bool_] = np.bincount(users[none], minlength=n) > 0
        if self.averaged:  # so that shares are of units that are counted once
            some &= np.bincount(users[~none], minlength=n) == 0
        return some


def shown(levels: tuple[Level, ...]) -> list[specification.CounterLevel]:
    """The levels of counters, as clients need them."""
    return [
        specification.CounterLevel(slots=level.slots, counters=level.counters) for level in levels
    ]


def in_units(
    clip: Clip,
    groups: NDArray[np.int64],
    totals: Floats,
    rng: RandomSource,
    rounded: Callable[..., Slots] = whole_amounts,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Totals in units, and whose were clipped."""
    used = groups >= 0
    clipped = np.where(used, np.clip(totals, clip.low, clip.high), clip.origin)
    # Differences may round past the bound by a hair.
    away = np.clip(clip.sign * (clipped - clip.origin), -clip.bound, clip.bound)
    units = rounded(away, clip.bound, clip.units, rng)
    return units, (used & (clipped != totals)).any(axis=1)


@dataclass(frozen=True)
class RowReporting(Levelled):
    """A unit's row to its report.

    Attributes:
        rows: the counters of all that is in it.
        beside: as of `Reporting`; `LACKING` alone, whether a number or a value is missing.
    """

    rows: RowCounters
    beside: tuple[str, ...] = (LACKING,)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Of the row, and then of what stands beside it."""
        return (*self.rows.levels, *self.sides)

    @property
    def sides(self) -> tuple[Level, ...]:
        """The level beside the row's, if there is one."""
        return (Level(1, 1),) * len(self.beside)

    def reports(self, block: RowBlock, rng: RandomSource) -> Iterator[Messages]:
        """The reports of the rows of a block, some at a time; NaN is a number that is missing.

        Args:
            block: of which a category that has none of its values has the place after the last.
            rng: the generator of the client's process.

        Yields:
            (units, F) words of `Layout`.
        """
        layout = Layout(self.levels)
        for part in pieces(block, max(1, WORDS // layout.types.size)):
            words = self._words(layout, part, rng)
            if part.applies is not None:
                words = np.where(part.applies[:, None], words, self.nothing(part.size, rng))
            yield words

    def totals(self, *known: Any) -> Counts:
        """The same of a block of rows for which all holds, few enough to be rounded together."""
        part, rng = known
        own = self.rows.totals(part.numbers, part.categories, rng)
        missing = [np.count_nonzero(self._missing(part) >= 0)] * len(self.sides)
        return np.append(own, np.array(missing, np.int64))

    def _words(self, layout: Layout, part: RowBlock, rng: RandomSource) -> Messages:
        """The reports of rows."""
        sets = self.rows.encode(part.numbers, part.categories, rng)
        return self.reported(layout, [*sets, self._missing(part)])

    def _missing(self, part: RowBlock) -> Slots:
        """(n, 1) 0 of rows that lack something, and -1 of others."""
        sizes = np.array(self.rows.sizes, np.int64)
        missing = np.isnan(part.numbers).any(axis=1) | (part.categories == sizes).any(axis=1)
        return np.where(missing, 0, -1)[:, None]


@dataclass(frozen=True)
class SummedReporting(RowReporting):
    """The same for who adds whole numbers up."""

    rows: SummedRows
    beside: tuple[str, ...] = (MISSING,)
    whole = True

    def _words(self, layout: Layout, part: RowBlock, rng: RandomSource) -> Messages:
        sets, added = self.rows.summed(part.numbers, part.categories, rng)
        return self.reported(layout, [*sets, self._missing(part)], added)


@dataclass(frozen=True)
class TabReporting(RowReporting):
    """A unit's row to a cell of each table; what has none of the values is one more of them.

    Attributes:
        rows: the tables.
        beside: nothing, for every row has a cell.
        parts: as of `Reporting`, among its rows.
    """

    rows: CrossTabs  # type: ignore[assignment]
    beside: tuple[str, ...] = ()
    parts: int = 1

    @property
    def divides(self) -> bool:
        """As of `Reporting`."""
        return self.parts > 1

    @property
    def whole(self) -> bool:
        return self.divides

    def divided(
        self,
        users: NDArray[np.int64],
        rows: NDArray[np.integer],
        n: int,
        applies: NDArray[np.bool_] | None,
        rng: RandomSource,
    ) -> Messages:
        """As of `Reporting`; rows are of the places of values."""
        some = slice(None) if applies is None else applies
        first, alike = distinct(rows[some])
        _, totals = added_up(users[some], alike, n, self.parts, rng)
        sets = self.rows.encode(rows[some][first])
        return self.reported(Layout(self.levels), sets, [totals[:, None]] * len(sets))

    def _words(self, layout: Layout, part: RowBlock, rng: RandomSource) -> Messages:
        return self.reported(layout, self.rows.encode(part.categories))

    def totals(self, *known: Any) -> Counts:
        pairs = zip(self.levels, self.rows.encode(known[0].categories), strict=True)
        return np.concatenate([tallied(places, level.counters) for level, places in pairs])


@dataclass(frozen=True)
class SplitReporting:
    """A unit's rows to one number, to be split: what they add up to, or what they are on average.

    Attributes:
        design: of the sum, or of the mean.
        clip: of numbers.
        averaged: as of `Reporting`.

    >>> from mechanisms.randomness import SeededRandom
    >>> clip = Clip(-1.0, 2.5, 5)
    >>> reach(clip)
    (-2, 5)
    """

    design: SplitMix
    clip: Clip
    averaged: bool = False
    beside = ()

    def words(
        self,
        users: NDArray[np.int64] | None,
        groups: NDArray[np.int64],
        numbers: Floats,
        n: int,
        rng: RandomSource,
    ) -> Iterator[NDArray[np.int64]]:
        """(n, 1) numbers; otherwise as of `Reporting`.

        There is one group, and numbers that cannot be used add nothing.
        """
        if users is None:
            users = np.arange(n)
        some = ~np.isnan(numbers)
        contributions = pairs(users[some], groups[some], n, 1, rng, numbers[some]).placed(1)
        totals = contributions.averages if self.averaged else contributions.amounts
        units = in_units(self.clip, contributions.groups, totals, rng)[0]
        yield self.design.summands(units, contributions.groups >= 0)

    def nothing(self, n: int, rng: RandomSource) -> NDArray[np.int64]:
        """(n, 1) what units split that add nothing."""
        return np.zeros((n, 1), np.int64)


def reports_of(
    reporting: Any,
    users: NDArray[np.int64] | None,
    groups: NDArray[np.int64],
    numbers: Floats | None,
    n: int,
    applies: NDArray[np.bool_] | None,
    rng: RandomSource,
) -> Iterator[Messages]:
    """The reports of n units, of whose rows some may raise nothing.

    A unit without any other sends a report all the same: that none came would tell of its rows.

    Args:
        reporting: what makes reports.
        users: as all up to `n`, see `Reporting.words`.
        applies: (rows,) for which all that must hold does; None for all.
        rng: the generator of the client's process.

    Yields:
        (units, F) words.
    """
    if applies is None:
        yield from reporting.words(users, groups, numbers, n, rng)
        return
    places, *some = raising(users, groups, numbers, n, applies)
    start, words = 0, reporting.nothing(n, rng)
    for part in reporting.words(*some, places.size, rng):
        words[places[start : start + len(part)]] = part
        start += len(part)
    yield words


def raising(
    users: NDArray[np.int64] | None,
    groups: NDArray[np.int64],
    numbers: Floats | None,
    n: int,
    applies: NDArray[np.bool_],
) -> tuple[NDArray[np.intp], NDArray[np.int64] | None, NDArray[np.int64], Floats | None]:
    """The units that have rows for which all holds, and these rows, their units numbered anew."""
    some = applies if users is None else np.bincount(users[applies], minlength=n) > 0
    among = None if users is None else (np.cumsum(some) - 1)[users[applies]]
    own = None if numbers is None else numbers[applies]
    return np.flatnonzero(some), among, groups[applies], own


def reach(clip: Clip) -> tuple[int, int]:
    """The least and the largest number of units that a total is rounded to, and 0 between them."""
    ends = sorted(clip.sign * end * clip.units / clip.bound for end in (clip.low, clip.high))
    return min(math.floor(ends[0]), 0), max(math.ceil(ends[1]), 0)
