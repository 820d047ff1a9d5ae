"""What a ledger's journal has come to, as entries, populations and a beginning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from pipelines.journal.checkpoint import Fact
from pipelines.journal.journal import JournalFormat, JournalState
from pipelines.ledger.entries import Beginning, Entry, Population, Record
from pipelines.ledger.listing import Entries, one_of, validated
from pipelines.ledger.witness import Seen

_WHY = "a new one would forget what was spent"
_VERSION = 8  # of ledgers; no other is read. 8: checkpoints name chunks of columns.
_Kind = TypeVar("_Kind", Beginning, Population)


@dataclass(frozen=True)
class Snapshot:
    """A ledger at one moment.

    Attributes:
        state: of its journal.
        where: its path, for messages.
    """

    state: JournalState
    where: str

    @property
    def seen(self) -> Seen:
        """What others than itself know of it."""
        end = self.state.segment
        return Seen(ledger=self.state.account, changes=end.last, head=end.head)

    @cached_property
    def beginning(self) -> Beginning:
        """What it was begun with, or adopted with."""
        known = self._all(Beginning)
        if not known:
            raise ledger_format(self.where).damaged("it says of nothing how it was begun")
        return known[-1]

    @cached_property
    def entries(self) -> Entries:
        """Of releases, in the order in which they were begun."""
        return Entries.all(self.state.rows(Entry.table), ledger_format(self.where))

    @cached_property
    def populations(self) -> dict[str, Population]:
        """By name."""
        return {one.name: one for one in self._all(Population)}

    def entry(self, id: str) -> Entry | None:
        """The entry of that id, if there is one."""
        row = self.state.rows(Entry.table).get(id)
        return None if row is None else validated(Entry, row, ledger_format(self.where))

    def named(self, id: str) -> Entry:
        """The entry whose id begins so.

        Args:
            id: or the beginning of one.

        Raises:
            RequestError: none or several begin so.
        """
        return self.entry(id) or one_of(self.entries, id, self.where)

    def _all(self, kind: type[_Kind]) -> list[_Kind]:
        form = ledger_format(self.where)
        return [validated(kind, row, form) for row in self.state.rows(kind.table).rows()]


def fact_of(record: Record | Beginning) -> Fact:
    """What a journal notes of a change."""
    return Fact(record.table, record.id, record.model_dump(mode="json"))


def ledger_format(path: str) -> JournalFormat:
    """How the journal of a ledger at a path speaks of itself."""
    absent = (
        f"--ledger: there is no {path}: `hushbeam ledger init PLAN` begins one; if there was one, "
        f"restore it from a copy ({_WHY})"
    )
    return JournalFormat("ledger", _VERSION, f"--ledger: {path}", _WHY, absent)
