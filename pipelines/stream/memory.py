"""A stream's journal: facts, files, windows, notes and counters, changed whole or not at all."""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import Self

from mechanisms.randomness import SecureRandom
from pipelines.errors import Caution, RequestError, reason
from pipelines.journal.checkpoint import Fact, Rows, noted, put_down
from pipelines.journal.journal import FactJournal, JournalFormat, JournalState
from pipelines.journal.sqlite_keeping import SqliteKeeping
from pipelines.storage.formats import require_known
from pipelines.storage.local_object import LocalObject
from pipelines.storage.paths import flush
from pipelines.stream import intake
from pipelines.stream.intake import Note

NOTES, DIGESTS = "notes", "digests"  # kinds of facts that name files


def joined(folder: str, notes: Sequence[Note]) -> list[Note]:
    """The notes of a batch, with one file of digests for each window in place of one a bucket."""
    buckets: dict[int, list[Note]] = {}
    for note in sorted(note for note in notes if note.kind == intake.DIGESTS):
        buckets.setdefault(note.start, []).append(note)
    joined = [note for note in notes if note.kind != intake.DIGESTS]
    for start, pieces in buckets.items():
        name = f"digests{start}"
        with open(Path(folder, name), "wb") as file:
            for piece in pieces:
                file.write(Path(folder, piece.name).read_bytes())
        size = sum(piece.amount for piece in pieces)
        joined.append(Note(intake.DIGESTS, start, "", name, size))
    named = {note.name for note in joined}
    for path in Path(folder).iterdir():
        # Left by bundles that were tried again: their notes did not reach the manifest.
        if path.name not in named:
            path.unlink()
    return joined


def by_window(folder: str, batch: str, notes: Sequence[Note]) -> dict[str, dict[str, Any]]:
    """Write what a batch has of each window into a file that goes with the window.

    Args:
        folder: of the batch, as yet.
        batch: its name in the stream's folder, from now on.
        notes: of `joined`.

    Returns:
        Facts for the journal, by the names of files.
    """
    users = [note for note in notes if note.kind == intake.DIGESTS]
    digests = {f"{batch}/{note.name}": [note.start] for note in users}
    windows: dict[int, list[tuple[Any, ...]]] = {}
    for kind, start, metric, name, amount in sorted(notes):
        if kind != intake.DIGESTS:
            place = f"{batch}/{name}" if kind == intake.MESSAGES else name
            windows.setdefault(start, []).append((kind, metric, place, amount))
    rows = {
        f"{batch}/notes{start}": [start, put_down(Path(folder, f"notes{start}"), mine)]
        for start, mine in windows.items()
    }
    return {NOTES: rows, DIGESTS: digests}


def locked(folder: Path) -> int:
    """Holds the folder as long as this process lives."""
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        # The system lets go of it when the process dies, however it does.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise RequestError(f"stream.state: another stream is at work in {folder}") from None
    return lock


def flush_all(folder: str) -> None:
    """Make what is in a folder outlive a power cut."""
    for path in [*(p for p in Path(folder).iterdir() if p.is_file()), Path(folder)]:
        flush(str(path))


_VERSION = 4
_FLAG = "stream.state"
_WHY = "that one ends the stream, too: --drain"
_SIGNING = 8  # bytes of the key that digests are made under; the others sign

SAID, FILES, COUNTERS = "said", "files", "counters"  # kinds of facts; see `folder`, too


class StreamMemory:
    """What a stream knows, but for what it makes of it.

    Attributes:
        folder: where it is.
    """

    _facts: JournalState
    _secret: bytes

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
                line = f"{_FLAG}: {folder} can be entered by others; chmod 700 keeps them out"
                warnings.warn(line, Caution, stacklevel=2)
            self._lock = locked(self.folder)
        except OSError as error:
            raise RequestError(f"{_FLAG}: cannot use {folder}: {reason(error)}") from None
        try:
            self._open(plan)
        except BaseException:
            self.close()
            raise

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
        self._read()
        return self

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)

    def rows(self, kind: str) -> Rows:
        """The facts of a kind."""
        return self._facts.rows(kind)

    def put(self, **tables: Mapping[str, Any]) -> None:
        """Note facts, all or none.

        Args:
            tables: kind -> name -> what stands there from now on; None for what goes.
        """
        facts = [
            Fact(kind, name, row)
            for kind, rows in tables.items()
            for name, row in rows.items()
            if self.rows(kind).get(name) != row  # a look that sees what was seen is no fact
        ]
        if facts:
            self._facts = self._journal.add(self._facts, facts)

    def counters(self) -> dict[str, int]:
        """What was dropped since the stream began, by reason."""
        files = [self.noted(name, mark) for name, mark in self.rows(COUNTERS).items()]
        return files[0] if files else {}

    def noted(self, name: str, digest: str) -> Any:
        """What a file of the folder holds."""
        return noted(self.folder / name, digest, f"{_FLAG}: {self.folder}")

    def count(self, counted: Mapping[str, int]) -> None:
        """Add to the counters."""
        self.put(counters=self.after(counted))

    def after(self, counted: Mapping[str, int]) -> dict[str, str | None]:
        """A file of counters in the place of the one before, which goes.

        Who saw them after each batch would see whose row came in between.
        """
        sums, name = self.counters(), f"{COUNTERS}-{self._facts.segment.last}"
        sums |= {reason: sums.get(reason, 0) + amount for reason, amount in counted.items()}
        mark = put_down(self.folder / name, dict(sorted(sums.items())))
        return {**dict.fromkeys(self.rows(COUNTERS)), name: mark}

    def said(self, name: str) -> Any:
        """A fact; None if nothing is said."""
        return self.rows(SAID).get(name)

    @property
    def key(self) -> int:
        """Under which users are digests: of this stream alone."""
        return int.from_bytes(self._secret[:_SIGNING], "little")

    @property
    def _journal(self) -> FactJournal:
        absent = f"{_FLAG}: no stream has begun in {self.folder}"
        form = JournalFormat("stream", _VERSION, f"{_FLAG}: {self.folder}", _WHY, absent)
        keeping = SqliteKeeping(str(self.folder / "stream.sqlite"), form)
        return FactJournal(keeping, self._secret[_SIGNING:])

    @property
    def _key(self) -> LocalObject:
        return LocalObject(str(self.folder / "key"), _FLAG)

    def _open(self, plan: str) -> None:
        """Go on with what stands there, or begin where nothing does."""
        if not (self.folder / "stream.sqlite").exists():
            if any(self.folder.glob("batch-*")):  # of a journal that is lost
                require_known(f"{_FLAG}: {self.folder}", None, _VERSION, _WHY)
            # Of this stream alone, so that its digests match those of no other.
            self._secret = SecureRandom().words(4).tobytes()
            self._key.swap(self._secret, self._key.fetch()[1])
            self._journal.begin(plan)
        self._read()
        if self._facts.account != plan:
            raise RequestError(
                f"{_FLAG}: {self.folder} is of another plan, or of one with other windows, or "
                "of a hushbeam that resolves the plan to other mechanisms; let the old stream end "
                "first, as it was (--drain), and name a new folder"
            )

    def _read(self) -> None:
        self._secret = self._key.fetch()[0]
        self._facts = self._journal.read()
