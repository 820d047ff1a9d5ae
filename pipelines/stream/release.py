"""From the messages that a stream keeps of a window to the window's release."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.options.pipeline_options import PipelineOptions
from numpy.typing import NDArray

from pipelines.errors import WithheldError
from pipelines.ledger.rules import BudgetExceeded, InProgressError
from pipelines.ledger.spans import Span
from pipelines.metrics.metric import Metric, MetricReports
from pipelines.metrics.publishable import collected
from pipelines.plan.diagnostics import Diagnostic
from pipelines.plan.publish import ReleasePlanDoFn, named, released
from pipelines.plan.run import ReleaseTarget, release_window
from pipelines.request import answers
from pipelines.stream.clocks import iso, moment_at
from pipelines.stream.intake import FLOW, MESSAGES, TALLY, USERS
from pipelines.stream.windows import Streamed
from transforms.elements.conservation import SENT, read_flow
from transforms.elements.progress import ROWS

_BLOCK = 1 << 16  # messages of one block


@dataclass(frozen=True)
class Backlog:
    """What a stream holds of one metric in one window.

    Attributes:
        files: of messages, 8 bytes each.
        messages: how many they are.
        users: how many users sent them, where that had to be counted.
        tallies: name -> count, of rows.
        flow: name -> count, of what became of the rows, and of how many; empty if nobody noted it.
    """

    files: tuple[str, ...] = ()
    messages: int = 0
    users: int | None = None
    tallies: Mapping[str, int] = field(default_factory=dict)
    flow: Mapping[str, int] = field(default_factory=dict)

    @property
    def reports(self) -> int:
        """How many users reported."""
        return self.messages if self.users is None else self.users


def backlogs(notes: Iterable[tuple[str, str, str, int]]) -> dict[str, Backlog]:
    """What there is of each metric of a window, by name.

    Args:
        notes: (kind, metric, name, amount), as of `Note`; messages have the path of their file.
    """
    metrics: dict[str, dict[str, Counter[str]]] = {}
    for kind, metric, name, amount in notes:
        metrics.setdefault(metric, {}).setdefault(kind, Counter())[name] += amount
    none = Counter[str]()
    return {
        metric: Backlog(
            tuple(of.get(MESSAGES, ())), of.get(MESSAGES, none).total(),
            of[USERS].total() if USERS in of else None, of.get(TALLY, none), of.get(FLOW, none),
        )
        for metric, of in metrics.items()
    }  # fmt: skip


@dataclass
class ReleaseWindow(beam.PTransform):
    """The shuffler and the collector of a window, over all metrics of the plan.

    Attributes:
        metrics: of the plan.
        target: where the release goes.
        backlog: name -> what there is of it.
    """

    metrics: Sequence[Metric]
    target: ReleaseTarget
    backlog: Mapping[str, Backlog]

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        names = tuple(metric.name for metric in self.metrics)
        contents = tuple(
            begin | metric.name >> FromBacklog(metric, self.backlog.get(metric.name, Backlog()))
            for metric in self.metrics
        )
        return released(begin, ReleasePlanDoFn(self.target, names), contents)


@dataclass
class FromBacklog(beam.PTransform):
    """One metric's messages to its name and what is published of it."""

    metric: Metric
    backlog: Backlog

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        backlog, metric = self.backlog, self.metric
        users = None
        if backlog.users is not None:
            users = begin | "Users" >> beam.Create([backlog.users]).with_output_types(int)
        tallies = begin | "Tallies" >> beam.Create([*(dict(backlog.tallies) or {ROWS: 0}).items()])
        read = (
            begin
            | "Backlog" >> beam.Create([backlog.files])
            | "Read" >> beam.ParDo(ReadBacklogDoFn())
        )
        reports = metric.shuffling.step(MetricReports(read, users, tallies, self._flow(begin)))
        contents, mechanism = collected(metric, reports), metric.mechanism
        # The test holds counts against one message a user; of several it has nothing to say.
        if mechanism.messages == 1:
            contents |= "Diagnostic" >> Diagnostic(mechanism, reports.messages)
        return contents | named(self.metric.name)

    def _flow(self, begin: beam.pvalue.PBegin) -> tuple[beam.PCollection, ...]:
        """What is known of how the messages came about."""
        backlog = self.backlog
        if backlog.flow:
            known = read_flow(backlog.flow)
        elif backlog.users is None and self.metric.batches == 1:
            known = {SENT: np.array([backlog.messages])}
        else:  # messages alone do not say what is due
            return ()
        return (begin | "Known flow" >> beam.Create([*known.items()]),)


@typehints.with_output_types(np.ndarray)
class ReadBacklogDoFn(beam.DoFn):
    """The messages in files, block by block."""

    def process(self, files: tuple[str, ...]) -> Iterator[NDArray[np.uint64]]:
        for file in files:
            with open(file, "rb") as stream:
                while data := stream.read(8 * _BLOCK):
                    yield np.frombuffer(data, np.uint64)


def enough(streamed: Streamed, backlog: Mapping[str, Backlog]) -> bool:
    """Whether any metric has its least batch."""
    return any(
        metric.min_reports <= backlog[metric.name].reports
        for metric in streamed.metrics
        if metric.name in backlog
    )


def publish(
    streamed: Streamed,
    start: int,
    first: int,
    release: Callable[[Sequence[Metric], ReleaseTarget], beam.PTransform],
    for_beam: PipelineOptions,
) -> bool:
    """Publish a window, unless that was done before.

    Args:
        streamed: the plan.
        start: of the window, in microseconds.
        first: of the first window that was added to it, or its own.
        release: (metrics, target) -> from nothing to the release.
        for_beam: Beam's options.

    Returns:
        Whether there is a release now; False if its reports were too few.

    Raises:
        BudgetExceeded: the ledger does not cover it.
        InProgressError: another process makes this very release.
        FailedError: it failed; nothing was published.
    """

    def pipeline(metrics: Sequence[Metric], target: ReleaseTarget) -> beam.PTransform:
        dated = target.telling(stream=_span(streamed, start, first))
        return release(metrics, dated)

    name = streamed.windows.name(start)
    try:
        # What a single run shows is too much for a stream.
        with contextlib.redirect_stdout(io.StringIO()), answers.apart():
            release_window(
                streamed.plan, name, lambda _, window: streamed.job(window), pipeline,
                lambda: for_beam,
                Span(start=moment_at(first), until=moment_at(start + streamed.windows.length)),
            )  # fmt: skip
    except (BudgetExceeded, InProgressError):
        raise
    except WithheldError:
        return False
    return True


def _span(streamed: Streamed, start: int, first: int) -> dict[str, Any]:
    """What time a release is about."""
    windows = streamed.windows
    until = start + windows.length
    names = [windows.name(moment) for moment in range(first, until, windows.length)]
    return {"from": iso(first), "until": iso(until), "windows": names}
