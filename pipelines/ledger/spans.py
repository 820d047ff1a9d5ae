"""What time a window is about, so that windows of different lengths are known to overlap."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, model_validator

# Names as `hushbeam stream` gives them, and as people write dates. A bare number is none: it may
# count something else than years.
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)(?:-(\d\d)(?:T(\d\d)(?::?(\d\d)(?::?(\d\d))?)?Z?)?)?", re.ASCII
)
_WEEK = re.compile(r"(\d{4})-W(\d\d)", re.ASCII)
_FIRST = (1, 1, 1, 0, 0, 0)  # year, month, day, hour, minute and second, where nobody names them
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

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class Placed(Protocol):
    """A release, as far as it must be told which time it is about."""

    @property
    def fingerprint(self) -> str:
        """Of its plan."""

    @property
    def window(self) -> str:
        """The name of its window."""

    @property
    def span(self) -> Span | None:
        """The time of its window, if that is known."""


def meet(one: Placed, other: Placed) -> bool:
    """Whether a user's part in the window of one release may be in that of another, too.

    Windows whose times are known overlap or do not. Of others the names tell, if one plan has
    named both; windows of two plans are taken to overlap, which errs to the safe side.
    """
    if one.window == other.window:
        return True
    if one.span is not None and other.span is not None:
        return one.span.overlaps(other.span)
    return one.fingerprint != other.fingerprint


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
