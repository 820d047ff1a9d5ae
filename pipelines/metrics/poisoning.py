"""What liars can do to a release, as its statement says it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.wording import upward

LIARS = 0.01  # the share that statements speak of
_LIARS = f"{100 * LIARS:g} %"

UNKNOWN = "What malicious clients can do to this release has not been worked out."

_LIES = (
    "Nobody sees who lies: if {liars} of the {unit}s state another value than theirs, {figure} "
    "moves by up to {lies}, on average over the noise{more}. Nobody can make reports up here, for "
    "this job made them all from the values that it read."
)
_FORGED = (
    "Whoever makes reports can make them up: if {liars} of them are, {figure} moves by up to "
    "{forged}{more}; by up to {lies}, on average over the noise, if they state other values and do "
    "as the plan says otherwise. {seen}"
)
_UNSEEN = (
    "Neither can be seen: there are no more codes than values to tell apart, so as long as no "
    "estimate leaves its range, the counts are those to be expected of some population."
)
_CRUDE = (
    "Only crude forgeries can be seen: counts that no population makes likely are warned of; "
    "reports that imitate another population are not told from it."
)


@dataclass(frozen=True)
class Poisoning:
    """By how much a share of liars can move what is published, at the most.

    Attributes:
        figure: what is moved, as the subject of a sentence.
        lies: by how much those move it who state other values, and do as they should otherwise.
        forged: by how much made-up reports move it; None where the job itself makes them all.
        factor: of these numbers, as they are said.
        unit: behind them.
        more: what else they do, as the end of a sentence.
        also: the same of those who make reports up; None if that is the same.
        unseen: whether the counts never tell, as long as estimates keep their range.
        beside: further numbers for the statement.
    """

    figure: str
    lies: float
    forged: float | None
    factor: float = 1.0
    unit: str = ""
    more: str = ""
    also: str | None = None
    unseen: bool = False
    beside: Mapping[str, Any] = field(default_factory=dict)

    def statement(self) -> dict[str, Any]:
        """Its part of a statement."""
        return {
            "share_of_liars": LIARS,
            "figure": self.figure,
            "lies": _number(self.lies),
            "forged": None if self.forged is None else _number(self.forged),
            **self.beside,
        }

    def in_words(self, unit: str) -> str:
        """The same for people.

        Args:
            unit: who reports.
        """
        known = {
            "liars": _LIARS,
            "unit": unit,
            "figure": self.figure,
            "lies": self._said(self.lies),
        }
        if self.forged is None:
            return _LIES.format(**known, more=self.more)
        more = self.more if self.also is None else self.also
        seen = _UNSEEN if self.unseen else _CRUDE
        return _FORGED.format(**known, forged=self._said(self.forged), more=more, seen=seen)

    def _said(self, moved: float) -> str:
        """A number in words, rounded up."""
        if not math.isfinite(moved):
            return "anything"
        return f"{upward(self.factor * moved, 3):g}{self.unit}"


def _number(moved: float) -> float | None:
    """A number as JSON can hold it: None if nothing bounds it."""
    return moved if math.isfinite(moved) else None
