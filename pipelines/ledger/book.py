"""A ledger as a book: opened if it is the newest, read if it is whole, and only added to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from mechanisms.randomness import RandomSource, SecureRandom
from pipelines.errors import FailedError, RequestError
from pipelines.journal.journal import FactJournal, Keeping, RivalError
from pipelines.journal.object_keeping import ObjectKeeping
from pipelines.journal.sqlite_keeping import SqliteKeeping
from pipelines.ledger.entries import Entry, Record
from pipelines.ledger.evidence import (
    Standing,
    require_own,
    require_released,
    require_witnessed,
    standing,
)
from pipelines.ledger.key import key
from pipelines.ledger.outcomes import committed
from pipelines.ledger.public_log import LogHead, extended, hash_of
from pipelines.ledger.reservation import caution, now
from pipelines.ledger.snapshot import Snapshot, fact_of, ledger_format
from pipelines.ledger.witness import Seen, witness_at
from pipelines.releases.signature import Keys
from pipelines.storage.backoff import Backoff
from pipelines.storage.google_object import GoogleObject

Own = TypeVar("Own", bound="Book")


@dataclass(frozen=True)
class Book:
    """What is kept, whatever is decided on it.

    Attributes:
        where: its path.
        keeping: of its journal.
        rng: draws ids, salt and pauses.
        backoff: how long to go on when others are faster.
    """

    where: str
    keeping: Keeping
    rng: RandomSource
    backoff: Backoff

    @classmethod
    def open(
        cls: type[Own],
        path: str,
        releases: Sequence[str] = (),
        collection: str | None = None,
        open_rng: Callable[[], RandomSource] = SecureRandom,
        timeout: float = 60.0,
    ) -> Own:
        """The ledger at a path, if it is the newest that anybody knows of.

        Args:
            path: a local file, or gs://bucket/object.
            releases: patterns of folders; what stands there must be in the ledger.
            collection: that is about to spend.
            open_rng: opens the generator of ids and pauses; a seeded one is for tests.
            timeout: seconds until a locked file or a silent bucket is given up.

        Raises:
            RequestError: it is absent, damaged, of another version, an older copy, or not to be
                reached; or its key or its witness is not there.
            FailedError: it is locked or does not answer.
        """
        ledger = cls.at(path, open_rng, timeout)
        ledger.require_newest(standing(releases), collection)
        return ledger

    @classmethod
    def at(
        cls: type[Own],
        path: str,
        open_rng: Callable[[], RandomSource] = SecureRandom,
        timeout: float = 60.0,
    ) -> Own:
        """The same, believed: for workers, who have no key, and for who begins one."""
        rng = open_rng()
        backoff = Backoff(rng, timeout)
        keeping: Keeping
        if path.startswith("gs://"):
            keeping = ObjectKeeping(GoogleObject(path), ledger_format(path), backoff)
        elif "://" in path:
            raise RequestError(f"--ledger: {path}: name a local file or gs://BUCKET/ledger.json")
        else:
            keeping = SqliteKeeping(path, ledger_format(path), timeout)
        return cls(path, keeping, rng, backoff)

    def require_newest(self, releases: Iterable[Standing], collection: str | None = None) -> None:
        """Hold it against its witness and releases; a witness that lags behind is told.

        Args:
            releases: that can be seen.
            collection: that is about to spend.

        Raises:
            RequestError: it is an older copy, or was rewritten, or there is no witness.
        """
        where = self.where
        # Looked at before the ledger is, which only grows: none may know more than it.
        place = self.unverified().beginning.witness
        witness = witness_at(place, self.backoff)
        seen, stand = witness.seen(), [*releases]
        snapshot = self.read()
        now = snapshot.seen
        known = (seen or now, *(release.seen for release in stand))
        counts = {one.changes for one in known if one.ledger == now.ledger}
        heads = self._journal.heads(snapshot.state, counts)
        # A ledger that was cut off while it was begun holds nothing yet, not even a budget.
        if seen is None and (snapshot.entries or snapshot.populations):
            raise RequestError(
                f"--ledger: the witness of {where} is not there: {place}: put it back; if it is "
                "lost, `hushbeam ledger adopt` tells what to do"
            )
        if seen is not None:
            if seen.ledger != now.ledger:
                raise RequestError(f"--witness: {place} is of another ledger than {where}")
            require_witnessed(heads, seen, f"its witness {place}", where)
        require_released(snapshot, heads, stand, collection)
        self._tell(place, now)
        self._count_again(snapshot, stand)

    def _count_again(self, snapshot: Snapshot, releases: Iterable[Standing]) -> None:
        """What stands was seen: its price counts, whatever became of the run that made it."""
        for release in releases:
            entry = snapshot.entry(release.entry)
            if entry is not None and not entry.counted:
                caution(f"entry {entry.id} was {entry.state!r}, and has published: it counts")
                self.change(entry.id, committed)

    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order in which they were begun."""
        return (*self.read().entries.stream(),)

    def entry(self, id: str) -> Entry:
        """One entry.

        Args:
            id: or the beginning of one.

        Raises:
            RequestError: none or several begin so.
        """
        return self.read().named(id)

    def change(self, id: str, facts: Callable[[Entry], dict[str, Any] | None]) -> Entry:
        """Change one entry, whatever others do to the ledger meanwhile.

        Args:
            id: of the entry, or its beginning.
            facts: the entry as it is -> the fields to change, or None for none.

        Raises:
            FailedError: the ledger does not answer, or others were always faster.
        """
        word = self.word()
        for _ in self.backoff.attempts():
            snapshot = self.read()
            entry = snapshot.named(id)
            changed = facts(entry)
            if changed is None:
                return entry
            new = entry.model_copy(
                update={**changed, "changed_at": now(), "operations": (*entry.operations, word)}
            )
            if self.write(new, snapshot):
                return new
        raise FailedError(self.crowded)

    def read(self) -> Snapshot:
        """The ledger as it is now, if it is as it was written."""
        snapshot = Snapshot(self._journal.unverified(), self.where)
        require_own(snapshot, self._key)
        self._journal.require_whole(snapshot.state)
        return snapshot

    def require_replayed(self) -> Snapshot:
        """The same, if all that was ever written comes to it, and each entry is one.

        Raises:
            RequestError: it is damaged, in whatever part.
        """
        snapshot = self.read()
        self._journal.require_replayed(snapshot.state)
        for _ in snapshot.entries.stream():
            pass
        return snapshot

    def unverified(self) -> Snapshot:
        """The same, believed."""
        return Snapshot(FactJournal(self.keeping).unverified(), self.where)

    def write(self, record: Record, snapshot: Snapshot) -> Snapshot | None:
        """Add a change, if nothing else has changed since a snapshot, and tell the witness.

        Returns:
            The ledger after it; None if others were faster.
        """
        try:
            state = self._journal.add(snapshot.state, [fact_of(record)])
        except RivalError:
            return None
        now = Snapshot(state, self.where)
        self._tell(snapshot.beginning.witness, now.seen)
        return now

    def publish_log(self, folder: str, before: Keys = ()) -> LogHead:
        """Write what witnesses mirror of it: see `public_log`.

        Args:
            folder: of this machine.
            before: keys that have signed earlier heads, where the present one is another.

        Raises:
            RequestError: the ledger is not whole, or does not go on from the log that stands there.
        """
        snapshot = self.read()
        after = min(snapshot.state.begun)
        leaves = map(hash_of, self._journal.leaves(snapshot.state))
        return extended(folder, snapshot.state.account, after, leaves, before)

    @cached_property
    def _journal(self) -> FactJournal:
        return FactJournal(self.keeping, self._key, self.rng)

    @cached_property
    def _key(self) -> bytes:
        return key()

    def _tell(self, place: str, now: Seen) -> None:
        """Let the witness know; one that lags behind is told by the next run."""
        try:
            witness_at(place, self.backoff).follow(now)
        except (RequestError, FailedError) as error:
            caution(f"{error}; until it is told, nobody would notice an older copy of the ledger")

    def word(self) -> str:
        """16 random hexadecimal digits."""
        return f"{int(self.rng.words(1)[0]):016x}"

    @property
    def crowded(self) -> str:
        """That others were always faster."""
        return (
            f"the ledger {self.where} was changed by others at every attempt for "
            f"{self.backoff.seconds:g} s; try again"
        )
