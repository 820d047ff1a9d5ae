"""What a service keeps of a window: a file of SQLite, shared by all processes that serve a folder.

A post is answered once its transaction is on the disk, and one transaction has all posts that come
within a few milliseconds of each other. Files that land lie in the order of digests, and do not
tell who came first. The pages of an open window do: SQLite gives a large row pages in the order in
which it came, as the write-ahead log has them. All processes must run on one machine, on a disk of
its own: the log is shared by memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mechanisms.randomness import SecureRandom
from mechanisms.wire import binary
from pipelines.errors import RequestError, reason
from pipelines.serve.terms import WindowTerms
from pipelines.storage.paths import flush, new_file

KEPT, CONFLICT, CLOSED, FULL = 204, 409, 410, 429  # as HTTP answers

_VERSION = 2
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA user_version = {_VERSION};
CREATE TABLE window (
    terms TEXT NOT NULL, closed INTEGER NOT NULL, kept INTEGER NOT NULL, id TEXT NOT NULL
);
CREATE TABLE spent (token BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE records (digest BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE refused (answer INTEGER PRIMARY KEY, posts INTEGER NOT NULL);
"""
# FULL: the write-ahead log is synced before a transaction is seen by anybody, other processes too.
_SETTINGS = "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON"
_STATE = "SELECT closed, kept FROM window"
_BODY = "SELECT body FROM spent WHERE token = ?"
_RECORD = "SELECT 1 FROM records WHERE digest = ?"
_SPEND = "INSERT INTO spent VALUES (?, ?)"
_KEEP = "INSERT OR IGNORE INTO records VALUES (?, ?)"
_REFUSE = """
INSERT INTO refused VALUES (?, ?)
    ON CONFLICT (answer) DO UPDATE SET posts = posts + excluded.posts
"""
_TIMEOUT = 30.0  # seconds to wait for a lock
_LANDED = 1 << 16  # reports of a file, so that a shuffler's workers have one each


class Post(NamedTuple):
    """Something to be kept.

    Attributes:
        token: a digest of what pays for it, or of who sends it; empty if nothing has to.
        body: a digest of all of it: the same token with another one is a conflict.
        records: (digest, bytes) of each of its reports.
    """

    token: bytes
    body: bytes
    records: tuple[tuple[bytes, bytes], ...] = ()


class Status(NamedTuple):
    """Of a window.

    Attributes:
        terms: of it.
        closed: whether it takes no more.
        kept: reports, or requests that were paid for.
        refused: answer -> how many posts; about, for a process that is killed forgets some.
    """

    terms: WindowTerms
    closed: bool
    kept: int
    refused: dict[int, int]


class WindowStore:
    """A window's file.

    Args:
        path: of the file.

    Raises:
        sqlite3.Error: it cannot be read.
        RequestError: another version of hushbeam has made it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database: sqlite3.Connection | None = None
        self.terms = self.status().terms

    @classmethod
    def opened(cls, path: Path, terms: WindowTerms) -> WindowStore:
        """The window with these terms; it is made if it is not there.

        Raises:
            RequestError: it is there with other terms, or cannot be made; or another file takes
                the window's tokens, and would take each again.
        """
        claim = terms.claim
        if not path.exists():
            if claim is not None and claim.exists():
                raise _unclaimed(claim, terms)
            with contextlib.suppress(FileExistsError):  # another process was first
                _create(path, terms)
        window = cls(path)
        if window.terms != terms:
            raise RequestError(
                f"--window: {terms.window} is open with other terms (seeds, devices or --most): "
                "what was answered under the old ones stands; leave them as they were"
            )
        if claim is not None:
            # After the file, so that a power cut leaves no claim to a file that never was. Until it
            # is claimed, no process serves it.
            place = f"{window._mark()} {path.parent.parent.resolve()}"
            with (
                contextlib.suppress(FileExistsError),
                new_file(str(claim), secret=True, over=False) as stream,
            ):
                stream.write(place.encode())
            if claim.read_text() != place:
                window.release()
                raise _unclaimed(claim, terms)
        return window

    def claimed(self) -> bool:
        """Whether this is the one file that takes the window's tokens, and no copy of it."""
        claim = self.terms.claim
        return claim is None or (
            claim.exists() and claim.read_text().startswith(f"{self._mark()} ")
        )

    def _mark(self) -> str:
        """Tells the file from a new one of its name, and from a copy: its id and inode."""
        (mark,) = self._connection().execute("SELECT id FROM window").fetchone()
        return f"{mark} {self.path.stat().st_ino}"

    def commit(self, posts: Sequence[Post], refused: Mapping[int, int]) -> list[int]:
        """Keep what is new of some posts, in one transaction that is on the disk afterwards.

        Args:
            posts: in the order in which they came.
            refused: answer -> how many posts were refused meanwhile.

        Returns:
            For each post KEPT, also if the same came before; CONFLICT, CLOSED or FULL.

        Raises:
            sqlite3.Error: nothing was kept.
        """
        with self._transaction() as database:
            closed, kept = database.execute(_STATE).fetchone()
            if closed:
                return [CLOSED] * len(posts)
            answers = []
            for post in posts:
                answer, more = self._keep(database, post, self.terms.most - kept)
                answers.append(answer)
                kept += more
            database.execute("UPDATE window SET kept = ?", (kept,))
            tally = Counter(refused) + Counter(answer for answer in answers if answer != KEPT)
            database.executemany(_REFUSE, tally.items())
        return answers

    def close(self) -> None:
        """Take no more, and land what was kept; again, if the last time was cut short.

        The tokens that were spent are forgotten: whoever comes is told that the window is closed.

        Raises:
            sqlite3.Error, OSError: it cannot be read or landed, and stays to be closed again.
        """
        with self._transaction() as database:
            database.execute("UPDATE window SET closed = 1")
        database = self._connection()
        self._land(database)
        with self._transaction() as database:
            database.execute("DELETE FROM records")
            database.execute("DELETE FROM spent")
        database.execute("VACUUM")
        busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:  # by a reader that has not ended: the log tells in which order posts came
            raise sqlite3.OperationalError("the write-ahead log is in use and not emptied")
        self.release()

    def status(self) -> Status:
        """What the window is, and what became of it."""
        database = self._connection()
        text, closed, kept = database.execute("SELECT terms, closed, kept FROM window").fetchone()
        return Status(
            WindowTerms.read(text),
            bool(closed),
            kept,
            dict(database.execute("SELECT * FROM refused")),
        )

    def release(self) -> None:
        """Leave the file; the next use opens it again."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _keep(self, database: sqlite3.Connection, post: Post, room: int) -> tuple[int, int]:
        """The answer to a post, and how much was kept of it."""
        if post.token:
            spent = database.execute(_BODY, (post.token,)).fetchone()
            if spent is not None:
                return KEPT if spent[0] == post.body else CONFLICT, 0
        if room < max(1, len(post.records)):
            # What was answered KEPT is so again, also where the window has filled up since.
            digests = {digest for digest, _ in post.records}
            known = sum(bool(database.execute(_RECORD, (one,)).fetchone()) for one in digests)
            if not digests or room < len(digests) - known:
                return FULL, 0
        if post.token:
            database.execute(_SPEND, (post.token, post.body))
        fresh = sum(database.execute(_KEEP, record).rowcount for record in post.records)
        return KEPT, fresh if post.records else 1

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The one writer of a folder; whatever fails, nothing is kept and the next one begins anew.

        SQLite's own lock is polled, and starves one of several busy processes: this one queues.
        The kernel drops it when a process is killed.
        """
        with (self.path.parent / ".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                database = self._connection()
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
            except BaseException:
                self.release()  # which rolls back
                raise

    def _connection(self) -> sqlite3.Connection:
        if self._database is None:
            address = f"{self.path.absolute().as_uri()}?mode=rw"  # no file is made by opening it
            database = sqlite3.connect(
                address, uri=True, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            database.executescript(_SETTINGS)
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                database.close()
                raise RequestError(
                    f"--landing: {self.path} is of format {version}, and this version of hushbeam "
                    f"reads {_VERSION}: close the window with the version that opened it"
                )
            self._database = database
        return self._database

    def _land(self, database: sqlite3.Connection) -> None:
        """What was kept, in files of the landing folder: the same ones if it is done again."""
        expected, landing = self.terms.expected, self.path.parent.parent
        head = binary.header(expected.form, expected.fingerprint)
        rows = database.execute("SELECT record FROM records ORDER BY digest")
        number = 0
        while records := rows.fetchmany(_LANDED):
            name = landing / f"{self.terms.fingerprint}-{number:04}.reports"
            with new_file(str(name), secret=True) as file:
                file.write(head)
                file.writelines(record for (record,) in records)
            number += 1


def _unclaimed(claim: Path, terms: WindowTerms) -> RequestError:
    _, _, before = claim.read_text().split(" ", 2)
    return RequestError(
        f"--landing: window {terms.window} was opened in {before}; another folder, a new one of "
        "that name or a restored copy would take each token again: name that one as it was, or "
        f"remove {claim} if it has only moved"
    )


def _create(path: Path, terms: WindowTerms) -> None:
    """A window's file, whole at once and never over another one."""
    try:
        descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
        os.close(descriptor)
        try:
            with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as database:
                database.executescript(_SCHEMA)
                row = terms.written(), SecureRandom().words(2).tobytes().hex()
                database.execute("INSERT INTO window VALUES (?, 0, 0, ?)", row)
            flush(partial)
            os.link(partial, path)
        finally:
            os.unlink(partial)
            flush(str(path.parent))
    except FileExistsError:
        raise
    except (OSError, sqlite3.Error) as error:
        raise RequestError(f"--landing: {path} cannot be made: {reason(error)}") from None
