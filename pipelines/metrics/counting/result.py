"""What a release of counts or sums holds: figures, and intervals from the exact law of noise."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.counters.choose import NoisyCounters
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum
from mechanisms.sampling.rounded_gaussian import RoundedGaussian

COLUMNS = (
    "estimate", "standard_error", "lower", "upper", "lower_simultaneous", "upper_simultaneous",
    "fitted", "users", "users_standard_error", "rows", "rows_standard_error", "unbiased",
    "unclipped",
)  # fmt: skip

Law = IntegerNoise | ExactGeometric | RoundedGaussian
"""Of noise on integers."""

Noisy = tuple[float, float]
"""A count, and how far off it may be."""

BESIDE = {
    "limited": "{unit}s of which something was left out or clipped",
    "unusable": "{unit}s with a number that cannot be used, which adds nothing",
    "lacking": "{unit}s that lack a number or a value, which count for the others alone",
    "missing": "{unit}s that lack a number, which counts as the middle of its bounds, or a value",
}


def free(name: str, taken: Collection[str]) -> str:
    """A name for a column of values, as near as may be to that of the log's."""
    while name in taken:
        name += "_value"
    return name


class FigureError(NamedTuple):
    """How far off one figure may be.

    Attributes:
        law: of the noise, in units; None where it is too long to tabulate, and all but normal.
        sigma: its standard deviation, in units.
        unit: of the figure.
        rounding: the standard deviation of what rounding adds, at the most, of the figure.
        least: no true figure is below it, if that is known.
    """

    law: Law | None
    sigma: float
    unit: float = 1.0
    rounding: float = 0.0
    least: int | None = None

    @classmethod
    def of(cls, design: NoisyCounters, columns: int, taken: int = 0, **more: Any) -> FigureError:
        """Those of sums of so many columns of counters.

        Args:
            design: of the counters.
            columns: that are added up.
            taken: how many of them are taken away.
            **more: further attributes.
        """
        return cls(
            _law(design, columns, taken), math.sqrt(columns * design.column_variance), **more
        )

    @classmethod
    def of_level(cls, design: NoisyCounters, place: int, columns: int, **more: Any) -> FigureError:
        """Those of sums of so many counters of one level."""
        sigma = math.sqrt(columns * design.variances[place])
        return cls(_law_of_level(design, place, columns), sigma, **more)

    def times(self, figures: int) -> FigureError:
        """Those of what so many figures add up to, whose noises are independent.

        Args:
            figures: at least one; all of them the same.
        """
        return self._replace(law=_added(self.law, figures), sigma=math.sqrt(figures) * self.sigma)

    @property
    def standard_error(self) -> float:
        """Of the figure."""
        return math.hypot(self.sigma * self.unit, self.rounding)

    def half(self, confidence: float, comparisons: int = 1) -> float:
        """Half the length of intervals that hold together.

        Args:
            confidence: in (0, 1).
            comparisons: how many there are.
        """
        # The noises of counters are independent.
        tail = -math.expm1(math.log(confidence) / comparisons) / 2
        normal = normal_quantile(1 - 2 * tail)
        noise = normal * self.sigma if self.law is None else self.law.isf(tail)
        return math.hypot(math.ceil(noise) * self.unit, normal * self.rounding)

    def far(self, confidence: float) -> float:
        """Half the length of an interval, in standard errors."""
        return self.half(confidence) / self.standard_error


@lru_cache(maxsize=16)  # a law of millions of outcomes is asked for at every look at an error
def _law(design: NoisyCounters, columns: int, taken: int) -> Law | None:
    """Of the noise of so many columns; None where it is too long to tabulate."""
    try:
        return design.error_law(columns, taken)
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _law_of_level(design: NoisyCounters, place: int, columns: int) -> Law | None:
    """Of the noise of so many counters of a level; as `_law`."""
    return _added(design.level_law(place), columns)


@lru_cache(maxsize=16)
def _added(one: Law | None, times: int) -> Law | None:
    """Of so many independent noises of a law; as `_law`."""
    if one is None:
        return None
    try:
        law = weighted_sum([(0, one.pmf, 1)] * times)
    except ValueError:
        return None
    return IntegerNoise(times * one.first, law.pmf)


def clipped(
    low: Any, high: Any, estimates: Any, least: float, most: float | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Intervals cut to what can be, as far as their own estimates lie in it.

    Estimates stay unbiased, so some lie beyond what can be: there an interval goes on to them.

    Args:
        low, high: (k,) ends.
        estimates: (k,) of each interval; of one that is NaN, its ends are cut.
        least, most: no true figure is beyond them, as far as is known.

    >>> [ends.tolist() for ends in clipped([-9, -5, 2], [-3, 1, 8], np.array([-6, -2, 5]), least=0)]
    [[-6, -2, 2], [0, 1, 8]]
    """
    below, above = np.clip(low, least, most), np.clip(high, least, most)
    return np.fmin(below, estimates), np.fmax(above, estimates)


def columns(
    totals: NDArray[Any], errors: FigureError, confidence: float
) -> dict[str, NDArray[Any]]:
    """The columns of a table beside its labels.

    Args:
        totals: (groups,) unbiased; intervals of whole numbers have whole ends.
        errors: of each.
        confidence: of the intervals: each alone, and all together.
    """
    error = errors.standard_error
    table = {"estimate": totals, "standard_error": np.full(totals.size, error)}
    together = ("", 1), ("_simultaneous", totals.size)
    for suffix, comparisons in together[: 2 if totals.size > 1 else 1]:
        half = np.asarray(errors.half(confidence, comparisons)).astype(totals.dtype)
        low, high = totals - half, totals + half
        if errors.least is not None:
            # One that lies below all that can be reaches a standard error inwards.
            inwards = math.ceil(error) if totals.dtype.kind == "i" else error
            high = np.maximum(high, errors.least + inwards)
            low, high = clipped(low, high, totals, errors.least)
        table[f"lower{suffix}"], table[f"upper{suffix}"] = low, high
    return table
