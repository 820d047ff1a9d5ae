"""What verification comes to: of each thing that is looked at whether it holds, and why not."""

from __future__ import annotations

from typing import Literal, NamedTuple

Outcome = Literal["holds", "fault", "not checked"]

LIMIT = (
    "No release can show that noise was drawn, or drawn once: whoever made it is trusted with that."
)
"""What stands before all that is verified."""


class Check(NamedTuple):
    """What was looked at, and what came of it.

    Attributes:
        subject: "signature", "files", "statement", "price", "tables", "ledger" or "keys".
        outcome: whether it holds.
        said: in a line: what holds, what does not, or why nobody knows.
    """

    subject: str
    outcome: Outcome
    said: str


def holds(subject: str, said: str) -> Check:
    """It does."""
    return Check(subject, "holds", said)


def fault(subject: str, said: str) -> Check:
    """It does not."""
    return Check(subject, "fault", said)


def unchecked(subject: str, why: str) -> Check:
    """Nobody knows."""
    return Check(subject, "not checked", why)
