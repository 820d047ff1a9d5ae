"""Requests for running totals of a log: in a plan, and on a command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pipelines.errors import RequestError
from pipelines.metrics.counting.options import CountOptions, HiddenOptions, SumOptions
from pipelines.metrics.options import OF_ROWS, SHUFFLER, DrawnBy
from pipelines.request.options import PROMISE, RESULT, flag, option
from pipelines.request.requests import Count, RequestOptions

if TYPE_CHECKING:
    from transforms.expressions.view import View

_HORIZON = "which windows there are"
_LONGEST = 20_000  # as of `mechanisms.running.factors`, which a second is lost to import
_GROWS = "a total that grows window by window"
# What counters are told of their noise, and who draws it; here there is none.
_OF_DUMMIES = frozenset(
    {"drawn_by", "enrolled", "honest_share", "max_messages", "mechanism", "neighbours"}
)


def _windows(said: Any) -> Any:
    """How many windows an open horizon has."""
    return _LONGEST if said == "open" else said


class Horizon(RequestOptions):
    """How many windows are paid for together, and in how many of them a unit is."""

    if TYPE_CHECKING:
        user_column: str | None

    usually: ClassVar[DrawnBy] = SHUFFLER  # its counters carry the totals; nobody draws dummies

    horizon: Annotated[
        Count, BeforeValidator(_windows, json_schema_input_type=Count | Literal["open"])
    ] = option(
        "publish one total that grows over at most N windows, charged once. --epsilon is of all of "
        "them together, and noise grows with the logarithm of N. open: nobody knows how many there "
        f"will be ({_LONGEST:,} at the most), for 1.2 times the error of a horizon that ends today",
        group=_HORIZON, metavar="N|open", le=_LONGEST, essential=True,
    )  # fmt: skip
    user_windows: Count | None = option(
        "in how many windows of the horizon a user has rows, at most; needed with --user-column. "
        "Rows in further windows are not cut: the promise is about users who have none there",
        None, group=PROMISE, metavar="N",
    )  # fmt: skip
    first: str | None = option(
        "the column that says when a user came for the first time: it counts in the window of that "
        "time alone, and the total is of distinct users. Windows are named by time: 2026-11-20",
        None, group=PROMISE, metavar="COLUMN", min_length=1,
    )  # fmt: skip
    last: Count | None = option(
        "show the sum of the last N windows, too", None, group=RESULT, metavar="N"
    )

    @property
    def unsaid(self) -> frozenset[str]:
        others: frozenset[str] = super().unsaid  # type: ignore[misc]
        return others | ({"first"} - self.model_fields_set)

    @property
    def windows(self) -> int:
        """In how many of them a unit has rows, at the most.

        Raises:
            RequestError: nobody says of users, or somebody of rows; or groups are not declared.
        """
        if getattr(self, "undeclared_columns", ()):
            raise RequestError("--group-by: of totals that grow all groups are declared beforehand")
        if self.first and (self.user_column is None or (self.user_windows or 1) > 1):
            raise RequestError(
                "--first: is of users, of whom each is in one window: name the --user-column, and "
                "leave --user-windows out"
            )
        if self.user_column is None:
            if (self.user_windows or 1) > 1:
                raise RequestError("--user-windows: a row is in one window; name the --user-column")
            return 1
        if self.first is not None:
            return 1
        if self.user_windows is None:
            raise RequestError(
                "--user-windows is missing: the promise is about users with rows in at most so "
                f"many windows, and says nothing true of others; {self.horizon} covers everybody"
            )
        return self.user_windows


class RunningOptions(Horizon):
    """The same of one window of many.

    Attributes:
        window: its name.
        series: by which its secret is known, in all windows; a plan says it.
    """

    remembers: ClassVar[str] = "pipelines.running.metric:begun"

    window: str = option("the name of the one that is added now", group=_HORIZON)
    series: str = option("what is the same in all windows", "", group=_HORIZON)

    @property
    def hidden_by(self) -> str:
        return "pipelines.running.metric:Running"

    @property
    def view(self) -> View:
        """As of others; of users whose first time is named, those of this window alone."""
        from pipelines.ledger.spans import span_of
        from pipelines.logs.reading import view_of

        known: View = super().view  # type: ignore[misc]
        if self.first is None:
            return known
        if "`" in self.first:
            raise RequestError("--first: a name with a backquote is none here: derive the column")
        span, start, until = span_of(self.window), "2000-01-01", "2000-01-01"
        if span:  # of another nobody counts, and `require_dated` refuses it before it is drawn
            start, until = (f"{at:%Y-%m-%dT%H:%M:%S}" for at in (span.start, span.until))
        text = f"`{self.first}` >= '{start}' and `{self.first}` < '{until}'"
        return replace(known, where=(*known.where, *view_of((), [text]).where))

    def require_dated(self) -> None:
        """Refuse a window that does not say of which first times it is."""
        from pipelines.ledger.spans import span_of

        if self.first is not None and span_of(self.window) is None:
            raise RequestError("--window: --first needs one that is named by its time: 2026-11-20")

    @property
    def idle(self) -> frozenset[str]:
        return _OF_DUMMIES

    @property
    def unstated(self) -> frozenset[str]:
        others: frozenset[str] = super().unstated  # type: ignore[misc]
        return others | {"window", "series"}

    def require(self) -> None:
        """Refuse what means nothing of noise that goes on from window to window.

        Raises:
            RequestError: with what to do.
        """
        named = sorted(self.model_fields_set & (_OF_DUMMIES - {"neighbours"}))
        if named:
            raise RequestError(
                f"{flag(named[0])}: says something of counters' noise, and running totals have one "
                "of their own; leave it out"
            )
        # Their noise is priced for what a unit moves in groups that are its own, each once.
        rows = sorted(self.model_fields_set & OF_ROWS)
        if rows:
            raise RequestError(f"{flag(rows[0])}: running totals do not serve it; leave it out")
        if getattr(self, "neighbours", None) == "replace":
            raise RequestError("--neighbours: running totals hide who takes part; leave it out")
        _ = self.windows


class RunningCountOptions(RunningOptions, CountOptions):
    """What a plan asks of a count that names a horizon."""

    above: Annotated[int, Field(ge=0, lt=1 << 48)] | None = option(
        "publish of each window no number, but whether more than N count in it, by the sparse "
        "vector: one price for all windows, whatever part of them a user is in",
        None, group=RESULT, metavar="N",
    )  # fmt: skip
    firings: Count | None = option(
        "with above: how many windows may have more (1); then no other is looked at", None,
        group=RESULT, metavar="N", le=1000,
    )  # fmt: skip

    @property
    def hidden_by(self) -> str:
        return super().hidden_by if self.above is None else "pipelines.running.alarm:RunningAlarm"

    @property
    def unstated(self) -> frozenset[str]:
        return super().unstated | ({"above", "firings"} if self.above is None else set())

    @property
    def windows(self) -> int:
        return super().windows if self.above is None else self.horizon


class RunningSumOptions(RunningOptions, SumOptions):
    """What a plan asks of a sum that names a horizon."""

    whole_numbers: Literal[True] = option(
        "numbers are whole, as running totals need them; put what has fractions into whole units "
        "by --derive",
        True,
    )  # fmt: skip


class TotalOptions(Horizon, HiddenOptions):
    """One window of running totals on a command line.

    Attributes:
        planned: the same as a plan asks for it.
    """

    publisher: ClassVar[str] = "pipelines.running.publish:publish"
    planned: ClassVar[type[RunningOptions]]

    window: str = option(
        "the name of the window that is added now: each once, in their order", group=_HORIZON,
        min_length=1, metavar="NAME",
    )  # fmt: skip
    time_column: str | None = option(
        "the column of times or dates: windows whose rows overlap in time are refused, so the "
        "promise holds of every row; without it, of a row that is in one window",
        None, group=PROMISE, metavar="COLUMN",
    )  # fmt: skip
    secret: str | None = option(
        "the local file in which noise is remembered, outside of --output (default: one in this "
        "account's folder, ~/.local/state/hushbeam)",
        None, group=RESULT, metavar="FILE",
    )  # fmt: skip

    @property
    def counted_as(self) -> RunningOptions:
        """The same as a plan asks for it."""
        shared = {*self.planned.model_fields} & self.model_fields_set
        return self.planned(**{name: getattr(self, name) for name in shared})

    @property
    def terms(self) -> dict[str, Any]:
        """What is the same in all windows, and no path."""
        left = {"input", "output", "window", "secret", "last", *self.files, *self.unsaid}
        said = self.model_dump(mode="json", exclude=left | _OF_DUMMIES)
        return {**said, "unit": self.unit, "user_windows": self.windows}


class TotalCountOptions(TotalOptions, CountOptions):
    """A count that grows, on a command line."""

    brief: ClassVar[str] = _GROWS

    planned: ClassVar[type[RunningOptions]] = RunningCountOptions


class TotalSumOptions(TotalOptions, SumOptions):
    """A sum that grows, on a command line."""

    brief: ClassVar[str] = _GROWS

    planned: ClassVar[type[RunningOptions]] = RunningSumOptions
