"""What becomes of a reservation, by the evidence and by an operator's word."""

from __future__ import annotations

import os
from typing import Any, Literal

from pipelines.errors import RequestError
from pipelines.ledger.entries import Entry
from pipelines.ledger.owner import is_lost, this_process
from pipelines.ledger.rules import InProgressError

Publication = Literal["this release", "something", "nothing"]


def committed(entry: Entry) -> dict[str, Any]:
    """What becomes of an entry whose release stands: it counts, for what was published.

    A metric that was withheld has no price: its window is never made again, so it never will be
    published. Where the collector has kept its reports, it was paid for, and so it was where its
    share of values that cannot be used is published, for that is a figure like others.
    """
    try:
        statement = _statement(entry)
    except (RequestError, OSError, ValueError):  # out of reach: in doubt all of it counts
        statement = {}
    missing = statement.get("missing", {})
    free = {
        name for name in statement.get("withheld", ()) if name in missing
        and "unusable" not in missing[name]
        and not (entry.irrevocable and missing[name]["reports"])
    }  # fmt: skip
    # A user answers one of a+b+c: it was paid for if any of them was published.
    kept = [k for k, names in enumerate(entry.metrics) if not free.issuperset(names.split("+"))]
    # Noise of all windows is paid for with the first, whichever shows it.
    if entry.noise != "fresh" or not kept or len(entry.metrics) != len(entry.losses):
        return {"state": "committed"}
    return {
        "state": "committed",
        "metrics": tuple(entry.metrics[k] for k in kept),
        "losses": tuple(entry.losses[k] for k in kept),
    }


def publication(entry: Entry) -> Publication:
    """Whether a run has published.

    Args:
        entry: its reservation.

    Returns:
        "this release" if the release that was reserved stands there whole; "something" if other
        files do, or if it cannot be told; "nothing" if the folder is vacant.
    """
    # It opens files through Beam, which takes a second to import: who shows a ledger need not wait.
    from pipelines.releases import release

    try:
        # Of a price that does not count nothing more is published.
        if entry.counted and release.completed(entry.output, entry.release_id):
            return "this release"
        if release.holds_release(entry.output):
            ours = _statement(entry).get("release_id") == entry.release_id
            return "this release" if ours else "something"
        release.require_vacant(entry.output)
    # What cannot be read may be a release, so it is not taken for a vacant folder.
    except (RequestError, OSError, ValueError, AttributeError):
        return "something"
    return "nothing"


def _statement(entry: Entry) -> dict[str, Any]:
    """What the release in an entry's folder says of itself; nothing if there is none."""
    from pipelines.releases import release

    return release.statement_of(entry.output) if release.holds_release(entry.output) else {}


def after_failure(entry: Entry) -> dict[str, Any] | None:
    """What becomes of a reservation whose run ended without a commit."""
    if entry.state != "reserved":
        return None
    published = publication(entry)
    if published == "this release":
        return committed(entry)
    # Something stands there that may be part of it, or an earlier attempt may yet publish: in doubt
    # the price stays, and the next run goes on with it.
    if published != "nothing" or entry.in_doubt:
        return None
    return {"state": "spent" if entry.irrevocable else "returned"}


def after_publishing(entry: Entry) -> dict[str, Any] | None:
    """What becomes of a reservation whose run is lost: it may have published first."""
    if entry.state != "reserved" or publication(entry) != "this release":
        return None
    return committed(entry)


def settled(entry: Entry, spent: bool) -> dict[str, Any]:
    """What an operator's word makes of a reservation."""
    if entry.state != "reserved":
        raise RequestError(f"entry {entry.id} is no reservation any more: it is {entry.state!r}")
    if publication(entry) == "this release":
        if not spent:
            raise RequestError(
                f"entry {entry.id} was spent: its release stands in {entry.output}; "
                "settle it with --spent"
            )
        return committed(entry)
    if not spent and "://" not in entry.output and not os.path.isabs(entry.output):
        raise RequestError(
            f"entry {entry.id} keeps its folder as {entry.output}, relative to wherever its run "
            "was started, so nobody can tell here whether its release stands; settle it with "
            "--spent"
        )
    # To count it is no harm; a refund is one, as long as it gives signs of life, wherever it is.
    near = entry.owner.host == this_process().host
    if (near or not spent) and not entry.handed_over and not is_lost(entry):
        raise InProgressError(in_progress(entry))
    if entry.irrevocable and not spent:
        raise RequestError(
            f"entry {entry.id} was spent: {entry.kept}; settle it with --spent (to make it again "
            "costs nothing more)"
        )
    return {"state": "spent" if spent else "not run"}


def resumable(entry: Entry) -> bool:
    """Whether a release that came to nothing has been paid for, and may be tried again.

    Of a lost run whose folder is vacant nothing was seen, and nothing will be, for who tries again
    overtakes it.
    """
    if entry.state == "reserved":
        return not entry.handed_over and is_lost(entry) and publication(entry) == "nothing"
    return entry.irrevocable and entry.state == "spent"


def require_there(entry: Entry) -> None:
    """Refuse a release that is out by the ledger and not in its folder.

    Raises:
        RequestError: somebody has moved or removed it and said nothing, or a disk has lost it.
    """
    if not entry.archived and publication(entry) != "this release":
        raise RequestError(
            f"window {entry.window} of collection {entry.collection!r} was released by the ledger, "
            f"and its release is not in {entry.output}: put it back from a copy, or, if it was "
            f"moved or has expired, say so: `hushbeam ledger archive {entry.id}`. A second release "
            "would be a second draw"
        )


def archived(entry: Entry) -> dict[str, Any] | None:
    """What an operator's word makes of a release that is no longer in its folder."""
    if entry.state != "committed":
        raise RequestError(f"entry {entry.id} is no release: it is {entry.state!r}")
    if publication(entry) == "this release":
        raise RequestError(f"entry {entry.id} stands in {entry.output}: nothing to archive")
    return None if entry.archived else {"archived": True}


def in_progress(entry: Entry) -> str:
    """Who makes a release, since when, and what to do if that is no longer so."""
    who = f"process {entry.owner.process} on machine {entry.owner.host}"
    if entry.handed_over:
        who = f"a runner, to which {who} handed it over"
    return (
        f"window {entry.window} of collection {entry.collection!r} has been in the hands of {who} "
        f"since {entry.reserved_at}; if that run is lost, `hushbeam ledger settle {entry.id}`"
    )
