"""What a window covers: which time, and which files; so that windows are known to overlap."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, BaseModel, ConfigDict, model_validator

from transforms.files.systems import real_paths

if TYPE_CHECKING:
    from pipelines.ledger.rules import Priced

# Names as `hushbeam stream` gives them, and as people write dates. A bare number is none: it may
# count something else than years.
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)(?:-(\d\d)(?:T(\d\d)(?::?(\d\d)(?::?(\d\d))?)?Z?)?)?", re.ASCII
)
_WEEK = re.compile(r"(\d{4})-W(\d\d)", re.ASCII)
_DIGITS = 12  # of a file's digest: two of 10,000 files are taken for one about once in 10 million
_MOST_FILES = 1 << 14  # that an entry lists
_FIRST = (1, 1, 1, 0, 0, 0)  # year, month, day, hour, minute and second, where nobody names them
PASS = "~"  # in the name of a window, before the share of a pass that is not the last one
_LENGTHS = {  # of what so many of these name
    3: timedelta(days=1), 4: timedelta(hours=1), 5: timedelta(minutes=1), 6: timedelta(seconds=1),
}  # fmt: skip


class Span(BaseModel):
    """From one moment up to another.

    Attributes:
        start: the first moment in it.
        until: the first one after it.

    >>> span_of("2026-11-20T13").until.isoformat()
    '2026-11-20T14:00:00+00:00'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: AwareDatetime
    until: AwareDatetime

    @model_validator(mode="after")
    def _lasts(self) -> Span:
        if not self.start < self.until:
            raise ValueError("a span must end after it began")
        return self

    def overlaps(self, other: Span) -> bool:
        """Whether some moment is in both."""
        return self.start < other.until and other.start < self.until


def meet(one: Priced, other: Priced) -> bool:
    """Whether a user's part in the window of one release may be in that of another, too.

    Releases that have read a file in common meet, whatever their names say; so do those whose
    times overlap. Of one plan, windows that have read other files do not. Where something is
    known of one and not of the other, they are taken to meet, which errs to the safe side, and
    so are windows of two plans. If nothing is known of either, the plan's own names tell.
    """
    shared = not frozenset(one.files or ()).isdisjoint(other.files or ())
    if shared or named(one.window) == named(other.window):
        return True
    if one.fingerprint != other.fingerprint:
        return one.span is None or other.span is None or one.span.overlaps(other.span)
    mine, theirs = _time(one), _time(other)
    if mine is not None and theirs is not None:
        return mine.overlaps(theirs)
    if one.files is not None and other.files is not None:
        return False
    # Names of one plan that say nothing of time are taken at their word: they differ.
    return any(known is not None for known in (mine, theirs, one.files, other.files))


def named(window: str) -> str:
    """A window's name, without the share of a pass over its batch."""
    return window.partition(PASS)[0]


def _time(release: Priced) -> Span | None:
    """The time of a window among those of its own plan: of earlier ledgers, the name tells."""
    return release.span or span_of(release.window)


def digests(files: Iterable[str]) -> tuple[str, ...] | None:
    """What a ledger keeps of the files that a release reads: no names, and equal for equal files.

    Args:
        files: paths, local or on a file system that Beam knows; links are followed.

    Returns:
        Hexadecimal digits of each; None if there are no files, or more than a ledger lists.
    """
    paths = {*real_paths([*files])}
    if not 0 < len(paths) <= _MOST_FILES:
        return None
    return tuple(sorted(hashlib.sha256(os.fsencode(p)).hexdigest()[:_DIGITS] for p in paths))


def span_of(window: str) -> Span | None:
    """The time that a window's name means, in UTC; None if the name is no date.

    Args:
        window: as in 2026-11, 2026-W47, 2026-11-20, 2026-11-20T13 or 2026-11-20T1305.
    """
    week, moment = _WEEK.fullmatch(window), _MOMENT.fullmatch(window)
    try:
        if week is not None:
            monday = datetime.fromisocalendar(int(week[1]), int(week[2]), 1)
            return _lasting(monday.replace(tzinfo=timezone.utc), timedelta(weeks=1))
        return None if moment is None else _of([int(part) for part in moment.groups() if part])
    except (ValueError, OverflowError):  # no such day, or the end of the calendar
        return None


def is_no_date(window: str) -> bool:
    """Whether a name has the form of a date, and there is no such time: a slip of who typed it.

    >>> is_no_date("2026-13-40"), is_no_date("2026-11-20"), is_no_date("monday")
    (True, False, False)
    """
    formed = _WEEK.fullmatch(window) or _MOMENT.fullmatch(window)
    return formed is not None and span_of(window) is None


def _of(parts: list[int]) -> Span:
    """The month, day, hour, minute or second that some numbers, the largest first, mean."""
    year, month, day, hour, minute, second = (*parts, *_FIRST[len(parts) :])
    start = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    if len(parts) not in _LENGTHS:
        year, month = divmod(12 * year + month, 12)  # of the month after it, counted from 0
        return Span(start=start, until=start.replace(year=year, month=month + 1))
    return _lasting(start, _LENGTHS[len(parts)])


def _lasting(start: datetime, length: timedelta) -> Span:
    return Span(start=start, until=start + length)
