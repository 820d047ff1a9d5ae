"""What a plan says: the collection, its users, its budget and its metrics."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from pipelines.errors import RequestError
from pipelines.metrics import registry
from pipelines.metrics.options import BY_REPORT, CLIENTS_SHARE, DEVICES, DrawnBy, ReleaseOptions
from pipelines.metrics.permanent import Permanent
from pipelines.plan.consistency import (
    about,
    require_consistent,
    require_looking_back,
    require_running,
)
from pipelines.plan.parts import MetricRequest, Name, PlanPart, SourceLines
from pipelines.plan.served import Stream, require_schedule
from pipelines.request.options import undashed
from pipelines.request.requests import (
    Count,
    Delta,
    Epsilon,
    Neighbours,
    Pairs,
    Texts,
    require_small_delta,
)
from pipelines.request.spans import TimeSpan
from pipelines.storage.paths import DAY, beside, require_match
from pipelines.wording import upward
from transforms.encoders.domain import integer_range

if TYPE_CHECKING:
    from pipelines.ledger.entries import Noise
    from pipelines.query.answer import QueryResult
    from transforms.expressions.view import View
    from transforms.files.reading import Reading

WINDOW = "{window}"

# What a stream draws public randomness for: one draw serves all windows, so that a message of one
# can be read in the next, and clients need not know the time.
SEED = "stream"

_OF_REPORTS = frozenset({"model", "min_reports", "epsilon_local", "honest_share"})
_OF_COUNTERS = frozenset({"neighbours"})


class PlanBudget(PlanPart):
    """The most that all releases of the collection may reveal together, as its ledger counts."""

    epsilon: Epsilon = Field(description="in nats")
    delta: Delta = 1e-6


class PlanDocument(PlanPart):
    """A reviewed collection.

    Attributes:
        collection: its id.
        population: who is in it: ledgers count by it, and whatever is published about one
            population composes; by default the collection's name.
        version: a change of the plan is a new version.
        unit: whose contribution is protected: a row's, a user's in all windows together, or a
            user's in one window.
        user_column: tells users apart; needed where they are the unit.
        input: files or globs; {window} stands for the window.
        types: what columns of text hold, and parts of folders' names: column -> int, float, bool,
            date or timestamp; strings are what nobody says of.
        delimiter: between the fields of CSV files.
        header: the columns of CSV files whose first line is a row already.
        encoding: of CSV files and JSON lines; by default UTF-8.
        derive: name -> expression, of columns that every metric may ask for: see docs/files.md.
        applies: what must hold of a row, for every metric; `where` in the file.
        output: the folder of the releases, one folder in it for each metric; with {window}.
        ledger: where the budget is kept: a file, or gs://bucket/object.
        budget: of the whole collection; needed with a ledger.
        epsilon: of one window, all metrics together, in nats.
        delta: of one window; by default each metric's own.
        large_delta: whether one above 0.01 is meant.
        drawn_by: who draws the noise of metrics that do not say; by default the job, or each
            report where the plan or the metric says what only randomised reports have.
        model: of metrics that name none.
        min_reports: of metrics that name none.
        epsilon_local: of metrics that name none.
        honest_share: of metrics that name none: the share of the users whom the shuffle model's
            promise counts on; by default all in a run over a log, and nine tenths where clients
            draw the noise.
        neighbours: replace, where counters could hide who takes part and are to be priced like what
            publishes it, as in a plan of other kinds about the same people; by default what all
            metrics can promise.
        noise: fresh in every window; or permanent, drawn once and for all by each user's client,
            for each value that the user ever reports.
        distinct_values: the most different values of a metric that a user ever reports, as its
            mechanism tells them apart; needed, and paid for, with permanent noise.
        schedule: when the plan runs, as the five fields of cron; for schedulers.
        merge_small: whether a stream adds a window with too few reports to the next one.
        ask_again: how long the shuffler of noisy counters keeps what it takes to ask a batch again,
            as in 7d; by default nothing is kept.
        tokens: how many reports a user may send in a window, each admitted by a token that says
            nothing of the user; by default whoever can reach the shuffler can send.
        stream: how it is served as a stream, if it is.
        metrics: what is published.
    """

    collection: Name
    population: Name | None = None
    version: int = Field(ge=1)
    unit: Literal["row", "user", "user per window"] = "row"
    user_column: str | None = Field(None, min_length=1)
    input: tuple[str, ...] = Field(min_length=1)
    types: Pairs = ()
    delimiter: str | None = None
    header: tuple[str, ...] = ()
    encoding: str | None = None
    derive: Pairs = ()
    applies: Texts = Field((), alias="where")
    output: str = Field(min_length=1)
    ledger: str | None = Field(None, min_length=1)
    budget: PlanBudget | None = None
    epsilon: Epsilon
    delta: Delta | None = None
    large_delta: bool = False
    drawn_by: DrawnBy | None = None
    model: Literal["local", "shuffle"] = "shuffle"
    min_reports: Count | None = None
    epsilon_local: Epsilon | None = None
    honest_share: float | None = Field(None, gt=0, le=1)
    neighbours: Neighbours | None = None
    noise: Literal["fresh", "permanent"] = "fresh"
    distinct_values: Count | None = Field(None, le=1_000_000)
    schedule: str | None = None
    merge_small: bool = False
    ask_again: TimeSpan | None = None
    tokens: int | None = Field(None, ge=1, le=1000)
    stream: Stream | None = None
    metrics: tuple[MetricRequest, ...] = Field(min_length=1, max_length=1000)

    _places: SourceLines | None = PrivateAttr(None)
    _folder: str = PrivateAttr("")
    _queries: tuple[QueryResult, ...] = PrivateAttr(())

    @field_validator("input", mode="before")
    @classmethod
    def _one_or_many(cls, written: object) -> object:
        return (written,) if isinstance(written, str) else written

    @field_validator("schedule")
    @classmethod
    def _of_five_fields(cls, written: str | None) -> str | None:
        if written is not None:
            require_schedule(written)
        return written

    @model_validator(mode="after")
    def _fits_together(self) -> PlanDocument:
        try:
            require_small_delta(self.delta, self.large_delta)
        except RequestError as error:
            raise about(undashed(str(error)), "delta") from None
        require_consistent(self, WINDOW)
        if self.looks_back:
            require_looking_back(self, [*map(_looks_back, self.metrics)], WINDOW)
        if self.drawn == "running":
            require_running(self, [*map(_runs, self.metrics)], WINDOW)
        watched = [place for place, metric in enumerate(self.metrics) if metric.watch]
        if watched and (self.drawn != "fresh" or WINDOW not in self.output):
            text = f"needs an output with {WINDOW}, and fresh noise in each window: leave it out"
            raise about(text, "metrics", watched[0], "watch")
        if self.neighbours == "add or remove" != self.promised:
            text = "some of the metrics publish how many take part: say replace"
            raise about(text, "neighbours")
        return self

    def placed(self, places: SourceLines, folder: str) -> PlanDocument:
        """The same plan, which knows where it stands: its paths are absolute, or of a bucket.

        Args:
            places: the lines of its file.
            folder: of that file; relative paths are relative to it.
        """
        self._places, self._folder = places, folder
        relative = [p for p in self.input if "://" not in p and not os.path.isabs(p)]
        if relative and set(folder) & set("*?["):
            raise RequestError(
                f"{self.where('input')}input: rename {folder}: it would be taken for a pattern"
            )
        update: dict[str, Any] = {
            "input": tuple(self.place(pattern) for pattern in self.input),
            "output": self.place(self.output),
        }
        if self.ledger is not None:
            update["ledger"] = self._kept("ledger", self.ledger)
        if self.stream is not None:
            state = self._kept("stream.state", self.stream.state)
            if "://" in state:
                raise RequestError(
                    f"{self.where('stream', 'state')}stream.state: it is a folder on this machine; "
                    "in a plan that is in a bucket, name it by its absolute path"
                )
            update["stream"] = self.stream.model_copy(update={"state": state})
        return self.model_copy(update=update)

    def _kept(self, what: str, written: str) -> str:
        """Where something leads that must not be begun anew for being looked for elsewhere."""
        place = self.place(written)
        try:
            require_match(what, written, place)
        except ValueError as error:
            raise RequestError(f"{self.where(*what.split('.'))}{error}") from None
        return place

    def answering(self, queries: tuple[QueryResult, ...]) -> PlanDocument:
        """The same plan, which also publishes what queries make of its metrics' figures."""
        copy = self.model_copy()
        copy._queries = queries
        return copy

    @property
    def queries(self) -> tuple[QueryResult, ...]:
        """What is made of its metrics' figures."""
        return self._queries

    @property
    def folder(self) -> str:
        """Of its file; empty of a plan without one."""
        return self._folder

    def place(self, path: str) -> str:
        """Where a path leads that the plan names; a range, or a list, is none, and stays.

        Raises:
            RequestError: it leaves the bucket that the plan is in.
        """
        if integer_range(path) is not None or path.startswith("["):
            return path
        try:
            return beside(self._folder, path)
        except ValueError as error:
            raise RequestError(str(error)) from None

    def where(self, *place: int | str) -> str:
        """How a refusal begins: the file and the line, or nothing of a plan without a file.

        Args:
            place: keys and positions, from the outside in.
        """
        return "" if self._places is None else f"{self._places.where(place)}: "

    @property
    def reading(self) -> Reading:
        """How files of text are read.

        Raises:
            RequestError: what was said of that is malformed.
        """
        from pipelines.logs.reading import reading_of

        with self.located():
            return reading_of(self.types, self.delimiter, self.header, self.encoding)

    @property
    def view(self) -> View:
        """What is derived of rows, and what must hold of them, for every metric.

        Raises:
            RequestError: an expression is none.
        """
        from pipelines.logs.reading import view_of

        with self.located():
            return view_of(self.derive, self.applies)

    @contextmanager
    def located(self, *around: int | str) -> Iterator[None]:
        """Refusals get the line of the key that they begin with.

        Args:
            around: keys and positions of what holds that key, from the outside in.
        """
        try:
            yield
        except RequestError as error:
            text = undashed(str(error))
            raise RequestError(f"{self.where(*around, text.partition(':')[0])}{text}") from None

    @property
    def permanent(self) -> Permanent | None:
        """The noise that users draw once and for all; None if it is fresh."""
        return None if self.distinct_values is None else Permanent(self.distinct_values)

    @property
    def shares(self) -> dict[str, float]:
        """Each metric's share; what nobody claims is divided among those that name none."""
        claimed = sum(metric.share or 0.0 for metric in self.metrics)
        silent = sum(metric.share is None for metric in self.metrics)
        rest = max(0.0, 1.0 - claimed) / silent if silent else 0.0
        return {m.name: rest if m.share is None else m.share for m in self.metrics}

    @property
    def scope(self) -> Literal["user", "user per window"]:
        """Whether windows compose: rows, like a user's part in one window, come in one only.

        Where the input is the same in every run, the rows are: then releases compose.
        """
        own = self.stream is not None or all(WINDOW in pattern for pattern in self.input)
        return "user per window" if own and self.unit != "user" else "user"

    @property
    def windowed(self) -> bool:
        """Whether input or output depend on a window."""
        return WINDOW in self.output or any(WINDOW in pattern for pattern in self.input)

    @property
    def dated(self) -> tuple[str, ...]:
        """The input, with a day in the place of the window: of metrics that look back."""
        return tuple(pattern.replace(WINDOW, DAY) for pattern in self.input)

    @property
    def looks_back(self) -> bool:
        """Whether a window's release takes rows of earlier windows, too."""
        return any(map(_looks_back, self.metrics))

    @property
    def drawn(self) -> Noise:
        """How the noise of windows hangs together, as a ledger calls it."""
        return "running" if any(map(_runs, self.metrics)) else self.noise

    def days(self, window: str) -> tuple[str, ...]:
        """The days whose files a window takes, its own first; none where it takes its own alone.

        Raises:
            RequestError: metrics look back, and the window is no day.
        """
        if not self.looks_back:
            return ()
        windows: list[tuple[str, ...]] = []
        for place, metric in enumerate(self.metrics):
            options: Any = self.options(metric, window)
            with self.located("metrics", place):
                windows.append(options.days)
        return max(windows, key=len)

    def model_of(self, metric: MetricRequest) -> str:
        """Who a metric trusts: as it says itself, or the plan."""
        named = str(metric.options.get("model", self.model))
        return "shuffle" if self.hides(metric) else named

    def who_draws(self, metric: MetricRequest) -> DrawnBy:
        """Who draws a metric's noise: as it says itself, or the plan, or as either implies."""
        kind = registry.options(metric.kind)
        said = {n: getattr(self, n) for n in _OF_REPORTS & self.model_fields_set}
        said |= {"drawn_by": self.drawn_by} | _said(metric)
        return kind.who_draws({n: x for n, x in said.items() if n in _names(kind)})

    def hides(self, metric: MetricRequest) -> bool:
        """Whether nobody learns from a metric how many take part."""
        return self.who_draws(metric) != BY_REPORT

    @property
    def promised(self) -> Neighbours:
        """What all metrics promise: some publish how many take part."""
        hidden = self.hides_all and self.neighbours != "replace"
        return "add or remove" if hidden else "replace"

    @cached_property  # each metric's options ask; no copy changes what it follows from
    def hides_all(self) -> bool:
        """Whether nobody learns from any metric how many take part."""
        return all(map(self.hides, self.metrics))

    def spending(self, divided: bool) -> dict[str, float]:
        """What of epsilon each metric's reports spend.

        Args:
            divided: whether units are divided among the metrics of the local model: who answers one
                spends on it what all of them have.
        """
        shares = self.shares
        group = [m.name for m in self.metrics if divided and self.model_of(m) == "local"]
        return shares | dict.fromkeys(group, math.fsum(shares[name] for name in group))

    def _of_rows(self, metric: MetricRequest) -> dict[str, Any]:
        """What files hold, and what a metric sees of it."""
        own = {name: metric.options.get(name, ()) for name in ("derive", "where")}
        return {
            "types": self.types,
            "delimiter": self.delimiter,
            "header": self.header,
            "encoding": self.encoding,
            "derive": _joined(self.derive, own["derive"]),
            "where": _joined(self.applies, own["where"]),
        }

    def options(
        self,
        metric: MetricRequest,
        window: str,
        scale: float = 1.0,
        divided: bool = False,
        clients: bool = False,
    ) -> ReleaseOptions:
        """What a request to the metric's own command would say.

        Args:
            metric: of the plan.
            window: the part of the time.
            scale: by how much its epsilon is larger than its share, for losses do not add up.
            divided: whether units are divided among the metrics of the local model.
            clients: whether each user's own client draws the noise, and not one job for all.

        Raises:
            ValidationError: the metric's kind does not understand it.
        """
        kind = registry.options_in_plan(metric.kind, metric.options)
        share = self.spending(divided)[metric.name]
        common = {
            "model": self.model,
            "min_reports": self.min_reports,
            "epsilon_local": self.epsilon_local,
            "honest_share": self.honest_share or (CLIENTS_SHARE if clients else None),
            "neighbours": self.promised,
            "drawn_by": self.drawn_by,
        }
        # A report that nobody shuffles has no delta; the plan's is then what lets losses compose.
        unused = self.model_of(metric) != "shuffle" and not kind.local_delta and self.delta != 0
        drawer = self.who_draws(metric)
        idle = _OF_COUNTERS if drawer == BY_REPORT else _OF_REPORTS
        if drawer == DEVICES or metric.options.get("mechanism") == "split-mix":
            idle -= {"honest_share"}
        known = _names(kind) - idle
        common = {name: value for name, value in common.items() if name in known}
        words = (
            common
            | _said(metric)
            | self._of_rows(metric)
            | {
                "input": tuple(p.replace(WINDOW, window) for p in self.input),
                "output": f"{self.output.replace(WINDOW, window)}/{metric.name}",
                "user_column": self.user_column,
                "epsilon": _grown(self.epsilon * share, scale),
                "delta": None if self.delta is None or unused else self.delta * share,
                "large_delta": self.large_delta,
            }
        )
        if kind.looks_back:
            words |= {"day": window, "input": self.dated}
        if _runs(metric):
            words |= {"window": window, "series": f"{self.output}/{metric.name}"}
        return kind(**{name: value for name, value in words.items() if value is not None})


@cache
def _names(kind: type[ReleaseOptions]) -> frozenset[str]:
    """Of a kind's options; pydantic would look for them anew, N^2 times in a plan of N metrics."""
    return frozenset(kind.model_fields)


def _joined(*parts: Any) -> Any:
    """What the plan says of rows, and after it what a metric does; as it is where that is odd."""
    words: list[str] = []
    for part in parts:
        if type(part) is dict:
            words += [f"{name}={text}" for name, text in part.items()]
        elif isinstance(part, str):
            words.append(part)
        elif isinstance(part, list | tuple):
            words += part
        else:
            return part
    return words


def _said(metric: MetricRequest) -> dict[str, Any]:
    """What a metric says itself: an empty key says nothing, and leaves the plan's."""
    return {name: value for name, value in metric.options.items() if value is not None}


def _looks_back(metric: MetricRequest) -> bool:
    """Whether a metric takes rows of earlier windows, too."""
    return registry.options(metric.kind).looks_back


def _runs(metric: MetricRequest) -> bool:
    """Whether a metric's noise goes on from window to window."""
    kind = registry.options(metric.kind)
    return registry.options_in_plan(metric.kind, metric.options) is not kind


def _grown(epsilon: float, scale: float) -> float:
    """An epsilon times a scale, to four digits, rounded down: people may have to write it."""
    return epsilon if scale == 1 else -upward(-epsilon * scale, 4)
