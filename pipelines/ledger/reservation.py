"""The right to make one release, from before the data is read until it is published or given up."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pipelines.errors import Caution, FailedError, RequestError
from pipelines.ledger.entries import Entry
from pipelines.ledger.outcomes import after_failure, committed, publication
from pipelines.ledger.owner import ended, is_ours, may_run, this_process
from pipelines.ledger.public_log import shown
from pipelines.ledger.rules import Spend
from pipelines.ledger.snapshot import Snapshot

if TYPE_CHECKING:
    from pipelines.ledger.book import Book


class OvertakenError(FailedError):
    """A later attempt makes the release."""


class Reservation:
    """The right to make one release, or the release if it has been made before.

    Attributes:
        entry: as the ledger holds it.
        published: whether the release was made by an earlier run. Nothing may then be read or
            randomised: it stands in `entry.output`.
    """

    def __init__(
        self, ledger: Book, entry: Entry, published: bool, after: Snapshot | None = None
    ) -> None:
        self._ledger, self._ended, self._after = ledger, published, after
        self.entry, self.published, self._attempt = entry, published, entry.attempt

    @property
    def stamp(self) -> dict[str, Any]:
        """What the release's statement must say: a rerun finds it by that, and an older copy of the
        ledger is found out by it; who has the public log finds the price there."""
        entry, paid = self.entry, None
        if self._after is not None:
            seen = self._after.seen
            paid = {
                "id": seen.ledger, "changes": seen.changes, "head": seen.head,
                "entry": entry.id, "attempt": entry.attempt, "population": entry.people,
                "opened": shown(self._after.state.segment.leaves[-1]),
            }  # fmt: skip
        return {"release_id": entry.release_id, "ledger": paid}

    def keep(self) -> None:
        """Who makes the release keeps what it is made of: no failure gives the price back."""
        self._change(lambda _: {"irrevocable": True})

    def sign(self) -> None:
        """Say that the run goes on."""
        self._change(lambda entry: {} if entry.state == "reserved" else None)

    def commit(self) -> None:
        """Record that the release is out. It counts from then on, whatever was settled before.

        Raises:
            FailedError: the ledger does not answer, and the reservation stays and counts; or a
                later attempt has overtaken this one.
        """
        self._end()
        if self._ledger.entry(self.entry.id).state not in ("reserved", "committed"):
            caution(f"entry {self.entry.id} of the ledger had been settled; it counts again")
        # A release that is out has been seen, so it counts, whatever somebody had settled
        # meanwhile.
        self._change(committed, published=True)

    def spend(self) -> None:
        """What is made of it leaves no folder by which anybody could tell: it counts, and ends.

        The same release may be made again for it.
        """
        self._end()
        self._change(lambda _: {"state": "spent", "irrevocable": True})

    def hand_over(self) -> None:
        """The run goes on elsewhere: the reservation stays when this process leaves."""
        self._end()
        self._change(lambda _: {"handed_over": True})

    def close(self) -> None:
        """Give the budget back unless something was published; in doubt it stays reserved."""
        if self._ended:
            return
        self._end()
        try:
            self._change(after_failure)
        except OvertakenError:
            return  # it is for the later attempt to say what became of the release
        except (RequestError, FailedError) as error:
            caution(f"{error}; entry {self.entry.id} stays reserved and counts as spent")
        if self.entry.state == "spent" and self.entry.irrevocable:
            caution(
                f"entry {self.entry.id} of the ledger counts as spent, for {self.entry.kept}; to "
                "make it again costs nothing more"
            )
        if self.entry.state == "reserved":
            caution(
                f"entry {self.entry.id} of the ledger stays reserved and counts as spent; "
                f"`hushbeam ledger settle {self.entry.id}` ends it once {self.entry.output} "
                "has been looked at"
            )

    def _change(
        self, facts: Callable[[Entry], dict[str, Any] | None], published: bool = False
    ) -> None:
        """Change the entry, unless a later attempt has it, and nothing was published."""
        mine = self._attempt

        def reserved(entry: Entry) -> dict[str, Any] | None:
            # What stands was seen, whoever has published it.
            if entry.attempt != mine and not (published and publication(entry) == "this release"):
                raise OvertakenError(
                    f"attempt {mine} of window {entry.window} was taken for lost, and attempt "
                    f"{entry.attempt} has overtaken it: the release is that one's to make"
                )
            return facts(entry)

        self.entry = self._ledger.change(self.entry.id, reserved)

    def _end(self) -> None:
        """This process is no longer at work on it."""
        if not self._ended:
            ended(self.entry)
        self._ended = True


def caution(line: str) -> None:
    """Say something that ends nothing."""
    warnings.warn(line, Caution, stacklevel=3)


def begun(request: Spend, word: Callable[[], str]) -> Entry:
    """The entry of a release that this process is about to make.

    Args:
        request: what is to be spent.
        word: draws 16 hexadecimal digits.
    """
    return Entry(
        id=word(), collection=request.collection, version=request.version,
        fingerprint=request.fingerprint, window=request.window, scope=request.scope,
        metrics=request.metrics, losses=request.records, budget=request.budget,
        output=request.output, release_id=word() + word(), state="reserved",
        owner=this_process(), reserved_at=now(), changed_at=now(), operations=(word(),),
        span=request.span, design=request.design, files=request.files, noise=request.noise,
        population=request.population, attempt=1,
    )  # fmt: skip


def resumed(paid: Entry, again: Entry) -> Entry:
    """A release that came to nothing and was paid for, in the hands of who tries it again.

    Args:
        paid: its entry.
        again: the entry that it would have if it had to be paid for.
    """
    # What it reads may have changed meanwhile; of what the attempt before has read, nothing is out.
    fresh = (
        "state", "handed_over", "owner", "output", "reserved_at", "changed_at", "archived", "span",
        "files",
    )  # fmt: skip
    update = {name: getattr(again, name) for name in fresh}
    # Who is gone publishes no more; who was silent may.
    doubt = paid.in_doubt or (
        paid.state == "reserved" and may_run(paid.owner) and not is_ours(paid)
    )
    more = {
        "operations": paid.operations + again.operations, "attempt": paid.attempt + 1,
        "in_doubt": doubt,
    }  # fmt: skip
    return paid.model_copy(update=update | more)


def now() -> str:
    """The time, as entries have it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
