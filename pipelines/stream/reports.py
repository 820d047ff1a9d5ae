"""A stream of reports that clients have perturbed themselves, as a queue hands them over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from mechanisms.wire import binary
from mechanisms.wire.report import Form
from mechanisms.wire.report import Reports as WireReports
from mechanisms.wire.screening import Expected
from pipelines.errors import RequestError
from pipelines.stream.job import AtTheEnd, messages_part, open_windows
from pipelines.stream.windows import Streamed
from transforms.elements.progress import REPORTS, tally
from transforms.reports.repeats import DropRepeats
from transforms.reports.reports import MessagesOf, kept
from transforms.rows.windowed import CountLate


@dataclass
class ServeReports(beam.PTransform):
    """Binary reports, as clients send them, in; a release of each window, by their timestamps, out.

    Whatever comes again in its window, or in the next one, counts once; what this plan's clients
    cannot have sent is counted by reason and dropped.

    Attributes:
        streamed: the plan; of each of its metrics a user sends one message.
    """

    streamed: Streamed

    def expand(self, sent: beam.PCollection) -> beam.PCollection:
        plan, windows = self.streamed, open_windows(self.streamed)
        mechanisms = tuple(metric.mechanism for metric in plan.metrics)
        if any(mechanism.messages != 1 for mechanism in mechanisms):
            raise RequestError("reports of several messages a user do not tell how many users sent")
        expected = Expected(plan.fingerprint, mechanisms, Form())
        reports = (
            sent
            | "Screen" >> beam.ParDo(ScreenDoFn(expected))
            | "Delay" >> beam.ParDo(DelayDoFn(windows.delay))
            | "Window" >> beam.WindowInto(windows.beam_windows)
        )
        reports | "Late" >> CountLate()
        # Queues deliver at least once, so an honest report may come again.
        repeats = DropRepeats(plan.fingerprint, Form(), plan.windows.length)
        once = reports | "Once each" >> repeats
        parts = tuple(
            once
            | f"{metric.name} only" >> MessagesOf(place)
            | f"{metric.name} messages" >> beam.Map(messages_part, metric.name)
            for place, metric in enumerate(plan.metrics)
        )
        return parts | "Windows' ends" >> AtTheEnd(plan, windows)


@typehints.with_input_types(bytes)
@typehints.with_output_types(WireReports)
class ScreenDoFn(beam.DoFn):
    """What a client has sent, unless this plan's clients cannot have sent it."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected

    def process(self, sent: bytes) -> Iterator[WireReports]:
        screened = binary.decode(sent, self._expected)
        tally(REPORTS, len(screened.reports))
        yield from kept(screened)


@typehints.with_input_types(WireReports)
@typehints.with_output_types(WireReports)
class DelayDoFn(beam.DoFn):
    """Moves reports to the time at which their window will be judged."""

    def __init__(self, delay: int) -> None:
        self._delay = Duration(micros=delay)

    def process(
        self, reports: WireReports, sent: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TimestampedValue]:
        yield TimestampedValue(reports, sent + self._delay)
