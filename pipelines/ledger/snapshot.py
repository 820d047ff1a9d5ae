"""What a ledger's journal has come to, as entries, populations and a beginning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from pydantic import ValidationError

from pipelines.errors import RequestError
from pipelines.journal.checkpoint import Fact
from pipelines.journal.journal import JournalFormat, JournalState
from pipelines.ledger.entries import Beginning, Entry, Population, Record
from pipelines.ledger.witness import Seen

_WHY = "a new one would forget what was spent"
_VERSION = 8  # of ledgers; no other is read. 8: checkpoints name chunks of columns.
_Kind = TypeVar("_Kind", Beginning, Entry, Population)


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
        (*_, last) = self._all(Beginning)
        return last

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Of releases, in the order in which they were begun."""
        return self._all(Entry)

    @cached_property
    def populations(self) -> dict[str, Population]:
        """By name."""
        return {one.name: one for one in self._all(Population)}

    def entry(self, id: str) -> Entry | None:
        """The entry of that id, if there is one."""
        return next((entry for entry in self.entries if entry.id == id), None)

    def named(self, id: str) -> Entry:
        """The entry whose id begins so.

        Args:
            id: or the beginning of one.

        Raises:
            RequestError: none or several begin so.
        """
        entries = [entry for entry in self.entries if id and entry.id.startswith(id)]
        if len(entries) != 1:
            raise RequestError(
                f"{len(entries) or 'no'} entries of {self.where} begin with {id!r}; "
                "`hushbeam ledger show` lists them"
            )
        return entries[0]

    def _all(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        try:
            return tuple(kind.model_validate(row) for row in self.state.rows(kind.table).values())
        except ValidationError as error:
            field = ".".join(map(str, error.errors(include_url=False)[0]["loc"])) or "all"
            what = f"field {field} of an {kind.__name__.lower()}"
            raise ledger_format(self.where).damaged(what) from None


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
