"""What is made of moments, and what is made a moment."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.expressions.registry import Given, function
from transforms.expressions.strptime import TimeFormat
from transforms.expressions.values import (
    INTEGER,
    MOMENT,
    NUMBER,
    TEXT,
    WHOLE,
    WIDE,
    Bound,
    Values,
    narrowed,
    of_all,
)
from transforms.files.moments import in_calendar

_FARTHEST = 10**12  # seconds from 1970, beyond all calendars


def _time_function(
    usage: str, text: str, kind: pa.DataType, step: Callable[[Values], Values]
) -> None:
    @function(usage, text)
    def bind(given: Given) -> Bound:
        given.many(1, 2)
        values = given.values(0, MOMENT)
        zone = given.written(1, str) if given.has(1) else "UTC"
        local = pa.timestamp("us", zone)
        try:
            ZoneInfo(zone)
            step(pa.array([0], pa.int64()).cast(local))  # Arrow has a list of zones of its own
        except (OSError, ValueError, KeyError, pa.ArrowException):
            raise given.refuse("there is no such time zone; as in Europe/Berlin", 1) from None

        def clock(part: pa.Array) -> pa.Array:
            return pc.cast(step(in_calendar(part).cast(local)), kind)

        return Bound(kind, lambda batch: of_all(clock, values(batch)))


_time_function("hour(t, 'zone')", "0 to 23, by the clocks of the zone (UTC)", INTEGER, pc.hour)
_time_function(
    "day(t, 'zone')", "as in 2026-11-20", TEXT, lambda moments: pc.strftime(moments, "%Y-%m-%d")
)
_time_function(
    "week(t, 'zone')", "of ISO 8601, as in 2026-W47", TEXT,
    lambda moments: pc.strftime(moments, "%G-W%V"),
)  # fmt: skip
_time_function(
    "weekday(t, 'zone')", "1 for Monday to 7", INTEGER,
    lambda moments: pc.day_of_week(moments, count_from_zero=False, week_start=1),
)  # fmt: skip


@function(
    "parse_time(s, format)",
    "a text as a timestamp, by a format of strptime such as '%d.%m.%Y %H:%M'; in UTC, if there is "
    "no `%z`; null for anything else",
)
def _parse_time(given: Given) -> Bound:
    given.many(2, 2)
    values = given.values(0, TEXT)
    try:
        form = TimeFormat.read(given.written(1, str))
    except ValueError as error:
        raise given.refuse(str(error), 1) from None
    return Bound(MOMENT, lambda batch: of_all(form.moments, values(batch)))


_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second


@function(
    "epoch(x, 'unit')",
    "a number of `s`, `ms`, `us` or `ns` since 1970 as a timestamp; null outside of the years 1 to "
    "9999",
)
def _epoch(given: Given) -> Bound:
    given.many(2, 2)
    unit = _UNITS.get(given.written(1, str))
    if unit is None:
        raise given.refuse("the unit is one of 's', 'ms', 'us' and 'ns'", 1)
    numbers, kind = given.values(0, INTEGER, WIDE, NUMBER), given.bound[0].kind
    made = _from_whole if kind in WHOLE else _from_doubles
    return Bound(MOMENT, lambda batch: of_all(lambda part: made(part, unit), numbers(batch)))


def _from_whole(part: pa.Array, unit: int) -> pa.Array:
    """Whole numbers of a unit; what is finer than a microsecond rounds down."""
    numbers = narrowed(part, INTEGER) if part.type == WIDE else part
    known = np.asarray(numbers.is_valid().to_numpy(zero_copy_only=False))
    whole = np.asarray(numbers.fill_null(0).to_numpy(zero_copy_only=False))
    seconds, rest = whole // unit, whole % unit
    return _moments(seconds, rest * (10**6 // unit) if unit <= 10**6 else rest // 1000, known)


def _from_doubles(part: pa.Array, unit: int) -> pa.Array:
    """Numbers with decimals of a unit, to the nearest microsecond of the same second."""
    numbers = np.asarray(part.to_numpy(zero_copy_only=False), np.float64)
    seconds = np.floor(numbers / unit)
    known = np.abs(seconds) < _FARTHEST  # not of NaN, which nulls are
    seconds = np.where(known, seconds, 0)
    rest = np.where(known, numbers, 0) - seconds * unit
    micros = np.clip(np.rint(rest * (10**6 / unit)), 0, 10**6 - 1)
    return _moments(seconds.astype(np.int64), micros.astype(np.int64), known)


def _moments(
    seconds: NDArray[np.int64], micros: NDArray[np.int64], known: NDArray[np.bool_]
) -> pa.Array:
    near = known & (np.abs(seconds) < _FARTHEST)  # abs of the least integer is below 0, and in
    near &= seconds > -_FARTHEST
    whole = np.where(near, seconds, 0) * 10**6 + np.where(near, micros, 0)
    return in_calendar(pa.array(whole, pa.int64(), mask=~near).cast(MOMENT))
