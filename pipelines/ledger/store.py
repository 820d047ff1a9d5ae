"""Where a ledger is kept: a list of changes that grows one at a time, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pipelines.errors import RequestError
from pipelines.ledger.chain import Link
from pipelines.ledger.entries import Beginning, Entry, Population, Record, decoded, read


@dataclass(frozen=True)
class Snapshot:
    """A ledger at one moment.

    Attributes:
        revision: of the store. Later ones are larger.
        text: its beginning, as it was written.
        beginning: what that says.
        links: its changes, in their order.
        head: of the last change, or of the beginning.
        written: by id, what entries and populations have come to, as it was written.
        records: the same, as they now stand, in the order in which they were begun.
    """

    revision: int
    text: str
    beginning: Beginning
    links: tuple[Link, ...]
    head: str
    written: Mapping[str, str]
    records: tuple[Record, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Of releases."""
        return tuple(record for record in self.records if isinstance(record, Entry))

    @property
    def populations(self) -> dict[str, Population]:
        """By name."""
        return {record.name: record for record in self.records if isinstance(record, Population)}

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

    def holds(self, record: Record, before: Snapshot) -> bool:
        """Whether a change has arrived since an earlier moment, even if others came after it."""
        link = Link.of(record.id, record.model_dump_json())
        return link in self.links[len(before.links) :]


def snapshot_of(
    where: str, revision: int, text: str, links: tuple[Link, ...], head: str,
    written: Mapping[str, str],
) -> Snapshot:  # fmt: skip
    """A ledger as a store found it.

    Raises:
        RequestError: something in it cannot be read.
    """
    records = tuple(decoded(id, text, where) for id, text in written.items())
    return Snapshot(revision, text, read(Beginning, text, where), links, head, written, records)


class Change(NamedTuple):
    """One change, as a store keeps it.

    Attributes:
        id: of what was changed.
        text: what it became, JSON.
        head: of the ledger after it.
    """

    id: str
    text: str
    head: str


class Written(NamedTuple):
    """A ledger to be put down whole.

    Attributes:
        text: its beginning.
        head: of that.
        changes: in their order.
    """

    text: str
    head: str
    changes: Sequence[Change] = ()


class EarlierLedger(NamedTuple):
    """A ledger that may be behind its witness, to be adopted.

    Attributes:
        revision: of the store.
        changes: (id, text) of each that is kept, in their order.
    """

    revision: int
    changes: Sequence[tuple[str, str]]


class Store(Protocol):
    """A place to keep a ledger. `write` is all that has to be atomic."""

    @property
    def where(self) -> str:
        """Its name, for messages."""

    def stands(self) -> bool:
        """Whether something is there."""

    def begin(self, ledger: Written, over: int | None = None) -> bool:
        """Put a ledger down.

        Args:
            ledger: with what it begins.
            over: the revision of the one that stands there, and is to be replaced; None for none.

        Returns:
            Whether it was put down; False if one stands there, or one of another revision.

        Raises:
            RequestError: it cannot be put there.
        """

    def read(self) -> Snapshot:
        """The ledger as it is now.

        Raises:
            RequestError: it is absent or damaged, or of another format, or may not be read.
            FailedError: the store does not answer.
        """

    def earlier(self) -> EarlierLedger:
        """The ledger as it is now, whatever its witness says.

        Raises:
            RequestError: it is absent or damaged, or of another format.
        """

    def write(self, record: Record, snapshot: Snapshot, head: str) -> bool:
        """Add an entry or a change of one, if nothing else has changed.

        Args:
            record: replaces the one of the same id.
            snapshot: on which the decision to write it was taken.
            head: of the ledger with it.

        Returns:
            Whether it is written, durably; False if somebody else was faster.

        Raises:
            FailedError: the store does not answer; whether the entry arrived may be unknown.
        """
