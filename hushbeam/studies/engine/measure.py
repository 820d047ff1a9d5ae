"""What is measured of a release, and how repetitions are summed up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hushbeam.studies.engine.cells import Outcome

_QUANTILES = (0.1, 0.9)


class Band(NamedTuple):
    """Repetitions in three numbers; NaN, which is drawn as a gap, where there are none.

    Attributes:
        middle: their mean.
        low: where the band around it begins.
        high: where it ends.
    """

    middle: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """The standard error of the mean, where the band reaches two of them."""
        return (self.high - self.middle) / 2


@dataclass(frozen=True)
class Measure:
    """A column that is drawn and summed up.

    Attributes:
        column: of the results.
        label: what it is, for an axis; may name options in braces.
        log: whether its axis is logarithmic; that of a share is not.
        errors: whether bands reach two standard errors of the mean either way; otherwise from the
            10 % to the 90 % quantile of the repetitions.
        parts: the columns whose mean it is, all of which count; the column itself if there are
            none.
    """

    column: str
    label: str
    log: bool = True
    errors: bool = False
    parts: tuple[str, ...] = ()

    def band(self, outcome: Outcome | None) -> Band:
        """A cell in three numbers."""
        runs = () if outcome is None else outcome.runs.values()
        values = [run[part] for run in runs for part in self.parts or (self.column,)]
        if not values:
            return Band(math.nan, math.nan, math.nan)
        mean = float(np.mean(values))
        if not self.errors:
            low, high = np.quantile(values, _QUANTILES)
            return Band(mean, float(low), float(high))
        several = len(values) > 1
        reach = 2 * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if several else 0.0
        # A logarithmic axis has no place for what lies at 0 or below: as far down there as up.
        low = mean**2 / (mean + reach) if self.log and mean > 0 else mean - reach
        return Band(mean, low, mean + reach)
