"""Formats of `strptime`, to the letter: 31.02. is no day, where Arrow's own makes it 3 March."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.files.moments import OFFSET, TIME

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
    def read(cls, text: str) -> TimeFormat:
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
