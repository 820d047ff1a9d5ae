"""Confidence limits for the mean of a number of [0, 1] that is reported with noise.

Each user holds some r of [0, 1] and sends a report whose weight has mean r and a variance that
depends on what the user holds. The limits are Wilson's: the variance is that of the value tested,
not that of the estimate, so they cover where the mean is close to 0 or to 1. They take no larger
n for granted: how skewed a weight of bounded range can be is added at either end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mechanisms.channel import Floats
from mechanisms.postprocess.intervals import normal_quantile


class NoiseBound(NamedTuple):
    """At most how much the reports of a population vary, whose mean r is known.

    Attributes:
        level: (k,) the variance of a report at most, where the mean r is 0.
        slope: (k,) what the mean r adds: the variance is at most level + slope * mean.
        width: (k,) the distance between the largest and the least weight.
    """

    level: Floats
    slope: Floats
    width: Floats

    @classmethod
    def over(cls, noise: Floats, targets: Floats, weights: Floats) -> NoiseBound:
        """The line above the variances of all inputs, so that it holds for every population.

        Args:
            noise: (k, inputs) the variance of a report's weight, given the input.
            targets: (k, inputs) its mean r, in [0, 1].
            weights: (k, codes).
        """
        full = np.where(targets >= 1, noise, 0).max(axis=1)
        empty = np.where(targets <= 0, noise, 0).max(axis=1)
        slope = full - empty
        # Raised until the line is nowhere below: a population mixes inputs, and a line's mean is
        # the line at their mean.
        level = (noise - slope[:, None] * targets).max(axis=1)
        return cls(level, slope, np.ptp(weights, axis=1))

    def variance(self, mean: Floats, n: int) -> Floats:
        """(k,) of the average of n reports, the users' values given."""
        return np.asarray(np.maximum(self.level + self.slope * np.clip(mean, 0, 1), 0) / n)


def limits(estimate: Floats, bound: NoiseBound, n: int, confidence: float) -> tuple[Floats, Floats]:
    """The means that the reports do not contradict.

    Args:
        estimate: (k,) averages of the weights of n reports.
        bound: on the reports' variance.
        n: how many reports, at least 1.
        confidence: of each pair of limits, in (0, 1); either limit alone errs half as often.

    Returns:
        (lower, upper), each (k,), in [0, 1]. They cover the mean r of the users who reported, and
        of the population too if these are a random sample of it.

    Raises:
        ValueError: there is no report, or the confidence is out of range.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA
        1927, with the reports' noise added to r (1 - r); the correction for skewness is of the
        Cornish-Fisher expansion's order, with range times variance for the third moment.
    """
    if not n >= 1:
        raise ValueError(f"n must be at least 1, not {n}")
    z = normal_quantile(confidence)
    skew = (z * z + 2) / 6 * bound.width / n
    low, high = estimate - skew, estimate + skew
    # Nothing contradicts a mean from below that lies above the estimate, nor the reverse.
    lower = np.minimum(_root(low, bound, n / z**2, -1), np.clip(low, 0, 1))
    upper = np.maximum(_root(high, bound, n / z**2, +1), np.clip(high, 0, 1))
    return lower, upper


def _root(centre: Floats, bound: NoiseBound, precision: float, side: int) -> Floats:
    """The r, on one side, with precision * (r - centre)^2 = level + slope r + r (1 - r)."""
    linear = 2 * precision * centre + 1 + bound.slope
    constant = precision * centre**2 - bound.level
    inner = np.maximum(linear**2 - 4 * (precision + 1) * constant, 0)
    root = (linear + side * np.sqrt(inner)) / (2 * (precision + 1))
    return np.asarray(np.clip(root, 0, 1))
