"""Reserve before reading, commit with the release, give back on failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mechanisms.randomness import RandomSource, SecureRandom
from pipelines.errors import FailedError, RequestError
from pipelines.ledger.backoff import Backoff
from pipelines.ledger.bucket_store import BucketStore
from pipelines.ledger.entries import Entry
from pipelines.ledger.google_object import GoogleObject
from pipelines.ledger.outcomes import after_failure, in_progress, settled
from pipelines.ledger.owner import began, ended, is_lost, is_ours
from pipelines.ledger.publication import committed, publication
from pipelines.ledger.reservation import Reservation, begun, caution, now
from pipelines.ledger.rules import InProgressError, Spend, require_affordable, require_continuing
from pipelines.ledger.runs import paid, runs_of
from pipelines.ledger.sqlite_store import SqliteStore
from pipelines.ledger.store import Store


@dataclass(frozen=True)
class Ledger:
    """The account of every collection that names it.

    Attributes:
        store: where it is kept.
        rng: draws ids and pauses.
        backoff: how long to go on when others are faster.
    """

    store: Store
    rng: RandomSource
    backoff: Backoff

    @classmethod
    def open(
        cls,
        path: str,
        open_rng: Callable[[], RandomSource] = SecureRandom,
        begin: bool = True,
        timeout: float = 60.0,
    ) -> Ledger:
        """The ledger at a path.

        Args:
            path: a local file, or gs://bucket/object.
            open_rng: opens the generator of ids and pauses; a seeded one is for tests.
            begin: whether to make an empty one if there is none.
            timeout: seconds until a locked file or a silent bucket is given up.

        Raises:
            RequestError: it is damaged, of a newer version, absent, or not to be reached.
            FailedError: it is locked or does not answer.
        """
        rng = open_rng()
        backoff = Backoff(rng, timeout)
        store: SqliteStore | BucketStore
        if path.startswith("gs://"):
            store = BucketStore(GoogleObject(path), backoff)
        elif "://" in path:
            raise RequestError(f"--ledger: {path}: name a local file or gs://BUCKET/ledger.json")
        else:
            store = SqliteStore(path, timeout)
        if begin and store.begin():
            caution(f"a new ledger was begun: {path}; nothing counts as spent before now")
        store.read()
        return cls(store, rng, backoff)

    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the order in which they were begun."""
        return self.store.read().entries

    def entry(self, id: str) -> Entry:
        """One entry.

        Args:
            id: or the beginning of one.

        Raises:
            RequestError: none or several begin so.
        """
        return self.store.read().named(id, self.store.where)

    def published(self, fingerprint: str, window: str) -> Entry | None:
        """The release of a window that was made before, if there is one.

        A run that published and died before it could commit is committed here.

        Args:
            fingerprint: of the plan.
            window: of the release.
        """
        return self._published(runs_of(self.entries(), fingerprint, window))

    @contextmanager
    def spend(self, request: Spend) -> Iterator[Reservation]:
        """Reserve the price of a release; nothing may be read before.

        Args:
            request: the release and its price.

        Yields:
            The reservation. Leaving without `commit` or `hand_over` gives the budget back, unless
            something was published, or kept (`keep`): then the same release can be tried again.

        Raises:
            BudgetExceeded: it does not fit; says what would.
            InProgressError: another process makes this very release.
            RequestError: the plan does not continue the collection's account, or the output
                folder is not vacant.
        """
        reservation = self._reserve(request)
        try:
            yield reservation
        finally:
            reservation.close()

    def settle(self, id: str, spent: bool) -> Entry:
        """End a reservation whose run was lost.

        Args:
            id: of the entry, or its beginning.
            spent: whether it is to count. A release that stands in its folder always does.

        Returns:
            The entry as it is now.

        Raises:
            RequestError: there is no such reservation, or its release contradicts.
            InProgressError: its run is still going on.
        """
        return self.change(id, lambda entry: settled(entry, spent))

    def keep(self, id: str) -> Entry:
        """Who makes a release keeps what it is made of: no failure gives the price back."""
        return self.change(id, lambda _: {"irrevocable": True})

    def change(self, id: str, facts: Callable[[Entry], dict[str, Any] | None]) -> Entry:
        """Change one entry, whatever others do to the ledger meanwhile.

        Args:
            id: of the entry, or its beginning.
            facts: the entry as it is -> the fields to change, or None for none.

        Raises:
            FailedError: the ledger does not answer, or others were always faster.
        """
        word = self._word()
        for _ in self.backoff.attempts():
            snapshot = self.store.read()
            entry = snapshot.named(id, self.store.where)
            changed = facts(entry)
            if changed is None:
                return entry
            new = entry.model_copy(
                update={**changed, "changed_at": now(), "operations": (*entry.operations, word)}
            )
            if self.store.write(new, snapshot.revision):
                return new
        raise FailedError(self._crowded)

    def _reserve(self, request: Spend) -> Reservation:
        """Decide on what the ledger holds; if it changed meanwhile, decide again."""
        entry = begun(request, self._word)
        began(entry)  # before others of this process can see it, and take it for lost
        try:
            reservation = self._decided(request, entry)
        except BaseException:
            ended(entry)
            raise
        if reservation.published or reservation.entry.id != entry.id:
            ended(entry)
        return reservation

    def _decided(self, request: Spend, entry: Entry) -> Reservation:
        # It opens files through Beam, which who shows a ledger need not wait for.
        from pipelines.release import require_vacant

        vacant = False
        for _ in self.backoff.attempts():
            snapshot = self.store.read()
            account = [e for e in snapshot.entries if e.people == request.people]
            earlier = self._earlier(request, account)
            if earlier is not None:
                return Reservation(self, earlier, published=True)
            # The ledger has changed by it, so what was just read is decided on no more.
            if self._tidied(request, account):
                continue
            others = [e for e in snapshot.entries if e.collection == request.collection]
            require_continuing(request, [*account, *(e for e in others if e not in account)])
            if not vacant:
                require_vacant(request.output)
                # Once is enough: nobody but this run writes there, and a bucket is slow to list.
                vacant = True
            mine = paid(request, account, entry)
            if mine is None:
                require_affordable(request, account)
            else:
                began(mine)
            # Written only on the revision that the decision was taken on: two rivals cannot both
            # fit into what is left.
            if self.store.write(mine or entry, snapshot.revision):
                return Reservation(self, mine or entry, published=False)
        raise FailedError(self._crowded)

    def _earlier(self, request: Spend, account: list[Entry]) -> Entry | None:
        """The same release, if it was made before.

        A lost run of it that published nothing is passed over: it goes on to count as spent, for
        its reports may have been seen, until an operator knows better.
        """
        runs = runs_of(account, request.fingerprint, request.window)
        made = self._published(runs)
        if made is not None:
            return made
        for entry in runs:
            if entry.state == "reserved" and (entry.handed_over or not is_lost(entry)):
                raise InProgressError(in_progress(entry))
        return None

    def _tidied(self, request: Spend, account: list[Entry]) -> bool:
        """Give back what failed runs of this process left in a ledger that was out of reach then.

        They publish no more, so their folders tell. Whether there was something.
        """
        runs = runs_of(account, request.fingerprint, request.window)
        left = [entry for entry in runs if entry.state == "reserved" and is_ours(entry)]
        return any(self.change(e.id, after_failure).state != "reserved" for e in left)

    def _published(self, runs: Sequence[Entry]) -> Entry | None:
        """That one of several runs of a window which has published.

        The folder is believed before the ledger: a run that was given up, or settled, may have
        gone on elsewhere and published after all. Then it counts again.
        """
        made = next((entry for entry in runs if entry.state == "committed"), None)
        for entry in runs if made is None else ():
            if publication(entry) == "this release":
                if not entry.counted:
                    caution(f"entry {entry.id} was {entry.state!r}, and has published: it counts")
                return self.change(entry.id, committed)
        return made

    def _word(self) -> str:
        return f"{int(self.rng.words(1)[0]):016x}"

    @property
    def _crowded(self) -> str:
        return (
            f"the ledger {self.store.where} was changed by others at every attempt for "
            f"{self.backoff.seconds:g} s; try again"
        )
