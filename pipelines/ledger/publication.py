"""What the output folder of a run says about how far the run has come."""

from __future__ import annotations

from typing import Any, Literal

from pipelines.errors import RequestError
from pipelines.ledger.entries import Entry

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
