"""Means of those who have a number, of many attributes at once, and the shares who have none.

Each is a quotient of two averages of the reports that speak for it. Whether a mean may be m is
asked of sum - m * presence, whose mean is then 0, so nothing is divided by a share that may be 0
itself: Fieller's interval, the roots of a parabola.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.mean.intervals import HONEST, NOBODY, quotient_reach
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.postprocess.intervals import normal_quantile

JUDGED_FROM = 100  # reports whose spread is trusted: to a tenth, roughly
_NORMAL_FROM = 10.0  # squares of the farthest that one report can be off, in the variance of a sum


class UnusableShares(NamedTuple):
    """Shares of users who have no number, (k,) each; NaN where there is no report.

    Attributes:
        share: as likely as any, in [0, 1].
        unbiased: straight from the counts.
        standard_error: of `unbiased`.
        lower: ends of intervals inside [0, 1].
        upper: their other ends.
    """

    share: Floats
    unbiased: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class Quotients:
    """Reports about k attributes, averaged for each of them.

    Attributes:
        reports: (k,) how many there are.
        sums: (k,) average of what stands for the number; NaN where there is no report.
        presence: (k,) average of what stands for having one.
        moments: (3, k) mean squares of the sums, of their product with the presence, and of this.
        largest: (k,) the most that sum - mean * presence varies, whatever is there.
        reach: (k,) the farthest that it can be from 0, for means in [-1, 1].
        farthest: (k,) the farthest that the presence of a report can be from its mean.
        extremes: (m, 2) what made-up reports add to sums and presence, at the extremes.
        scale: one in so many users reports a given attribute.
    """

    reports: NDArray[np.int64]
    sums: Floats
    presence: Floats
    moments: Floats
    largest: Floats
    reach: Floats
    farthest: Floats
    extremes: Floats
    scale: float

    @classmethod
    def of(
        cls,
        mechanisms: Sequence[WithUnusable],
        counts: Sequence[NDArray[np.int64]],
        scale: float = 1.0,
    ) -> "Quotients":
        """Those of each attribute's own counts.

        Args:
            mechanisms: (k,) what users ran for each of them.
            counts: (k,) arrays of how often each of its codes came.
            scale: one in so many users reports a given attribute.
        """
        weights = {one: _weights(one) for one in set(mechanisms)}
        worst = {one: _worst(one) for one in weights}
        rows = zip(mechanisms, counts, strict=True)
        totals = np.array([weights[one] @ part for one, part in rows]).reshape(-1, 6).T
        with np.errstate(invalid="ignore", divide="ignore"):
            averages = totals[1:] / totals[0]
        largest, reach, farthest = np.array([worst[one] for one in mechanisms]).reshape(-1, 3).T
        extremes = np.concatenate([one.extreme_reports for one in weights])
        reports = totals[0].astype(np.int64)
        return cls(
            reports, averages[0], averages[1], averages[2:], largest, reach, farthest, extremes,
            scale,
        )  # fmt: skip

    @property
    def means(self) -> Floats:
        """(k,) of those who have a number, never clipped; NaN where nobody seems to have one."""
        seen = self.presence > 0
        return np.where(seen, self.sums / np.where(seen, self.presence, 1.0), np.nan)

    @property
    def variances(self) -> Floats:
        """(k,) of the means, by the spread of the reports: rough where these are few."""
        means = self.means
        squares = self.moments[0] - 2 * means * self.moments[1] + means**2 * self.moments[2]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.maximum(squares, 0) / (self.reports - 1) / self.presence**2)

    @property
    def errors(self) -> Floats:
        """(k,) standard errors of the means: of the worst case where reports are few."""
        with np.errstate(invalid="ignore", divide="ignore"):
            worst = self.largest / self.reports / self.presence**2
        trusted = self.reports >= JUDGED_FROM
        return np.sqrt(np.where(trusted, np.fmin(self.variances, worst), worst))

    def half_widths(self, confidence: float, comparisons: int) -> Floats:
        """(k,) how far intervals of the means reach to either side; all the way where need be.

        Fieller's are longer on one side than on the other: the longer one is taken for both.

        Args:
            confidence: in (0, 1).
            comparisons: how many intervals share the risk.
        """
        ends = self._normal(normal_quantile(confidence, comparisons))
        return np.where(
            self._many(confidence, comparisons), ends, self._sure(confidence, comparisons)
        )

    def lies_reach(self, share: float) -> float:
        """How far a share of users can move any mean who state another value, or none.

        Args:
            share: of the users who do.
        """
        return _moved((self.sums, self.presence), HONEST, share)

    def forged_reach(self, share: float) -> float:
        """The same of users who make their reports up, all about one attribute.

        Args:
            share: of the users who do.
        """
        averages = self.sums / self.scale, self.presence / self.scale
        return _moved(averages, self.extremes, share)

    def _many(self, confidence: float, comparisons: int) -> NDArray[np.bool_]:
        """(k,) where enough reports add up for normal limits."""
        quantile = normal_quantile(confidence, comparisons)
        least = max(_NORMAL_FROM, quantile**4) * self.reach**2
        spread = np.minimum(self.moments[0], self.largest) * self.reports
        return np.asarray((spread >= least) & (self.reports >= JUDGED_FROM))

    def _normal(self, quantile: float) -> Floats:
        """(k,) by the roots of (sums - m presence)^2 = quantile^2 (moments of the same) / n."""
        with np.errstate(invalid="ignore", divide="ignore"):
            part = quantile**2 / self.reports
            square = self.presence**2 - part * self.moments[2]
            linear = self.sums * self.presence - part * self.moments[1]
            inner = linear**2 - square * (self.sums**2 - part * self.moments[0])
            root = np.sqrt(np.maximum(inner, 0))
            far = np.maximum(
                np.abs((linear - root) / square - self.means),
                np.abs((linear + root) / square - self.means),
            )
        return np.where((square > 0) & (self.presence > 0), far, np.inf)

    def _sure(self, confidence: float, comparisons: int) -> Floats:
        """(k,) by Bernstein's inequality."""
        half = _bernstein(self.largest, self.reach, self.reports, confidence, comparisons)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.presence > 0, half / self.presence, np.inf)

    def unusable(self, confidence: float) -> UnusableShares:
        """(k,) shares of users without a number, each with an interval of its own."""
        unbiased = 1 - self.presence
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.maximum(self.moments[2] - self.presence**2, 0)
            largest = self.farthest**2 / 4  # of anything inside so wide a range
            few = self.reports < JUDGED_FROM
            error = np.sqrt(np.where(few, largest, spread) / self.reports)
            many = ~few & (spread * self.reports >= _NORMAL_FROM * self.farthest**2)
            sure = _bernstein(largest, self.farthest, self.reports, confidence, 1)
        half = np.where(many, normal_quantile(confidence) * error, sure)
        share = np.clip(unbiased, 0, 1)
        lower, upper = np.clip(unbiased - half, 0, 1), np.clip(unbiased + half, 0, 1)
        lower, upper = np.minimum(lower, 1 - half / 2), np.maximum(upper, half / 2)
        return UnusableShares(
            share, unbiased, error, np.clip(lower, 0, share), np.clip(upper, share, 1)
        )


def _moved(averages: tuple[Floats, Floats], reports: Floats, share: float) -> float:
    """How far the most movable mean goes, at most from one bound to the other."""
    reach = quotient_reach(averages, np.append(reports, NOBODY, axis=0), share)
    return float(np.fmin(reach, 2.0).max(initial=0.0))


def _bernstein(
    largest: Floats, reach: Floats, n: NDArray[np.int64], confidence: float, comparisons: int
) -> Floats:
    """(k,) how far averages of n reports are off, but for the risk that is left.

    Source: Bernstein's inequality, as in Boucheron, Lugosi, Massart, "Concentration inequalities",
        2013, eq. 2.10.
    """
    risk = math.log(2 * comparisons / (1 - confidence))
    linear = reach * risk / (3 * n)
    return np.asarray(linear + np.sqrt(linear**2 + 2 * largest * risk / n))


def _weights(mechanism: WithUnusable) -> Floats:
    """(6, codes) one, the sums, the presence and their three products."""
    sums, presence = mechanism.sums, mechanism.presence
    whole = np.ones_like(sums)
    return np.stack([whole, sums, presence, sums**2, sums * presence, presence**2])


def _worst(mechanism: WithUnusable) -> tuple[float, float, float]:
    """The most that a report's sum - mean * presence varies, and the farthest that both reach."""
    ends = np.array([-1.0, 0.0, 1.0])
    _, largest = mechanism.between(ends)
    sums, presence = (float(np.abs(x).max()) for x in (mechanism.sums, mechanism.presence))
    # Values differ from their mean by at most 2, so that who happens to report adds at most 4.
    return float(largest.max()) + 4, sums + presence + 2, float(np.ptp(mechanism.presence))
