"""What a person asks for of active users."""

from __future__ import annotations

from datetime import date, timedelta
from typing import ClassVar, Literal

from mechanisms.counters.activity import SPANS, Activity
from pipelines.errors import RequestError
from pipelines.metrics.counting.options import CountingOptions
from pipelines.metrics.options import published
from pipelines.request.options import PROMISE, option
from pipelines.request.requests import Count, Whole

TABLE, STICKINESS = "active-users.parquet", "stickiness.parquet"

_PERIODS = {"day": (1, 28), "week": (7, 4)}  # days, and how many of them are looked at


class ActiveUsersOptions(CountingOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.active_users:ActiveUsers"
    sizing: ClassVar[str] = "pipelines.size.releases:ReleasesQuestion"
    looks_back: ClassVar[bool] = True
    brief: ClassVar[str] = "users active in 1, 7 and 28 days; who is new, came back, or stays"
    description: ClassVar[str] = (
        "How many users were active in the last day, the last 7 and the last 28 days; how many of "
        "those of the last day (or week) are new, returning or resurrected; and how many of those "
        "who were new so many days ago are active now: retention. It takes the days of each user "
        "up to --day and nothing else. Whether anybody takes part is hidden, and nothing links the "
        "releases of two days; a user is in all of them, and pays for each."
    )
    examples: ClassVar[str] = """\
examples:
  one day, from a file of each day; {day} stands for it and for each of those before it
    hushbeam active-users --input 'logs/{day}.parquet' --user-column user --time time \\
        --day 2026-11-20 --epsilon 1 --output active
  weeks, of a service that began on a day before which nobody can have been active
    hushbeam active-users --input 'logs/{day}/*.parquet' --user-column user --time time \\
        --day 2026-11-22 --period week --begins 2026-08-01 --epsilon 1 --output active
"""

    time: str = option(
        "the column that says when a row happened: moments, of which days are those of UTC, or "
        "dates",
        metavar="COLUMN", min_length=1,
    )  # fmt: skip
    day: str = option(
        "the last day, as in 2026-11-20; rows of later ones do not count. In a path of --input "
        "{day} stands for it and for each day before it that is looked at: a day without a file is "
        "a gap, and figures that would need it are left out. Which days have files is told as it "
        "is: write one every day, whether there are rows or not, or a file says that somebody was "
        "active",
        metavar="YYYY-MM-DD",
    )  # fmt: skip
    period: Literal["day", "week"] = option(
        "who is new, returning or resurrected, and who stays, is told of days, or of weeks that "
        "end on --day",
        "day",
    )  # fmt: skip
    before: Whole | None = option(
        "how many periods before the last one are looked at. New is who was active in none of "
        "them; returning, who was in the one before; resurrected, who was in an earlier one alone "
        "(default: 28 days, or 4 weeks)",
        None, metavar="N", ge=2, le=63,
    )  # fmt: skip
    retention: Whole | None = option(
        "for how many periods those who were new are followed, at the most --before; 0 for none "
        "(default: as many)",
        None, metavar="K", ge=0, le=63,
    )  # fmt: skip
    only_day: bool = option(
        "the active users of the last day alone, at the error of a count: no longer spans, nor "
        "who is new and who stays",
        False,
    )  # fmt: skip
    releases: Count = option(
        "R, over how many releases of a user a budget is to last: noise is then of the law that "
        "errs least in so many together (28 for every day of a month), and the "
        "promise of each is still --epsilon. With 1, of the law that errs least in one",
        1, group=PROMISE, metavar="R", le=1000,
    )  # fmt: skip
    begins: str | None = option(
        "the first day of the service, public knowledge: days before it are no gap, for nobody can "
        "have been active",
        None, group=PROMISE, metavar="YYYY-MM-DD",
    )  # fmt: skip
    output: str = published(TABLE, STICKINESS)

    @property
    def activity(self) -> Activity:
        """What is told of a user's days.

        Raises:
            RequestError: nothing can be told so.
        """
        if self.only_day:
            if {"period", "before", "retention"} & self.model_fields_set:
                raise RequestError(
                    "--only-day: looks at no other day: leave --period, --before "
                    "and --retention out"
                )
            return Activity(before=2, kept=0, spans=SPANS[:1], history=False)
        period, usual = _PERIODS[self.period]
        before = usual if self.before is None else self.before
        kept = before if self.retention is None else self.retention
        try:
            return Activity(period, before, kept)
        except ValueError as error:
            raise RequestError(f"--before, --retention: {error}") from None

    @property
    def last(self) -> date:
        """The last day.

        Raises:
            RequestError: it is none, or the service had not begun.
        """
        last = _date("--day", self.day)
        if self.begins is not None and _date("--begins", self.begins) > last:
            raise RequestError("--begins: is after --day, so that nobody can have been active")
        return last

    @property
    def days(self) -> tuple[str, ...]:
        """The days whose rows count, the last one first.

        Raises:
            RequestError: as of `last`.
        """
        last = self.last
        first = last if self.begins is None else _date("--begins", self.begins)
        size = self.activity.days
        known = size if self.begins is None else min(size, (last - first).days + 1)
        return tuple(str(last - timedelta(days=k)) for k in range(known))

    @property
    def unsaid(self) -> frozenset[str]:
        return super().unsaid | frozenset(() if self.only_day else ("only_day",))

    @property
    def meaning(self) -> dict[str, object]:
        return {name: value for name, value in super().meaning.items() if name != "day"}


def _date(flag: str, written: str) -> date:
    try:
        parsed = date.fromisoformat(written)
    except ValueError:
        parsed = None
    if parsed is None or str(parsed) != written:
        raise RequestError(f"{flag}: a day is needed, as in 2026-11-20")
    return parsed


MONTH = SPANS[-1]
"""Days of the longest span."""
