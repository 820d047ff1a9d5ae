"""What a person asks of running totals of a log."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pipelines.errors import RequestError
from pipelines.metrics.counting.options import DELTA, CountingOptions, CountOptions, SumOptions
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.options import PROMISE, RESULT, flag, option
from pipelines.request.requests import Asked, Count, Delta, Epsilon, large_delta

_HORIZON = "which windows there are"
# What counters are told of their noise, and who draws it; here there is none.
_OF_DUMMIES = frozenset(
    {"dummies", "enrolled", "honest_share", "max_messages", "mechanism", "neighbours"}
)


class Horizon(Asked):
    """How many windows are paid for together, and in how many of them a unit is."""

    if TYPE_CHECKING:
        user_column: str | None

    horizon: Count = option(
        "how many windows there will be at the most: noise of a total grows with its logarithm",
        group=_HORIZON, metavar="N", le=20_000,
    )  # fmt: skip
    user_windows: Count | None = option(
        "in how many windows of the horizon a user has rows, at the most; needed with "
        "--user-column. Nothing cuts what a user adds in further ones: the promise is about users "
        "who do not",
        None, group=PROMISE, metavar="N",
    )  # fmt: skip
    last: Count | None = option(
        "show the sum of so many last windows, too", None, group=RESULT, metavar="N"
    )

    @property
    def windows(self) -> int:
        """In how many of them a unit has rows, at the most.

        Raises:
            RequestError: nobody says of users, or somebody of rows.
        """
        if self.user_column is None:
            if (self.user_windows or 1) > 1:
                raise RequestError("--user-windows: a row is in one window; name the --user-column")
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

    window: str = option("the name of the one that is added now", group=_HORIZON)
    series: str = option("what is the same in all windows", "", group=_HORIZON)

    @property
    def hidden_by(self) -> str:
        return "pipelines.running.metric:Running"

    @property
    def idle(self) -> frozenset[str]:
        return _OF_DUMMIES

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
        if getattr(self, "neighbours", None) == "replace":
            raise RequestError("--neighbours: running totals hide who takes part; leave it out")
        _ = self.windows


class RunningCountOptions(RunningOptions, CountOptions):
    """What a plan asks of a count that names a horizon."""

    metric: ClassVar[str] = "pipelines.running.metric:RunningCount"


class RunningSumOptions(RunningOptions, SumOptions):
    """What a plan asks of a sum that names a horizon."""

    metric: ClassVar[str] = "pipelines.running.metric:RunningSum"

    whole_numbers: Literal[True] = option(
        "numbers are whole, as running totals need them; put what has fractions into whole units "
        "by --derive",
        True,
    )  # fmt: skip


def _counted(name: str, of: type[CountingOptions] = CountOptions) -> Any:
    """An option of counts, or of sums, which means the same here."""
    return copy(of.model_fields[name])


class TotalOptions(Horizon, ReleaseOptions):
    """What is counted in each window, and for how many of them it is paid."""

    subject: ClassVar[str] = "what is counted"
    withheld: ClassVar[str] = "too little budget"
    files: ClassVar[tuple[str, ...]] = CountOptions.files
    brief: ClassVar[str] = "a count or a sum that grows day by day, at one price for all days"
    description: ClassVar[str] = (
        "Totals so far, and over the last windows, of what grows window by window: all of "
        "them at one price, which is declared beforehand. The job adds noise that it remembers in "
        "a secret file; each window is drawn once."
    )
    examples: ClassVar[str] = """\
example, with the files of the repository (the next day names its own --window and --input):
  hushbeam total --input examples/flights.parquet --window 2026-11-20 --horizon 365 \\
      --epsilon 1 --output departures
docs/running-totals.md says what it errs by, and how to keep the secret.
"""

    column: str | None = _counted("column")
    domain: str | None = _counted("domain")
    by: str | None = _counted("by")
    by_domain: str | None = _counted("by_domain")
    sum: str | None = option(
        "add up this column of whole numbers, in place of counting: of all rows, or of those with "
        "each value of --column", None, metavar="COLUMN",
    )  # fmt: skip
    bounds: str | None = option(
        "of --sum, whole: the least and the largest number of a user in a window, its rows added "
        "up (those with each value), or of a row where rows are protected; numbers beyond are "
        "clipped",
        None, metavar="L,U", hint="--bounds=-5,5, with an equals sign, if L is below 0",
    )  # fmt: skip
    window: str = option(
        "the name of the one that is added now: each once, in their order", group=_HORIZON,
        min_length=1, metavar="NAME",
    )  # fmt: skip
    time_column: str | None = option(
        "the column of times or dates: windows whose rows overlap in time are refused, so the "
        "promise holds of every row; without it, of a row that is in one window",
        None, group=PROMISE, metavar="COLUMN",
    )  # fmt: skip
    user_column: str | None = option(
        "protect users, not rows: all rows of a user in --user-windows of the windows",
        None, group=PROMISE, metavar="COLUMN",
    )  # fmt: skip
    epsilon: Epsilon = option(
        "the privacy loss of all windows together; 1 is a common choice, less is safer",
        group=PROMISE,
    )
    delta: Delta = option("the probability that epsilon may fail", DELTA, group=PROMISE, gt=0)
    large_delta: bool = large_delta()
    rows_per_user: Count = _counted("rows_per_user")
    per_value: Count = _counted("per_value")
    secret: str | None = option(
        "the local file in which noise is remembered, outside of --output (default: one in this "
        "account's folder, ~/.local/state/hushbeam)",
        None, group=RESULT, metavar="FILE",
    )  # fmt: skip
    output: str = option(
        "a local folder, new or with earlier windows: totals.parquet, report.html, statement.json",
        group=RESULT, metavar="FOLDER", min_length=1,
    )  # fmt: skip

    @property
    def counted_as(self) -> RunningCountOptions | RunningSumOptions:
        """The count, or the sum, that this is the total of, as a plan would ask for it.

        Raises:
            RequestError: an option means nothing for the one, or is missing for the other.
        """
        if (self.sum is None) != (self.bounds is None):
            raise RequestError(
                "--sum and --bounds go together: name the column, and what to clip its numbers to"
            )
        if self.sum is None:
            return RunningCountOptions(**self._shared(RunningCountOptions))
        for name in ("by", "per_value"):
            if name in self.model_fields_set:
                raise RequestError(f"{flag(name)}: says something of counts; leave it out of a sum")
        said = {"column": self.sum, "bounds": self.bounds}
        groups = {"group_by": self.column, "groups": self.domain}
        return RunningSumOptions(**(self._shared(RunningSumOptions) | said | groups))

    def _shared(self, other: type[CountingOptions]) -> dict[str, Any]:
        names = {*type(self).model_fields} & {*other.model_fields}
        return {name: getattr(self, name) for name in names}
