"""The runs that one release has had: those that failed, and the one that has been paid for."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.errors import RequestError
from pipelines.ledger.entries import Entry
from pipelines.ledger.outcomes import resumable
from pipelines.ledger.owner import is_ours
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
