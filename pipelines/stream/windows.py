"""A plan as a stream: its windows, and its metrics as every window publishes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipelines.errors import RequestError
from pipelines.logs.inputs import UNREAD
from pipelines.metrics.metric import Metric, columns_read, published_in
from pipelines.metrics.options import ADDED
from pipelines.plan.document import SEED, WINDOW, PlanDocument
from pipelines.plan.job import PlanJob, output_of, unread_job
from pipelines.plan.metrics import mark_of_reports
from pipelines.plan.served import Stream
from pipelines.request.spans import seconds_of
from transforms.windows import SECOND, Tumbling, moment_of


class Calendar(NamedTuple):
    """The windows that are released whether there are rows of them or not.

    Attributes:
        first: when the first of them begins, in microseconds.
        until: when the last of them ends; None if there is no last one.
    """

    first: int
    until: int | None

    def starts(self, newest: int | None, moment: int, length: int) -> range:
        """When those begin that begin after a window, and no later than a moment."""
        begin = self.first if newest is None else newest + length
        return range(begin, min(moment + 1, self.until or moment + 1), length)


@dataclass(frozen=True)
class Streamed:
    """A plan that is served as a stream.

    Attributes:
        plan: what is collected.
        stream: how.
        metrics: ready to run, for any window.
    """

    plan: PlanDocument
    stream: Stream
    metrics: tuple[Metric, ...]

    @property
    def windows(self) -> Tumbling:
        """Of time."""
        return Tumbling(seconds_of(self.stream.window) * SECOND)

    @cached_property
    def fingerprint(self) -> bytes:
        """Of the plan and what it has come to: 16 bytes that every report to a stream carries."""
        return mark_of_reports(self.plan, SEED, self.metrics)

    @property
    def lateness(self) -> int:
        """How long a window waits for late rows, in microseconds."""
        return seconds_of(self.stream.lateness) * SECOND

    @property
    def ahead(self) -> int:
        """How far a clock may run ahead of ours, in microseconds."""
        return seconds_of(self.stream.ahead) * SECOND

    @property
    def idle(self) -> int | None:
        """After how long without files our clock takes over, in microseconds."""
        return None if self.stream.idle is None else seconds_of(self.stream.idle) * SECOND

    @property
    def calendar(self) -> Calendar | None:
        """Of noisy counters; None where windows end by their rows."""
        first, last = moment_of(self.stream.first or ""), moment_of(self.stream.last or "")
        if first is None:
            return None
        return Calendar(first, None if last is None else last + self.windows.length)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Where files land, whatever window they are of."""
        return tuple(pattern.replace(WINDOW, "*") for pattern in self.plan.input)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that the metrics need."""
        return tuple(sorted(frozenset().union(*(columns_read(m) for m in self.metrics))))

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of the files."""
        time = self.stream.time
        return tuple(sorted({*self.kept, *([] if time is None else [time])}))

    def job(self, window: str) -> PlanJob:
        """What one window's release is made by."""
        return PlanJob(self.plan, window, UNREAD, self._of(window))

    def _of(self, window: str) -> tuple[Metric, ...]:
        output = output_of(self.plan, window)
        return tuple(published_in(m, f"{output}/{m.name}", window) for m in self.metrics)


def streamed(plan: PlanDocument, clients: bool = False) -> Streamed:
    """A plan, held against what a stream can serve.

    Args:
        plan: what is collected.
        clients: whether what comes in are reports of users' own clients, and not rows.

    Raises:
        RequestError: the plan says nothing of a stream, or a metric cannot be served as one.
    """
    stream, metrics = require_stream(plan), unread_job(plan, SEED, clients).metrics
    require_streamed(plan, metrics, clients)
    return Streamed(plan, stream, metrics)


def require_streamed(plan: PlanDocument, metrics: Sequence[Metric], clients: bool) -> None:
    """Refuse what a stream cannot serve; arguments and errors as of `streamed`."""
    if WINDOW not in plan.output:
        raise RequestError(
            f"output: each window has a release of its own: name a folder with {WINDOW}"
        )
    _require_streamable(metrics)
    _require_calendar(plan, require_stream(plan), metrics, clients)


def require_stream(plan: PlanDocument) -> Stream:
    """How a plan is served.

    Raises:
        RequestError: it does not say.
    """
    if plan.stream is None:
        raise RequestError("the plan has no `stream:`; see docs/streams.md for what it says")
    return plan.stream


def _require_streamable(metrics: Sequence[Metric]) -> None:
    """Refuse metrics whose values would have to wait, unperturbed, until their window ends."""
    for metric in metrics:
        why = metric.options.one_job_only
        if why is not None:
            raise RequestError(f"metric {metric.name}: no stream: {why}")


def _require_calendar(
    plan: PlanDocument, stream: Stream, metrics: Sequence[Metric], clients: bool
) -> None:
    """Refuse what would tell by a release that is there, or is not, whether there were rows."""
    hiding = [metric for metric in metrics if metric.options.hides_presence]
    if not hiding:
        if stream.first is not None:
            raise RequestError(
                "stream.first: no metric is of noisy counters, and windows of others end by their "
                "rows: leave it out"
            )
        return
    why = None
    if clients and hiding[0].options.hidden_by == ADDED:
        why = (
            "a queue holds what clients have randomised, and the job draws the noise here: say "
            "drawn_by: each-report"
        )
    elif clients:
        why = (
            "a queue's reports are not sealed, where the shuffler is to draw the dummies: let "
            "clients seal them, and shuffle and collect each window by itself"
        )
    elif plan.merge_small:
        why = "merge_small: noisy counters are released in every window, however few report"
    elif stream.first is None:
        why = (
            "stream.first is missing: noisy counters are released in every window, without rows, "
            "too: name the first one, as in 2026-11-20T1300"
        )
    if why is not None:
        raise RequestError(f"metric {hiding[0].name}: {why}")
