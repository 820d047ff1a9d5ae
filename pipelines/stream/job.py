"""A stream as one unbounded Beam pipeline, for runners that know when time has passed.

Dataflow, Flink and Prism let a watermark pass a window's end; the runner then hands the window's
messages to one worker, which makes its release. On this machine `driver` does the same by batches.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io import fileio
from apache_beam.io.filesystem import FileMetadata
from numpy.typing import NDArray

from pipelines.errors import FailedError, RequestError, WithheldError
from pipelines.jobs.run import beam_options
from pipelines.ledger.rules import BudgetExceeded
from pipelines.metrics.metric import Metric
from pipelines.plan.publish import drawn
from pipelines.stream.intake import MESSAGES, TALLY, USERS
from pipelines.stream.release import Backlog, ReleaseWindow, backlogs, enough, publish
from pipelines.stream.windows import Streamed
from transforms.elements.blocks import GroupOnce
from transforms.elements.progress import WITHHELD, tally
from transforms.files.source import known
from transforms.rows.telemetry import ReadFiles, splits
from transforms.rows.windowed import CountLate, ToWindows
from transforms.windows import now

NO_BUDGET = "windows without a budget"

Part = tuple[int, tuple[str, str, str, Any]]


@dataclass
class LandingTables(beam.PTransform):
    """Files that land, for as long as the pipeline runs; out come (file, table).

    Attributes:
        streamed: the plan.
        every: seconds between two looks.
    """

    streamed: Streamed
    every: float = 10.0

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        # Without deduplication each look would hand out every file again.
        files = tuple(
            begin
            | f"Look {k}" >> fileio.MatchContinuously(pattern, self.every, has_deduplication=True)
            for k, pattern in enumerate(self.streamed.patterns)
        )
        plan, patterns = self.streamed, self.streamed.patterns
        split = splits(patterns, plan.columns) and all(map(known, patterns))
        read = ReadFiles(plan.columns, plan.plan.reading, named=True, split=split)
        return (
            files
            | "All patterns" >> beam.Flatten()
            | "Path" >> beam.Map(_path).with_output_types(str)
            | "Read row groups" >> read
        )


@dataclass
class ServeTables(beam.PTransform):
    """(file, table) in; a release of each window when the watermark has passed it.

    Attributes:
        streamed: the plan.
        clock: tells the time in microseconds.
    """

    streamed: Streamed
    clock: Callable[[], int] = now

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        plan, windows = self.streamed, open_windows(self.streamed, self.clock)
        tables = files | "Windows" >> windows
        tables | "Late" >> CountLate()
        parts: list[beam.PCollection] = []
        tables = drawn(tables, plan.metrics)
        for metric in plan.metrics:
            parts += tables | metric.name >> Parts(metric)
        return tuple(parts) | "Windows' ends" >> AtTheEnd(plan, windows)


@dataclass
class Parts(beam.PTransform):
    """Windowed tables in; all that there is of one metric, in parts, out."""

    metric: Metric

    def expand(self, tables: beam.PCollection) -> Any:
        reports, name = self.metric.client_reports(tables), self.metric.name
        parts = [
            reports.messages | "Messages" >> beam.Map(messages_part, name),
            reports.tallies | "Tallies" >> beam.Map(_tally, name),
        ]
        if reports.users is not None:
            parts.append(reports.users | "Users" >> beam.Map(_users, name))
        return parts


@dataclass
class AtTheEnd(beam.PTransform):
    """All that there is of a window, in one worker, once its end has passed."""

    streamed: Streamed
    windows: ToWindows

    def expand(self, parts: tuple[beam.PCollection, ...]) -> beam.PCollection:
        return (
            parts
            | "All parts" >> beam.Flatten()
            | "Gather" >> GroupOnce()
            | "Release" >> beam.ParDo(ReleaseDoFn(self.streamed, self.windows))
        )


def open_windows(streamed: Streamed, clock: Callable[[], int] = now) -> ToWindows:
    """The plan's windows, held open for as long as rows may be late."""
    if streamed.calendar is not None:
        raise RequestError(
            "stream.first: a runner ends no window without rows, and its counters tell how many "
            "rows came: noisy counters are served on one machine; leave out --runner"
        )
    if streamed.plan.merge_small:
        raise RequestError(
            "merge_small: a runner's windows end on their own; only the stream on one machine "
            "adds one to the next"
        )
    return ToWindows(
        streamed.windows, streamed.stream.time, streamed.kept, streamed.ahead,
        delay=streamed.lateness, clock=clock,
    )  # fmt: skip


def _path(file: FileMetadata) -> str:
    return file.path


def messages_part(block: NDArray[np.uint64], metric: str) -> Part:
    """A block of a metric's messages, under the one key: a window is released whole."""
    return 0, (MESSAGES, metric, "", np.sort(block).tobytes())


def _tally(counted: tuple[str, int], metric: str) -> Part:
    return 0, (TALLY, metric, counted[0], int(counted[1]))


def _users(count: int, metric: str) -> Part:
    return 0, (USERS, metric, "", int(count))


class ReleaseDoFn(beam.DoFn):
    """Makes the release of a window, or counts why there is none.

    Whatever else goes wrong (a ledger that does not answer, or is damaged, a folder that is taken)
    is raised, and its one line stands in the runner's log: the runner keeps the window and hands it
    out again, or stops. An attempt that failed has published nothing, or all: then the next one
    finds the release.
    """

    def __init__(self, streamed: Streamed, windows: ToWindows) -> None:
        self._streamed, self._windows = streamed, windows

    def process(
        self,
        gathered: tuple[int, Iterable[tuple[str, str, str, Any]]],
        window: Any = beam.DoFn.WindowParam,
    ) -> None:
        start = self._windows.start(window)
        with tempfile.TemporaryDirectory() as folder:
            backlog = _backlog(gathered[1], folder)
            self._publish(start, backlog)

    def _publish(self, start: int, backlog: Mapping[str, Backlog]) -> None:
        try:
            release = partial(ReleaseWindow, backlog=backlog)
            published = enough(self._streamed, backlog) and publish(
                self._streamed, start, start, release, beam_options([])
            )
        except BudgetExceeded:
            tally(NO_BUDGET, 1)  # raised, it would make the runner try again for ever
            return
        except (RequestError, WithheldError, FailedError):
            raise  # nothing, or all, was published; in our own words, so that a log may have them
        except Exception as error:
            name = self._streamed.windows.name(start)
            raise FailedError(f"window {name} failed with {type(error).__name__}") from None
        if not published:
            tally(WITHHELD, max((part.reports for part in backlog.values()), default=0))


def _backlog(parts: Iterable[tuple[str, str, str, Any]], folder: str) -> dict[str, Backlog]:
    """Messages to files, for a window may hold more than should be in memory twice."""
    notes: list[tuple[str, str, str, int]] = []
    files: dict[str, str] = {}
    for kind, metric, name, amount in parts:
        if kind != MESSAGES:
            notes.append((kind, metric, name, amount))
            continue
        path = files.setdefault(metric, str(Path(folder, uuid.uuid4().hex)))
        with open(path, "ab") as file:
            # One file a metric, in the order of arrival: the shuffler that follows has the order in
            # its hands.
            file.write(amount)
        notes.append((kind, metric, path, len(amount) // 8))
    return backlogs(notes)
