"""A stream's journal: facts, files, windows, notes and counters, changed whole or not at all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mechanisms.randomness import SecureRandom
from pipelines.errors import Caution, RequestError, reason
from pipelines.journal.bulk import noted, put_down
from pipelines.journal.checkpoint import Fact, Rows
from pipelines.journal.journal import FactJournal, JournalFormat, JournalState
from pipelines.journal.sqlite_keeping import SqliteKeeping
from pipelines.storage.formats import require_known
from pipelines.storage.local_object import LocalObject
from pipelines.stream.folder import locked

if TYPE_CHECKING:
    from typing_extensions import Self

_VERSION = 3
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
