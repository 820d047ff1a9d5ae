"""Files that land: which of them are new, whole, and what the plan speaks of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from numpy.typing import NDArray

from pipelines.errors import Caution, RequestError, reason
from pipelines.logs.inputs import Telemetry, of_rows
from pipelines.plan.document import SEED
from pipelines.plan.metrics import resolve
from pipelines.stream.clocks import FileSpan, lead, span
from pipelines.stream.state import State
from pipelines.stream.windows import Streamed
from transforms.files.kinds import Agreed, alike, kind_of, of_stream
from transforms.files.partitions import shown
from transforms.files.source import UnreadableError, format_of, look, packed, tables
from transforms.files.systems import FileSystems
from transforms.windows import accepts, time_in, times

TRIES = 5  # looks at a file that does not grow, before it is given up
UNREADABLE = "unreadable file"
UNREACHED = "out of reach"  # as the state names files that the system refuses to read
UNFIT = "file that does not fit the plan"

_KINDS = "kinds of columns"  # under which the state remembers them
_ENOUGH = 1 << 18  # rows of a file, spread over it, say when all of them happened


@dataclass(frozen=True)
class Landed:
    """A file that is whole.

    Attributes:
        path: its name.
        size: in bytes.
        rows: how many it holds.
        span: when they happened.
        windows: when those begin that it has rows of, in microseconds; where there is a calendar.
    """

    path: str
    size: int
    rows: int
    span: FileSpan
    windows: frozenset[int] = frozenset()


@dataclass
class Landing:
    """Where files land.

    Attributes:
        streamed: the plan.
        state: remembers what was taken in.
        counting: whether a look at a file that cannot be read counts as a try.
    """

    streamed: Streamed
    state: State
    counting: bool = True
    _fit: dict[tuple[str, ...], tuple[str, str | None]] = field(default_factory=dict)
    _ready: dict[str, Landed] = field(default_factory=dict)

    def look(self, limit: int) -> list[Landed]:
        """New files, in the order of their rows; those that are not whole are tried again.

        Args:
            limit: rows after it are ahead of the clock; a file of such rows is held.

        Raises:
            RequestError: the place cannot be looked at.
        """
        listed, waiting_files = self._listed(), self.state.waiting()
        waiting = {*waiting_files, *self.state.files(UNREACHED)}
        if gone := waiting - {entry.path for entry in listed}:
            self.state.forget(gone)
        ready = {}
        for entry in listed:
            size, due = waiting_files.get(entry.path, (-1, limit))
            if (size == entry.size_in_bytes and due > limit) or (
                self.state.file(entry.path)[2] in ("done", "given up")
            ):
                continue
            landed = self._whole(entry.path, entry.size_in_bytes, limit)
            if landed is not None:
                ready[entry.path] = landed
        self._ready = ready
        self._tell({*self.state.waiting()} - {*waiting_files}, limit)
        # Of files that are there together the oldest rows come first, whenever they landed.
        return sorted(ready.values(), key=lambda landed: landed.span.first or 0)

    def _whole(self, path: str, size: int, limit: int) -> Landed | None:
        """A file, unless it cannot be read, does not fit the plan, or is held."""
        landed = self._ready.get(path)
        if landed is None or landed.size != size or landed.span.due > limit:
            landed = self._opened(path, size, limit)
        if landed is None or landed.span.due <= limit or self.state.file(path)[2] == "accepted":
            return landed
        self.state.note_file(path, size, 0, "held", landed.span.due)
        return None

    def _opened(self, path: str, size: int, limit: int) -> Landed | None:
        try:
            rows, schema, _ = look(path, self.streamed.plan.reading)
        except UnreadableError as error:
            self.blame(path, size, error)
            return None
        unfit = self._unfit(path, rows, schema)
        if unfit is not None:
            warnings.warn(f"{UNFIT}: {unfit}", Caution, stacklevel=2)
            self.state.note_file(path, size, 0, "given up")
            self.state.count({UNFIT: 1})
            return None
        try:
            moments, windows = self._moments(path, rows)
        except UnreadableError as error:
            self.blame(path, size, error)
            return None
        # A text shows no end: of one that has grown meanwhile the rest would be read by nobody.
        if format_of(path).text and _size(path) != size:
            self.state.note_file(path, size, 0, "waiting")
            return None
        spread = span(moments, limit, self.streamed.windows.length)
        return Landed(path, size, rows, spread, windows)

    def _moments(self, path: str, rows: int) -> tuple[NDArray[np.int64], frozenset[int]]:
        """When so many of a file's rows happened that they stand for all; and all their windows."""
        time = self.streamed.stream.time
        windows, parts = set[int](), [np.empty(0, np.int64)]
        for moments in self._times(path, time):
            if self.streamed.calendar is not None:
                windows.update(np.unique(self.streamed.windows.starts(moments)).tolist())
            parts.append(moments[:: rows // _ENOUGH + 1])
        return np.concatenate(parts), frozenset(windows)

    def _times(self, path: str, time: str | None) -> Iterator[NDArray[np.int64]]:
        """When a file's rows happened, of those that say it, some at a time."""
        if time is None:
            yield np.array([time_in(path)], np.int64)
            return
        for table in tables(path, [time], self.streamed.plan.reading):
            moments, known = times(table.column(time))
            yield moments[known]

    def _tell(self, new: set[str], limit: int) -> None:
        """That files are held; once."""
        if new:
            waiting = self.state.waiting()
            path = max(new, key=lambda path: waiting[path][1])
            wall, window = limit - self.streamed.ahead, self.streamed.windows.length
            warnings.warn(
                f"new files are held ({len(new)}): their rows are up to "
                f"{lead(waiting[path][1], wall, window)} ahead of this machine's clock "
                f"({shown(path)}); they are taken in when it has come there",
                Caution,
                stacklevel=2,
            )

    def blame(self, path: str, size: int, error: UnreadableError) -> None:
        """A file could not be read; if it does not change either, it is given up at last."""
        before, tries, state = self.state.file(path)
        if error.refused:  # an outage may last for longer than any number of looks
            self.state.note_file(path, size, tries if before == size else 0, UNREACHED)
            if state != UNREACHED:
                line = f"cannot be read now, and is looked at again: {shown(path)}: {error.why}"
                warnings.warn(line, Caution, stacklevel=2)
            return
        # A file that grows is being written, and is given its time again.
        tries = (tries if before == size else 0) + self.counting
        gone = tries >= TRIES
        self.state.note_file(path, size, tries, "given up" if gone else "waiting")
        if gone:
            self.state.count({UNREADABLE: 1})
            warnings.warn(f"given up after {tries} looks: {shown(path)}", Caution, stacklevel=2)

    def _listed(self) -> list[FileMetadata]:
        try:
            entries_of = [FileSystems.named(pattern) for pattern in self.streamed.patterns]
        except (BeamIOError, ValueError) as error:
            raise RequestError(f"input: cannot be looked at: {reason(error)}") from None
        files = {entry.path: entry for entries in entries_of for entry in entries}
        return sorted(
            files.values(), key=lambda entry: (entry.last_updated_in_seconds or 0, entry.path)
        )

    def _unfit(self, path: str, rows: int, schema: pa.Schema) -> str | None:
        """Why a file is not one of the plan's; columns seen before are not judged anew."""
        codec = CompressionTypes.detect_compression_type(path)
        unpacked = codec == CompressionTypes.UNCOMPRESSED or packed(path)
        if not unpacked:
            return f"{shown(path)}: this name is a packed file's; unpack it"
        if self.streamed.stream.time is None and time_in(path) is None:
            return f"{shown(path)}: no date in its name, as in 2026-11-20 or 2026-11-20T1305"
        schema = self.agreed.schema(schema)
        if not rows and all(name in schema.names for name in self.streamed.columns):
            return None  # a file without rows agrees with all
        kinds = tuple(
            str(schema.field(name).type) if schema.get_field_index(name) >= 0 else ""
            for name in self.streamed.columns
        )
        if kinds not in self._fit:
            self._fit[kinds] = (
                path,
                self._misfit(
                    Telemetry((path,), of_rows(max(rows, 1)), (schema,), self.streamed.plan.reading)
                ),
            )
        first, why = self._fit[kinds]
        if why is None:
            return self._unlike(path, schema)
        line = why.replace(first, path)
        return line if shown(path) in line else f"{shown(path)}: {line}"

    def _unlike(self, path: str, schema: pa.Schema) -> str | None:
        """That a column holds something else than in the files before; the first settles it.

        A user who is the number 17 here and the text "17" there would count twice.
        """
        kinds = {name: kind_of(schema.field(name).type) for name in self.streamed.columns}
        known = self.state.said(_KINDS) or {}
        for name, kind in known.items():
            if not alike(kinds[name], kind):
                clash = f"holds {kinds[name]}, and {kind} in earlier files"
                return f"{shown(path)}: column {name!r} {clash}"
        # A column of nulls alone settles nothing.
        settled = {name: kind for name, kind in kinds.items() if kind != "nothing"} | known
        if settled != known:
            self.state.put(said={_KINDS: settled})
        return None

    @property
    def agreed(self) -> Agreed:
        """What columns of nulls alone are read as, by the files before."""
        return of_stream(self.state.said(_KINDS) or {})

    def _misfit(self, telemetry: Telemetry) -> str | None:
        time = self.streamed.stream.time
        try:
            resolve(self.streamed.plan, SEED, telemetry)
            if time is not None and not accepts(telemetry.column_type(time, "time")):
                raise RequestError(f"time: {time!r} holds no timestamps in {telemetry.files[0]}")
        except RequestError as error:
            return str(error)
        return None


def _size(path: str) -> int:
    """Of a file, in bytes; -1 if it is not there any more."""
    try:
        return int(FileSystems.named(path)[0].size_in_bytes)
    except (BeamIOError, ValueError, IndexError):
        return -1
