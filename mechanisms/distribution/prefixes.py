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
        """(inputs, codes) row k counts what is rounded to the points 0 .. k."""
        sums = np.cumsum(self.reconstruction.shares, axis=0)
        sums[-1] = 1.0  # all inputs together: every report counts once
        return np.asarray(sums)

    @cached_property
    def noise(self) -> Floats:
        """(inputs, inputs) the variance of a report's weight, given the input."""
        return self.reconstruction.noise(self.weights)

    def limits(
        self, counts: Floats, shares: Floats, n: int, confidence: float
    ) -> tuple[Floats, Floats]:
        """Limits of the sums, for the values of those who reported.

        Args:
            counts: (codes,) how often each code came.
            shares: (inputs,) an estimate of the bins' shares, nonnegative, adding up to 1.
            n: how many reports.
            confidence: of each sum alone, in (0, 1).

        Returns:
            (lower, upper), each (inputs,), in [0, 1]; the last sum is 1.
        """
        sums = self.weights @ counts / n
        half = self._half(shares, n, confidence)
        half[-1] = 0.0
        lower, upper = np.clip([sums - half, sums + half], 0, 1)
        return lower, upper

    def expected_length(self, n: int, confidence: float) -> float:
        """How long these limits will be on average, for uniform values.

        Args:
            n: how many reports.
            confidence: of the limits.
        """
        steps = self.noise.shape[1] - 1
        even = np.full(steps + 1, 1 / steps)
        even[[0, -1]] /= 2  # the first and the last bin are half as wide
        half = self._half(even, n, confidence)
        sums = np.cumsum(even)
        cut = np.clip([sums - half, sums + half], 0, 1)
        return float(np.mean((cut[1] - cut[0])[:-1]) * steps / (steps + 1))

    def _half(self, shares: Floats, n: int, confidence: float) -> Floats:
        """(inputs,) how far limits reach: normal ones, and what skewness may add."""
        z = normal_quantile(confidence)
        noise = self.noise @ shares if n >= _FEW else self.noise.max(axis=1)
        # Coins of values between points k and k + 1 alone move the sum. Of M values with odds u
        # they vary by M u (1 - u), and leave M (1 - u) and M u or more at the two points: so by at
        # most a b / (a + b) of what is there.
        beside = np.append(shares[1:], 0.0)
        coins = shares * beside / np.maximum(shares + beside, np.finfo(float).tiny)
        skew = (z * z + 2) / 6 * np.ptp(self.weights, axis=1) / n
        return np.asarray(z * np.sqrt((noise + coins) / n) + skew)
