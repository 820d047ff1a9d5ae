"""The mean of those who have a value, and the share of those who have none."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mechanisms.channel import Floats
from mechanisms.distribution.limits import opened_limits
from mechanisms.distribution.noise import WeightNoise
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.mean.fieller import candidates, ends
from mechanisms.mean.intervals import half_width
from mechanisms.mean.usable_mean import ShareEstimate

_FEW = 100  # reports whose own spread says too little of their variance


class NumberEstimate(NamedTuple):
    """A number with its error.

    Attributes:
        estimate: without bias, or a quotient of two such; NaN where nobody seems to have a value.
        standard_error: its standard deviation.
        lower: of its interval.
        upper: the same from above.
    """

    estimate: float
    standard_error: float
    lower: float
    upper: float


def mean_of_usable(
    known: Reconstruction, weights: Floats, counts: Floats, confidence: float
) -> NumberEstimate:
    """The mean of those who have a value, in [-1, 1]; its interval is Fieller's.

    It covers the mean of the users and, if they are a random sample, of the population.

    Args:
        known: the channel.
        weights: (codes,) what each code stands for; 0 on average where there is no value.
        counts: (codes,) how often each code came.
        confidence: of the interval.
    """
    n, presence = int(counts.sum()), known.presence
    moments = np.stack([weights**2, weights * presence, presence**2])
    total, share = (float(row @ counts / n) for row in (weights, presence))
    seen, given = moments @ counts / n, moments @ known.table
    ratio = total / share if share > 0 else math.nan
    # Between candidates it is convex, and so is the largest of several: few are enough.
    tried = np.linspace(-1, 1, 257)
    worst = _variance(tried[:, None], given[:, None, :]).max(axis=1)

    def spread(means: Floats) -> Floats:
        largest = np.interp(means, tried, worst)
        return np.asarray(np.minimum(_variance(means, seen), largest) if n >= _FEW else largest)

    centre = min(max(ratio, -1.0), 1.0) if share > 0 else 0.0
    error = math.sqrt(float(spread(np.array(centre))) / n) / share if share > 0 else math.nan
    means = candidates(np.array([ratio]).clip(-1, 1), np.array([error]))[0]
    reach = np.abs(weights).max() + np.abs(means) * np.abs(presence).max()
    half = half_width(spread(means), np.interp(means, tried, worst), reach, n, confidence)
    (lower,), (upper,) = ends((np.abs(total - means * share) <= half)[None], means[None])
    return NumberEstimate(ratio, error, min(float(lower), centre), max(float(upper), centre))


def _variance(means: Floats, squares: Floats) -> Floats:
    """Of weight - mean * presence, whose own mean is 0 where a candidate is right.

    Args:
        means: candidates.
        squares: the mean squares of the weight, of its product with the presence, and of this.
    """
    variance = squares[0] - 2 * means * squares[1] + means**2 * squares[2]
    return np.asarray(np.maximum(variance, 0))  # rounding may leave a hair less


def unusable_share(known: Reconstruction, counts: Floats, confidence: float) -> ShareEstimate:
    """The share of users who have no value.

    Args:
        known: the channel, whose last input stands for none.
        counts: (codes,) how often each code came.
        confidence: of the interval.
    """
    n = int(counts.sum())
    none = 1 - known.presence
    everybody = Reconstruction(known.table)  # of whom each holds 0 or 1
    bound = WeightNoise(everybody, none[None], (1 - known.present)[None]).bound()
    unbiased = float(none @ counts / n)
    (lower,), (upper,) = opened_limits(np.array([unbiased]), bound, n, confidence)
    share = min(max(unbiased, 0.0), 1.0)
    error = math.sqrt(float(bound.variance(np.array([unbiased]), n)[0]))
    return ShareEstimate(share, unbiased, error, min(float(lower), share), max(float(upper), share))
