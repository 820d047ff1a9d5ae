"""Reserve before reading, commit with the release, give back on failure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pipelines.errors import FailedError, OutOfSightError, RequestError
from pipelines.ledger.book import Book
from pipelines.ledger.entries import Entry
from pipelines.ledger.listing import Entries
from pipelines.ledger.outcomes import (
    after_failure,
    after_publishing,
    archived,
    committed,
    in_progress,
    publication,
    require_there,
    resumable,
    settled,
)
from pipelines.ledger.owner import began, ended, is_lost, is_ours
from pipelines.ledger.reservation import Reservation, begun, caution, resumed
from pipelines.ledger.rules import (
    InProgressError,
    Spend,
    require_affordable,
    require_continuing,
    require_declared,
)  # fmt: skip
from pipelines.ledger.snapshot import Snapshot
from pipelines.storage.alive import alive


@dataclass(frozen=True)
class CollectionLedger(Book):
    """The account of every collection that names it."""

    def published(self, fingerprint: str, window: str) -> Entry | None:
        """The release of a window that was made before, if there is one.

        A run that published and died before it could commit is committed here.
        """
        return self._published(runs_of(self.read().entries, fingerprint, window))

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
            with alive(reservation.sign):
                yield reservation
        except OutOfSightError:
            reservation.hand_over()
            raise
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

    def archive(self, id: str) -> Entry:
        """Say that a release was moved, or has expired.

        Raises:
            RequestError: there is no such release, or it stands.
        """
        return self.change(id, archived)

    def keep(self, id: str) -> Entry:
        """Who makes a release keeps what it is made of: no failure gives the price back."""
        return self.change(id, lambda _: {"irrevocable": True})

    def _reserve(self, request: Spend) -> Reservation:
        """Decide on what the ledger holds; if it changed meanwhile, decide again."""
        entry = begun(request, self.word)
        began(entry)  # before others of this process can see it, and take it for lost
        try:
            reservation = self._decided(request, entry)
        except BaseException as error:
            ended(entry)
            if not isinstance(error, Exception):  # interrupted, perhaps once it was written
                with contextlib.suppress(RequestError, FailedError):
                    self.change(entry.id, after_failure)
            raise
        if reservation.published or reservation.entry.id != entry.id:
            ended(entry)
        return reservation

    def _decided(self, request: Spend, entry: Entry) -> Reservation:
        # It opens files through Beam, which who shows a ledger need not wait for.
        from pipelines.releases.release import require_vacant

        vacant = False
        for _ in self.backoff.attempts():
            snapshot = self.read()
            account = snapshot.entries.of_people(request.people)
            earlier = self._earlier(request, account)
            if earlier is not None:
                return Reservation(self, earlier, published=True)
            # The ledger has changed by it, so what was just read is decided on no more.
            if self._tidied(request, account):
                continue
            require_continuing(request, snapshot.entries.where(collection=request.collection))
            require_declared(request, snapshot.populations, self.where)
            mine = paid(request, account, entry)
            if not vacant:
                require_vacant(request.output)
                # Once is enough: nobody but this run writes there, and a bucket is slow to list.
                vacant = True
            # What was paid counts already; it may read more than before, and meet other windows.
            require_affordable(request, account.without(mine.id if mine else None))
            # Written only on the revision that the decision was taken on: two rivals cannot both
            # fit into what is left.
            after = self.write(entry, snapshot) if mine is None else self._resume(mine, snapshot)
            if after is not None:
                return Reservation(self, mine or entry, published=False, after=after)
        raise FailedError(self.crowded)

    def _resume(self, mine: Entry, snapshot: Snapshot) -> Snapshot | None:
        """Go on with an entry; at work on it from before others can see it, unless it fails."""
        began(mine)
        after = None
        try:
            after = self.write(mine, snapshot)
        finally:
            if after is None:
                ended(mine)
        return after

    def _earlier(self, request: Spend, account: Entries) -> Entry | None:
        """The same release, if it was made before."""
        runs = runs_of(account, request.fingerprint, request.window)
        made = self._published(runs)
        if made is not None:
            return made
        for entry in runs:
            if entry.state == "reserved" and (entry.handed_over or not is_lost(entry)):
                raise InProgressError(in_progress(entry))
        return None

    def _tidied(self, request: Spend, account: Entries) -> bool:
        """End what needs nobody to be asked; whether there was something.

        Failed runs of this process have left a reservation if the ledger was out of reach then.
        They publish no more, so their folders tell. Of others that are lost, some have published.
        """
        mine = runs_of(account, request.fingerprint, request.window)
        open_ones = account.where(state="reserved")
        left = [entry for entry in open_ones if entry in mine and is_ours(entry)]
        lost = [entry for entry in open_ones if entry not in mine and is_lost(entry)]
        ended = [self.change(entry.id, after_failure) for entry in left]
        ended += [self.change(entry.id, after_publishing) for entry in lost]
        return any(entry.state != "reserved" for entry in ended)

    def _published(self, runs: Sequence[Entry]) -> Entry | None:
        """That one of several runs of a window which has published.

        The folder is believed before the ledger: a run that was given up, or settled, may have
        gone on elsewhere and published after all. Then it counts again.
        """
        made = next((entry for entry in runs if entry.state == "committed"), None)
        if made is not None:
            require_there(made)
        for entry in runs if made is None else ():
            if publication(entry) == "this release":
                if not entry.counted:
                    caution(f"entry {entry.id} was {entry.state!r}, and has published: it counts")
                return self.change(entry.id, committed)
        return made


def runs_of(entries: Entries, fingerprint: str, window: str) -> list[Entry]:
    """The entries about one window of one plan."""
    return [*entries.where(fingerprint=fingerprint, window=window)]


def paid(request: Spend, account: Entries, again: Entry) -> Entry | None:
    """A release that has been paid for and came to nothing, in the hands of who tries it again.

    Args:
        request: what somebody wants to make.
        account: the entries of its collection.
        again: the entry that it would have if it had to be paid for.

    Returns:
        The entry to go on with; None if there is none for these losses of this design.

    Raises:
        RequestError: the run before may still publish, in another folder.
    """
    for entry in runs_of(account, request.fingerprint, request.window):
        # Another design or price is another release, for which nothing has been paid.
        same = (entry.losses, entry.design) == (again.losses, again.design)
        if not (same and resumable(entry)):
            continue
        # In one folder only one attempt can publish; in two, the one before might after all.
        if entry.state == "reserved" and not is_ours(entry) and entry.output != again.output:
            raise RequestError(
                f"--output: a run of window {entry.window} that is lost was to publish in "
                f"{entry.output}: name that folder, or end it: `hushbeam ledger settle {entry.id}`"
            )
        return resumed(entry, again)
    return None
