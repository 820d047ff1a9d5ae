"""Ledgers for tests: begun with the populations that a test speaks of, and ample budgets."""

from __future__ import annotations

from typing import Literal

from pipelines.cli import cli
from pipelines.ledger.beginning import LedgerRequest, init
from pipelines.ledger.entries import Budget, Population, Scope
from pipelines.ledger.ledger import CollectionLedger

AMPLE = Budget(epsilon=1000.0, delta=0.5)


def begun(
    path: object, *names: str, scope: Scope = "user", budget: Budget = AMPLE,
    witness: object = None, ledger: CollectionLedger | None = None,
    unit: Literal["row", "user"] = "user",
) -> CollectionLedger:  # fmt: skip
    """A ledger that knows some populations, or more of them."""
    for name in names or ("trips",):
        people = Population(name=name, unit=unit, scope=scope, budget=budget)
        place = f"{path}.witness" if witness is None else str(witness)
        init(LedgerRequest(str(path), people, place), ledger)
    return ledger or CollectionLedger.open(str(path))


def begun_by(plan: object) -> None:
    """What an operator types once for a plan."""
    assert cli.main(["ledger", "init", str(plan)]) == 0
