"""What is made of moments, and what is made a moment.

Formats of `strptime`, to the letter: 31.02. is no day, where Arrow's own makes it 3 March.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.expressions.registry import Given, function
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
from transforms.files.moments import OFFSET, TIME, in_calendar

_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
]  # fmt: skip
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

# As Python's `_strptime` has them, so that digits without signs between them are divided alike.
_FORMS = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "1[0-2]|0[1-9]|[1-9]",
    "b": "|".join(month[:3] for month in _MONTHS),
    "B": "|".join(_MONTHS),
    "d": "3[01]|[12][0-9]|0[1-9]|[1-9]| [1-9]",
    "j": "36[0-6]|3[0-5][0-9]|[12][0-9]{2}|0[1-9][0-9]|00[1-9]|[1-9][0-9]|0[1-9]|[1-9]",
    "H": "2[0-3]|[01][0-9]|[0-9]",
    "I": "1[0-2]|0[1-9]|[1-9]| [1-9]",
    "p": "am|pm",
    "M": "[0-5][0-9]|[0-9]",
    "S": "[0-5][0-9]|[0-9]",
    "f": "[0-9]+",
    "z": f"{OFFSET}|Z",
    "a": "|".join(day[:3] for day in _DAYS),
    "A": "|".join(_DAYS),
}
_ONE_OF = ("Yy", "mbBj", "dj", "HI")  # say the same
_FARTHEST = 10**12  # seconds from 1970, beyond all calendars


@dataclass(frozen=True)
class TimeFormat:
    """How a moment is written.

    Attributes:
        pattern: of RE2, with a group a directive.
        directives: that are in it.

    >>> TimeFormat.read("%d.%m.%Y").moments(pa.array(["20.11.2026", "31.02.2026"])).to_pylist()[1]
    """

    pattern: str
    directives: frozenset[str]

    @classmethod
    def read(cls, text: str) -> "TimeFormat":
        """From what a person writes.

        Raises:
            ValueError: a directive is not known, is there twice, or no year is said; why, in words
                for people.
        """
        directives: list[str] = []
        pattern = "".join(_parts(text, directives))
        for same in _ONE_OF:
            if sum(directives.count(letter) for letter in same) > 1:
                raise ValueError("a format says each part of a time once")
        if not {"Y", "y"} & {*directives} or len(directives) != len({*directives}):
            raise ValueError("a format says the year, as in %d.%m.%Y, and each part of a time once")
        return cls(f"^(?i:{pattern})$", frozenset(directives))

    def moments(self, texts: pa.Array) -> pa.Array:
        """(n,) timestamps; null where a text is not written so, or its day is in no calendar."""
        matches = pc.extract_regex(pc.utf8_trim_whitespace(texts), self.pattern)
        known = np.asarray(matches.is_valid().to_numpy(zero_copy_only=False))
        fields = {
            letter: pc.fill_null(pc.struct_field(matches, _group(letter)), "")
            for letter in self.directives
        }
        days, right = self._days(fields)
        micros = (days * 86_400 + self._seconds(fields)) * 10**6 + self._fraction(fields)
        return pa.array(micros, pa.int64(), mask=~(known & right)).cast(TIME)

    def _days(self, fields: dict[str, pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(n,) days since 1970; (n,) which are in the calendar."""
        if "Y" in fields:
            year = _number(fields["Y"], 1970)
        else:
            short = _number(fields["y"], 0)
            year = short + np.where(short < 69, 2000, 1900)
        month = np.ones_like(year)
        if "m" in fields:
            month = _number(fields["m"], 1)
        elif named := {"b", "B"} & fields.keys():
            month = _named(fields[named.pop()])
        months = (year - 1970) * 12 + month - 1
        first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        day = _number(fields.get("j", fields.get("d")), 1, len(year))
        last = months + (12 if "j" in fields else 1)
        end = last.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        days = first + day - 1
        return days, (year > 0) & (days < end)

    def _seconds(self, fields: dict[str, pa.Array]) -> NDArray[np.int64]:
        """(n,) of the day, in UTC."""
        size = len(next(iter(fields.values())))
        hour = _number(fields.get("H", fields.get("I")), 0, size)
        if "I" in fields:
            evening = np.zeros(size, np.bool_)
            if "p" in fields:
                evening = np.asarray(
                    pc.equal(pc.ascii_lower(fields["p"]), "pm").to_numpy(zero_copy_only=False)
                )
            hour = hour % 12 + 12 * evening
        minute, second = (_number(fields.get(letter), 0, size) for letter in "MS")
        return hour * 3600 + minute * 60 + second - _offset(fields.get("z"), size)

    def _fraction(self, fields: dict[str, pa.Array]) -> NDArray[np.int64]:
        """(n,) microseconds; what is finer is left out."""
        if "f" not in fields:
            return np.zeros(1, np.int64)
        padded = pc.utf8_rpad(pc.utf8_slice_codeunits(fields["f"], 0, 6), 6, "0")
        return _number(padded, 0)


def _parts(text: str, directives: list[str]) -> Iterator[str]:
    """The pattern piece by piece; the directives are added to those found."""
    for blank, letter, end, other in re.findall(r"(\s+)|%(.)|(%$)|([^\s%]+)", text, re.DOTALL):
        if blank:
            yield r"\s+"
        elif other:
            yield re.escape(other)
        elif letter == "%":
            yield "%"
        elif end or letter not in _FORMS:
            known = ", ".join(f"%{name}" for name in _FORMS)
            raise ValueError(f"a format is made of {known}, %% and other signs")
        else:
            directives.append(letter)
            yield f"(?P<{_group(letter)}>{_FORMS[letter]})"


def _group(letter: str) -> str:
    """A name that no other letter's is in small letters."""
    return f"{'large' if letter.isupper() else 'small'}_{letter}"


def _number(texts: pa.Array | None, nothing: int, size: int = 0) -> NDArray[np.int64]:
    """(n,) digits, perhaps after a blank, as numbers; what is not there is another."""
    if texts is None:
        return np.full(size, nothing, np.int64)
    digits = pc.if_else(pc.equal(texts, ""), str(nothing), pc.utf8_ltrim(texts, " "))
    return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _named(texts: pa.Array) -> NDArray[np.int64]:
    """(n,) months by the first three letters of their names; January of none."""
    short = pc.utf8_slice_codeunits(pc.ascii_lower(texts), 0, 3)
    places = pc.index_in(short, value_set=pa.array([month[:3] for month in _MONTHS]))
    return np.asarray(places.fill_null(0).to_numpy(zero_copy_only=False), np.int64) + 1


def _offset(texts: pa.Array | None, size: int) -> NDArray[np.int64]:
    """(n,) seconds east of UTC."""
    if texts is None:
        return np.zeros(size, np.int64)
    digits = pc.utf8_rpad(pc.replace_substring_regex(texts, "[^0-9]", ""), 4, "0")
    number = _number(digits, 0)
    sign = np.where(pc.starts_with(texts, "-").to_numpy(zero_copy_only=False), -1, 1)
    return np.asarray(sign * (number // 100 * 3600 + number % 100 * 60), np.int64)


def _time_function(
    usage: str, text: str, kind: pa.DataType, **steps: Callable[[Values], Values]
) -> None:
    @function(usage, text, *steps)
    def bind(given: Given) -> Bound:
        given.many(1, 2)
        values, step = given.values(0, MOMENT), steps[given.call.name]
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


_time_function(
    "hour(t, 'zone')",
    "0 to 23, by the clocks of the zone (UTC); also `minute`, `second`, `monthday`, `yearday`, "
    "`iso_week`, `month`, `quarter`, `year` and `iso_year`", INTEGER,
    hour=pc.hour, minute=pc.minute, second=pc.second, monthday=pc.day, yearday=pc.day_of_year,
    iso_week=pc.iso_week, month=pc.month, quarter=pc.quarter, year=pc.year, iso_year=pc.iso_year,
)  # fmt: skip
_time_function(
    "day(t, 'zone')", "as in 2026-11-20", TEXT,
    day=lambda moments: pc.strftime(moments, "%Y-%m-%d"),
)  # fmt: skip
_time_function(
    "week(t, 'zone')", "of ISO 8601, as in 2026-W47", TEXT,
    week=lambda moments: pc.strftime(moments, "%G-W%V"),
)  # fmt: skip
_time_function(
    "weekday(t, 'zone')", "1 for Monday to 7", INTEGER,
    weekday=lambda moments: pc.day_of_week(moments, count_from_zero=False, week_start=1),
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
