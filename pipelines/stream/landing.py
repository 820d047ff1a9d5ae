"""Files that land: which of them are new, whole, and what the plan speaks of."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import Caution, RequestError, reason
from pipelines.inputs import Telemetry
from pipelines.plan.metrics import resolve
from pipelines.stream.state import State
from pipelines.stream.windows import SEED, Streamed
from transforms.encoders.columns import kind_of
from transforms.windowed import accepts, time_in

TRIES = 5  # looks at a file that does not grow, before it is given up
UNREADABLE = "unreadable file"
UNFIT = "file that does not fit the plan"

_KINDS = "kinds of columns"  # under which the state remembers them


@dataclass(frozen=True)
class Landed:
    """A file that is whole.

    Attributes:
        path: its name.
        size: in bytes.
        rows: how many it holds.
    """

    path: str
    size: int
    rows: int


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

    def look(self) -> Iterator[Landed]:
        """New files, in the order of their coming; those that are not whole are tried again.

        Raises:
            RequestError: the place cannot be looked at.
        """
        for entry in self._listed():
            if self._settled(entry.path):
                continue
            footer = _footer(entry.path)
            if footer is None:
                self.blame(entry.path, entry.size_in_bytes)
                continue
            rows, schema = footer
            unfit = self._unfit(entry.path, rows, schema)
            if unfit is not None:
                warnings.warn(f"{UNFIT}: {unfit}", Caution, stacklevel=2)
                self.state.note_file(entry.path, entry.size_in_bytes, 0, "given up")
                self.state.count({UNFIT: 1})
            else:
                yield Landed(entry.path, entry.size_in_bytes, rows)

    def _settled(self, path: str) -> bool:
        """Whether a file was dealt with, also by a version that kept paths as they were typed."""
        typed = [] if "://" in path else [os.path.relpath(path, at) for at in self._homes]
        return any(self.state.file(name)[2] in ("done", "given up") for name in (path, *typed))

    @property
    def _homes(self) -> tuple[str, str]:
        """The folders that a relative path may have been relative to."""
        return os.curdir, self.streamed.plan.folder or os.curdir

    def blame(self, path: str, size: int) -> None:
        """A file could not be read; if it does not change either, it is given up at last."""
        before, tries, _ = self.state.file(path)
        # A file that grows is being written, and is given its time again.
        tries = (tries if before == size else 0) + self.counting
        gone = tries >= TRIES
        self.state.note_file(path, size, tries, "given up" if gone else "waiting")
        if gone:
            self.state.count({UNREADABLE: 1})
            warnings.warn(f"given up after {tries} looks: {path}", Caution, stacklevel=2)

    def _listed(self) -> list[FileMetadata]:
        try:
            matches = FileSystems.match(list(self.streamed.patterns))
        except (BeamIOError, ValueError) as error:
            raise RequestError(f"input: cannot be looked at: {reason(error)}") from None
        files = {entry.path: entry for match in matches for entry in match.metadata_list}
        return sorted(
            files.values(), key=lambda entry: (entry.last_updated_in_seconds or 0, entry.path)
        )

    def _unfit(self, path: str, rows: int, schema: pa.Schema) -> str | None:
        """Why a file is not one of the plan's; columns seen before are not judged anew."""
        packed = CompressionTypes.detect_compression_type(path)
        if packed != CompressionTypes.UNCOMPRESSED or set(path) & set("*?[]"):
            return f"{path}: Beam takes this name for a pattern or a packed file; rename it"
        if self.streamed.stream.time is None and time_in(path) is None:
            return f"{path}: no date in its name, as in 2026-11-20 or 2026-11-20T1305"
        kinds = tuple(
            str(schema.field(name).type) if schema.get_field_index(name) >= 0 else ""
            for name in self.streamed.columns
        )
        if kinds not in self._fit:
            self._fit[kinds] = path, self._misfit(Telemetry((path,), max(rows, 1), (schema,)))
        first, why = self._fit[kinds]
        if why is None:
            return self._unlike(path, schema)
        line = why.replace(first, path)
        return line if path in line else f"{path}: {line}"

    def _unlike(self, path: str, schema: pa.Schema) -> str | None:
        """That a column holds something else than in the files before; the first settles it.

        A user who is the number 17 here and the text "17" there would count twice.
        """
        kinds = {name: kind_of(schema.field(name).type) for name in self.streamed.columns}
        known = json.loads(self.state.said(_KINDS, "{}"))
        if not known:
            with self.state.change():
                self.state.say(_KINDS, json.dumps(kinds))
        for name, kind in known.items():
            if kinds[name] != kind:
                return f"{path}: column {name!r} holds {kinds[name]}, and {kind} in earlier files"
        return None

    def _misfit(self, telemetry: Telemetry) -> str | None:
        time = self.streamed.stream.time
        try:
            resolve(self.streamed.plan, SEED, telemetry)
            if time is not None and not accepts(telemetry.column_type(time, "time")):
                raise RequestError(f"time: {time!r} holds no timestamps in {telemetry.files[0]}")
        except RequestError as error:
            return str(error)
        return None


def _footer(path: str) -> tuple[int, pa.Schema] | None:
    """Rows and columns of a Parquet file; None if it is none, or none yet."""
    try:
        with FileSystems.open(path) as stream:
            parquet = pq.ParquetFile(stream)
            return parquet.metadata.num_rows, parquet.schema_arrow
    except (pa.ArrowException, OSError, BeamIOError, ValueError):
        return None


def readable(path: str, columns: tuple[str, ...]) -> bool:
    """Whether all of a file can be read, its columns as well as its footer."""
    try:
        with FileSystems.open(path) as stream:
            for _ in pq.ParquetFile(stream).iter_batches(columns=list(columns)):
                pass
    except (pa.ArrowException, OSError, BeamIOError, ValueError):
        return False
    return True
