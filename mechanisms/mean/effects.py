"""Effects of an experiment from noisy totals, with errors that count chance among units and noise.

Arms are compared bin by bin of what was known of units before, and bins weighed by how many units
they have: post-stratification, which is regression on the bins ("CUPED").
Source: Miratrix, Sekhon, Yu, "Adjusting treatment effect estimates by post-stratification in
randomized experiments", JRSS B 2013; Deng, Xu, Kohavi, Walker, "Improving the sensitivity of online
controlled experiments by utilizing pre-experiment data", WSDM 2013.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from mechanisms.channel import Floats

_FEWEST, _DEVIATIONS = 20.0, 8.0  # units of a bin: fewer are no normal law, or may be noise


class ArmMeans(NamedTuple):
    """One outcome of all arms.

    Attributes:
        mean: (arms,) NaN where there are too few units.
        sampling: (arms,) the variance that chance among units gives it.
        noise: (arms,) the variance that is added for privacy.
    """

    mean: Floats
    sampling: Floats
    noise: Floats

    def scaled(self, middle: float, half: float) -> "ArmMeans":
        """In other units: the middle and half of the range that [-1, 1] stands for."""
        variances = (part * half**2 for part in (self.sampling, self.noise))
        return ArmMeans(middle + half * self.mean, *variances)

    def lift(self, arm: int, far: float) -> tuple[float, float, float]:
        """How much larger the mean of an arm is than that of the first, in parts of that.

        Source: Fieller, "Some problems in interval estimation", JRSS B 1954.

        Args:
            arm: another one.
            far: how many standard errors refute a quotient.

        Returns:
            The lift, and the ends of its interval; NaN where the first mean may be 0.
        """
        first, mean = self.mean[0], self.mean[arm]
        others, own = (far**2 * (self.sampling + self.noise))[[0, arm]]
        certain = first**2 - others
        if not certain > 0:
            return (math.nan,) * 3
        root = math.sqrt(max((mean * first) ** 2 - certain * (mean**2 - own), 0.0))
        ends = ((mean * first + side * root) / certain - 1 for side in (-1, 1))
        return float(mean / first - 1), *sorted(map(float, ends))  # type: ignore[return-value]


def arm_means(
    units: Floats,
    totals: Floats,
    squares: Floats | None,
    noises: Sequence[float],
    rounding: float = 0.0,
) -> ArmMeans:
    """The means of one outcome.

    Args:
        units: (arms, bins) how many units there are.
        totals: (arms, bins) what they add up to.
        squares: the same of squares; None of a rate, whose numbers are their squares.
        noises: the variances of one of `units`, of `totals` and of `squares`.
        rounding: the variance that rounding gives a number.
    """
    least = max(_FEWEST, _DEVIATIONS * math.sqrt(noises[0]))
    starts = _pooled(units, least)
    width = np.diff(starts, append=units.shape[1])
    n, sums = (np.add.reduceat(part, starts, axis=1) for part in (units, totals))
    people, enough = np.maximum(n.sum(axis=1), 1.0), (n >= least).all(axis=1)
    n = np.maximum(n, 1.0)
    means, weights = sums / n, n.sum(axis=0) / n.sum()
    variance = width * (noises[1] + means**2 * noises[0]) / n**2
    # Squares of noisy means are too large by what noise adds to them.
    lost, freedom = (n * (means**2 - variance)).sum(axis=1), np.maximum(people - len(starts), 1.0)
    if squares is None:
        # One more of either kind, as of Agresti and Caffo (American Statistician 2000): where few
        # have an outcome, an interval would be too short.
        rate = np.clip(sums.sum(axis=1) / people, 0, 1)
        usual = (rate * people + 1) / (people + 2)
        most = usual * (1 - usual)
        within = (sums.sum(axis=1) - lost) / freedom + most - rate * (1 - rate)
        within = np.clip(within, most / 10, most)
    else:
        floor = 2 * math.sqrt(units.shape[1] * noises[2]) / people
        within = np.maximum((squares.sum(axis=1) - lost) / freedom, floor) + rounding
    mean = np.where(enough, (weights * means).sum(axis=1), np.nan)
    return ArmMeans(
        mean, within * (weights**2 / n).sum(axis=1), (weights**2 * variance).sum(axis=1)
    )


def _pooled(units: Floats, least: float) -> NDArray[np.int64]:
    """Where bins begin, neighbours put together until all arms have enough noisy units in each."""
    starts, there = [0], np.zeros(len(units))
    for place, column in enumerate(units.T):
        if place and (there >= least * math.sqrt(place - starts[-1])).all():
            starts, there = [*starts, place], np.zeros(len(units))
        there = there + column
    return np.array(starts if (there >= least).all() else starts[: max(len(starts) - 1, 1)])


def sample_ratio(units: Floats, shares: Sequence[float], noise: float) -> float:
    """How often arms are as far from their shares, where units are divided by these: a p-value.

    Pearson's chi-square with the noise in its covariance.

    Args:
        units: (arms,) how many each has.
        shares: (arms,) of all units, that were declared; they add up to 1.
        noise: the variance of one of `units`.

    >>> [round(sample_ratio(np.array([5000, n]), [0.5, 0.5], 8.0), 3) for n in (5100, 5400)]
    [0.32, 0.0]
    """
    parts, whole = np.asarray(shares), max(float(units.sum()), 1.0)
    left = np.eye(parts.size) - np.outer(parts, np.ones(parts.size))
    spread = left @ (np.diag(whole * parts) + noise * np.eye(parts.size)) @ left.T
    statistic = float(units @ left.T @ np.linalg.pinv(spread, hermitian=True) @ left @ units)
    return float(gammaincc((parts.size - 1) / 2, max(statistic, 0.0) / 2))
