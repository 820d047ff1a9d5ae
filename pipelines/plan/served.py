"""How a plan is served as a stream, as it was written."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from pipelines.plan.consistency import about
from pipelines.plan.parts import PlanPart
from transforms.windows import SECOND, Tumbling, moment_of

_SPAN = re.compile(r"(\d{1,6}) ?(s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


def _require_span(written: str) -> str:
    """Refuse what is no span of time."""
    if not _SPAN.fullmatch(written):
        raise ValueError("a number and a unit are needed, as in 30s, 15min, 1h or 1d")
    return written


TimeSpan = Annotated[str, AfterValidator(_require_span)]


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


def seconds_of(span: str) -> int:
    """A span of time as people write it.

    >>> seconds_of("15min")
    900
    """
    match = _SPAN.fullmatch(span)
    if match is None:
        raise ValueError("no span of time")
    return int(match[1]) * _SECONDS[match[2]]
