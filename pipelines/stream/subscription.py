"""A stream of clients' reports from a subscription of Pub/Sub."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from mechanisms.wire import binary
from mechanisms.wire.report import Form
from mechanisms.wire.report import Reports as WireReports
from mechanisms.wire.screening import Expected
from pipelines.errors import RequestError, reason
from pipelines.jobs.run import opened
from pipelines.storage.stores import GOOGLE_EXTRA
from pipelines.stream.job import AtTheEnd, messages_part, open_windows
from pipelines.stream.windows import Streamed
from transforms.elements.progress import REPORTS, ever, tally
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


# The local runner that reads queues; what a batch runs on here does not.
_RUNNER = "BundleBasedDirectRunner"
_NAME = re.compile(r"projects/[a-z][-a-z0-9.:]+/subscriptions/[A-Za-z][-\w.~+%]{2,254}", re.ASCII)
_LOOK = 1.0  # seconds between two looks at whether the pipeline still runs


@dataclass
class FromSubscription(beam.PTransform):
    """From the messages of a subscription, each some reports, to a release of each window.

    Attributes:
        plan: what is collected.
        subscription: projects/PROJECT/subscriptions/NAME.
    """

    plan: Streamed
    subscription: str

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        messages = begin | "Pull" >> beam.io.ReadFromPubSub(subscription=self.subscription)
        return messages | "Serve" >> ServeReports(self.plan)


def require_subscription(name: str) -> None:
    """Refuse what is no subscription, or cannot be read for want of a package.

    Raises:
        RequestError: it is not; with what to do.
    """
    if not _NAME.fullmatch(name):
        raise RequestError("--subscription: as in projects/my-project/subscriptions/my-reports")
    try:
        importlib.import_module("google.cloud.pubsub_v1")
    except ImportError:
        raise RequestError(
            f"--subscription: Pub/Sub needs Beam's Google extra ({GOOGLE_EXTRA})"
        ) from None


def serve_here(
    job: FromSubscription, options: PipelineOptions, stop: threading.Event
) -> dict[str, int]:
    """Run on this machine until told to stop.

    The local runner acknowledges a message when it has read it and holds it in memory: what a
    window that is open has received is lost when this ends.

    Args:
        job: from a subscription to releases.
        options: Beam's.
        stop: set when it is to end.

    Returns:
        hushbeam's counters.

    Raises:
        RequestError: the options do not make a pipeline.
        Exception: a step failed, with whatever it raised.
    """
    standard = options.view_as(StandardOptions)
    standard.streaming, standard.runner = True, _RUNNER
    pipeline = opened(options)
    try:
        pipeline | job
    except (ValueError, ImportError, AttributeError) as error:
        raise RequestError(f"Beam cannot take these options: {reason(error)}") from None
    before = ever()
    result, failures = pipeline.run(), list[BaseException]()

    def wait() -> None:
        try:
            result.wait_until_finish()
        except BaseException as error:
            failures.append(error)

    # The runner's own wait cannot be interrupted, so it stands in a thread beside this one.
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    while waiting.is_alive() and not stop.wait(_LOOK):
        pass
    if waiting.is_alive():
        result.cancel()  # after the bundle that is at work
    if failures:
        raise failures[0]
    # The runner's own metrics lose much of what a stream counts.
    return dict(ever() - before)
