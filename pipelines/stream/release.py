"""From the messages that a stream keeps of a window to the window's release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsDict
from numpy.typing import NDArray

from pipelines.metrics.metric import Metric, MetricReports
from pipelines.metrics.publishable import collected
from pipelines.plan.diagnostics import Diagnostic
from pipelines.plan.publish import NameDoFn, ReleasePlanDoFn
from pipelines.plan.target import ReleaseTarget
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
        contents = (
            tuple(
                begin | metric.name >> FromBacklog(metric, self.backlog.get(metric.name, Backlog()))
                for metric in self.metrics
            )
            | "Contents" >> beam.Flatten()
        )
        step = ReleasePlanDoFn(self.target, names)
        return (
            begin | "Once" >> beam.Create([None]) | "Release" >> beam.ParDo(step, AsDict(contents))
        )


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
        return contents | "Name" >> beam.ParDo(NameDoFn(self.metric.name))

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
