"""What verification comes to: of each thing that is looked at whether it holds, and why not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Outcome = Literal["holds", "fault", "not checked"]

LIMIT = (
    "No release can show that noise was drawn, or drawn once: whoever made it is trusted with that."
)
"""What stands before all that is verified."""


class Check(NamedTuple):
    """What was looked at, and what came of it.

    Attributes:
        subject: "signature", "files", "pages", "statement", "price", "tables", "ledger" or "keys".
        outcome: whether it holds.
        said: in a line: what holds, what does not, or why nobody knows.
        lines: each thing that nobody knows of, as it stands there.
    """

    subject: str
    outcome: Outcome
    said: str
    lines: tuple[str, ...] = ()


def holds(subject: str, said: str) -> Check:
    """It does."""
    return Check(subject, "holds", said)


def fault(subject: str, said: str) -> Check:
    """It does not."""
    return Check(subject, "fault", said)


def unchecked(subject: str, why: str, lines: Iterable[str] = ()) -> Check:
    """Nobody knows."""
    return Check(subject, "not checked", why, tuple(lines))


def shown(text: str) -> str:
    """Text of anybody's choice, on a screen: no character of it is a command, or hidden."""
    return "".join(c if c.isprintable() else "?" for c in text)
