"""`hushbeam stream`: a plan for as long as files land."""

from __future__ import annotations

import hashlib
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipelines.errors import DONE, WITHHELD, Caution, RequestError
from pipelines.jobs.publishing import rows_are_public
from pipelines.jobs.run import beam_options, run_beam, runs_here
from pipelines.plan.loading import load
from pipelines.request import answers
from pipelines.storage.stores import require_reachable
from pipelines.stream.calendar import CalendarDriver
from pipelines.stream.command import StreamOptions
from pipelines.stream.driver import Driver
from pipelines.stream.job import LandingTables, ServeTables
from pipelines.stream.state import State
from pipelines.stream.subscription import FromSubscription, require_subscription, serve_here
from pipelines.stream.windows import Streamed, streamed
from pipelines.views.console import Screen
from transforms.windows import now

_ONLY_IN_MEMORY = (
    "on this machine a message is acknowledged when it is read: what open windows hold is lost "
    "when the stream stops; --runner DataflowRunner is for what must not be lost"
)


def run(options: StreamOptions, beam_arguments: Sequence[str]) -> int:
    """Take in what lands and release what ends, until told to stop.

    Args:
        options: of the request.
        beam_arguments: what is for Beam.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan cannot be served as a stream.
        WithheldError: the budget is exhausted, or files are held when it ends; they wait.
        FailedError: Beam or the ledger failed.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)
    subscription = options.subscription
    plan, screen = streamed(load(options.plan), clients=subscription is not None), Screen()
    require_reachable((*plan.plan.input, plan.plan.output))
    if subscription is None and plan.plan.permanent is not None:
        raise RequestError(
            f"{plan.plan.where('noise')}noise: permanent noise is drawn by each user's own client: "
            "a stream of their reports (--subscription) may have it, one of rows draws fresh noise"
        )
    if subscription is not None:
        return _queue(plan, subscription, options.ends, for_beam, screen)
    if not runs_here(for_beam):  # here, no watermark passes over a folder that grows
        if options.ends:
            raise RequestError(
                "--once, --drain and --accept-clock are for a stream on this machine"
            )
        return _elsewhere(_Unbounded(plan, options.every), for_beam, screen)
    state = State(plan.stream.state, identity(plan))
    try:
        with _until_stopped() as stop:
            if options.accept_clock:
                state.accept(None if plan.calendar is None else now())
            serve = Driver if plan.calendar is None else CalendarDriver
            driver = serve(plan, state, for_beam, screen)
            _go_on(driver, stop, options.once or options.drain, options.every)
            if options.drain and not stop.is_set():
                driver.drain()
            _say(state.counters(), plan, screen)
            if not stop.is_set():
                driver.require_all_taken_in()
    finally:
        state.close()
    return driver.watch_code or (WITHHELD if driver.withheld else DONE)


def _say(counted: Mapping[str, int], plan: Streamed, screen: Screen) -> None:
    # Answers and terminals are kept; `stream status` is for who operates the stream.
    if not all(rows_are_public(metric.options) for metric in plan.metrics):
        return
    answers.tell(counters=counted)
    for name, amount in counted.items():
        screen.print(f"{amount:,} {name}", highlight=False, markup=False)


def _queue(
    plan: Streamed, subscription: str, ends: bool, for_beam: PipelineOptions, screen: Screen
) -> int:
    """Reports from a subscription: here until told to stop, elsewhere handed over."""
    if ends:
        raise RequestError(
            "--once, --drain and --accept-clock are for files: a subscription has no end"
        )
    require_subscription(subscription)
    job = FromSubscription(plan, subscription)
    if not runs_here(for_beam):
        return _elsewhere(job, for_beam, screen)
    warnings.warn(Caution(_ONLY_IN_MEMORY), stacklevel=2)
    with _until_stopped() as stop:
        _say(serve_here(job, for_beam, stop), plan, screen)
    return DONE


def _elsewhere(job: beam.PTransform, for_beam: PipelineOptions, screen: Screen) -> int:
    """One unbounded pipeline, on a runner that knows when time has passed."""
    for_beam.view_as(StandardOptions).streaming = True
    if run_beam(job, for_beam, screen, 0) is None:
        answers.tell(handed_over=True)
        screen.print("handed over; each window's release will appear when its time has passed")
    return DONE


@dataclass
class _Unbounded(beam.PTransform):
    plan: Streamed
    every: float

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        landing = LandingTables(self.plan, self.every)
        return begin | "Land" >> landing | "Serve" >> ServeTables(self.plan)


def _go_on(driver: Driver, stop: threading.Event, once: bool, every: float) -> None:
    while not stop.is_set():
        if not driver.step():
            if once:
                return
            stop.wait(every)


def identity(plan: Streamed) -> str:
    """What state belongs to: the plan, what it has come to, and how it is cut into windows.

    Messages that one mechanism has drawn are not to be decoded by another one.
    """
    windows = f"{plan.stream.window} {plan.stream.time}"
    return plan.fingerprint.hex() + hashlib.sha256(windows.encode()).hexdigest()[:16]


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """Set when the process is asked to end: the batch that is at work is finished first."""
    stop = threading.Event()
    # Python lets the main thread alone handle signals.
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop.set()) for number in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
