"""Estimated distributions of a number on [-1, 1], and how far they are from the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hushbeam.studies.populations.numbers import NumberPopulation
from mechanisms.channel import Floats
from mechanisms.distribution.quantiles import quantiles

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the quantiles whose errors are averaged."""

_RANGE = 2.0  # from -1 to 1


class DistributionCurve(NamedTuple):
    """A distribution whose mass is uniform inside bins.

    Attributes:
        edges: (k + 1,) from -1 to 1, where bins begin and end.
        below: (k + 1,) the shares below them, which rise from 0 to 1.
    """

    edges: Floats
    below: Floats

    @classmethod
    def of(cls, shares: Floats, edges: Floats | None = None) -> DistributionCurve:
        """That of the shares of bins, which are of equal width unless edges say otherwise."""
        known = np.linspace(-1, 1, shares.size + 1) if edges is None else edges
        below = np.concatenate([[0.0], np.cumsum(shares)])
        return cls(known, below / below[-1])

    def errors(self, truth: NumberPopulation) -> dict[str, float]:
        """How far it is from what users hold, all lengths in ranges.

        Args:
            truth: the users.

        Returns:
            wasserstein: the area between the two distribution functions; ks: their largest
            distance; quantile_error: of the quantiles at `LEVELS`, the mean distance; mean_error:
            the distance of the means.
        """
        steps = np.concatenate([[0.0], np.cumsum(truth.histogram) / truth.n])
        ends = np.unique(np.concatenate([self.edges, truth.values]))
        own = np.interp(ends, self.edges, self.below)
        # Between two ends the truth is level and the estimate straight.
        level = steps[np.searchsorted(truth.values, ends[:-1], side="right")]
        left, right = own[:-1] - level, own[1:] - level
        high, low = np.maximum(np.abs(left), np.abs(right)), np.minimum(np.abs(left), np.abs(right))
        crossed = left * right < 0
        total = np.where(crossed, high + low, 1.0)
        means = np.where(crossed, (left**2 + right**2) / (2 * total), (high + low) / 2)
        true = truth.values[np.searchsorted(steps[1:], np.array(LEVELS) - 1e-12)]
        shares = np.diff(self.below)
        own_quantiles = quantiles(LEVELS, shares, self.edges)
        mean = float(shares @ (self.edges[:-1] + self.edges[1:])) / 2
        return {
            "wasserstein": float(means @ np.diff(ends)) / _RANGE,
            "ks": float(high.max()),
            "quantile_error": float(np.abs(own_quantiles - true).mean()) / _RANGE,
            "mean_error": abs(mean - truth.mean) / _RANGE,
        }
