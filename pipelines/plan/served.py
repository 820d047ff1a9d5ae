"""How a plan is served as a stream, as it was written."""

from __future__ import annotations

import math
import re

from pydantic import Field, field_validator, model_validator

from pipelines.plan.consistency import about
from pipelines.plan.parts import PlanPart
from pipelines.request.spans import TimeSpan, seconds_of
from transforms.windows import SECOND, Tumbling, moment_of


class Stream(PlanPart):
    """How the plan is served as a stream: see docs/streams.md.

    Attributes:
        window: how long one is: 15min, 1h, 1d.
        state: the folder in which the stream remembers where it is; on this machine.
        time: the column that says when a row happened; without it, a date in the file's name does.
        lateness: how long a window waits, by the clock of the rows, for those that come late.
        ahead: how far a row's clock may run ahead of this machine's.
        idle: after how long without a new file this machine's clock takes over.
        first: of noisy counters: the first window of the calendar, by its name; each is released
            when this machine's clock has passed it, if there are rows of it or not.
        last: the last one, if there is one.
    """

    window: TimeSpan
    state: str = Field(min_length=1)
    time: str | None = Field(None, min_length=1)
    lateness: TimeSpan = "0s"
    ahead: TimeSpan = "5min"
    idle: TimeSpan | None = None
    first: str | None = None
    last: str | None = None

    @field_validator("window")
    @classmethod
    def _lasts(cls, written: str) -> str:
        if not seconds_of(written) > 0:
            raise ValueError("a window must last")
        return written

    @model_validator(mode="after")
    def _begins_with_a_window(self) -> Stream:
        if self.last is not None and self.first is None:
            raise about("a calendar with a last window has a first one: name it", "last")
        windows, earliest = Tumbling(seconds_of(self.window) * SECOND), -math.inf
        named = {"first": self.first, "last": self.last}
        for key, name in ((key, name) for key, name in named.items() if name is not None):
            moment = moment_of(name)
            if moment is None or windows.start(moment) != moment:
                raise about(f"no window of {self.window} begins so; as in 2026-11-20T1300", key)
            if moment < earliest:
                raise about("is before the first window", key)
            earliest = moment
        return self


# field -> its least and largest number, and the names that stand for numbers from the least on.
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    (
        "month", 1, 12,
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ),
    ("day of the week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)  # fmt: skip
_ITEM = re.compile(r"(?:\*|(?P<first>\w{1,3})(?:-(?P<last>\w{1,3}))?)(?:/(?P<step>[0-9]{1,3}))?")


def require_schedule(written: str) -> None:
    """Refuse what no cron understands.

    Args:
        written: minute, hour, day of the month, month, day of the week.

    Raises:
        ValueError: there are not five fields, or one of them says what does not exist.

    >>> require_schedule("*/15 6-22 1,15 * mon-fri")
    """
    fields = written.split()
    if len(fields) != len(_FIELDS):
        raise ValueError("five fields are needed, as in '0 3 * * *' for three every night")
    for text, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        if not all(_means(item, low, high, names) for item in text.lower().split(",")):
            raise ValueError(
                f"the {name} must be *, numbers in {low} .. {high}, ranges or steps of them, as in "
                f"'0 3 * * *' for three every night, not {text!r}"
            )


def _means(item: str, low: int, high: int, names: tuple[str, ...]) -> bool:
    """Whether an item is *, a number or a range, perhaps with a step."""
    match = _ITEM.fullmatch(item)
    if match is None:
        return False
    step, ends = match["step"], [end for end in match.group("first", "last") if end is not None]
    numbers = [_number(end, low, names) for end in ends]
    stepped = step is None or (1 <= int(step) <= high and len(ends) != 1)
    within = all(number is not None and low <= number <= high for number in numbers)
    return stepped and within and numbers == sorted(numbers, key=lambda number: number or 0)


def _number(text: str, low: int, names: tuple[str, ...]) -> int | None:
    """A number, or what a name stands for."""
    if text in names:
        return low + names.index(text)
    return int(text) if text.isascii() and text.isdigit() else None
