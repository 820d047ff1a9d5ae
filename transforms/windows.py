"""Windows of time, and when rows happened.

Windows tumble: each begins where the last one ends, counted from 1970-01-01T00:00Z. All times are
microseconds since then, and all windows are in UTC; times without a zone are taken to be UTC.
"""

import re
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SECOND = 1_000_000  # microseconds

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS = {"s": SECOND, "ms": 1000, "us": 1}
_DAY = 86_400 * SECOND
FIRST = int((datetime(1000, 1, 1, tzinfo=timezone.utc) - _EPOCH).total_seconds()) * SECOND
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
