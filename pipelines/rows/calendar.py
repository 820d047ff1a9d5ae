"""Which windows of a PCollection are published, with rows or without, each of them once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import AfterWatermark, DefaultTrigger
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Timestamp

from pipelines.errors import RequestError
from pipelines.ledger.spans import Span
from transforms.windows import SECOND, Tumbling

_FIXED = "put them into FixedWindows before"


@dataclass(frozen=True)
class WindowCalendar:
    """The windows of time that are published; all rows are one batch where `length` is 0.

    Attributes:
        length: of each, in microseconds.
        first: when the first begins, in microseconds since 1970.
        until: when the last one ends; None where windows go on as the clock does.
    """

    length: int = 0
    first: int = 0
    until: int | None = None

    def name(self, window: Any) -> str:
        """What a window of Beam's is called."""
        return Tumbling(self.length).name(window.start.micros)

    def span(self, window: Any) -> Span | None:
        """Its time; None where all rows are one batch."""
        if not self.length:
            return None
        moments = (window.start.micros, window.start.micros + self.length)
        start, until = (datetime.fromtimestamp(one / SECOND, timezone.utc) for one in moments)
        return Span(start=start, until=until)


WHOLE = WindowCalendar()


def calendar_of(rows: beam.PCollection, span: tuple[Any, Any] | None) -> WindowCalendar:
    """The windows that a PCollection's figures are of.

    Args:
        rows: as their pipeline has put them into windows.
        span: when the first window begins, and when the last one ends (None: never), as datetimes
            or in ISO 8601, in UTC where they say no zone.

    Raises:
        RequestError: a window of these would be published several times, or only if it has rows.
    """
    windowing = rows.windowing
    fn = windowing.windowfn
    for refused, why in (
        (isinstance(fn, Sessions), f"session windows begin and end as users come and go: {_FIXED}"),
        (isinstance(fn, SlidingWindows), f"a row would be in several sliding windows: {_FIXED}"),
        (
            windowing.triggerfn not in (DefaultTrigger(), AfterWatermark()),
            "a trigger would publish a window early, or several times, and each time has a price: "
            "leave it out",
        ),
        (
            windowing.allowed_lateness != 0,
            "late rows would publish a window again: leave allowed_lateness out",
        ),
    ):
        if refused:
            raise RequestError(why)
    if isinstance(fn, GlobalWindows):
        if not rows.is_bounded:
            raise RequestError(
                f"rows come without end, and one release is of all of them: {_FIXED}"
            )
        if span is not None:
            raise RequestError(f"span: rows are in one window: {_FIXED}, or leave it out")
        return WHOLE
    if type(fn) is not FixedWindows:
        raise RequestError(f"rows are in {type(fn).__name__}, of which nothing is known: {_FIXED}")
    if span is None:
        raise RequestError(
            "span is missing: windows without rows are published, too, or else one would tell by "
            "being there: say when the first begins and the last ends, as in "
            "('2026-11-20', '2026-11-27')"
        )
    length, offset = fn.size.micros, fn.offset.micros
    first, until = _micros(span[0]), None if span[1] is None else _micros(span[1])
    ends = [first] if until is None else [first, until]
    if any((end - offset) % length for end in ends):
        raise RequestError(f"span: no window of {length / SECOND:g} seconds begins or ends there")
    if (until is None and rows.is_bounded) or (until is not None and not first < until):
        raise RequestError("span: say when the last window ends, after the first one begins")
    return WindowCalendar(length, first, until)


def _micros(moment: Any) -> int:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise RequestError(f"span: {moment!r} is no moment, as 2026-11-20T13:00 is") from None
    if isinstance(moment, datetime) and moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return int(Timestamp.of(moment.timestamp() if isinstance(moment, datetime) else moment).micros)


@dataclass
class EveryWindow(beam.PTransform):
    """From nothing to one element in each window of a calendar."""

    calendar: WindowCalendar
    windowfn: Any

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        calendar, length = self.calendar, self.calendar.length / SECOND
        if not calendar.length:
            return begin | "All rows" >> beam.Create([0])
        if calendar.until is None:
            first = Timestamp(micros=calendar.first)
            moments = begin | "Clock" >> PeriodicImpulse(first, fire_interval=length)
        else:
            starts = range(calendar.first, calendar.until, calendar.length)
            moments = begin | "Starts" >> beam.Create(starts) | "At" >> beam.Map(_at)
        return moments | "Window" >> beam.WindowInto(self.windowfn)


def _at(start: int) -> TimestampedValue:
    return TimestampedValue(start, Timestamp(micros=start))
