"""The share of values up to the upper edge of a bin, as sharp as the reports allow.

Rounding sends a value between two grid points to either of them, by a coin that keeps its mean. The
share that is rounded to the points 0 .. k is an average over the values between points k and k + 1,
not more; where these lie evenly, it is the share of values up to halfway, the bin's upper edge.
Whoever takes that for granted need not allow for a whole bin's share, however many reports there
are, as `ramps` must.

The mean of those who have a value, and the share of those who have none.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mechanisms.channel import Floats
from mechanisms.distribution.limits import limits, opened_limits, skewness
from mechanisms.distribution.noise import NoiseBound, WeightNoise
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.mean.fieller import candidates, ends
from mechanisms.mean.intervals import half_width
from mechanisms.mean.usable_mean import ShareEstimate
from mechanisms.postprocess.intervals import normal_quantile

_FEW = 100  # reports whose own shares say too little of their variance


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


@dataclass(frozen=True, eq=False)
class PrefixSums:
    """Sums of the unbiased shares of the first bins, as weights of codes.

    Attributes:
        reconstruction: of the channel, whose inputs are the grid points.
    """

    reconstruction: Reconstruction

    @cached_property
    def weights(self) -> Floats:
        """(bins, codes) row k counts what is rounded to the points 0 .. k."""
        sums = np.cumsum(self.reconstruction.shares, axis=0)
        sums[-1] = self.reconstruction.presence  # all together: rounding may leave a hair less
        return np.asarray(sums)

    @cached_property
    def noise(self) -> WeightNoise:
        """Of each sum."""
        known = self.reconstruction
        return WeightNoise(
            known, self.weights, np.tri(known.bins, known.present.size) * known.present
        )

    def limits(
        self, counts: Floats, shares: Floats, n: int, confidence: float
    ) -> tuple[Floats, Floats]:
        """Limits of the sums, for the values of those who reported and have one.

        Args:
            counts: (codes,) how often each code came.
            shares: (inputs,) an estimate of the inputs' shares, nonnegative, adding up to 1.
            n: how many reports.
            confidence: of each sum alone, in (0, 1).

        Returns:
            (lower, upper), each (bins,), in [0, 1]; the last sum is 1.
        """
        share = float(self.reconstruction.presence @ counts / n)
        bound = self._bound(shares, n)
        lower, upper = limits(self.weights @ counts / n, bound, n, confidence, share, drawn=False)
        lower[-1] = upper[-1] = 1.0
        return lower, upper

    def expected_length(self, n: int, confidence: float) -> float:
        """How long these limits will be on average, for uniform values.

        Args:
            n: how many reports.
            confidence: of the limits.
        """
        bins = self.reconstruction.bins
        even = self.reconstruction.present / (bins - 1)
        even[[0, bins - 1]] /= 2  # the first and the last bin are half as wide
        sums, bound = np.cumsum(even)[:bins], self._bound(even, n)
        z = normal_quantile(confidence)
        half = z * np.sqrt(bound.variance(sums, n)) + skewness(bound, n, z)
        cut = np.clip([sums - half, sums + half], 0, 1)
        return float(np.mean((cut[1] - cut[0])[:-1]) * (bins - 1) / bins)

    def _bound(self, shares: Floats, n: int) -> NoiseBound:
        """How much the sums vary, the coins of rounding included."""
        bound = self.noise.of(shares) if n >= _FEW else self.noise.worst()
        # Coins of values between points k and k + 1 alone move the sum. Of M values with odds u
        # they vary by M u (1 - u), and leave M (1 - u) and M u or more at the two points: so by at
        # most a b / (a + b) of what is there.
        values = shares[: self.reconstruction.bins]
        beside = np.append(values[1:], 0.0)
        coins = values * beside / np.maximum(values + beside, np.finfo(float).tiny)
        return bound._replace(level=bound.level + coins)
