"""The share of values up to a point, between two averages that can be estimated well.

Values of [-1, 1] come rounded at random to one of two grid points around them. Let G_k be the
share rounded to the points 0 .. k. A value up to point k counts in G_k in full and one beyond
point k + 1 not at all, so F(point k) <= G_k <= F(point k + 1) whatever the distribution; and then
F(point k) is at most the average of G_k .. G_{k+m-1}, and at least that of G_{k-m} .. G_{k-1}.
Averaging costs sharpness, m grid steps, and saves noise, by far the more where reports are noisy.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechanisms.channel import Floats
from mechanisms.distribution.limits import limits
from mechanisms.distribution.noise import WeightNoise
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.postprocess.intervals import normal_quantile


@dataclass(frozen=True, eq=False)
class Ramps:
    """Averages of m consecutive G_k, as weights of codes.

    Attributes:
        reconstruction: of the channel, whose inputs are the grid points.
        span: m, at least 1.
    """

    reconstruction: Reconstruction
    span: int

    @cached_property
    def weights(self) -> Floats:
        """(bins + span, codes): row i averages G_k over k from i - span, span of them."""
        return _averages(self.reconstruction.shares, self.reconstruction.presence, self.span)

    @cached_property
    def targets(self) -> Floats:
        """(bins + span, inputs) the weights' means given each input; they fall from 1 to 0."""
        known = self.reconstruction
        return _averages(np.eye(known.bins, known.present.size), known.present, self.span)

    @cached_property
    def noise(self) -> WeightNoise:
        """Of each average."""
        return WeightNoise(self.reconstruction, self.weights, self.targets)

    def expected_length(self, n: int, confidence: float) -> float:
        """How long the limits below will be on average, for uniform values.

        Args:
            n: how many reports.
            confidence: of the limits.
        """
        bins = self.reconstruction.bins
        middle, steps = self.targets[:, :bins].mean(axis=1), bins - 1
        error = np.sqrt(self.noise.bound().variance(middle, n) + middle * (1 - middle) / n)
        return float(2 * normal_quantile(confidence) * np.mean(error) + self.span / steps)

    def distribution_limits(
        self, counts: Floats, n: int, confidence: float
    ) -> tuple[Floats, Floats]:
        """Limits of F, the share of values up to a point, at each grid point.

        Args:
            counts: (codes,) how often each code came.
            n: how many reports: the sum of the counts.
            confidence: at each point alone, in (0, 1).

        Returns:
            (lower, upper), each (bins,). They hold for every distribution of those who have a
            value. F of the last point is 1.
        """
        share = float(self.reconstruction.presence @ counts / n)
        bound = self.noise.bound(min(max(share, 0.0), 1.0))
        lower, upper = limits(self.weights @ counts / n, bound, n, confidence, share)
        # Row i begins at G_{i - span}: row k is the average before point k, k + span that from it.
        low, high = lower[: -self.span].copy(), upper[self.span :].copy()
        low[-1] = high[-1] = 1.0
        return low, high


def best_ramps(reconstruction: Reconstruction, n: int, confidence: float = 0.95) -> Ramps:
    """The span, a power of two, whose limits are the shortest for uniform values.

    Nothing of the data is asked, so that the limits keep their confidence.

    Args:
        reconstruction: of the channel.
        n: how many reports are expected.
        confidence: of the limits.
    """
    best, length = Ramps(reconstruction, 1), np.inf
    span = 1
    while span == 1 or 2 * span < reconstruction.bins:
        ramps = Ramps(reconstruction, span)
        expected = ramps.expected_length(n, confidence)
        if not expected < length:
            break  # noise falls and the loss of sharpness grows: there is one valley
        best, length, span = ramps, expected, 2 * span
    return best


def _averages(shares: Floats, whole: Floats, span: int) -> Floats:
    """Running averages of the cumulative sums of rows, 0 before and the whole of them beyond."""
    sums = np.cumsum(shares, axis=0)
    sums[-1] = whole  # of everybody: rounding may leave a hair less
    sums = np.concatenate(
        [np.zeros((span, whole.size)), sums, np.broadcast_to(whole, (span - 1, whole.size))]
    )
    total = np.zeros((sums.shape[0] + 1, sums.shape[1]))
    np.cumsum(sums, axis=0, out=total[1:])
    averages: Floats = (total[span:] - total[:-span]) / span
    return averages
