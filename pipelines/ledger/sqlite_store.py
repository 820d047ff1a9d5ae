"""A ledger in a file: SQLite, one row for every change, never one less.

Rows are only added, so what was spent cannot be unwritten, and a row's number is the revision it
makes: two writers who saw the same revision want the same number, and SQLite lets one have it.

The rollback journal is kept, not the write-ahead log: the file alone is then the whole ledger (to
copy it is to save it), and nothing needs memory shared between processes. File locks of network
drives are not to be relied on: machines share a ledger in a bucket.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipelines.errors import FailedError, RequestError, reason
from pipelines.ledger.chain import Link
from pipelines.ledger.entries import VERSION, Record, absent, damaged, require_known
from pipelines.ledger.store import EarlierLedger, Snapshot, Written, snapshot_of
from pipelines.storage.paths import flush, share

_APPLICATION = 0x68757368  # "hush", in the file's header: tells a ledger from other databases
_HEADER = 100  # bytes
_TIMEOUT = 30.0  # seconds to wait for a lock

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE beginning (text TEXT NOT NULL, head TEXT NOT NULL);
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY CHECK (revision > 0),
    id TEXT NOT NULL,
    entry TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TRIGGER unchanged BEFORE UPDATE ON changes
    BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
CREATE TRIGGER kept BEFORE DELETE ON changes
    BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;
"""
_CHANGES = "SELECT * FROM changes ORDER BY revision"
_ADD = "INSERT INTO changes VALUES (?, ?, ?, ?)"


@dataclass(frozen=True)
class SqliteStore:
    """A ledger in a local file.

    Attributes:
        where: its path.
        timeout: how long to wait for a lock, in seconds.
    """

    where: str
    timeout: float = _TIMEOUT

    def stands(self) -> bool:
        """See `Store`."""
        return os.path.lexists(self.where)

    def begin(self, ledger: Written, over: int | None = None) -> bool:
        """See `Store`."""
        folder, name = os.path.split(os.path.abspath(self.where))
        try:
            descriptor, partial = tempfile.mkstemp(prefix=f".{name}.partial-", dir=folder)
            os.close(descriptor)
            try:
                _fill(partial, ledger)
                # Whole at once, and never over another one unasked.
                if over is not None:
                    return self._replace(partial, over)
                os.link(partial, self.where)
            except FileExistsError:
                return False
            finally:
                if os.path.lexists(partial):
                    os.unlink(partial)
                flush(folder)
        except (OSError, sqlite3.Error) as error:  # SQLite has its own word for a full disk
            raise RequestError(f"--ledger: cannot begin {self.where}: {reason(error)}") from None
        return True

    def _replace(self, partial: str, revision: int) -> bool:
        """Put a file in the ledger's place, unless that has changed; whether it was done."""
        with self._locked() as database:
            if database is None or _revision(database) != revision:
                return False
            os.replace(partial, self.where)
            return True

    def read(self) -> Snapshot:
        """See `Store`."""
        with self._open() as database:
            self._require_whole(database)
            require_known(self.where, self._version(database))
            begun = database.execute("SELECT text, head FROM beginning").fetchall()
            changes = database.execute(_CHANGES).fetchall()
        if len(begun) != 1 or [change[0] for change in changes] != [*range(1, len(changes) + 1)]:
            raise RequestError(f"{damaged(self.where)} (changes are missing)")
        (text, first), latest = begun[0], {id: text for _, id, text, _ in changes}
        links = tuple(Link.of(id, text) for _, id, text, _ in changes)
        head = changes[-1][3] if changes else first
        return snapshot_of(self.where, len(changes), text, links, head, latest)

    def earlier(self) -> EarlierLedger:
        """See `Store`."""
        with self._open() as database:
            self._require_whole(database)
            require_known(self.where, self._version(database))
            changes = database.execute(_CHANGES).fetchall()
        revision = changes[-1][0] if changes else 0
        return EarlierLedger(revision, [(id, text) for _, id, text, _ in changes])

    def write(self, record: Record, snapshot: Snapshot, head: str) -> bool:
        """See `Store`."""
        with self._locked() as database:
            if database is None:
                return False
            change = (snapshot.revision + 1, record.id, record.model_dump_json(), head)
            try:
                database.execute(_ADD, change)
            except sqlite3.IntegrityError:
                return False  # and closing rolls back
            database.execute("COMMIT")
            return True

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection | None]:
        """A connection that alone may write; None if the file was replaced before it could.

        A lock is on a file, not on its name: who has waited for one may hold that of a ledger that
        was adopted meanwhile, which nobody will open again.
        """
        before = self._require_file()
        with self._open() as database:
            self._require_ours(database)
            # The lock is taken before the last revision is read: deferred, two writers could read
            # the same.
            database.execute("BEGIN IMMEDIATE")
            yield database if os.path.samestat(before, self._require_file()) else None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose errors are put in our words."""
        self._require_file()
        try:
            # No file is made by opening it: an absent ledger is not an empty one.
            address = f"file:{_quoted(self.where)}?mode=rw"
            database = sqlite3.connect(
                address, uri=True, timeout=self.timeout, isolation_level=None
            )
            try:
                database.execute("PRAGMA synchronous = EXTRA")  # a commit outlives a power cut
                yield database
            finally:
                database.close()
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _require_file(self) -> os.stat_result:
        """Refuse what SQLite would take for a new database, or could not open."""
        try:
            status = os.stat(self.where)
        except FileNotFoundError:
            raise RequestError(absent(self.where)) from None
        except OSError as error:
            raise RequestError(f"--ledger: cannot read {self.where}: {reason(error)}") from None
        if not status.st_size >= _HEADER:
            raise RequestError(f"{damaged(self.where)} (it is {status.st_size} bytes long)")
        return status

    def _require_ours(self, database: sqlite3.Connection) -> None:
        """Refuse other people's databases."""
        if database.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise RequestError(damaged(self.where))

    def _version(self, database: sqlite3.Connection) -> int:
        version: int = database.execute("PRAGMA user_version").fetchone()[0]
        return version

    def _require_whole(self, database: sqlite3.Connection) -> None:
        """Refuse a file in which pages are missing or mixed up, wherever they are."""
        self._require_ours(database)
        if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise RequestError(damaged(self.where))

    def _explained(self, error: sqlite3.Error) -> Exception:
        """An error of SQLite as one line that says what to do; its codes came with Python 3.11."""
        said = reason(error)
        if "locked" in said:
            return FailedError(
                f"the ledger {self.where} was locked for {self.timeout:g} s by another process; "
                "nothing was read or spent: try again when that one has ended"
            )
        if "malformed" in said or "not a database" in said:
            return RequestError(damaged(self.where))
        if "readonly" in said or "unable to open" in said:
            return RequestError(f"--ledger: cannot write {self.where}: {said}")
        if "full" in said:
            return FailedError(
                f"the ledger {self.where} could not be written: {said}: make room and run again; a "
                "release that is out already is found, and not made again"
            )
        return FailedError(f"the ledger {self.where} failed: {said}")


def _fill(path: str, ledger: Written) -> None:
    """Write a ledger to a file, through to the disk."""
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript(_SCHEMA)
        database.execute("BEGIN")
        database.execute("INSERT INTO beginning VALUES (?, ?)", (ledger.text, ledger.head))
        database.executemany(_ADD, ((k, *change) for k, change in enumerate(ledger.changes, 1)))
        database.execute("COMMIT")
    finally:
        database.close()
    share(path)  # with those who share the budget
    flush(path)


def _revision(database: sqlite3.Connection) -> int:
    last: int | None = database.execute("SELECT max(revision) FROM changes").fetchone()[0]
    return last or 0


def _quoted(path: str) -> str:
    """A path as SQLite's addresses hold it."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
