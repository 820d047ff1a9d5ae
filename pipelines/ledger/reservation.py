"""The right to make one release, from before the data is read until it is published or given up."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, Protocol

from pipelines.errors import Caution, FailedError, RequestError
from pipelines.ledger.entries import Entry
from pipelines.ledger.outcomes import after_failure
from pipelines.ledger.owner import ended, this_process
from pipelines.ledger.publication import committed
from pipelines.ledger.rules import Spend


class Account(Protocol):
    """What a reservation needs of its ledger."""

    def entry(self, id: str) -> Entry:
        """The entry as it now is."""

    def change(self, id: str, facts: Callable[[Entry], dict[str, Any] | None]) -> Entry:
        """Change some of its fields."""


class Reservation:
    """The right to make one release, or the release if it has been made before.

    Attributes:
        entry: as the ledger holds it.
        published: whether the release was made by an earlier run. Nothing may then be read or
            randomised: it stands in `entry.output`.
    """

    def __init__(self, ledger: Account, entry: Entry, published: bool) -> None:
        self._ledger, self._ended = ledger, published
        self.entry, self.published = entry, published

    @property
    def release_id(self) -> str:
        """What the release's statement must carry as "release_id": a rerun finds it by that."""
        return self.entry.release_id

    def require_held(self) -> None:
        """Call this last before publishing: an operator may have settled what seemed dead.

        Raises:
            FailedError: the reservation is no longer there to be used.
        """
        now = self._ledger.entry(self.entry.id)
        if now.state != "reserved":
            self._end()
            raise FailedError(
                f"entry {now.id} of the ledger was settled as {now.state!r} while this run went "
                "on; nothing was published: run again"
            )

    def commit(self, release_folder: str, release_id: str) -> None:
        """Record that the release is out. It counts from then on, whatever was settled before.

        Args:
            release_folder: where it stands.
            release_id: in its statement.

        Raises:
            FailedError: the ledger does not answer; the reservation stays and counts.
        """
        self._end()
        place = {"output": release_folder, "release_id": release_id}
        if self._ledger.entry(self.entry.id).state not in ("reserved", "committed"):
            caution(f"entry {self.entry.id} of the ledger had been settled; it counts again")
        # A release that is out has been seen, so it counts, whatever somebody had settled
        # meanwhile.
        self.entry = self._ledger.change(
            self.entry.id, lambda entry: place | committed(entry.model_copy(update=place))
        )

    def hand_over(self) -> None:
        """The run goes on elsewhere: the reservation stays when this process leaves."""
        self._end()
        self.entry = self._ledger.change(self.entry.id, lambda _: {"handed_over": True})

    def close(self) -> None:
        """Give the budget back unless something was published; in doubt it stays reserved."""
        if self._ended:
            return
        self._end()
        try:
            self.entry = self._ledger.change(self.entry.id, after_failure)
        except (RequestError, FailedError) as error:
            caution(f"{error}; entry {self.entry.id} stays reserved and counts as spent")
        if self.entry.state == "spent" and self.entry.irrevocable:
            caution(
                f"entry {self.entry.id} of the ledger counts as spent, for the collector has the "
                "reports; to collect them again costs nothing more"
            )
        if self.entry.state == "reserved":
            caution(
                f"entry {self.entry.id} of the ledger stays reserved and counts as spent; "
                f"`hushbeam ledger settle {self.entry.id}` ends it once {self.entry.output} "
                "has been looked at"
            )

    def _end(self) -> None:
        """This process is no longer at work on it."""
        self._ended = True
        ended(self.entry)


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
        population=request.population,
    )  # fmt: skip


def resumed(paid: Entry, again: Entry) -> Entry:
    """A release that came to nothing and was paid for, in the hands of who tries it again.

    Args:
        paid: its entry.
        again: the entry that it would have if it had to be paid for.
    """
    fresh = ("state", "handed_over", "owner", "output", "release_id", "reserved_at", "changed_at")
    update = {name: getattr(again, name) for name in fresh}
    return paid.model_copy(update=update | {"operations": paid.operations + again.operations})


def now() -> str:
    """The time, as entries have it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
