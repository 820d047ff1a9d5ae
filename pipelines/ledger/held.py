"""Whether a release may still be made: what a worker asks at the last moment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pipelines.ledger.book import Book
from pipelines.ledger.entries import COUNTED


def is_reserved(ledger: str | None, stamp: Mapping[str, Any]) -> bool:
    """Whether a price still counts, and for this attempt.

    An operator may have settled a run as never run, or a later attempt may have overtaken it. A
    worker on another machine cannot see a ledger in a file of this one, and believes.

    Args:
        ledger: where the price is set aside, if it is.
        stamp: of the reservation.

    Raises:
        FailedError: the ledger does not answer; whoever retries asks again.
    """
    paid = stamp.get("ledger")
    if paid is None or ledger is None or not ("://" in ledger or os.path.exists(ledger)):
        return True
    # Read without the key, which no worker has.
    entry = Book.at(ledger).unverified().named(paid["entry"])
    return entry.state in COUNTED and entry.attempt == paid["attempt"]
