"""The share of values up to the upper edge of a bin, as sharp as the reports allow.

Rounding sends a value between two grid points to either of them, by a coin that keeps its mean. The
share that is rounded to the points 0 .. k is an average over the values between points k and k + 1,
not more; where these lie evenly, it is the share of values up to halfway, the bin's upper edge.
Whoever takes that for granted need not allow for a whole bin's share, however many reports there
are, as `ramps` must.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechanisms.channel import Floats
from mechanisms.distribution.limits import limits, skewness
from mechanisms.distribution.noise import NoiseBound, WeightNoise
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.postprocess.intervals import normal_quantile

_FEW = 100  # reports whose own shares say too little of their variance


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
