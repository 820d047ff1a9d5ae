"""Rows to the windows of time in which they happened; rows that came too late join none.

How many rows came after their window's end, where a runner's watermark says when that was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from numpy.typing import NDArray

from transforms.elements.progress import tally
from transforms.windows import FIRST, Tumbling, moments_of, now

LATE = "late"
AHEAD = "clock ahead"
NULL_TIME = "null time"


@dataclass
class ToWindows(beam.PTransform):
    """(file, table) in; tables of one window each, in that window, out.

    Rows without a time, of a clock that runs ahead, or of a window that was released are counted
    by reason, and dropped.

    Attributes:
        windows: of time.
        column: says when a row happened; None where the file's name says it for all its rows.
        keep: columns that go on.
        ahead: microseconds by which a clock may differ from ours.
        oldest: rows before it are late; None where the runner's watermark decides, or nothing yet
            has; but the rows of other millennia always are.
        delay: microseconds by which a window is held open beyond its end; Beam's window is then so
            much later than ours.
        clock: tells the time.
    """

    windows: Tumbling
    column: str | None
    keep: tuple[str, ...]
    ahead: int
    oldest: int | None = None
    delay: int = 0
    clock: Callable[[], int] = now

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        return (
            files
            | "Split by time" >> beam.ParDo(SplitDoFn(self))
            | "Window" >> beam.WindowInto(self.beam_windows)
        )

    @property
    def beam_windows(self) -> FixedWindows:
        """The same windows, as Beam has them, after the delay."""
        length = Duration(micros=self.windows.length)
        return FixedWindows(length, Timestamp(micros=self.delay % self.windows.length))

    def start(self, window: Any) -> int:
        """When a window of Beam's begins in ours."""
        return int(window.start.micros) - self.delay


@dataclass
class OfWindow(beam.PTransform):
    """(file, table) in; the rows of one window out, and nothing is counted of others.

    Attributes:
        windows: of time.
        start: of the one.
        column: as of `ToWindows`.
        keep: columns that go on.
    """

    windows: Tumbling
    start: int
    column: str | None
    keep: tuple[str, ...]

    def expand(self, files: beam.PCollection) -> beam.PCollection:
        return files | "Rows of the window" >> beam.FlatMap(self._mine).with_output_types(pa.Table)

    def _mine(self, file: tuple[str, pa.Table]) -> Iterator[pa.Table]:
        moments, known = moments_of(*file, self.column)
        mine = known & (self.windows.starts(moments) == self.start)
        if mine.any():
            yield file[1].select(self.keep).filter(pa.array(mine))


@typehints.with_input_types(tuple[str, pa.Table])
@typehints.with_output_types(pa.Table)
class SplitDoFn(beam.DoFn):
    """A table's rows by window."""

    def __init__(self, into: ToWindows) -> None:
        self._into = into

    def process(self, file: tuple[str, pa.Table]) -> Iterator[TimestampedValue]:
        into, (path, table) = self._into, file
        if not table.num_rows:
            return
        moments, known = moments_of(path, table, into.column)
        past = known & (moments <= into.clock() + into.ahead)
        # What is older than the calendar has windows without a name.
        kept = past & (into.windows.starts(moments) >= FIRST)
        if into.oldest is not None:
            kept &= moments >= into.oldest
        for reason, lost in ((NULL_TIME, ~known), (AHEAD, known & ~past), (LATE, past & ~kept)):
            if lost.any():
                tally(reason, int(np.count_nonzero(lost)))
        yield from self._parts(table.select(into.keep), moments, kept)

    def _parts(
        self, table: pa.Table, moments: NDArray[np.int64], kept: NDArray[np.bool_]
    ) -> Iterator[TimestampedValue]:
        starts = self._into.windows.starts(moments)
        for start in np.unique(starts[kept]).tolist():
            mine = kept & (starts == start)
            part = table if mine.all() else table.filter(pa.array(mine))
            yield TimestampedValue(part, Timestamp(micros=start + self._into.delay))


@dataclass
class CountLate(beam.PTransform):
    """Counts the rows of windowed tables, or of reports, whose window had ended; no output.

    A runner drops them at the next grouping, and not every runner says how many they were.
    """

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return (
            blocks
            | "Rows" >> beam.Map(_rows).with_output_types(tuple[int, int])
            | "Count late" >> beam.ParDo(CountLateDoFn())
        )


def _rows(block: Sized) -> tuple[int, int]:
    """Under one key: each window has one state, which its first table begins."""
    return 0, len(block)


@typehints.with_input_types(tuple[int, int])
class CountLateDoFn(beam.DoFn):
    """Remembers of each window that its end has passed."""

    END = TimerSpec("end", TimeDomain.WATERMARK)
    ENDED = beam.DoFn.StateParam(CombiningValueStateSpec("ended", any))
    AT_END = beam.DoFn.TimerParam(END)

    def process(
        self,
        keyed: tuple[int, int],
        window: Any = beam.DoFn.WindowParam,
        ended: Any = ENDED,
        end: Any = AT_END,
    ) -> None:
        if ended.read():
            tally(LATE, keyed[1])
        else:
            # One timer a window: from when it fires, whatever comes is late.
            end.set(window.end)

    @on_timer(END)
    def close(self, ended: Any = ENDED) -> None:
        """The watermark has passed the window's end."""
        ended.add(True)
