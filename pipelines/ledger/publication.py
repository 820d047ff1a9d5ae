"""What the output folder of a run says about how far the run has come."""

from __future__ import annotations

import json
from typing import Literal

from pipelines.errors import RequestError
from pipelines.ledger.entries import Entry

Publication = Literal["this release", "something", "nothing"]


def publication(entry: Entry) -> Publication:
    """Whether a run has published.

    Args:
        entry: its reservation.

    Returns:
        "this release" if the release that was reserved stands there whole; "something" if other
        files do, or if it cannot be told; "nothing" if the folder is vacant.
    """
    # It opens files through Beam, which takes a second to import: who shows a ledger need not wait.
    from pipelines import release

    try:
        if release.holds_release(entry.output):
            statement = json.loads(release.read(entry.output, release.STATEMENT))
            ours = statement.get("release_id") == entry.release_id
            return "this release" if ours else "something"
        release.require_vacant(entry.output)
    # What cannot be read may be a release, so it is not taken for a vacant folder.
    except (RequestError, OSError, ValueError, AttributeError):
        return "something"
    return "nothing"
