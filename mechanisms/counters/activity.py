"""Active users as counters: what a device, or a job, makes of the days on which a user was active.

Bit i of a bitmap says whether the user was active i days before the last one. Of it a user raises
one counter of each of two levels at the most:

* its *standing*: the shortest of the spans (1, 7, 28 days) that holds an active day, and for those
  active in the last period (a day, or a week) whether they are new, returning or resurrected. These
  counters exclude each other, so that all spans together cost what one of them would; how many were
  active in 28 days is a sum of several.
* its *cohort*: of those who are active now, how many periods ago they were new.

New is who was active in no period of so many before, so each user is of one cohort at the most as
long as no cohort is older than that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import require_integer
from mechanisms.counters.levels import Level, Slots

SPANS = (1, 7, 28)
LONGEST = 64  # days: the bits of a word

Bitmaps = NDArray[np.uint64]

NEW, RETURNING, RESURRECTED = HISTORIES = ("new", "returning", "resurrected")


class Figure(NamedTuple):
    """What some counters add up to.

    Attributes:
        what: "active" in a span; "new", "returning" or "resurrected"; or "kept" of a cohort.
        size: days of the span, or how many periods ago the cohort was new; else 0.
        level: of its counters.
        cells: their places in it.
        ages: how long ago, in days, the days were that it depends on.
    """

    what: Literal["active", "new", "returning", "resurrected", "kept"]
    size: int
    level: int
    cells: tuple[int, ...]
    ages: frozenset[int]


@dataclass(frozen=True)
class Activity:
    """Who was active, and since when.

    Attributes:
        period: days: 1, or another of the spans.
        before: how many periods before the last one are looked at: who was active in none is new.
        kept: the age of the oldest cohort, in periods; at most `before`. 0 for none.
        spans: in days, rising, the first of them 1.
        history: whether those of the last period are told by it: new, returning, resurrected.

    >>> users = Activity(period=1, before=3, kept=2, spans=(1, 2, 4))
    >>> standing, cohort = users.encode([0b0001, 0b0011, 0b1001, 0b0100, 0])
    >>> standing.ravel().tolist()  # new today, returning, resurrected, active in 4 days, and not
    [0, 1, 2, 4, -1]
    >>> cohort.ravel().tolist()  # the second was new yesterday
    [-1, 0, -1, -1, -1]
    """

    period: int = 1
    before: int = 28
    kept: int = 28
    spans: tuple[int, ...] = SPANS
    history: bool = True

    def __post_init__(self) -> None:
        for name in ("period", "before", "kept"):
            require_integer(name, getattr(self, name))
        if not (self.spans[:1] == (1,) and list(self.spans) == sorted(set(self.spans))):
            raise ValueError("spans must rise, from a day on")
        if self.period not in self.spans:
            raise ValueError(f"a period must be one of the spans, not {self.period} days")
        if not self.before >= 2:
            raise ValueError("at least 2 periods before the last one tell who has come back")
        if not 0 <= self.kept <= self.before:
            raise ValueError(
                f"a cohort is known for as many periods as are looked at, {self.before}, and not "
                f"{self.kept}: later its users could be of another one, too"
            )
        if self.kept and not self.history:
            raise ValueError("cohorts are of users who were new: without a history there are none")
        if not self.days <= LONGEST:
            raise ValueError(f"a bitmap has {LONGEST} days at the most, and this takes {self.days}")

    @property
    def days(self) -> int:
        """How many a bitmap has."""
        if not self.history:
            return self.spans[-1]
        return max(self.spans[-1], self.period * (self.before + self.kept + 1))

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """The first counter of each span; those that the last period decides have three."""
        kinds = len(HISTORIES) if self.history else 1
        sizes = [kinds if span <= self.period else 1 for span in self.spans]
        return (0, *np.cumsum(sizes).tolist())

    @property
    def levels(self) -> tuple[Level, ...]:
        """The standing, and the cohort if there are cohorts."""
        cohorts = (Level(1, self.kept),) if self.kept else ()
        return (Level(1, self._starts[-1]), *cohorts)

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """All that can be told, in the order of a table."""
        return tuple(self._figures())

    def _figures(self) -> Iterator[Figure]:
        starts = self._starts
        for span, stop in zip(self.spans, starts[1:], strict=True):
            yield Figure("active", span, 0, tuple(range(stop)), frozenset(range(span)))
        if not self.history:
            return
        now = starts[self.spans.index(self.period) + 1]
        seen = {RETURNING: 2}
        for place, what in enumerate(HISTORIES):
            ages = range(self.period * seen.get(what, self.before + 1))
            cells = tuple(range(place, now, len(HISTORIES)))
            yield Figure(what, 0, 0, cells, frozenset(ages))  # type: ignore[arg-type]
        for k in range(1, self.kept + 1):
            then = range(self.period * k, self.period * (k + self.before + 1))
            ages_of = frozenset({*range(self.period), *then})
            yield Figure("kept", k, 1, (k - 1,), ages_of)

    def encode(self, bitmaps: ArrayLike) -> list[Slots]:
        """The counters that users raise.

        Args:
            bitmaps: (n,) of `days` bits; older ones are not looked at.

        Returns:
            For each level (n, 1) places, and -1 where there is none.
        """
        days = np.asarray(bitmaps, np.uint64)
        # Bit i of it: active in the period that ended i days ago.
        periods = np.zeros_like(days)
        for day in range(self.period):
            periods |= days >> np.uint64(day)
        now = self._at(periods, 0)
        standing = np.full(days.size, -1)
        for span, start in zip(reversed(self.spans), reversed(self._starts[:-1]), strict=True):
            active = (days & np.uint64((1 << span) - 1)) != 0
            standing[active] = start
        if not self.history:
            return [standing[:, None]]
        returning = self._at(periods, 1)
        history = np.where(returning, 1, np.where(self._quiet(periods, 1), 0, 2))
        standing += now * history
        if not self.kept:
            return [standing[:, None]]
        cohort = np.full(days.size, -1)
        for k in range(1, self.kept + 1):
            cohort[now & self._at(periods, k) & self._quiet(periods, k + 1)] = k - 1
        return [standing[:, None], cohort[:, None]]

    def _at(self, periods: Bitmaps, k: int) -> NDArray[np.bool_]:
        """(n,) whether users were active k periods ago."""
        return np.asarray((periods & np.uint64(1 << k * self.period)) != 0)

    def _quiet(self, periods: Bitmaps, first: int) -> NDArray[np.bool_]:
        """(n,) whether they were in none of so many periods, the first of them so long ago."""
        mask = sum(1 << k * self.period for k in range(first, first + self.before))
        return np.asarray((periods & np.uint64(mask)) == 0)


def bitmaps(users: NDArray[np.int64], ages: NDArray[np.int64], n: int) -> Bitmaps:
    """The days of n users.

    Args:
        users: (rows,) 0 .. n - 1, in any order, the same day any number of times.
        ages: (rows,) how many days before the last one each row is; those without a bit are left
            out.

    >>> bitmaps(np.array([1, 1, 1, 0]), np.array([0, 0, 3, 64]), 2).tolist()
    [0, 9]
    """
    bits = np.zeros(n, np.uint64)
    known = (ages >= 0) & (ages < LONGEST)
    np.bitwise_or.at(bits, users[known], np.uint64(1) << ages[known].astype(np.uint64))
    return bits
