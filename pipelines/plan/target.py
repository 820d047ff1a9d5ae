"""Where a release is written, what it says, and whether it may still be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipelines.ledger.entries import COUNTED
from pipelines.ledger.ledger import Ledger


@dataclass(frozen=True)
class Target:
    """What a run has the right to publish.

    Attributes:
        output: the release's folder.
        statement: of the release, but for what each metric comes to; with its "release_id" and
            its "ledger_entry".
        ledger: where its price is set aside, if it is.
    """

    output: str
    statement: Mapping[str, Any]
    ledger: str | None = None

    def telling(self, **more: Any) -> Target:
        """The same with more in the statement."""
        return replace(self, statement={**self.statement, **more})

    def stands(self) -> bool:
        """Whether the price still counts: an operator may have settled a run as never run.

        A worker on another machine cannot see a ledger in a file of this one, and believes.

        Raises:
            FailedError: the ledger does not answer; whoever retries asks again.
        """
        entry = self.statement.get("ledger_entry")
        if entry is None or self.ledger is None:
            return True
        if "://" not in self.ledger and not os.path.exists(self.ledger):
            return True
        return Ledger.open(self.ledger, begin=False).entry(entry).state in COUNTED
