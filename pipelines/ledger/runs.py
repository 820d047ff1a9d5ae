"""The runs that one release has had: those that failed, and the one that has been paid for."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.ledger.entries import Entry
from pipelines.ledger.outcomes import resumable
from pipelines.ledger.reservation import resumed
from pipelines.ledger.rules import Spend


def runs_of(entries: Iterable[Entry], fingerprint: str, window: str) -> list[Entry]:
    """The entries about one window of one plan."""
    return [e for e in entries if (e.fingerprint, e.window) == (fingerprint, window)]


def paid(request: Spend, account: Iterable[Entry], again: Entry) -> Entry | None:
    """A release that has been paid for and came to nothing, in the hands of who tries it again.

    Args:
        request: what somebody wants to make.
        account: the entries of its collection.
        again: the entry that it would have if it had to be paid for.

    Returns:
        The entry to go on with; None if there is none for these losses of this design.
    """
    for entry in runs_of(account, request.fingerprint, request.window):
        # Another design or price is another release, for which nothing has been paid.
        same = (entry.losses, entry.design) == (again.losses, again.design)
        if same and resumable(entry):
            return resumed(entry, again)
    return None
