"""From counts of codes to a distribution: shares, quantiles and the mean, each with limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mechanisms.channel import AsFields, Counts, Floats, Mechanism, require_integer
from mechanisms.distribution.limits import opened_limits
from mechanisms.distribution.noise import WeightNoise
from mechanisms.distribution.prefixes import (
    NumberEstimate,
    PrefixSums,
    mean_of_usable,
    unusable_share,
)
from mechanisms.distribution.quantiles import quantile_limits, quantiles
from mechanisms.distribution.ramps import Ramps
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.mean.intervals import half_width
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.usable_mean import ShareEstimate
from mechanisms.mean.window import Window
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.postprocess.channel_products import ChannelProducts, Dense, OneMore
from mechanisms.postprocess.expectation_maximisation import fit
from mechanisms.postprocess.intervals import opened

_TOLERANCE = 0.1  # nats of the whole likelihood: further steps fit the noise
_SMOOTH_TOLERANCE = 1e-3  # as published: smoothed steps have no likelihood to climb
_FEW = 100  # reports whose own spread says too little of their variance


class NumberSummary(NamedTuple):
    """What a batch of reports says about a column of numbers, on the scale of [-1, 1].

    Where some users may have no number, all but `n` and `unusable` is of those who have one.

    Attributes:
        n: how many reports were counted.
        edges: (bins + 1,) where bins begin and end: halfway between grid points.
        estimate: (bins,) shares, nonnegative, adding up to 1.
        unbiased: (bins,) the same straight from the counts; NaN if nobody seems to have a number.
        standard_error: (bins,) of the unbiased ones.
        lower: (bins,) limits of each share.
        upper: (bins,)
        cumulative: (bins,) the sums of the estimates.
        cumulative_lower: (bins,) limits of the share of values up to each bin's upper edge: of the
            values as rounding moved them, and of these themselves where they lie evenly.
        cumulative_upper: (bins,)
        sure_lower: (bins,) the same, whatever the distribution: a bin's share wider, or more.
        sure_upper: (bins,)
        quantiles: (k, 3) the estimate and the limits of each quantile.
        mean: straight from the counts.
        mean_of_estimate: of the estimated shares; biased.
        iterations: how many were made.
        converged: whether the likelihood had come to rest.
        unusable: the share of users who have no number; None if everybody has one.
    """

    n: int
    edges: Floats
    estimate: Floats
    unbiased: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    cumulative: Floats
    cumulative_lower: Floats
    cumulative_upper: Floats
    sure_lower: Floats
    sure_upper: Floats
    quantiles: Floats
    mean: NumberEstimate
    mean_of_estimate: float
    iterations: int
    converged: bool
    unusable: ShareEstimate | None


@dataclass(frozen=True)
class DistributionEstimator(AsFields):
    """The collector of a distribution: what it makes of counts is post-processing.

    The inputs of the mechanism are grid points of [-1, 1], to which values are rounded by a coin
    that keeps their mean. So bins hold values that were moved by up to half a bin: a bin's share
    is that of the moved values, and so are sums of shares, while sure limits of F, quantiles and
    the mean are those of the values as they were.

    Attributes:
        mechanism: any channel that determines its inputs' distribution.
        span: m, over how many grid points limits of F average.
        smooth: whether EM's steps are smoothed (EMS): closer on smooth data, and biased by an
            amount that does not shrink with n where there are spikes.
        hides: whether the last input stands for no number.

    Raises:
        ValueError: the mechanism has fewer than two bins, or span is no positive integer.

    >>> from mechanisms.mean.widths import noise
    >>> collector = DistributionEstimator(noise(1.0, cells=15), span=2)
    >>> summary = collector.summarise(np.full(collector.mechanism.codes, 100))
    >>> round(abs(summary.mean.estimate), 9), round(float(summary.estimate.sum()), 9)
    (0.0, 1.0)
    """

    mechanism: Mechanism
    span: int
    smooth: bool = False
    hides: bool = False

    def __post_init__(self) -> None:
        if not self.bins >= 2:
            raise ValueError("a distribution needs at least 2 bins")
        require_integer("span", self.span, 1)

    @classmethod
    def around(cls, ramps: Ramps, mechanism: Mechanism) -> "DistributionEstimator":
        """The collector of a mechanism of which a planner has worked out the averages already.

        Args:
            ramps: the averages, of that mechanism.
            mechanism: as above.
        """
        made = cls(mechanism, ramps.span, hides=ramps.reconstruction.hides)
        # To reconstruct hundreds of shares takes as long as to find the mechanism.
        vars(made).update(reconstruction=ramps.reconstruction, ramps=ramps)
        return made

    @property
    def bins(self) -> int:
        """How many grid points there are."""
        return self.mechanism.inputs - self.hides

    @property
    def points(self) -> Floats:
        """(bins,) the grid points."""
        return np.linspace(-1.0, 1.0, self.bins)

    @property
    def edges(self) -> Floats:
        """(bins + 1,) where bins begin and end; the first and the last bin are half as wide."""
        middles = (self.points[:-1] + self.points[1:]) / 2
        return np.concatenate([[-1.0], middles, [1.0]])

    @cached_property
    def reconstruction(self) -> Reconstruction:
        """The unbiased estimates."""
        return Reconstruction.of(self.mechanism, self.hides)

    @cached_property
    def ramps(self) -> Ramps:
        """The averages whose limits are those of F."""
        return Ramps(self.reconstruction, self.span)

    @cached_property
    def prefixes(self) -> PrefixSums:
        """The sums of shares, whose limits take it for granted that values lie evenly."""
        return PrefixSums(self.reconstruction)

    def expected_length(self, n: int, confidence: float) -> float:
        """How long the limits of cumulative shares will be on average, for uniform values.

        Args:
            n: how many reports.
            confidence: of the limits.
        """
        return min(self.prefixes.expected_length(n, confidence), self.sure_length(n, confidence))

    def sure_length(self, n: int, confidence: float) -> float:
        """The same of sure limits at edges, from the point before to the one after: not cut off.

        More than 1 where the noise is more than all there is to know.
        """
        return self.ramps.expected_length(n, confidence) + 1 / (self.bins - 1)

    @cached_property
    def _shares(self) -> WeightNoise:
        known = self.reconstruction
        return WeightNoise(known, known.shares, np.eye(self.bins, self.mechanism.inputs))

    @cached_property
    def mean_weights(self) -> Floats:
        """(codes,) what each code stands for, where a mean is wanted."""
        if isinstance(self.mechanism, (ScalarMean, WithUnusable)):
            return self.mechanism.sums
        # The mean of the unbiased shares, as one weight for each code.
        return np.asarray(self.points @ self.reconstruction.shares)

    @cached_property
    def _products(self) -> ChannelProducts:
        """The channel as expectation maximisation sees it."""
        known = self.reconstruction
        inner = getattr(self.mechanism, "mechanism", self.mechanism)
        if not isinstance(inner, Window):
            return Dense(known.table)
        window = inner.law.products
        return OneMore(window, known.table[:, -1], known.table[-1, 0]) if self.hides else window

    def summarise(
        self, counts: Counts, confidence: float = 0.95, probabilities: Sequence[float] = (0.5,)
    ) -> NumberSummary:
        """Everything that is published of the reports.

        Args:
            counts: (codes,) how often each code came.
            confidence: of every interval, alone, in (0, 1).
            probabilities: of the quantiles that are wanted, in (0, 1).

        Returns:
            The summary. An estimate lies within its limits: where the limits of the reports leave
            it out, which is rare, they reach to it.

        Raises:
            ValueError: there is no report, or counts of another mechanism.
        """
        array = np.asarray(counts, np.float64)
        if array.shape != (self.mechanism.codes,):
            raise ValueError(f"counts must be of shape ({self.mechanism.codes},)")
        n = int(array.sum())
        if not n >= 1:
            raise ValueError("there is no report to estimate from")
        tolerance = _SMOOTH_TOLERANCE if self.smooth else _TOLERANCE
        best = fit(
            array, self._products, self.smooth, tolerance=tolerance, accelerate=not self.smooth,
            apart=int(self.hides),
        )  # fmt: skip
        shares = _of_one(best.distribution[: self.bins])
        present = float(self.reconstruction.presence @ array / n)
        total = self.reconstruction.shares @ array / n
        unbiased = total / present if present > 0 else np.full_like(total, np.nan)
        bound = self._shares.bound(min(max(present, 0.0), 1.0))
        variance = bound.variance(unbiased, n, max(present, 1 / n))
        if n >= _FEW and present > 0:
            variance = np.minimum(variance, self._seen_variance(array, unbiased, present))
        sums = np.minimum(np.cumsum(shares), 1.0)
        # Rounding may leave a cumulative share a hair below.
        sums[-1] = 1.0
        low, high = self.ramps.distribution_limits(array, n, confidence)
        # Up to an edge there are at least as many values as to the point before it, and at most
        # as many as to the point after it.
        sure = _around(sums, low, np.append(high[1:], 1.0))
        sure[0][-1] = 1.0
        limits_of_sums = sure
        # Which of the two is shorter is foreseen: a look at the reports would cost confidence.
        if self.prefixes.expected_length(n, confidence) < self.sure_length(n, confidence):
            limits_of_sums = _around(
                sums, *self.prefixes.limits(array, best.distribution, n, confidence)
            )
        quantile = quantiles(probabilities, shares, self.edges)
        around = _around(quantile, *quantile_limits(probabilities, low, high, self.points))
        return NumberSummary(
            n,
            self.edges,
            shares,
            unbiased,
            np.sqrt(variance),
            *_around(shares, *opened_limits(total, bound, n, confidence, present)),
            sums,
            *limits_of_sums,
            *sure,
            np.stack([quantile, *around], axis=1),
            self._mean(array, n, confidence),
            float(shares @ self.points),
            best.iterations,
            best.converged,
            unusable_share(self.reconstruction, array, confidence) if self.hides else None,
        )

    def _seen_variance(self, counts: Floats, unbiased: Floats, present: float) -> Floats:
        """(bins,) of the unbiased shares, the values given: what reports vary by, less the values.

        Limits hold for whatever population, and so must the variance behind them; an error is that
        of this one. Straight from the counts, so that no iteration moves it.

        Args:
            counts: (codes,) of all reports.
            unbiased: (bins,) shares among those who have a number.
            present: the share of these.
        """
        n, known = counts.sum(), self.reconstruction
        deviations = known.shares - unbiased[:, None] * known.presence
        reports = deviations**2 @ counts / n
        values = present * unbiased * (1 - unbiased)
        return np.asarray(np.maximum(reports - values, 0) / n / present**2)

    def forged_reach(self, summary: NumberSummary, share: float) -> tuple[float, float]:
        """How far made-up reports can have moved any unbiased sum of the first shares; the mean.

        Args:
            summary: what was published.
            share: of reports that are made up.
        """
        known = self.reconstruction
        present = 1.0 if summary.unusable is None else 1 - summary.unusable.unbiased
        rows, sums = np.cumsum(known.shares, axis=0), np.cumsum(summary.unbiased)
        mean = np.array([summary.mean.estimate])
        return (
            known.forged_reach(rows, sums, present, share),
            known.forged_reach(self.mean_weights[None], mean, present, share),
        )

    def _mean(self, counts: Floats, n: int, confidence: float) -> NumberEstimate:
        """The average of what the codes stand for; its interval covers users and population.

        So the variance is the spread of the reports, that of the values included.
        """
        weights = self.mean_weights
        if self.hides:
            return mean_of_usable(self.reconstruction, weights, counts, confidence)
        mean = float(weights @ counts / n)
        largest = (
            float(self.reconstruction.noise(weights[None, :]).max()) + 1
        )  # of values: at most 1
        spread = float((weights - mean) ** 2 @ counts) / max(n - 1, 1)
        variance = min(spread, largest) if n >= _FEW else largest
        reach = 1 + float(np.abs(weights).max())
        half = half_width(np.array(variance), np.array(largest), np.array(reach), n, confidence)
        ends = np.clip([mean - half, mean + half], -1, 1)
        lower, upper = opened(ends[0], ends[1], half / 2, half / 2, low=-1.0)
        return NumberEstimate(mean, math.sqrt(variance / n), float(lower), float(upper))


def _of_one(shares: Floats) -> Floats:
    """Brought to a sum of 1; all alike where there is nothing."""
    total = shares.sum()
    return shares / total if total > 0 else np.full_like(shares, 1 / shares.size)


def _around(estimate: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Limits that hold the estimate."""
    return np.minimum(lower, estimate), np.maximum(upper, estimate)
