"""What a window of running totals was made of, so that no row is added in two windows.

One price for all windows supposes that a row is in one of them. Files that were added before, or
have grown since, are known by digests under the secret's key; rows that were written anew, into
other files, by their times alone, where a column of times is named.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import RequestError
from pipelines.inputs import Telemetry
from pipelines.ledger.spans import span_of
from transforms.expressions.view import View
from transforms.files.source import UnreadableError, contents, tables

_PER_MICROSECOND = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY = 86_400_000_000  # microseconds
AS_IT_IS = View()

Mark = tuple[int, str]
"""The first so many bytes of a file, and their keyed digest."""


@dataclass(frozen=True)
class Sources:
    """What one window was made of; exact facts, which stay with the secret.

    Attributes:
        files: of each file that has rows.
        starts: of the beginnings of files, as long as files that were known before.
        span: (the first moment of a row, the first after all rows) in microseconds, if the
            column of times is named and there are rows.
    """

    files: tuple[Mark, ...] = ()
    starts: tuple[Mark, ...] = ()
    span: tuple[int, int] | None = None

    def meets(self, other: Sources) -> bool:
        """Whether both have rows of one time; what ends when the other begins does not."""
        one, two = self.span, other.span
        return one is not None and two is not None and one[0] < two[1] and two[0] < one[1]

    def as_dict(self) -> dict[str, Any]:
        """For the secret file."""
        return {"files": self.files, "starts": self.starts, "span": self.span}

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Sources:
        """What was written."""
        files, starts = (
            tuple((int(size), str(digest)) for size, digest in said[name])
            for name in ("files", "starts")
        )
        span = said["span"]
        return cls(files, starts, None if span is None else (int(span[0]), int(span[1])))


NONE = Sources()


def sources_of(
    telemetry: Telemetry, key: str, known: Sequence[Sources], time: str | None = None,
    view: View = AS_IT_IS,
) -> Sources:  # fmt: skip
    """What a window is made of; reads all of its files.

    Args:
        telemetry: its files.
        key: of the secret, in hexadecimal digits.
        known: what other windows were made of.
        time: a column of times or dates, by which windows are held apart as well.
        view: by which it may be derived.

    Raises:
        RequestError: a file cannot be read, or a row has no time.
    """
    sizes = sorted({size for other in known for size, _ in other.files})
    files: list[Mark] = []
    starts: list[Mark] = []
    # A file without rows is equal to many, and adds nothing.
    filled = [file for file, rows in zip(telemetry.files, telemetry.each, strict=True) if rows]
    try:
        for file in filled:
            whole, begins = _marked(file, bytes.fromhex(key), sizes)
            files.append(whole)
            starts += begins
        span = None if time is None else _span(telemetry, filled, time, view)
    except UnreadableError as error:
        raise RequestError(f"--input: {error}") from None
    return Sources(tuple(files), tuple(starts), span)


def _marked(file: str, key: bytes, sizes: Sequence[int]) -> tuple[Mark, list[Mark]]:
    """A file's own mark, and those of its beginnings."""
    digest, done, starts = hmac.new(key, digestmod=hashlib.sha256), 0, []
    left = [*sizes]
    for block in contents(file):
        rest = memoryview(block)
        while left and left[0] <= done + len(rest):
            part = left[0] - done
            digest.update(rest[:part])
            rest, done = rest[part:], left.pop(0)
            starts.append((done, digest.copy().hexdigest()))
        digest.update(rest)
        done += len(rest)
    return (done, digest.hexdigest()), starts


def _span(
    telemetry: Telemetry, files: Sequence[str], time: str, view: View
) -> tuple[int, int] | None:
    """From the first moment of a row to the one after the last; a date is its whole day."""
    kind = telemetry.seen(view).column_type(time, "--time-column") if files else pa.date32()
    dates = pa.types.is_date(kind)
    if not (dates or pa.types.is_timestamp(kind)):
        hint = telemetry.hint(time).replace("=float", "=timestamp")
        raise RequestError(
            f"--time-column: {time!r} holds {kind}, and times or dates are needed{hint}"
        )
    lows, highs, needed = [], [], sorted(view.needed([time]))
    for file in files:
        for table in tables(file, needed, telemetry.reading):
            for batch in (view.seen(one, [time]) for one in table.to_batches()):
                column = batch[time].filter(pa.array(view.holds(batch)))
                if column.null_count:
                    raise RequestError(
                        f"--time-column: {file} has rows without a time in {time!r}, and nothing "
                        "tells which window they are in: leave them out by --where, or name no "
                        "column"
                    )
                if len(column):
                    ends = pc.min_max(column)
                    lows.append(_microseconds(ends["min"], dates))
                    highs.append(_microseconds(ends["max"], dates))
    return (min(lows), max(highs) + (_DAY if dates else 1)) if lows else None


def _microseconds(moment: pa.Scalar, date: bool) -> int:
    """Since 1970, rounded down: of a date the first one."""
    if date:
        return int(moment.cast(pa.date32()).value) * _DAY
    if moment.type.unit == "ns":
        return int(moment.value) // 1000
    return int(moment.value) * _PER_MICROSECOND[moment.type.unit]


def require_apart(
    window: str, mine: Sources, others: Mapping[str, Sources], windows: Sequence[str]
) -> None:
    """Refuse a window whose rows are in the totals already, as far as that can be known.

    Args:
        window: that is to be drawn.
        mine: what it is made of.
        others: what windows were made of, by their names.
        windows: those that were drawn.

    Raises:
        RequestError: its time, or a file of it, is another window's, too.
    """
    time = span_of(window)
    for name in windows:
        if name == window:
            continue
        theirs, other = span_of(name), others.get(name, NONE)
        if time is not None and theirs is not None and time.overlaps(theirs):
            raise RequestError(
                f"window {window} overlaps window {name}, whose rows are in the totals already: "
                "name windows that do not overlap"
            )
        _require_other_files(window, mine, name, other)
        if mine.meets(other):
            raise RequestError(
                f"--time-column: rows of window {window} lie in the time of window {name}, whose "
                "rows are in the totals already: windows must not overlap in time"
            )


def _require_other_files(window: str, mine: Sources, name: str, other: Sources) -> None:
    theirs = {*other.files}
    if not theirs.isdisjoint(mine.files):
        raise RequestError(
            f"--input: a file of window {window} holds what one of window {name} held, and its "
            "rows are in the totals already: name the files of this window alone"
        )
    if not theirs.isdisjoint(mine.starts):
        raise RequestError(
            f"--input: a file of window {window} begins as one of window {name}, and has grown: "
            "its first rows are in the totals already; name a file of the new rows alone"
        )
    seen = {size for size, _ in mine.starts}
    longest = max((size for size, _ in mine.files), default=0)
    if any(size < longest and size not in seen for size, _ in theirs):
        raise RequestError(
            f"window {name} was added while window {window} was counted: run it again"
        )
