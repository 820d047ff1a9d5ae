"""A ledger in a file: SQLite, one row for every change, never one less.

Rows are only added, so what was spent cannot be unwritten, and a row's number is the revision it
makes: two writers who saw the same revision want the same number, and SQLite lets one have it.

The rollback journal is kept, not the write-ahead log: the file alone is then the whole ledger (to
copy it is to save it), and nothing needs memory shared between processes. File locks of network
drives are not to be relied on: machines share a ledger in a bucket.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pipelines.errors import FailedError, RequestError, reason
from pipelines.ledger.entries import VERSION, Entry, damaged, decoded, newer
from pipelines.ledger.store import Snapshot
from pipelines.paths import flush

_APPLICATION = 0x68757368  # "hush", in the file's header: tells a ledger from other databases
_HEADER = 100  # bytes
_TIMEOUT = 30.0  # seconds to wait for a lock

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
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


@dataclass(frozen=True)
class SqliteStore:
    """A ledger in a local file.

    Attributes:
        where: its path.
        timeout: how long to wait for a lock, in seconds.
    """

    where: str
    timeout: float = _TIMEOUT

    def exists(self) -> bool:
        """Whether something stands there."""
        return os.path.lexists(self.where)

    def begin(self) -> bool:
        """Make an empty ledger, unless there is one.

        Returns:
            Whether it was made now.

        Raises:
            RequestError: it cannot be made there.
        """
        if self.exists():
            return False
        folder, name = os.path.split(os.path.abspath(self.where))
        try:
            descriptor, partial = tempfile.mkstemp(prefix=f".{name}.partial-", dir=folder)
            os.close(descriptor)
            try:
                _fill(partial)
                os.link(partial, self.where)  # whole at once, and never over another one
            except FileExistsError:
                return False
            finally:
                os.unlink(partial)
            flush(folder)
        except OSError as error:
            raise RequestError(f"--ledger: cannot begin {self.where}: {reason(error)}") from None
        return True

    def read(self) -> Snapshot:
        """See `Store`."""
        with self._open() as database:
            self._require_whole(database)
            changes = database.execute("SELECT * FROM changes ORDER BY revision").fetchall()
        self._require_chained(changes)
        latest = {id: text for _, id, text, _ in changes}  # in the order of first changes
        entries = tuple(decoded(text, self.where) for text in latest.values())
        return Snapshot(len(changes), entries)

    def write(self, entry: Entry, revision: int) -> bool:
        """See `Store`."""
        with self._open() as database:
            self._require_ours(database)
            # The lock is taken before the last revision is read: deferred, two writers could read
            # the same.
            database.execute("BEGIN IMMEDIATE")
            # What this version adds, readers of an earlier one must not take for damage.
            database.execute(f"PRAGMA user_version = {VERSION}")
            last = database.execute(
                "SELECT digest FROM changes WHERE revision = ?", (revision,)
            ).fetchone()
            text = entry.model_dump_json()
            digest = _digest(last[0] if last else "", entry.id, text)
            try:
                database.execute(
                    "INSERT INTO changes VALUES (?, ?, ?, ?)",
                    (revision + 1, entry.id, text, digest),
                )
            except sqlite3.IntegrityError:
                return False  # and closing rolls back
            database.execute("COMMIT")
            return True

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

    def _require_file(self) -> None:
        """Refuse what SQLite would take for a new database, or could not open."""
        try:
            size = os.stat(self.where).st_size
        except OSError as error:
            raise RequestError(f"--ledger: cannot read {self.where}: {reason(error)}") from None
        if not size >= _HEADER:
            raise RequestError(f"{damaged(self.where)} (it is {size} bytes long)")

    def _require_ours(self, database: sqlite3.Connection) -> None:
        """Refuse other people's databases and ledgers of a newer version."""
        if database.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise RequestError(damaged(self.where))
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if not 1 <= version <= VERSION:
            raise RequestError(newer(self.where, version))

    def _require_whole(self, database: sqlite3.Connection) -> None:
        """Refuse a file in which pages are missing or mixed up, wherever they are."""
        self._require_ours(database)
        if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise RequestError(damaged(self.where))

    def _require_chained(self, changes: Sequence[tuple[int, str, str, str]]) -> None:
        """Refuse changes of which one is missing or is not as it was written."""
        last = ""
        for expected, (revision, id, text, digest) in enumerate(changes, 1):
            # Digests are chained, so a change cannot be taken out or altered without all later ones
            # showing it.
            if not (revision == expected and digest == _digest(last, id, text)):
                raise RequestError(f"{damaged(self.where)} (change {expected} is not as written)")
            last = digest

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
        return FailedError(f"the ledger {self.where} failed: {said}")


def _digest(last: str, id: str, text: str) -> str:
    """What a change is known by: it covers all changes before it."""
    return hashlib.sha256(f"{last}\n{id}\n{text}".encode()).hexdigest()


def _fill(path: str) -> None:
    """Write an empty ledger to a file, through to the disk."""
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript(_SCHEMA)
    finally:
        database.close()
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, 0o666 & ~umask)  # mkstemp keeps others out, who may share the budget
    flush(path)


def _quoted(path: str) -> str:
    """A path as SQLite's addresses hold it."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
