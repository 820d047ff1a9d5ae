"""What a window of running totals was made of, so that no row is added in two windows.

One price for all windows supposes that a row is in one of them. Files that were added before, or
have grown since, are known by digests under the secret's key; rows that were written anew, into
other files, by their times alone, where a column of times is named.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import RequestError
from pipelines.ledger.spans import span_of
from pipelines.logs.inputs import Telemetry
from transforms.expressions.view import View
from transforms.files.reading import Reading
from transforms.files.source import UnreadableError, contents, tables

_PER_MICROSECOND = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY = 86_400_000_000  # microseconds

Span = tuple[int, int]
"""Two moments in microseconds: the first in it, and the first after it."""

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
    span: Span | None = None

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
    telemetry: Telemetry, key: str, known: Sequence[Sources], span: Span | None = None
) -> Sources:
    """What a window is made of; reads all of its files.

    Args:
        telemetry: its files.
        key: of the secret, in hexadecimal digits.
        known: what other windows were made of.
        span: from `span_of_rows`.

    Raises:
        RequestError: a file cannot be read.
    """
    sizes = sorted({size for other in known for size, _ in other.files})
    files: list[Mark] = []
    starts: list[Mark] = []
    for file in _filled(telemetry):
        try:
            whole, begins = _marked(file, bytes.fromhex(key), sizes)
        except UnreadableError as error:
            raise RequestError(f"--input: {error}") from None
        files.append(whole)
        starts += begins
    return Sources(tuple(files), tuple(starts), span)


def _filled(telemetry: Telemetry) -> list[str]:
    """The files with rows: one without is equal to many, and adds nothing."""
    return [
        file for file, rows in zip(telemetry.files, telemetry.counts.known, strict=True) if rows
    ]


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


def require_times(telemetry: Telemetry, column: str, kind: pa.DataType, flag: str) -> None:
    """Refuse a column of a type that holds no times: text is in another order than they are.

    Raises:
        RequestError: it is one.
    """
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        hint = telemetry.hint(column).replace("=float", "=timestamp")
        raise RequestError(f"{flag}: {column!r} holds {kind}, and times or dates are needed{hint}")


def span_of_rows(telemetry: Telemetry, time: str, view: View) -> Span | None:
    """From the first moment of a row that counts to the one after the last; a date is its whole
    day. None where there is no row.

    Args:
        telemetry: files.
        time: the column of times or dates.
        view: by which it may be derived, and rows are left out.

    Raises:
        RequestError: there is no such column, a row has no time, or a file cannot be read.
    """
    files = _filled(telemetry)
    kind = telemetry.seen(view).column_type(time, "--time-column") if files else pa.date32()
    require_times(telemetry, time, kind, "--time-column")
    dates = pa.types.is_date(kind)
    ends: list[tuple[int, int]] = []
    for file in files:
        try:
            ends += _ends(file, time, view, telemetry.reading, dates)
        except UnreadableError as error:
            raise RequestError(f"--input: {error}") from None
    if not ends:
        return None
    lows, highs = zip(*ends, strict=True)
    return min(lows), max(highs) + (_DAY if dates else 1)


def _ends(
    file: str, time: str, view: View, reading: Reading, dates: bool
) -> Iterator[tuple[int, int]]:
    """The first and the last moment of each batch of rows that has some."""
    for table in tables(file, sorted(view.needed([time])), reading):
        for batch in (view.seen(one, [time]) for one in table.to_batches()):
            column = batch[time].filter(pa.array(view.holds(batch)))
            if column.null_count:
                raise RequestError(
                    f"--time-column: {file} has rows without a time in {time!r}, and nothing tells "
                    "which window they are in: leave them out by --where, or name no column"
                )
            if len(column):
                ends = pc.min_max(column)
                yield _microseconds(ends["min"], dates), _microseconds(ends["max"], dates)


def _microseconds(moment: pa.Scalar, date: bool) -> int:
    """Since 1970, rounded down: of a date the first one."""
    if date:
        return int(moment.cast(pa.date32()).value) * _DAY
    if moment.type.unit == "ns":
        return int(moment.value) // 1000
    return int(moment.value) * _PER_MICROSECOND[moment.type.unit]


def require_same_files(window: str, mine: Sources, drawn: Sources) -> None:
    """Refuse a window that was drawn of other files than it is asked for with now.

    Were it shown as it stands, these would seem to be in the totals, whatever they hold.

    Raises:
        RequestError: it was.
    """
    if sorted(mine.files) != sorted(drawn.files):
        raise RequestError(
            f"--input: window {window} was drawn before, of other files, and its totals stand: to "
            "see them, name the same files; to add others, name a new window"
        )


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
