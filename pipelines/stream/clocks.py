"""What may be believed of clocks: this machine's, and those behind the rows that land.

No clock is believed alone. How much time has passed here is measured by a clock that nobody sets;
how far the rows' time has come is believed step by step, or of most of the latest files. So a
clock that jumps, or a file of another year, ends no window on all rows that are still to come.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transforms.windows import SECOND, now

FILES = 9  # the latest, by which time is judged
# Of one file in a hundred with a wrong date, five of nine are wrong once in 80 million times; of
# three in five it would be once in 100,000, which is a matter of years.
MOST = FILES // 2 + 1
OFF = 7 * 86_400 * SECOND  # for which a machine may have been off, and its clock is still believed
_POINTS = np.linspace(0.01, 0.99, 99)  # one row in a hundred at either end may be a stray
_THIS_PROCESS = uuid.uuid4().hex


class ClockReading(NamedTuple):
    """Of this machine's clocks.

    Attributes:
        wall: what time it is, in microseconds; anybody may set it.
        boot: since when `ticks` are counted: those of two boots say nothing of each other; empty
            where nobody counts.
        ticks: microseconds that have passed, asleep or awake.
    """

    wall: int
    boot: str = ""
    ticks: int = 0


def ticking() -> tuple[str, int]:
    """Since when, and how long: by a clock that nobody sets."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # another system: only this process knows when it began
        boot = _THIS_PROCESS
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return boot, time.clock_gettime_ns(clock) // 1000


def read() -> ClockReading:
    """This machine's clocks, now."""
    return ClockReading(now(), *ticking())


def passed(before: ClockReading, after: ClockReading) -> int | None:
    """Microseconds between two readings; None if nothing says how many.

    Over a boot only the wall clock can say it, and is believed for as long as a machine may well
    have been off.
    """
    if before.boot == after.boot != "":
        return max(after.ticks - before.ticks, 0)
    walked = after.wall - before.wall
    return walked if 0 <= walked <= OFF else None


def jumped(before: ClockReading, after: ClockReading) -> int:
    """By how much the wall clock was set between two readings, as far as can be told."""
    return after.wall - before.wall - (passed(before, after) or 0)


def moment_at(moment: int) -> datetime:
    """A moment, to the second, in UTC."""
    return datetime.fromtimestamp(moment // SECOND, timezone.utc)


def iso(moment: int | None) -> str | None:
    """The same as people and programs read it."""
    if moment is None:
        return None
    try:
        return moment_at(moment).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "beyond the year 9999"


def spelt(length: int) -> str:
    """A length of time, as people say it.

    >>> spelt(4_000 * 86_400 * SECOND), spelt(90 * 60 * SECOND)
    ('4,000 days', '90 minutes')
    """
    for unit, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if length >= 2 * unit * SECOND:
            return f"{round(length / (unit * SECOND)):,} {name}"
    return f"{round(length / SECOND)} seconds"


def lead(due: int, wall: int, window: int) -> str:
    """By how much a file is ahead of the clock; to a window, so that no row's moment is told."""
    ahead = due - due % window - wall
    return spelt(ahead) if ahead > 0 else "less than a window"


@dataclass(frozen=True)
class FileSpan:
    """When a file's rows happened.

    Attributes:
        points: moments by which 1 %, 2 % ... 99 % of those had happened that are not ahead; empty
            if all are, or none has a time.
        due: the moment to which a limit must have come before the file is taken in.
    """

    points: tuple[int, ...]
    due: int

    @property
    def first(self) -> int | None:
        """Before which hardly any has happened."""
        return self.points[0] if self.points else None


def span(moments: NDArray[np.int64], limit: int, window: int) -> FileSpan:
    """When a file's rows happened, and whether it has to wait.

    What lies no further ahead than the file reaches back (or than a window) may come true soon,
    and is waited for if it is more than one row in a hundred. Rows further ahead are strays that
    hold nobody up, unless they are a quarter of the file: then our own clock may be wrong.

    Args:
        moments: (n,) microseconds.
        limit: rows after it are ahead.
        window: how long one is.
    """
    if not moments.size:
        return FileSpan((), limit)
    points = _points(moments[moments <= limit])
    # From a tenth of the rows on: few of another age must not tell how far the file reaches.
    reach = max(window, limit - points[9]) if points else window
    near = moments[moments <= limit + reach]
    wrong = 4 * near.size <= 3 * moments.size
    return FileSpan(points, _points(moments)[74] if wrong else _points(near)[-1])


def _points(moments: NDArray[np.int64]) -> tuple[int, ...]:
    if not moments.size:
        return ()
    return tuple(np.quantile(moments, _POINTS, method="lower").tolist())


@dataclass(frozen=True)
class ClockEvidence:
    """How far the rows' time has come, by the files that say so.

    Attributes:
        reached: the moment; None before the first file.
        recent: where the latest files end, at most `FILES`.
    """

    reached: int | None = None
    recent: tuple[int, ...] = ()

    @property
    def beyond(self) -> tuple[int, ...]:
        """Ends of files that say more, and are not believed yet."""
        return tuple(end for end in self.recent if self.reached is not None and end > self.reached)

    def after(self, points: Sequence[int], step: int, limit: int) -> ClockEvidence:
        """With one more file.

        Time goes along the file's rows for as long as no step between them is too long, whatever
        has passed here in the meantime is plausible, and what most of the latest files say is
        believed.

        Args:
            points: of its span; not empty.
            step: the longest that is plausible between rows, in microseconds.
            limit: to which time may have come by what has passed on this machine.
        """
        recent = (*self.recent, points[-1])[-FILES:]
        # One stray in the very first file must not be where time begins.
        reached = points[len(points) // 2] if self.reached is None else self.reached
        if len(recent) >= MOST:
            ends = sorted(recent)
            reached = max(reached, ends[-MOST])
            # A stream of one file a day goes in steps of a day.
            step += 2 * sorted(np.diff(ends).tolist())[(len(ends) - 2) // 2]
        for point in sorted({*points, *recent}):
            if point - reached > step and point > limit:
                break
            reached = max(reached, point)
        return ClockEvidence(reached, recent)
