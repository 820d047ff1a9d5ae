"""DSSGD: participants who train on their own data and upload some of what changed.

Source: Shokri, Shmatikov, "Privacy-preserving deep learning", CCS 2015; run again in
docs/appendix/reproduction-training.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hushbeam.studies.engine.cells import Cell, FigureLine, expanded
from mechanisms.papers.learning.private_selection import PrivateSelection, RandomPlaces
from mechanisms.papers.learning.selection import LargestValues, RandomAbove, Selection

NOISY, NOISY_LARGEST, ALONE, CENTRALISED = "noisy", "noisy-largest", "alone", "centralised"
PRICED = (NOISY, NOISY_LARGEST)  # whose uploads have noise, and spend a budget

HIDDEN = 32  # units of the perceptron
_THRESHOLD = 1e-4  # tau of random, and of noisy-largest
_BOUND = 0.02  # gamma of both noisy rules


def _largest(share: float, parameters: int, noise: float) -> Selection:
    return LargestValues(share)


def _random(share: float, parameters: int, noise: float) -> Selection:
    return RandomAbove(share, math.inf, _THRESHOLD)


def _noisy(share: float, parameters: int, noise: float) -> Selection:
    uploads = max(1, round(share * parameters))
    return RandomPlaces(share, _BOUND, epsilon=noise * uploads)


def _noisy_largest(share: float, parameters: int, noise: float) -> Selection:
    uploads = max(1, round(share * parameters))
    return PrivateSelection(share, _BOUND, epsilon=noise * uploads, threshold=_THRESHOLD)


RULES: Mapping[str, Callable[[float, int, float], Selection]] = {
    "largest": _largest,
    "random": _random,
    NOISY: _noisy,
    NOISY_LARGEST: _noisy_largest,
    # Who trains without others uploads nothing.
    ALONE: _largest,
    CENTRALISED: _largest,
}
"""Name -> (theta_u, parameters, epsilon of a value) -> which changes participants upload."""


@dataclass(frozen=True)
class Participants(FigureLine):
    """So many participants under one rule.

    Attributes:
        rule: one of `RULES`.
        number: of participants.
    """

    rule: str = ""
    number: int = 1

    @property
    def uploads(self) -> bool:
        """Whether there is a server, and theta_u means something."""
        return not self.reference

    def columns(self, cell: Cell) -> dict[str, Any]:
        return {
            "system": self.rule,
            "participants": self.number,
            "theta_u": cell.epsilon if self.uploads else None,
            "delta": cell.delta if self.rule in PRICED else None,
        }


def lines(names: Sequence[str], participants: Sequence[int]) -> tuple[Participants, ...]:
    """Every rule with every number of participants; of all data in one place there is one.

    Raises:
        RequestError: a name is unknown.

    >>> [str(line) for line in lines(["largest", "centralised"], [30, 90])]
    ['largest 30', 'largest 90', 'centralised']
    """
    rules = expanded(names, RULES, {})
    return tuple(line for rule in rules for line in _of_rule(rule, participants))


def _of_rule(rule: str, participants: Sequence[int]) -> list[Participants]:
    if rule == CENTRALISED:
        return [Participants(rule, rule=rule, reference=True)]
    alone = rule == ALONE
    return [
        Participants(f"{rule} {number}", rule=rule, number=number, reference=alone)
        for number in participants
    ]
