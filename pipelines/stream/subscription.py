"""A stream of clients' reports from a subscription of Pub/Sub."""

from __future__ import annotations

import importlib
import re
import threading
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipelines.errors import RequestError, reason
from pipelines.jobs.run import opened
from pipelines.storage.stores import GOOGLE_EXTRA
from pipelines.stream.reports import ServeReports
from pipelines.stream.windows import Streamed
from transforms.elements.progress import ever

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
