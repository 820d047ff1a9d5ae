"""What is asked of every release, of those that users randomise, and of numbers and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, PrivateAttr, model_validator
from typing_extensions import Self

from pipelines.metrics.file_options import FileOptions
from pipelines.metrics.first_round import ROUND
from pipelines.request.options import PROMISE, RESULT, option
from pipelines.request.requests import Confidence, Count, Delta, Epsilon, Neighbours, large_delta
from pipelines.wording import FUSED_HERE

LOCAL_OR_SHUFFLE = (
    "local: every report alone is epsilon-private. shuffle: the release is (epsilon, "
    "delta)-private, at a far smaller error"
)

CLIENTS_SHARE = 0.9
"""The share of users that a promise counts on where clients draw the noise, if nobody says."""

DrawnBy = Literal["job", "each-report", "shuffler", "devices"]
JOB: Literal["job"] = "job"
BY_REPORT: Literal["each-report"] = "each-report"
SHUFFLER: Literal["shuffler"] = "shuffler"
DEVICES: Literal["devices"] = "devices"

OF_COUNTERS = (
    "job: it counts exactly and adds noise to totals, as a trusted collector does; whoever runs it "
    "is trusted with the rows. shuffler: nothing that users say is randomised, but dummies are "
    "drawn among it; the shuffler has to be trusted to draw them. devices: each of those that are "
    "--enrolled draws its share of dummies in every window; --honest-share of them have to be "
    "trusted. All of these hide who takes part"
)
OF_REPORTS = (
    "each-report: every report is randomised by itself, as --model says, and nobody is trusted "
    "with a value; options that only such reports have imply it"
)
"""Who draws the noise."""

COUNTED = "pipelines.metrics.counting.by_counters:ByCounters"
"""Noisy counters."""
ADDED = "pipelines.metrics.counting.by_job:ByJob"
"""Integers that the job adds to exact totals."""
UNDECLARED = "pipelines.metrics.counting.undeclared:OfUndeclaredGroups"
"""The same of groups that nobody declared."""
REPORTED = "pipelines.metrics.reports.by_reports:ByReports"
"""One randomised report of each unit."""
TREES = "pipelines.metrics.counting.undeclared_trees:OfUndeclaredTrees"
"""The same of trees over bins."""

# Where, and by which way, and not what.
_WHERE = {
    "input", "output", "user_column", "delimiter", "header", "encoding", "shuffler", "window",
    "series", "large_delta",
}  # fmt: skip


def published(*tables: str) -> Any:
    """The option `output` of a release that holds these files beside those that all hold."""
    files = ", ".join((*tables, "statement.json", "report.html"))
    return option(
        f"a new folder, local or gs://: {files}",
        group=RESULT,
        metavar="FOLDER",
        min_length=1,
        essential=True,
    )


class ReleaseOptions(FileOptions):
    """What a person asks of any release; every number is checked before anything is read.

    A kind's own class adds what else it asks, each by `option`, which describes it too. From these
    follow its command, its part of the schema of plans, and its step for Beam YAML.

    Attributes:
        metric: where that is which answers, as "module:name"; it is imported when it is needed.
        counted: where that is which answers by counters, if who takes part is hidden on request.
        sizing: where that is which `hushbeam size` asks of its counters, as "module:question".
        brief: what it publishes, for lists of commands.
        description: for the command's own page.
        examples: at the end of that page, with whatever needs room to be explained.
        subject: the heading over what the release is about.
        withheld: what the exit code 1 of the command means.
        failed: what its exit code 3 means beside a run that failed, after a comma.
        local_delta: whether a report that nobody shuffles may have a delta.
        files: the options that name files of declared values; where several, each behind COLUMN=.
            A range of integers may stand in the place of any.
        logs: the options that name tables, each behind NAME=.
        running: where that is which a plan asks that names a `horizon`, if the kind can go on
            from window to window.
        growing: where that is which a command asks that is typed with `--horizon`, likewise.
        publisher: what makes the release that a command asks for, as "module:function".
        remembers: where that is which looks at what noise that goes on from window to window goes
            on from, before a row is read.
        looks_back: whether a release takes rows of earlier windows, too; it then has an option
            `day`, which a plan fills with the window's name, and says with `days` which.
        usually: who draws the noise where nobody says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    metric: ClassVar[str]
    counted: ClassVar[str] = ""
    sizing: ClassVar[str] = ""
    brief: ClassVar[str]
    description: ClassVar[str]
    examples: ClassVar[str] = ""
    subject: ClassVar[str] = "what is looked at"
    withheld: ClassVar[str] = "too few reports"
    failed: ClassVar[str] = ""
    local_delta: ClassVar[bool] = False
    files: ClassVar[tuple[str, ...]] = ()
    logs: ClassVar[tuple[str, ...]] = ()
    running: ClassVar[str] = ""
    growing: ClassVar[str] = ""
    publisher: ClassVar[str] = "pipelines.command.single:publish_one"
    remembers: ClassVar[str] = ""
    looks_back: ClassVar[bool] = False
    usually: ClassVar[DrawnBy] = JOB

    input: tuple[str, ...] = option(
        "files or globs, local or gs://: Parquet, ORC, Arrow, Avro, CSV or JSON lines, by their "
        "names' endings; the last two also packed (.gz, .zst, .bz2)",
        metavar="FILE", min_length=1, figure=False,
    )  # fmt: skip
    user_column: str | None = option(
        "protect users, not rows: all rows of a user together",
        None, group=PROMISE, metavar="COLUMN", essential=True,
    )  # fmt: skip
    epsilon: Epsilon | None = option(
        "the privacy loss of the release, such as 1; less is safer",
        None, group=PROMISE, essential=True,
    )  # fmt: skip
    delta: Delta | None = option(
        "the probability that epsilon may fail (default: in the shuffle model 1e-6, less for "
        "batches of a million and more; in the local model 0)",
        None, group=PROMISE,
    )  # fmt: skip
    large_delta: bool = large_delta()
    output: str = published()
    confidence: Confidence = option("of the intervals", 0.95, group=RESULT)

    _together: int = PrivateAttr(1)
    _sealed: bool = PrivateAttr(False)

    @property
    def together(self) -> int:
        """Of how many releases like this one about the same units the price is counted as one."""
        return self._together

    @property
    def sealed(self) -> bool:
        """Whether each message to counters is sealed by itself, as clients send it."""
        return self._sealed

    def among(self, releases: int, sealed: bool = False) -> Self:
        """The same as one of so many releases that are paid for together.

        Args:
            releases: at least 1.
            sealed: as above.
        """
        copy = self.model_copy()
        copy._together, copy._sealed = releases, sealed
        return copy

    @property
    def fused(self) -> bool:
        """Whether the job counts reports as they come."""
        return False

    @property
    def one_job_only(self) -> str | None:
        """Why parties, or a stream, cannot serve what was asked; None if they can."""
        return FUSED_HERE if self.fused else None

    @property
    def public_columns(self) -> frozenset[str]:
        """Columns whose values reports say in the clear."""
        return frozenset()

    @property
    def unsaid(self) -> frozenset[str]:
        return super().unsaid | frozenset(() if self.large_delta else ("large_delta",))

    @property
    def unit(self) -> str:
        """Whose contribution is protected."""
        return "row" if self.user_column is None else "user"

    @classmethod
    def who_draws(cls, written: Mapping[str, Any]) -> DrawnBy:
        """Who draws the noise: as somebody says, or as options imply that one alone has.

        Args:
            written: option -> what was asked.
        """
        said: DrawnBy | None = written.get("drawn_by")
        return said or cls.usually

    @classmethod
    def hides_who(cls, written: Mapping[str, Any]) -> bool:
        """Whether nobody learns how many take part; the model is then "shuffle".

        Args:
            written: as of `who_draws`.
        """
        return cls.who_draws(written) != BY_REPORT

    @property
    def hides_presence(self) -> bool:
        """The same of what was asked."""
        return self.hides_who(dict(self))

    @property
    def answered_by(self) -> str:
        """Where that is which answers this very request."""
        return self.counted if self.counted and self.hides_presence else self.metric

    @property
    def hidden_by(self) -> str:
        """Where that is which hides the people in what this very request asks of a statistic."""
        return COUNTED

    @property
    def idle(self) -> frozenset[str]:
        """Options that mean nothing beside the others."""
        return frozenset()

    @property
    def unstated(self) -> frozenset[str]:
        """Options that its statement does not repeat."""
        return self.idle | self.unsaid | {"input", "output"}

    @property
    def declared_files(self) -> tuple[str, ...]:
        """The files of declared values, and ranges in their place.

        What is in them is part of what reports mean, and so of a plan's fingerprint.
        """
        named = (one for name in self.files for one in _named(getattr(self, name)))
        return tuple(path for _, path in named if path)

    def placed(self, place: Callable[[str], str]) -> Self:
        """The same with other paths of files.

        Args:
            place: takes a file, or a range, as it was written to where it is.
        """
        update: dict[str, Any] = {}
        for name in self.files:
            value = getattr(self, name)
            if not value:  # what nobody named stays so
                continue
            words = tuple(f"{column}{path and place(path)}" for column, path in _named(value))
            update[name] = words if isinstance(value, tuple) else words[0]
        return self.model_copy(update=update)

    @property
    def meaning(self) -> dict[str, Any]:
        """What reports mean that answer this, in JSON: a plan's fingerprint covers it."""
        return self.model_dump(mode="json", exclude={*_WHERE, *self.idle, *self.unsaid})


def _named(value: str | tuple[str, ...] | None) -> Iterator[tuple[str, str]]:
    """(what stands before it, a file or a range) of each that an option names."""
    if isinstance(value, str):
        yield "", value
        return
    for text in value or ():
        column, equals, path = text.partition("=")
        yield f"{column}{equals}", path


class ShuffledOptions(ReleaseOptions):
    """What a person says of a release whose reports may go through a shuffler."""

    shuffler: Literal["grouped", "fused"] = option(
        "shuffle model: how one job hides whose a report is. grouped: every message goes to a "
        "random group, as between parties, or, of counters, to the group of its code. fused: the "
        "job holds the log anyway, so it adds counts up as reports come, and sends none; the "
        "release has the same law, at a lower price",
        "grouped", group=PROMISE, figure=False,
    )  # fmt: skip

    @property
    def fused(self) -> bool:
        return self.shuffler == "fused"

    @property
    def unsaid(self) -> frozenset[str]:
        return super().unsaid | frozenset(() if self.fused else ("shuffler",))


class SeveralOptions(ShuffledOptions):
    """What a person says of counters that a unit may raise several of."""

    neighbours: Neighbours = option(
        "of counters: which two logs must look alike. add-or-remove: with a user's rows, all of "
        "them, and without them. replace: a user's rows become any others, and that the user takes "
        "part is not hidden; for plans that publish exactly how many take part (there it is the "
        "default)",
        "add or remove", group=PROMISE, metavar="add-or-remove|replace",
    )  # fmt: skip
    rows_per_user: Count = option(
        "of counters: k, how many different values, or groups, of a user count; where a user has "
        "more they are drawn uniformly, and how many users have is estimated. Noise grows with the "
        "square root of k, or with k where k is small: take what most users have. It stays 1 where "
        "several rows of a user would raise some counter twice (numbers by bins, strings by "
        "beginnings, rows of many numbers): there a user's rows share its one, or one counts",
        1, group=PROMISE, metavar="K", figure=True,
    )  # fmt: skip
    expected: Count | None = option(
        "of counters: about how many users, or rows, take part, as far as that is public "
        "knowledge: cautions are about so many, and numbers are rounded finely enough for them "
        "(default: 1,000,000, or all that are enrolled)",
        None, metavar="N", figure=False,
    )  # fmt: skip

    @property
    def usual(self) -> int:
        """About how many take part, as far as that is known."""
        return self.expected or 1_000_000

    @property
    def shared(self) -> bool:
        """Whether all rows of a user share what one of them would count, where they are of bins.

        Only the job adds up parts of a one.
        """
        return self.unit == "user" and self.hidden_by == ADDED


class BoundedOptions(SeveralOptions):
    """What a person says of counters whose dummies devices may draw."""

    drawn_by: DrawnBy | None = option(
        f"who draws the noise. {OF_COUNTERS} (default: job)", None, group=PROMISE
    )

    enrolled: Count | None = option(
        "of devices' dummies: how many devices are enrolled. Each of them sends in every window, "
        "whether it has something to say or not, so that nobody sees who takes part; the number is "
        "public, and comes from the service's own books, never from the log",
        None, group=PROMISE, metavar="N",
    )  # fmt: skip

    @classmethod
    def who_draws(cls, written: Mapping[str, Any]) -> DrawnBy:
        if written.get("drawn_by") is None and written.get("enrolled") is not None:
            return DEVICES
        return super().who_draws(written)

    @model_validator(mode="after")
    def _decided(self) -> Self:
        """With who draws the noise, whoever says so."""
        written = {name: getattr(self, name) for name in self.model_fields_set}
        self.__dict__["drawn_by"] = self.who_draws(written)  # which nobody said: no field is set
        return self

    @property
    def hidden_by(self) -> str:
        if self.drawn_by == JOB:
            return ADDED
        return super().hidden_by if self.hides_presence else REPORTED

    @property
    def usual(self) -> int:
        """About how many take part, as far as that is known."""
        return self.expected or self.enrolled or 1_000_000


class GroupedOptions(BoundedOptions):
    """What a person says of totals by groups, and of the rows behind them."""

    group: tuple[str, ...] = option(
        "a column to group by, and its values: a text file with one a line, a range of integers, "
        "or a list as JSON has it; public knowledge, not taken from the data. Without values: "
        "groups that enough users have, as with --group-by alone",
        (), metavar="COLUMN[=FILE|LOW..HIGH|[...]]", repeated=True, figure=True,
    )  # fmt: skip
    undeclared: Literal["other", "drop"] = option(
        "rows of no declared group. other: all of them are one more group. drop: they count for "
        "nothing, and take no other row's place",
        "other", figure=True,
    )  # fmt: skip
    by_row: bool = option(
        "each row counts for itself, and bounds hold for rows: --rows-per-user is then how many "
        "rows of a user count, drawn uniformly where it has more",
        False, group=PROMISE,
    )  # fmt: skip

    sessions: str | None = option(
        "rows are sessions of users: a column of moments, and after how long without a row another "
        "begins. Each has the columns of its first row, and session (its number), sessions (how "
        "many the user has), session_rows and session_seconds; where and derive see these",
        None, metavar="COLUMN,SPAN", figure=True,
    )  # fmt: skip

    @property
    def unsaid(self) -> frozenset[str]:
        return super().unsaid | (OF_ROWS - self.model_fields_set)

    @property
    def undeclared_columns(self) -> tuple[str, ...]:
        """Columns to group by of which nobody declared the values."""
        return ()

    @property
    def rows(self) -> int | None:
        """How many rows of a unit count, each for itself; None where those of a group are one."""
        return self.rows_per_user if self.by_row else None


class DiscoveryOptions(GroupedOptions):
    """What a person says of totals whose groups need not be declared."""

    selection_share: float = option(
        "of groups that nobody declared: which part of the price is for finding them; the rest is "
        "for their figures",
        0.5, group=PROMISE, metavar="S", gt=0, lt=1,
    )  # fmt: skip

    @property
    def undeclared_columns(self) -> tuple[str, ...]:
        alone = getattr(self, "group_by", None) if getattr(self, "groups", None) is None else None
        named = [column for column in self.group if "=" not in column]
        return (*([] if alone is None else [alone]), *named)

    @property
    def unsaid(self) -> frozenset[str]:
        return super().unsaid | ({"selection_share"} - self.model_fields_set)

    @property
    def hidden_by(self) -> str:
        return UNDECLARED if self.undeclared_columns else super().hidden_by


OF_ROWS = frozenset(GroupedOptions.model_fields) - frozenset(BoundedOptions.model_fields)
"""What only the job's own noise serves."""


class MetricOptions(ShuffledOptions):
    """What a person asks of a release to which each unit sends one randomised report."""

    usually: ClassVar[DrawnBy] = BY_REPORT

    model: Literal["local", "shuffle"] = option(LOCAL_OR_SHUFFLE, "shuffle", group=PROMISE)
    epsilon_local: Epsilon | None = option(
        "shuffle model: the most that one report may reveal to the shuffler; without --epsilon it "
        "is what each report spends",
        None, group=PROMISE, metavar="E",
    )  # fmt: skip
    honest_share: float | None = option(
        "shuffle model: the share of the users who follow the protocol; the promise counts on no "
        "others, whatever they send (default: 1 where one job draws the noise for every row; "
        f"{CLIENTS_SHARE} where clients draw it)",
        None, group=PROMISE, metavar="H", gt=0, le=1,
    )  # fmt: skip
    min_reports: Count | None = option(
        "withhold the release if fewer reports come (default: 99 % of the rows in the "
        "shuffle model, or 90 % where rows may be left out; needed there with --user-column)",
        None, group=PROMISE, metavar="N",
    )  # fmt: skip
    unusable: str = option(
        "a value that is missing, or is none that is asked for. hide: it is reported like any "
        "other, so that nobody learns whose it was, and the share of such values is estimated. "
        "fill=VALUE: this value, public knowledge, stands in its place, for columns that should "
        "never miss one. count: such rows are left out and counted exactly, which nothing protects",
        "hide", group=PROMISE, metavar="hide|fill=VALUE|count", figure=True,
        pattern=r"^(hide|count|fill=.+)$",
    )  # fmt: skip

    @property
    def hides(self) -> bool:
        """Whether a value that cannot be used is reported as one more value."""
        return self.unusable == "hide"

    @property
    def fill(self) -> str | None:
        """What stands in the place of a value that cannot be used, as it was written, or None."""
        return self.unusable.partition("=")[2] or None


def declared_bounds(default: Any = ...) -> Any:
    """The option `bounds`, required unless a default says what else there is."""
    return option(
        "the least and the largest value; values beyond are clipped, uncounted. They must be "
        "public knowledge, not taken from the data; narrow ones give a small error",
        default, metavar="L,U", essential=True,
        hint="--bounds=-5,5, with an equals sign, if L is below 0",
    )  # fmt: skip


ANYWAY = {"unusable": "hide"}
"""What an option of reports says that holds by all other noise, too."""


class EitherOptions(MetricOptions, BoundedOptions):
    """What a person asks of a release that randomised reports serve, or counters."""

    usually: ClassVar[DrawnBy] = JOB
    of_reports: ClassVar[frozenset[str]] = frozenset()  # its own, that mean nothing for counters

    drawn_by: DrawnBy | None = option(
        f"who draws the noise. {OF_COUNTERS}. {OF_REPORTS} (default: job)", None, group=PROMISE
    )

    @classmethod
    def who_draws(cls, written: Mapping[str, Any]) -> DrawnBy:
        named = (name for name in cls.of_randomised() if written.get(name) is not None)
        own = [name for name in named if written[name] != ANYWAY.get(name)]
        if own and written.get("drawn_by") is None:
            return BY_REPORT
        return super().who_draws(written)

    @classmethod
    def of_randomised(cls) -> frozenset[str]:
        """Options that only randomised reports have."""
        own = {*MetricOptions.model_fields} - {*BoundedOptions.model_fields} | cls.of_reports
        return frozenset(own - {"honest_share", "rows_per_user"})

    @property
    def idle(self) -> frozenset[str]:
        if self.hides_presence:
            others = frozenset({"honest_share"} if self.drawn_by == DEVICES else {})
            return (
                frozenset(MetricOptions.model_fields)
                - frozenset(BoundedOptions.model_fields)
                - others
            )
        counted = {*EitherOptions.model_fields} - {*MetricOptions.model_fields}
        return frozenset(counted - {"drawn_by"})

    @property
    def meaningless(self) -> frozenset[str]:
        """Of its own, what means nothing beside the others."""
        return self.of_reports if self.hides_presence else frozenset()

    @property
    def unstated(self) -> frozenset[str]:
        return super().unstated | self.meaningless


class NumberOptions(EitherOptions):
    """What a person asks of a column of numbers."""

    publisher: ClassVar[str] = "pipelines.command.rounds:publish"

    column: str = option("the column of numbers")
    bounds: str | None = declared_bounds(None)
    choose_bounds: bool = option(f"in the place of --bounds: {ROUND}", False, essential=True)

    @property
    def unstated(self) -> frozenset[str]:
        return super().unstated | {"choose_bounds"}  # the bounds are stated, and who chose them


class RowOptions(ReleaseOptions):
    """What a person says of rows of many values."""

    number: tuple[str, ...] = option(
        "a column of numbers, or several by a glob such as 'f*', and the least and the largest "
        "value; values beyond are clipped, uncounted. Bounds must be public knowledge, not taken "
        "from the data",
        (), metavar="COLUMN=L,U", repeated=True, essential=True,
    )  # fmt: skip
    vector: tuple[str, ...] = option(
        "a column of lists of LENGTH numbers, or of as many bytes, and the bounds of all of them; "
        "of a list of another length none can be used",
        (), metavar="COLUMN=LENGTH:L,U", repeated=True,
    )  # fmt: skip
    category: tuple[str, ...] = option(
        "a column of categories and what they are: a text file with one a line, or a range of "
        "integers; public knowledge, not taken from the data",
        (), metavar="COLUMN=FILE|LOW..HIGH", repeated=True, essential=True,
    )  # fmt: skip
