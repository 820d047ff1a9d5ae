"""Where a ledger is kept: a list of entries that changes one at a time, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pipelines.errors import RequestError
from pipelines.ledger.entries import Entry


@dataclass(frozen=True)
class Snapshot:
    """A ledger at one moment.

    Attributes:
        revision: of the store; 0 before the first entry. Later ones are larger.
        entries: as they now stand, in the order in which they were begun.
    """

    revision: int
    entries: tuple[Entry, ...]

    def entry(self, id: str) -> Entry | None:
        """The entry of that id, if there is one."""
        return next((entry for entry in self.entries if entry.id == id), None)

    def named(self, id: str, where: str) -> Entry:
        """The entry whose id begins so.

        Args:
            id: or the beginning of one.
            where: the ledger's name.

        Raises:
            RequestError: none or several begin so.
        """
        entries = [entry for entry in self.entries if id and entry.id.startswith(id)]
        if len(entries) != 1:
            raise RequestError(
                f"{len(entries) or 'no'} entries of {where} begin with {id!r}; "
                "`hushbeam ledger show` lists them"
            )
        return entries[0]

    def holds(self, entry: Entry) -> bool:
        """Whether this very change of an entry has arrived, even if others came after it."""
        now = self.entry(entry.id)
        # Its random word stays in the entry through all later changes.
        return now is not None and entry.operations[-1] in now.operations


class Store(Protocol):
    """A place to keep a ledger. `write` is all that has to be atomic."""

    @property
    def where(self) -> str:
        """Its name, for messages."""

    def read(self) -> Snapshot:
        """The ledger as it is now.

        Raises:
            RequestError: it is damaged, or of a newer version, or may not be read.
            FailedError: the store does not answer.
        """

    def write(self, entry: Entry, revision: int) -> bool:
        """Add an entry or a change of one, if nothing else has changed.

        Args:
            entry: replaces the one of the same id.
            revision: of the snapshot that the decision to write it was taken on.

        Returns:
            Whether it is written, durably; False if somebody else was faster.

        Raises:
            FailedError: the store does not answer; whether the entry arrived may be unknown.
        """
