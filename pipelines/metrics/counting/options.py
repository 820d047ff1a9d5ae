"""What a person asks for of counts and of sums, and which of it goes together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pipelines.errors import RequestError
from pipelines.metrics.options import (
    ANYWAY,
    CLIENTS_SHARE,
    DEVICES,
    JOB,
    OF_ROWS,
    SHUFFLER,
    BoundedOptions,
    DiscoveryOptions,
    DrawnBy,
    EitherOptions,
    GroupedOptions,
    SeveralOptions,
    published,
)
from pipelines.request.options import PROMISE, flag, option
from pipelines.request.requests import Count, Delta

DELTA = 1e-6
"""Where nobody names one: it cannot follow from how many take part, for that is hidden."""

TRUSTED = (
    "--drawn-by shuffler would hide who takes part, too, and trusts the shuffler to draw the noise"
)
"""What is said of counters where randomised reports are asked for."""

JOB_TRUSTED = (
    "--drawn-by job would hide who takes part, too, and trusts whoever runs the job with the rows"
)
"""The same of exact totals to which the job adds noise."""

SPLIT_MIX = "split-mix"
MIXED = "pipelines.metrics.counting.split_mix:BySplitMix"
SUM_FACTOR = (
    "0.9 to 0.95 times that of counters with up to a million users, 0.65 to 0.8 with 100 million"
)
MEAN_FACTOR = "0.9 to 0.95 times that of counters with up to a million users"
"""What the error of split and mix is."""

SPLIT_MIX_TERMS = (
    "numbers are split into random shares, and the shuffler adds noise; but one lost message "
    "spoils the release, and one malicious client moves it anywhere, so take it where that little "
    "is worth it. Every --enrolled device sends, and --honest-share of them are counted on"
)

PRESENCE = (
    "Whether anybody takes part is hidden: no exact counts are published. The job that reads the "
    "log draws the noise; or the shuffler does, or all enrolled devices."
)


class HiddenOptions(SeveralOptions):
    """What a person asks of a release that hides who takes part, whatever else is asked."""

    withheld: ClassVar[str] = "too little budget"

    user_column: str | None = option(
        "protect users, not rows: all rows of a user together, whether they are there or not",
        None, group=PROMISE, metavar="COLUMN", essential=True,
    )  # fmt: skip
    delta: Delta | None = option(
        f"the probability that epsilon may fail (default: {DELTA:g}); about one in as many users "
        "as there are, or less",
        None, group=PROMISE, gt=0,
    )  # fmt: skip


class CountingOptions(HiddenOptions, BoundedOptions):
    """What a person asks of any release over noisy counters."""

    subject: ClassVar[str] = "what is counted"

    honest_share: float | None = option(
        "of devices' dummies: the share of the enrolled devices who follow the protocol; the "
        f"promise counts on no others, whatever they send (default: {CLIENTS_SHARE})",
        None, group=PROMISE, metavar="H", gt=0, le=1,
    )  # fmt: skip
    max_messages: float | None = option(
        "how many messages a user may send on average, dummies among them (default: as many as "
        "give the least error)",
        None, group=PROMISE, metavar="M", ge=1,
    )  # fmt: skip

    @property
    def idle(self) -> frozenset[str]:
        if self.drawn_by == JOB:
            return frozenset({"enrolled", "honest_share", "max_messages"})
        return frozenset({"enrolled", "honest_share"} if self.drawn_by == SHUFFLER else {})


class CountOptions(CountingOptions, DiscoveryOptions):
    """What a person asks of a count."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.count:Count"
    sizing: ClassVar[str] = "pipelines.size.counters:CountsQuestion"
    running: ClassVar[str] = "pipelines.running.options:RunningCountOptions"
    growing: ClassVar[str] = "pipelines.running.options:TotalCountOptions"
    files: ClassVar[tuple[str, ...]] = ("domain", "by_domain", "groups", "group")
    brief: ClassVar[str] = "how many users or events there are, of each declared value if asked"
    description: ClassVar[str] = (
        "How many users, events or rows there are: all of them, or of each declared value of a "
        f"column, or of two. {PRESENCE}"
    )
    examples: ClassVar[str] = """\
examples, with the files of the repository:
  how many rows (or, with --user-column, users) there are
    hushbeam count --input examples/flights.parquet --epsilon 1 --output flights-count
  how many users have each value, of up to ten values a user
    hushbeam count --input 'logs/*.parquet' --user-column user --column city \\
        --domain cities.txt --rows-per-user 10 --epsilon 1 --output users-by-city
  how many events of each value, of up to ten values a user and eight events of each
    hushbeam count --input 'logs/*.parquet' --user-column user --column city \\
        --domain cities.txt --rows-per-user 10 --per-value 8 --epsilon 1 --output events-by-city
  a total that grows: the next day names its own --window and --input
    hushbeam count --input examples/flights.parquet --window 2026-11-20 --horizon 365 \\
        --epsilon 1 --output departures
With --horizon the output is a local folder, new or with earlier windows: totals.parquet,
report.html, statement.json. docs/running-totals.md has its errors, and how to keep the secret.
"""

    column: str | None = option("one count for each value of this column", None, essential=True)
    domain: str | None = option(
        "its values: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. All other rows share one more count",
        None, metavar="FILE|LOW..HIGH", min_length=1, essential=True,
        hint="--domain=-60..60, with an equals sign, if it starts below 0",
    )  # fmt: skip
    group_by: str | None = option(
        "one count for each value of this column that enough users have; no list of them is "
        "needed. Groups of few users are absent",
        None, metavar="COLUMN",
    )  # fmt: skip
    groups: str | None = option(
        "the groups of --group-by, as with --domain: all of them are then published",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    by: str | None = option(
        "a second column: one count for each pair of values", None, metavar="COLUMN"
    )
    by_domain: str | None = option(
        "the values of the second column, as with --domain",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    per_value: Count = option(
        "b, how many rows of one value count of a user: 1 counts users, more count events; where a "
        "user has more rows, how many users have is estimated. Noise grows with b",
        1, group=PROMISE, metavar="B", figure=True, le=1 << 20,
    )  # fmt: skip
    output: str = published("count.parquet")

    @property
    def unsaid(self) -> frozenset[str]:
        return super().unsaid | ({"groups"} - self.model_fields_set)


class SumOptions(CountingOptions, DiscoveryOptions):
    """What a person asks of a sum."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.sum:Sum"
    sizing: ClassVar[str] = "pipelines.size.counters:NumbersQuestion"
    running: ClassVar[str] = "pipelines.running.options:RunningSumOptions"
    growing: ClassVar[str] = "pipelines.running.options:TotalSumOptions"
    files: ClassVar[tuple[str, ...]] = ("groups", "group")
    brief: ClassVar[str] = "the total of a column of numbers, or of each group of rows"
    description: ClassVar[str] = (
        "The total of a column of numbers: what all users have, each of them clipped to --bounds, "
        f"or what all rows have; of everybody, or of each group. {PRESENCE}"
    )
    examples: ClassVar[str] = """\
examples:
  hushbeam sum --input 'logs/*.parquet' --user-column user --column seconds --bounds 0,3600 \\
      --epsilon 1 --output seconds-sum
  hushbeam sum --input 'logs/*.parquet' --user-column user --column cents --bounds=-5000,20000 \\
      --whole-numbers --group-by city --groups cities.txt --rows-per-user 3 \\
      --epsilon 1 --output cents-by-city
"""

    column: str = option("the column of numbers")
    bounds: str = option(
        "the least and the largest number of a user, its rows added up (in each of its groups), or "
        "of a row where rows are protected; numbers beyond are clipped, and how many users are "
        "clipped is estimated. They must be public knowledge, not taken from the data; noise is a "
        "small multiple of the larger one",
        metavar="L,U", hint="--bounds=-5,5, with an equals sign, if L is below 0",
    )  # fmt: skip
    whole_numbers: bool = option(
        "numbers are whole: nothing is rounded, and one that is not cannot be used", False
    )
    group_by: str | None = option("one sum for each value of this column", None, metavar="COLUMN")
    groups: str | None = option(
        "the groups: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. All other rows share one more sum. Without it groups are those that "
        "enough users have",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    mechanism: Literal["counters", "split-mix"] = option(
        "counters: digits among dummies. split-mix: the least error that there is, of one total, "
        f"{SUM_FACTOR}: {SPLIT_MIX_TERMS}",
        "counters", group=PROMISE,
    )  # fmt: skip
    output: str = published("sum.parquet")

    @classmethod
    def who_draws(cls, written: Mapping[str, Any]) -> DrawnBy:
        return drawn_for(written) or super().who_draws(written)

    @property
    def hidden_by(self) -> str:
        return MIXED if self.mechanism == SPLIT_MIX else super().hidden_by

    @property
    def idle(self) -> frozenset[str]:
        return frozenset() if self.mechanism == SPLIT_MIX else super().idle


def drawn_for(written: Mapping[str, Any]) -> DrawnBy | None:
    """Who draws the noise of a mechanism that leaves no choice, if nobody says.

    Args:
        written: as of `ReleaseOptions.who_draws`.
    """
    said = written.get("drawn_by")
    return SHUFFLER if said is None and written.get("mechanism") == SPLIT_MIX else said


def require_pairs(*pairs: tuple[str, str | None, str, str | None]) -> None:
    """Refuse a column without its values, or values without their column.

    Args:
        pairs: (flag of the column, the column, flag of its values, the values).

    Raises:
        RequestError: one is there and the other is not.
    """
    for column, named, values, declared in pairs:
        if (named is None) != (declared is None):
            raise RequestError(f"{column} and {values} go together: name the column and its values")


def grouped(options: GroupedOptions) -> list[tuple[str, str | None, str, str | None]]:
    """The pairs of `require_pairs` that the option `group` says.

    Raises:
        RequestError: what only totals of the job have is asked of another noise.
    """
    named = sorted(options.model_fields_set & OF_ROWS)
    if named and options.drawn_by != JOB:
        raise RequestError(
            f"{flag(named[0])}: only the job's own noise serves it: say --drawn-by {JOB}"
        )
    pairs: list[tuple[str, str | None, str, str | None]] = []
    for text in options.group:
        if text in options.undeclared_columns:
            continue
        column, equals, values = text.partition("=")
        if not (column and equals and values):
            raise RequestError("--group: a column and its values, as in city=cities.txt")
        pairs.append(("--group", column, "--group", values))
    return pairs


def require_drawn(options: BoundedOptions) -> None:
    """Refuse dummies of which it is not said how many draw them, or said of nobody.

    Raises:
        RequestError: with what to do.
    """
    drawn = options.drawn_by == DEVICES
    if drawn and options.enrolled is None:
        raise RequestError(
            "--enrolled is missing: with --drawn-by devices say how many devices are enrolled, all "
            "of which send in every window; it is public knowledge, not taken from the data"
        )
    named = sorted(options.model_fields_set & {"enrolled", "honest_share"})
    if named and not drawn:
        raise RequestError(
            f"{flag(named[0])}: says something of --drawn-by devices; others draw on their own"
        )


def require_bounded(options: SeveralOptions, groups: int, per_value: int = 1) -> None:
    """Refuse contributions that a unit cannot have.

    Args:
        options: of the request.
        groups: how many counts, or sums, there are.
        per_value: b.

    Raises:
        RequestError: with what to do.
    """
    by_row = getattr(options, "by_row", False)
    if by_row and per_value > 1:
        raise RequestError("--per-value: each row counts for itself: say --rows-per-user alone")
    if options.rows_per_user > groups and not by_row:
        raise RequestError(
            f"--rows-per-user: a user has {groups:,} different values at the most, and not "
            f"{options.rows_per_user:,}"
        )
    if options.user_column is None and max(options.rows_per_user, per_value) > 1:
        flag = "--rows-per-user" if options.rows_per_user > 1 else "--per-value"
        raise RequestError(
            f"{flag}: where rows are protected each is one row of one value; name the "
            "--user-column whose users have several"
        )


def require_counted(options: EitherOptions) -> None:
    """Refuse options that mean nothing where no report is randomised.

    Raises:
        RequestError: one was named.
    """
    idle = options.idle - {"enrolled"}  # of which `require_drawn` says more
    said = options.model_fields_set & (idle | options.meaningless)
    named = sorted(name for name in said if getattr(options, name) != ANYWAY.get(name))
    if "rows_per_user" in named:
        raise RequestError(
            "--rows-per-user: one row of a user counts here, drawn uniformly: several of them "
            "would raise some counter twice; leave it out"
        )
    if named:
        raise RequestError(
            f"{flag(named[0])}: with --drawn-by {options.drawn_by} no report is randomised and no "
            "number of reports is known: leave it out"
        )


def require_randomised(options: EitherOptions) -> None:
    """Refuse options that mean something for counters alone.

    Raises:
        RequestError: one was named.
    """
    named = sorted(options.model_fields_set & (options.idle - {"neighbours"}))
    if named:
        raise RequestError(
            f"{flag(named[0])}: says something of totals with noise, and here every "
            "report is randomised: leave it out"
        )
