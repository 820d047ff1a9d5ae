"""A plan as a stream: its windows, and its metrics as every window publishes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pipelines.errors import RequestError
from pipelines.inputs import UNREAD
from pipelines.metrics.metric import Metric
from pipelines.plan.design import mark_of_reports
from pipelines.plan.document import WINDOW, Plan, Stream, seconds_of
from pipelines.plan.job import PlanJob, output_of, unread_job
from transforms.windowed import SECOND, Tumbling

# What public randomness is drawn for: one draw serves all windows, so that a message of one can
# be read in the next, and clients need not know the time.
SEED = "stream"


@dataclass(frozen=True)
class Streamed:
    """A plan that is served as a stream.

    Attributes:
        plan: what is collected.
        stream: how.
        metrics: ready to run, for any window.
    """

    plan: Plan
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
    def patterns(self) -> tuple[str, ...]:
        """Where files land, whatever window they are of."""
        return tuple(pattern.replace(WINDOW, "*") for pattern in self.plan.input)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that the metrics need."""
        return tuple(sorted(frozenset().union(*(m.columns for m in self.metrics))))

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of the files."""
        time = self.stream.time
        return tuple(sorted({*self.kept, *([] if time is None else [time])}))

    def job(self, window: str) -> PlanJob:
        """What one window's release is made by."""
        return PlanJob(self.plan, window, UNREAD, self._of(window))

    def _of(self, window: str) -> tuple[Metric, ...]:
        """The metrics, with this window's folder."""
        output = output_of(self.plan, window)
        return tuple(metric.published_in(f"{output}/{metric.name}") for metric in self.metrics)


def streamed(plan: Plan, clients: bool = False) -> Streamed:
    """A plan, held against what a stream can serve.

    Args:
        plan: what is collected.
        clients: whether what comes in are reports of users' own clients, and not rows.

    Raises:
        RequestError: the plan says nothing of a stream, or a metric cannot be served as one.
    """
    stream = require_stream(plan)
    if WINDOW not in plan.output:
        raise RequestError(
            f"output: each window has a release of its own: name a folder with {WINDOW}"
        )
    metrics = unread_job(plan, SEED, clients).metrics
    _require_streamable(metrics)
    return Streamed(plan, stream, metrics)


def require_stream(plan: Plan) -> Stream:
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
        why = None
        if getattr(metric.options, "choose_bounds", False):
            why = "choose_bounds needs two rounds; declare the bounds"
        elif metric.model == "central":
            why = "the central model keeps raw values until a window ends"
        elif metric.options.hides_presence:
            why = (
                "nothing that it counts is randomised before its window ends, and windows without "
                "rows have to be released, too; `hushbeam run`, window by window, serves it"
            )
        if why is not None:
            raise RequestError(f"metric {metric.name}: no stream: {why}")
