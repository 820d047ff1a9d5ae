"""A journal in a file: SQLite, one row for every fact, never one less.

Rows are only added, so what was noted cannot be unwritten. The rollback journal is kept, not the
write-ahead log: the file alone is then the whole journal (to copy it is to save it), and nothing
needs memory shared between processes. File locks of network drives are not to be relied on.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipelines.errors import FailedError, RequestError, reason
from pipelines.journal.checkpoint import Checkpoint, Leaf, canonical
from pipelines.journal.journal import JournalFormat, Segment
from pipelines.storage.formats import require_known
from pipelines.storage.paths import flush, share

_TIMEOUT = 30.0  # seconds to wait for a lock

_SCHEMA = """
CREATE TABLE checkpoints (
    count INTEGER PRIMARY KEY, account TEXT NOT NULL, head TEXT NOT NULL, frontier TEXT NOT NULL,
    tables TEXT NOT NULL, signature TEXT NOT NULL
);
CREATE TABLE facts (
    number INTEGER PRIMARY KEY CHECK (number > 0), kind TEXT NOT NULL, name TEXT NOT NULL,
    body TEXT NOT NULL, salt TEXT NOT NULL, head TEXT NOT NULL
);
CREATE TABLE chunks (digest TEXT PRIMARY KEY, content BLOB NOT NULL);
"""
_ONLY_GROWS = """
CREATE TRIGGER {0}_unchanged BEFORE UPDATE ON {0}
    BEGIN SELECT RAISE(ABORT, 'a journal only grows'); END;
CREATE TRIGGER {0}_kept BEFORE DELETE ON {0}
    BEGIN SELECT RAISE(ABORT, 'a journal only grows'); END;
"""
_LAST = "SELECT * FROM checkpoints WHERE count < ? ORDER BY count DESC LIMIT 1"
_SINCE = "SELECT * FROM facts WHERE number > ? AND number <= ? ORDER BY number"
_END = 1 << 62  # after every fact
_BEGIN = "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?)"
_CHUNK = "SELECT content FROM chunks WHERE digest = ?"
_KEEP = "INSERT OR IGNORE INTO chunks VALUES (?, ?)"
_ADD = "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class SqliteKeeping:
    """A journal in a local file.

    Attributes:
        path: of the file.
        form: of the journal.
        timeout: how long to wait for a lock, in seconds.
    """

    path: str
    form: JournalFormat
    timeout: float = _TIMEOUT

    def read(self) -> Segment | None:
        """See `Keeping`."""
        return self._segment(_END) if os.path.lexists(self.path) else None

    def before(self, count: int, head: str) -> Segment | None:
        """See `Keeping`."""
        return self._segment(count)

    def chunk(self, digest: str) -> bytes | None:
        """See `Keeping`."""
        with self._open() as database:
            row = database.execute(_CHUNK, (digest,)).fetchone()
        return None if row is None else row[0]

    def _segment(self, until: int) -> Segment:
        """The last one that begins before so many facts."""
        with self._open() as database:
            database.execute("BEGIN")  # one moment of it, whatever is written meanwhile
            try:
                checkpoint = _row(database.execute(_LAST, (until,)))
                count, account, head, frontier, tables, signature = checkpoint
                facts = database.execute(_SINCE, (count, until)).fetchall()
                begun = Checkpoint(
                    account, count, head, tuple(json.loads(frontier)), json.loads(tables)
                )
                leaves = tuple(_leaf(*fact) for *fact, _ in facts)
            except (ValueError, TypeError, RecursionError):
                raise self.form.damaged("its facts are none") from None
        return Segment(begun, signature, leaves, facts[-1][-1] if facts else head)

    def write(self, before: Segment | None, after: Segment, chunks: Mapping[str, bytes]) -> bool:
        """See `Keeping`."""
        if before is None:
            return self._begin(after)
        # A lock is on a file, not on its name: who has waited for one may hold that of a file that
        # was replaced meanwhile, which nobody will open again.
        status = self._status()
        with self._open() as database:
            # The lock is taken before the last head is read: deferred, two writers could read the
            # same.
            database.execute("BEGIN IMMEDIATE")
            if not os.path.samestat(status, self._status()) or _head(database) != before.head:
                return False  # and closing rolls back
            database.executemany(_KEEP, chunks.items())
            _fill(database, before, after)
            database.execute("COMMIT")
        return True

    def _begin(self, segment: Segment) -> bool:
        folder, name = os.path.split(os.path.abspath(self.path))
        try:
            descriptor, partial = tempfile.mkstemp(prefix=f".{name}.partial-", dir=folder)
            os.close(descriptor)
            try:
                with closing(sqlite3.connect(partial, isolation_level=None)) as database:
                    grows = "".join(map(_ONLY_GROWS.format, ("checkpoints", "facts", "chunks")))
                    database.executescript(f"{_SCHEMA}{grows}{self._numbers}")
                    database.execute("BEGIN")
                    _fill(database, None, segment)
                    database.execute("COMMIT")
                share(partial)
                flush(partial)
                os.link(partial, self.path)  # whole at once, and never over another one
            except FileExistsError:
                return False
            finally:
                os.unlink(partial)
                flush(folder)
        except (OSError, sqlite3.Error) as error:  # SQLite has its own word for a full disk
            raise RequestError(f"{self.form.where}: cannot be begun: {reason(error)}") from None
        return True

    @property
    def _application(self) -> int:
        """In the file's header: tells a store's journals from other databases."""
        return int(hashlib.sha256(self.form.store.encode()).hexdigest()[:7], 16)

    @property
    def _numbers(self) -> str:
        version, application = self.form.version, self._application
        return f"PRAGMA application_id = {application}; PRAGMA user_version = {version};"

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection to a file of ours, whose errors are put in our words."""
        try:
            # No file is made by opening it. Not read-only: what a crash has left half written is
            # first undone, by whoever comes.
            address = f"{Path(self.path).absolute().as_uri()}?mode=rw"
            database = sqlite3.connect(
                address, uri=True, timeout=self.timeout, isolation_level=None
            )
            with closing(database):
                self._require_ours(database)
                database.execute("PRAGMA synchronous = EXTRA")  # a commit outlives a power cut
                yield database
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _require_ours(self, database: sqlite3.Connection) -> None:
        try:
            (application,) = database.execute("PRAGMA application_id").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
        except sqlite3.OperationalError:  # it may be one, and cannot be read now
            raise
        except sqlite3.DatabaseError:
            application = version = None
        own = application == self._application
        require_known(
            self.form.where, (version or None) if own else None, self.form.version, self.form.why
        )

    def _status(self) -> os.stat_result:
        try:
            return os.stat(self.path)
        except OSError as error:
            raise RequestError(f"{self.form.where}: cannot be read: {reason(error)}") from None

    def _explained(self, error: sqlite3.Error) -> Exception:
        """An error of SQLite as one line that says what to do; its codes came with Python 3.11."""
        where, said = self.form.where, reason(error)
        if "locked" in said:
            return FailedError(
                f"{where} was locked for {self.timeout:g} s by another process; nothing was read "
                "or written: try again when that one has ended"
            )
        if "malformed" in said or "not a database" in said or "no such" in said:
            return self.form.damaged(said)
        if "readonly" in said or "unable to open" in said:
            return RequestError(f"{where}: cannot be used: {said}")
        room = ": make room and run again" if "full" in said else ""
        return FailedError(f"{where} could not be read or written: {said}{room}")


@lru_cache(maxsize=1024)  # a segment or two: a run reads the last one some ten times
def _leaf(number: int, kind: str, name: str, body: str, salt: str) -> Leaf:
    return Leaf(number, kind, name, json.loads(body), salt)


def _row(rows: sqlite3.Cursor) -> tuple[Any, ...]:
    return rows.fetchone()


def _head(database: sqlite3.Connection) -> str:
    """After the last fact."""
    last = "SELECT head FROM facts ORDER BY number DESC LIMIT 1"
    facts = database.execute(last).fetchone()
    return str((facts or database.execute("SELECT head FROM checkpoints").fetchone())[0])


def _fill(database: sqlite3.Connection, before: Segment | None, after: Segment) -> None:
    """Put down what is new."""
    begun, leaves = after.checkpoint, after.leaves
    if before is None or begun.count > before.checkpoint.count:
        frontier, tables = (canonical(said).decode() for said in (begun.frontier, begun.tables))
        row = (begun.count, begun.account, begun.head, frontier, tables, after.signature)
        database.execute(_BEGIN, row)
    known = 0 if before is None else before.last
    new = [leaf for leaf in leaves if leaf.number > known]
    # One head for what was added together.
    heads = [*[""] * (len(new) - 1), after.head]
    rows = [
        (leaf.number, leaf.kind, leaf.name, canonical(leaf.body).decode(), leaf.salt, head)
        for leaf, head in zip(new, heads, strict=False)
    ]
    database.executemany(_ADD, rows)
