"""A ledger, from Python: what `hushbeam ledger show` and `explain` say."""

from __future__ import annotations

import os
from typing import Any

from hushbeam.calls import called, warn


class Ledger:
    """What was spent of a privacy budget.

    Attributes:
        path: a local file, or gs://BUCKET/ledger.json.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def show(self) -> list[dict[str, Any]]:
        """Every release that was paid for, the oldest first, as `hushbeam ledger show --json`.

        Raises:
            RequestError: it cannot be read.
        """
        with called() as cautions:
            from pipelines.ledger.account import entries

            records = entries(self.path)
        warn(cautions, 2)
        return records

    def explain(self) -> list[dict[str, Any]]:
        """What each budget has come to, and what still fits, as `hushbeam ledger explain --json`.

        Raises:
            RequestError: it cannot be read.
        """
        with called() as cautions:
            from pipelines.ledger.account import accounts

            records = accounts(self.path)
        warn(cautions, 2)
        return records

    def __repr__(self) -> str:
        return f"hushbeam.Ledger({self.path!r})"
