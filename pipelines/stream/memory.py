"""A stream's database: facts, files, windows, notes and counters, changed whole or not at all."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mechanisms.randomness import SecureRandom
from pipelines.errors import Caution, RequestError, reason
from pipelines.storage.formats import require_known
from pipelines.stream.folder import locked

if TYPE_CHECKING:
    from typing_extensions import Self

_VERSION = 2

_SCHEMA = """
CREATE TABLE said (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE files (
    path TEXT PRIMARY KEY, size INTEGER, tries INTEGER, state TEXT NOT NULL, due INTEGER
);
CREATE TABLE windows (start INTEGER PRIMARY KEY, first INTEGER NOT NULL, state TEXT NOT NULL);
CREATE TABLE notes (kind TEXT, start INTEGER, metric TEXT, name TEXT, amount INTEGER);
CREATE INDEX notes_of ON notes (start, kind);
CREATE TABLE counters (name TEXT PRIMARY KEY, amount INTEGER NOT NULL);
"""


class StreamMemory:
    """What a stream knows, but for what it makes of it.

    Attributes:
        folder: where it is.
    """

    def __init__(self, folder: str, plan: str) -> None:
        """Open it, or begin it.

        Args:
            folder: is made if it is not there.
            plan: what tells this stream from others, in hexadecimal digits.

        Raises:
            RequestError: it cannot be used, or is in use, or another stream's.
        """
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.folder.stat().st_mode & 0o077:  # it was there before
                line = f"stream.state: {folder} can be entered by others; chmod 700 keeps them out"
                warnings.warn(line, Caution, stacklevel=2)
            self._lock = locked(self.folder)
            self.database = sqlite3.connect(self._path, isolation_level=None)
            try:
                self._open(plan)
            except BaseException:
                self.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise RequestError(f"stream.state: cannot use {folder}: {reason(error)}") from None

    @classmethod
    def looked_at(cls, folder: str) -> Self:
        """What is there, while another process may be at work in it: nothing can be changed.

        Args:
            folder: of a stream that has begun.

        Raises:
            RequestError: there is none, or it cannot be read.
        """
        self = cls.__new__(cls)
        self.folder = Path(folder)
        place = f"{self._path.absolute().as_uri()}?mode=rw"
        try:
            # Not read-only: what a crash has left half written is first undone, by whoever comes.
            self.database = sqlite3.connect(place, uri=True, isolation_level=None)
            self.database.execute("PRAGMA query_only = ON")
        except sqlite3.Error:
            raise RequestError(f"stream.state: no stream has begun in {folder}") from None
        self._require_known()
        return self

    @property
    def _path(self) -> Path:
        return self.folder / "stream.sqlite"

    def _open(self, plan: str) -> None:
        """Go on with what stands there, or begin where nothing does."""
        # Asked first: it undoes what of a begin was cut off. A file of one byte has no page, too,
        # and batches that no database names are of one that is lost.
        empty = self._pragma("page_count") == 0 and not self._path.stat().st_size
        new = empty and not any(self.folder.glob("batch-*"))
        if not new:
            self._require_known()
        # A commit has to outlive a power cut: files that were taken in are not taken in again.
        self.database.execute("PRAGMA synchronous = FULL")
        if new:
            self._begin(plan)
        self._require_ours(plan)

    def close(self) -> None:
        """Let another process have it."""
        self.database.close()
        os.close(self._lock)

    def counters(self) -> dict[str, int]:
        """What was dropped since the stream began, by reason."""
        return dict(self.database.execute("SELECT name, amount FROM counters ORDER BY name"))

    def count(self, counted: Mapping[str, int]) -> None:
        """Add to the counters."""
        with self.change():
            self.add(counted)

    def said(self, name: str, otherwise: str) -> str:
        """A fact, or what stands for it."""
        row = self.database.execute("SELECT value FROM said WHERE name = ?", (name,)).fetchone()
        return row[0] if row else otherwise

    @property
    def key(self) -> int:
        """Under which users are digests: of this stream alone."""
        return int(self.said("key", ""))

    def say(self, name: str, value: str) -> None:
        self.database.execute("INSERT OR REPLACE INTO said VALUES (?, ?)", (name, value))

    def add(self, counted: Mapping[str, int]) -> None:
        for name, amount in counted.items():
            self.database.execute(
                "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET amount = "
                "amount + excluded.amount",
                (name, amount),
            )

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """All of it, or nothing."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield self.database
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    def _begin(self, plan: str) -> None:
        # Of this stream alone, so that its digests match those of no other.
        key = int(SecureRandom().words(1)[0])
        said = f"INSERT INTO said VALUES ('plan', '{plan}'), ('key', '{key}');"
        self._make(f"{_SCHEMA} {said}")

    def _make(self, changes: str) -> None:
        """Make the tables, whole or not at all."""
        self.database.executescript(f"BEGIN; {changes} PRAGMA user_version = {_VERSION}; COMMIT;")

    def _require_ours(self, plan: str) -> None:
        if self.said("plan", plan) != plan:
            raise RequestError(
                f"stream.state: {self.folder} is of another plan, or of one with other windows, or "
                "of a hushbeam that resolves the plan to other mechanisms; let the old stream end "
                "first, as it was (--drain), and name a new folder"
            )

    def _require_known(self) -> None:
        """Refuse a state of another format: its messages are of windows that were promised once."""
        number, why = self._pragma("user_version") or None, "that one ends the stream, too: --drain"
        require_known(f"stream.state: {self.folder}", number, _VERSION, why)

    def _pragma(self, name: str) -> int | None:
        """A number of SQLite's; None where the file is no database."""
        try:
            number: int = self.database.execute(f"PRAGMA {name}").fetchone()[0]
        except sqlite3.OperationalError:  # it may be one, and cannot be read now
            raise
        except sqlite3.DatabaseError:
            return None
        return number
