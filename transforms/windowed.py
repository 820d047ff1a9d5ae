"""Rows to the windows of time in which they happened; rows that came too late join none.

Windows tumble: each begins where the last one ends, counted from 1970-01-01T00:00Z. All times are
microseconds since then, and all windows are in UTC; times without a zone are taken to be UTC.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from numpy.typing import NDArray

from transforms.progress import tally

SECOND = 1_000_000  # microseconds
LATE = "late"
AHEAD = "clock ahead"
NULL_TIME = "null time"

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS = {"s": SECOND, "ms": 1000, "us": 1}
_DAY = 86_400 * SECOND
_FIRST = int((datetime(1000, 1, 1, tzinfo=timezone.utc) - _EPOCH).total_seconds()) * SECOND
_FARTHEST = 1 << 61  # microseconds: 73,000 years, what all arithmetic here can bear
_DATED = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d)(?:[:-]?(\d\d))?)?")


def now() -> int:
    """The time by this machine's clock."""
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Tumbling:
    """Windows of one length.

    Attributes:
        length: in microseconds.

    Raises:
        ValueError: the length is not positive.

    >>> days = Tumbling(86_400 * SECOND)
    >>> days.name(days.start(time_in("trips-2026-11-20T13.parquet")))
    '2026-11-20'
    """

    length: int

    def __post_init__(self) -> None:
        if not 0 < self.length <= _FARTHEST:
            raise ValueError("a window must be longer than nothing")

    def start(self, moment: int) -> int:
        """When the window of a moment begins."""
        return moment - moment % self.length

    def starts(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n,) when the windows of (n,) moments begin."""
        return moments - moments % self.length

    def name(self, start: int) -> str:
        """A window's name: the moment at which it begins, as far as windows of this length need."""
        begins = _EPOCH + timedelta(microseconds=start)
        if self.length % _DAY == 0:
            return begins.strftime("%Y-%m-%d")
        seconds = "%H%M" if self.length % (60 * SECOND) == 0 else "%H%M%S"
        return begins.strftime(f"%Y-%m-%dT{seconds}")


def accepts(kind: pa.DataType) -> bool:
    """Whether a column of this type says when its rows happened."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def time_in(path: str) -> int | None:
    """The first moment named in a file's name, as in trips-2026-11-20T1305; None if there is none.

    Args:
        path: of a file; its folders are not looked at.
    """
    match = _DATED.search(re.split(r"[/\\]", path)[-1])
    if match is None:
        return None
    year, month, day, hour, minute = (int(part or 0) for part in match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, tzinfo=timezone.utc)
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(name: str) -> int | None:
    """The moment that a window is named after, as in 2026-11-20T1300; None if it is none."""
    return time_in(name) if _DATED.fullmatch(name) else None


def times(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """When rows happened.

    Args:
        column: n values of a type that `accepts` admits.

    Returns:
        (n,) microseconds, of no meaning for nulls; (n,) which are none.
    """
    kind = column.type
    known = column.is_valid().to_numpy()
    words = column.cast(pa.timestamp("s") if pa.types.is_date(kind) else kind)
    unit = words.type.unit
    raw = words.cast(pa.int64()).fill_null(0).to_numpy()
    if unit == "ns":
        return raw // 1000, known
    scale = _UNITS[unit]
    # A time beyond all sense stays beyond it: it must not come round to a sensible one.
    return np.clip(raw, -_FARTHEST // scale, _FARTHEST // scale) * scale, known


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


def moments_of(
    path: str, table: pa.Table, column: str | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """When the rows of a file's table happened, as `times`.

    Args:
        path: of the file, whose name says it where no column does.
        table: n of its rows.
        column: that says it.
    """
    if column is not None:
        return times(table.column(column))
    moment, size = time_in(path), table.num_rows
    return np.full(size, moment or 0, np.int64), np.full(size, moment is not None)


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
        kept = past & (into.windows.starts(moments) >= _FIRST)
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
