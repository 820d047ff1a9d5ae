"""Figures that add up some counters of one level, and shares of those that are parts of others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mechanisms.channel import Floats
from mechanisms.mean.fieller import RatioEstimate, quotients
from pipelines.metrics.counting import result
from pipelines.metrics.statistics.evidence import Evidence
from pipelines.metrics.statistics.statistic import Statistic

SumError = Callable[[int, int], result.FigureError]
"""(level, how many of its counters are added up) -> how far off that may be."""


class Summed(Protocol):
    """A figure: its level, and the places of its counters there."""

    @property
    def level(self) -> int: ...
    @property
    def cells(self) -> Sequence[int]: ...


@dataclass(frozen=True, kw_only=True)
class SumEvidence(Evidence):
    """What is known of figures that are sums of counters of some level.

    Attributes:
        sum_error: of such sums.
    """

    sum_error: SumError


class OfSums(Statistic):
    """A statistic whose figures are such sums."""

    @property
    @abstractmethod
    def shown(self) -> Sequence[Summed]:
        """The figures that are published."""

    @property
    @abstractmethod
    def longest(self) -> Summed:
        """The figure whose error is stated, which has the most counters."""

    @property
    @abstractmethod
    def reporting(self) -> Any:
        """What makes a report of all rows of a unit."""

    def columns(  # type: ignore[override]
        self, evidence: SumEvidence, confidence: float
    ) -> dict[str, Any]:
        # Sums of the same counters are not independent: together their risks add up.
        together = 1 - (1 - confidence) / len(self.shown)
        rows = []
        for one, total in zip(self.shown, evidence.totals, strict=True):
            errors = evidence.sum_error(one.level, len(one.cells))
            row, wide = (
                result.columns(np.array([total]), errors, sure) for sure in (confidence, together)
            )
            rows.append(row | {f"{end}_simultaneous": wide[end] for end in ("lower", "upper")})
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    def shares(
        self, evidence: SumEvidence, pairs: Sequence[tuple[Summed, Summed]]
    ) -> dict[str, Any]:
        """Column -> (pairs,) shares with errors and intervals; NaN where nobody may be.

        Args:
            evidence: what is known.
            pairs: (a figure, one of which it is a part), both of them shown.
        """
        totals = dict(zip(self.shown, evidence.totals.astype(float).tolist(), strict=True))
        sure, rows = self.options.confidence, []
        together = 1 - (1 - sure) / len(pairs)
        for some, all_ in pairs:
            numbers = np.array([totals[some]]), np.array([totals[all_]])
            row: dict[str, float] = {}
            for suffix, confidence in (("", sure), ("_simultaneous", together)):
                quotient = shares(evidence.sum_error, some, all_, *numbers, confidence)
                if not suffix:
                    row |= {"estimate": quotient.ratio[0], "standard_error": quotient.error[0]}
                ends = result.clipped(quotient.lower, quotient.upper, quotient.ratio, 0, 1)
                row |= {f"{end}{suffix}": at[0] for end, at in zip(_ENDS, ends, strict=True)}
            rows.append(row)
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


_ENDS = ("lower", "upper")


def shares(
    sum_error: SumError,
    part: Summed,
    whole: Summed,
    counts: Floats,
    numbers: Floats,
    confidence: float,
) -> RatioEstimate:
    """Of each number the share, and all shares that it does not refute.

    Args:
        sum_error: of sums of counters.
        part: what the counts are of, counters of one level.
        whole: what the numbers are of: those counters and more.
        counts: (k,) unbiased.
        numbers: (k,) unbiased.
        confidence: of limits in [0, 1], of each share alone.
    """
    sizes = len(part.cells), len(whole.cells), len(whole.cells) - len(part.cells)
    within, all_, rest = (sum_error(whole.level, size) for size in sizes)
    # Where the share is m, the noise of count - m number is 1 - m of the part's less m of the
    # rest's. Its tails are heaviest at the ends, where it is of the fewest counters.
    far = max(one.far(confidence) for one in (within, rest))
    # Counts are whole, so noise goes in steps: half of one, where its deviation is the least.
    far += 0.5 * all_.sigma / (within.sigma * rest.sigma)
    # Whoever is in the part is in the whole: their noise is in both.
    return quotients(counts, numbers, within.sigma, all_.sigma, far, within.sigma**2)
