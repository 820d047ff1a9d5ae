"""Where a release is written, what it says, and whether it may still be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipelines.ledger.held import is_reserved


@dataclass(frozen=True)
class ReleaseTarget:
    """What a run has the right to publish.

    Attributes:
        output: the release's folder.
        statement: of the release, but for what each metric comes to; with the reservation's stamp.
        ledger: where its price is set aside, if it is.
    """

    output: str
    statement: Mapping[str, Any]
    ledger: str | None = None

    def telling(self, **more: Any) -> ReleaseTarget:
        """The same with more in the statement."""
        return replace(self, statement={**self.statement, **more})

    def stands(self) -> bool:
        """Whether its price still counts, and for this attempt; see `is_reserved`."""
        return is_reserved(self.ledger, self.statement)
