"""Streams of noisy counters: every window of the plan's calendar, from the files that have landed.

Nobody learns who takes part, so nothing that is seen may depend on it: windows end by this
machine's clock and not by their rows, and one without a row is released like any other. Nothing is
taken in before: a window's release reads its rows where they have landed, as `hushbeam run` does,
and so draws its dummies once, bounds its users over the whole window, and leaves no row, count or
digest in the state. Rows that land after their window's end are read by nobody, and not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import apache_beam as beam

from pipelines.errors import FailedError, RequestError, WithheldError, system_reason
from pipelines.plan.job import output_of
from pipelines.plan.publish import PublishPlan
from pipelines.stream.driver import Driver
from pipelines.stream.landing import UNREACHED, Landed
from pipelines.stream.release import publish
from pipelines.stream.windows import Streamed
from transforms.files.kinds import AS_WRITTEN, Agreed
from transforms.rows.telemetry import ReadFiles, splits
from transforms.rows.windowed import OfWindow

# No file waits for its rows' time: a row more or less would say when, and so whose rows count.
_NEVER = 1 << 61  # microseconds


@dataclass
class CalendarDriver(Driver):
    """Releases each window when this machine's clock has passed its end by `lateness`."""

    def step(self) -> bool:
        """Release what is due; False, for nothing is taken in."""
        reached = self.state.go_on(self._read())
        self._begin(reached + self.streamed.ahead)
        landed = self._landing.look(_NEVER)
        # An outage of the storage is no reason to leave rows out that have landed.
        if not self.state.files(UNREACHED):
            self._end(reached - self.streamed.lateness)
        self._release_landed(landed)
        return False

    def drain(self) -> None:
        """The stream is over: the window of now is the last one."""
        reached, length = self.state.go_on(self._read()), self.streamed.windows.length
        landed = self._landing.look(_NEVER)
        if not self.state.files(UNREACHED):
            self._end(self.streamed.windows.start(reached) + length)
        self._release_landed(landed)

    def _begin(self, limit: int) -> None:
        """Open all windows that begin by then, so that none is seen to be there for its rows."""
        calendar, length = self.streamed.calendar, self.streamed.windows.length
        if calendar is not None:
            self.state.open_windows(calendar.starts(self.state.newest(), limit, length))

    def _release_landed(self, landed: Sequence[Landed]) -> None:
        """Each window that has ended, in the order of time; then what has no later rows is done."""
        windows = self.streamed.windows
        for start, _ in self.state.due():
            if self._release(start, [file for file in landed if start in file.windows]):
                self.state.settle(start, "released")
                folder = output_of(self.streamed.plan, windows.name(start))
                self._tell(start, f"released: {folder}", release=folder)
            else:
                self.state.settle(start, "withheld")
                self._tell(start, "withheld")
        ended = self.state.ended
        over = [
            f for f in landed if ended is not None and max(f.windows, default=ended - 1) < ended
        ]
        self.state.done({file.path: file.size for file in over})

    def _release(self, start: int, files: Sequence[Landed]) -> bool:
        """Publish a window, unless that was done before, without files that turn out damaged."""
        paths = tuple(file.path for file in files)
        read = ReadWindow(self.streamed, start, paths, self._landing.agreed)
        try:
            with self._same_error_once():
                release = partial(PublishPlan, read=read)
                return publish(self.streamed, start, start, release, self.for_beam)
        except (RequestError, WithheldError) as error:
            self.state.explain(start, str(error))
            raise
        except Exception as error:
            whole = self._whole(files)
            if len(whole) < len(files):
                return self._release(start, whole)
            why = system_reason(error) or type(error).__name__
            name = self.streamed.windows.name(start)
            ours = error if isinstance(error, FailedError) else None
            ours = ours or FailedError(f"window {name} failed with {why}")
            self.state.explain(start, str(ours))
            raise ours from None


@dataclass
class ReadWindow(beam.PTransform):
    """Nothing in; the rows of one window out.

    Attributes:
        streamed: the plan.
        start: of the window, in microseconds.
        files: that may hold rows of it.
        agreed: as what columns of nulls alone are read.
    """

    streamed: Streamed
    start: int
    files: tuple[str, ...]
    agreed: Agreed = AS_WRITTEN

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        plan = self.streamed
        split = splits(self.files, plan.columns)
        read = ReadFiles(
            plan.columns, plan.plan.reading, named=True, split=split, agreed=self.agreed
        )
        mine = OfWindow(plan.windows, self.start, plan.stream.time, plan.kept)
        files = begin | "Files" >> beam.Create(list(self.files)).with_output_types(str)
        return files | "Read row groups" >> read | "Of the window" >> mine
