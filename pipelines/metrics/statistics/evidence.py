"""What noise leaves to be known of totals, in one form whoever added it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.mean.fieller import RatioEstimate, quotients, variances
from mechanisms.postprocess.intervals import normal_quantile, opened
from pipelines.metrics.counting.result import FigureError, Noisy, columns

Limits = tuple[Floats, Floats]
"""Lower ones and upper ones."""

_SCATTER = 5  # times the coin of a number, at the most: 4 in its square, and that has a coin, too
_FAR = 3  # standard deviations of a count, to which roundings are allowed for


@dataclass(frozen=True)
class Accuracy:
    """The noise of a workload's totals, which is the same whatever the data are.

    Attributes:
        total: of each total.
        others: of the number of people, by noise of its own; None where it is not known.
        shared: whether what is added to a total is added to the number of people, too.
        covariance: of a total's noise and of its number of people, where that is not shared.
        coin: the variance that rounding one number adds to a total, at the most.
        deviation: of a total's noise where part of it goes with the number of people; None where
            it is that of `total`.
        moments: (3, 3) covariances of the noise of a number of people, of its total and of that of
            squares; None where there are none.
    """

    total: FigureError
    others: FigureError | None = None
    shared: bool = False
    covariance: float = 0.0
    coin: float = 0.0
    deviation: float | None = None
    moments: Floats | None = None

    @property
    def noise(self) -> float:
        """The standard deviation of a total's noise, in its units."""
        own = self.total.sigma * self.total.unit
        return own if self.deviation is None else self.deviation

    @property
    def people(self) -> float:
        """The standard error of the number of people; NaN where that is not known."""
        if self.others is None:
            return math.nan
        return math.hypot(self.total.standard_error * self.shared, self.others.standard_error)

    def rounding(self, people: Any) -> Any:
        """The standard deviation of what rounding adds to a total of so many, at the most."""
        return np.sqrt(self.coin * people)


@dataclass(frozen=True)
class Evidence:
    """What is known of a batch.

    Attributes:
        totals: (groups,) unbiased, in the units of the workload; whole where units are counted.
        people: (groups,) or (1,) how many they are of; empty where that is not known.
        accuracy: of the noise.
        beside: (what stands beside the statistic, confidence) -> how many units, and how far off
            that may be; None of what nobody counts.
        moved: (groups,) shares after post-processing, where the collector has chosen which.
    """

    totals: Floats
    people: Floats
    accuracy: Accuracy
    beside: Callable[[str, float], Noisy | None]
    moved: Floats | None = None

    @property
    def errors(self) -> Floats:
        """(groups,) the standard errors of totals."""
        return np.full(self.totals.size, self.accuracy.total.standard_error)

    @property
    def people_errors(self) -> Floats:
        """(groups,) the standard errors of the numbers of people."""
        return np.full_like(self.people, self.accuracy.people)

    def alone(self, confidence: float) -> float:
        """Of each of all intervals of means that are to hold together."""
        return float(confidence ** (1 / self.people.size))

    def columns(self, confidence: float) -> dict[str, Any]:
        """The totals with errors and intervals.

        Args:
            confidence: of intervals: each alone, and all together.
        """
        return columns(self.totals, self.accuracy.total, confidence)

    @property
    def number(self) -> float:
        """How many units took part, and at least one: by fewer nobody can divide."""
        return max(float(self.people.sum()), 1.0)

    def shares(self, confidence: float, together: int) -> RatioEstimate:
        """Totals over the number of all people, in 0 .. 1, with intervals.

        Args:
            confidence: of the intervals.
            together: of how many that hold together.
        """
        one, others, shared = self.accuracy.total, self.accuracy.others, self.accuracy.shared
        if others is None:
            raise ValueError("how many people there are is not known")

        def divided(of_total: float, of_others: float) -> RatioEstimate:
            own = of_total if shared else 0.0
            errors = of_total, math.hypot(own, of_others)
            return quotients(self.totals, np.float64(self.number), *errors, 1.0, own**2)

        # Counts are whole: between two of them lies half a step to either side. Where units have a
        # counter of their own one half step is enough: by the exact laws 95 to 97 % of intervals
        # then hold, from epsilon 0.5 to 3, and with two of them up to 97.3 %.
        risk = 1 - (1 - confidence) / together
        halves = one.half(risk) + 0.5, others.half(risk) + (0.5 if shared else 0.0)
        known, wide = divided(one.standard_error, others.standard_error), divided(*halves)
        ends = np.maximum(wide.lower, 0.0), np.maximum(wide.upper, 0.0)
        return RatioEstimate(known.ratio, known.error, *opened(*ends, known.error, known.error))

    def means(self, confidence: float) -> RatioEstimate:
        """Totals over the number of people in each, in -1 .. 1, with Fieller's intervals."""
        accuracy, number = self.accuracy, self.accuracy.people
        if accuracy.others is None:
            raise ValueError("how many people there are is not known")
        # However many there are: as many as the count does not rule out.
        most = np.maximum(self.people + _FAR * number, 0)
        total = np.hypot(accuracy.noise, accuracy.rounding(most))
        # Heavier tails than a normal law's count for both.
        far = max(accuracy.total.far(confidence), accuracy.others.far(confidence))
        return quotients(self.totals, self.people, total, number, far, accuracy.covariance)


@dataclass(frozen=True, kw_only=True)
class MomentEvidence(Evidence):
    """What is known of numbers in -1 .. 1 and of their squares.

    Attributes:
        squares: (groups,) their totals, unbiased.
    """

    squares: Floats

    def variances(self, confidence: float) -> RatioEstimate:
        """How far numbers scatter around their mean: the mean squared distance, with intervals."""
        accuracy, risk = self.accuracy, 1 - confidence
        # Means that lie farther off matter little, so theirs is a small part of the risk.
        means, sure = self.means(1 - risk / 10), 1 - 0.9 * risk
        most = np.maximum(self.people + _FAR * accuracy.people, 0)
        far = max(accuracy.total.far(sure), normal_quantile(sure))
        totals, coins = (self.people, self.totals, self.squares), _SCATTER * accuracy.coin * most
        return variances(totals, np.array(accuracy.moments), coins, far, (means.lower, means.upper))


@dataclass(frozen=True, kw_only=True)
class PrefixEvidence(Evidence):
    """What is known of shares of numbers below the ends of bins, which totals are of.

    Attributes:
        edges: (bins + 1,) where bins begin and end, in the units of the bounds.
        bins: column -> (bins,) what is known of each, beside its estimated share.
        cumulative: (bins,) the estimated shares below the ends of bins; they rise to 1.
        limits: the end of a column's name -> (bins,) limits of these.
        quantiles: (k, 3) the estimate and the limits of each, in the units of the bounds; or (k, 5)
            with those that hold together.
        usable: confidence -> how many units have a number, and how far off that may be; None of
            what nobody counts.
    """

    edges: NDArray[Any]
    bins: Mapping[str, Floats]
    cumulative: Floats
    limits: Mapping[str, Limits]
    quantiles: Floats
    usable: Callable[[float], Noisy] | None = None
