"""Effects of an experiment from noisy totals, with errors that count chance among units and noise.

Means are compared bin by bin of what was known of units before, and the bins weighed by how many
units they have: post-stratification, which is regression on the bins ("CUPED").
Source: Miratrix, Sekhon, Yu, "Adjusting treatment effect estimates by post-stratification in
randomized experiments", JRSS B 2013, equation (3); Deng, Xu, Kohavi, Walker, "Improving the
sensitivity of online controlled experiments by utilizing pre-experiment data", WSDM 2013.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from mechanisms.channel import Floats
from mechanisms.counters.job_noise import Law
from mechanisms.mean.looks import ErrorParts
from mechanisms.sampling.exact_geometric import ExactGeometric

_FEWEST, _DEVIATIONS = 20.0, 8.0  # units of a bin: fewer are no normal law, or may be noise


class Noise(NamedTuple):
    """Of one total.

    Attributes:
        variance: of it.
        fourth: the fourth cumulant.

    >>> from fractions import Fraction
    >>> law = ExactGeometric.falling(Fraction(1, 100))
    >>> round(Noise.of(law).fourth / Noise.of(law).variance ** 2, 3)
    3.0
    """

    variance: float
    fourth: float = 0.0

    @classmethod
    def of(cls, law: Law, unit: float = 1.0) -> "Noise":
        """That of a law.

        Args:
            law: of whole numbers.
            unit: what one of them is.
        """
        variance = float(law.var())
        # Of two-sided geometric noise: 2 a (1 + 4 a + a^2) / (1 - a)^4, written by its variance.
        fourth = 3 * variance**2 + variance if isinstance(law, ExactGeometric) else 0.0
        return cls(variance * unit**2, fourth * unit**4)


class ArmMeans(NamedTuple):
    """One outcome of all arms.

    Attributes:
        mean: (arms,) NaN where there are too few units.
        sampling: (arms,) the variance that chance among units gives it.
        noise: (arms,) the variance that is added for privacy.
        fourth: (arms,) the fourth cumulant of that.
    """

    mean: Floats
    sampling: Floats
    noise: Floats
    fourth: Floats

    def scaled(self, middle: float, half: float) -> "ArmMeans":
        """In other units: the middle and half of the range that [-1, 1] stands for."""
        variances = (part * half**2 for part in (self.sampling, self.noise))
        return ArmMeans(middle + half * self.mean, *variances, self.fourth * half**4)

    def error(self, *arms: int) -> ErrorParts:
        """What the mean of an arm errs by, or the difference of two."""
        parts = (part[[*arms]].sum() for part in (self.sampling, self.noise, self.fourth))
        return ErrorParts(*map(float, parts))

    def lift(self, arm: int, far: float) -> tuple[float, float, float]:
        """How much larger the mean of an arm is than that of the first, in parts of that.

        Source: Fieller, "Some problems in interval estimation", JRSS B 1954.

        Args:
            arm: another one.
            far: how many standard errors refute a quotient.

        Returns:
            The lift, and the ends of its interval: NaN, and infinite, where the first may be 0.
        """
        mean, first = float(self.mean[arm]), float(self.mean[0])
        own, others = (far**2 * self.error(place).standard_error ** 2 for place in (arm, 0))
        certain = first**2 - others
        if not certain > 0:
            return math.nan, -math.inf, math.inf
        root = math.sqrt(max((mean * first) ** 2 - certain * (mean**2 - own), 0.0))
        ends = sorted((mean * first + side * root) / certain - 1 for side in (-1, 1))
        return mean / first - 1, ends[0], ends[1]


def pooled(units: Floats, noise: Noise) -> NDArray[np.int64]:
    """Where bins begin, neighbours put together until all arms have enough units in each.

    Which these are follows from noisy numbers alone.

    Args:
        units: (arms, bins) how many there are.
        noise: of each.
    """
    least = max(_FEWEST, _DEVIATIONS * math.sqrt(noise.variance))
    starts, there = [0], np.zeros(len(units))
    for place, column in enumerate(units.T):
        if place and (there >= least * math.sqrt(place - starts[-1])).all():
            starts.append(place)
            there = np.zeros(len(units))
        there = there + column
    if len(starts) > 1 and not (there >= least).all():
        starts.pop()
    return np.array(starts)


def arm_means(
    units: Floats,
    totals: Floats,
    squares: Floats | None,
    noises: Sequence[Noise],
    rounding: float = 0.0,
) -> ArmMeans:
    """The means of one outcome.

    Args:
        units: (arms, bins) how many units there are.
        totals: (arms, bins) what they add up to.
        squares: the same of squares; None of a rate, whose numbers are their squares.
        noises: of one of `units`, of `totals` and of `squares`.
        rounding: the variance that rounding gives a number.
    """
    starts = pooled(units, noises[0])
    width = np.diff(starts, append=units.shape[1])
    n, sums = (np.add.reduceat(part, starts, axis=1) for part in (units, totals))
    people = n.sum(axis=1)
    enough = (n >= max(_FEWEST, _DEVIATIONS * math.sqrt(noises[0].variance))).all(axis=1)
    n = np.maximum(n, 1.0)
    means, weights = sums / n, n.sum(axis=0) / n.sum()
    variance = width * (noises[1].variance + means**2 * noises[0].variance) / n**2
    fourth = width * (noises[1].fourth + means**4 * noises[0].fourth) / n**4
    # Squares of noisy means are too large by what noise adds to them.
    lost = (n * (means**2 - variance)).sum(axis=1)
    freedom = np.maximum(people - len(starts), 1.0)
    if squares is None:
        within = (sums.sum(axis=1) - lost) / freedom
        # One more of either kind, as of Agresti and Caffo (American Statistician 2000): where few
        # have an outcome, an interval would be too short.
        rate = np.clip(sums.sum(axis=1) / np.maximum(people, 1.0), 0, 1)
        usual = (rate * people + 1) / (people + 2)
        most = usual * (1 - usual)
        within = np.clip(within + most - rate * (1 - rate), most / 10, most)
    else:
        within = (squares.sum(axis=1) - lost) / freedom
        least = 2 * math.sqrt(units.shape[1] * noises[2].variance)
        within = np.maximum(within, least / np.maximum(people, 1.0)) + rounding
    return ArmMeans(
        np.where(enough, (weights * means).sum(axis=1), np.nan),
        within * (weights**2 / n).sum(axis=1),
        (weights**2 * variance).sum(axis=1),
        (weights**4 * fourth).sum(axis=1),
    )


def sample_ratio(units: Floats, shares: Sequence[float], noise: float) -> float:
    """How often arms are as far from their shares, where units are divided by these: a p-value.

    Pearson's chi-square with the noise in its covariance.

    Args:
        units: (arms,) how many each has.
        shares: (arms,) of all units, that were declared; they add up to 1.
        noise: the variance of one of `units`.

    >>> fair = [0.5, 0.5]
    >>> [round(sample_ratio(np.array(n), fair, 8.0), 3) for n in ([5000, 5100], [5000, 5400])]
    [0.32, 0.0]
    """
    parts, whole = np.asarray(shares), max(float(units.sum()), 1.0)
    left = np.eye(parts.size) - np.outer(parts, np.ones(parts.size))
    spread = left @ (np.diag(whole * parts) + noise * np.eye(parts.size)) @ left.T
    off = left @ units
    statistic = float(off @ np.linalg.pinv(spread, hermitian=True) @ off)
    return float(gammaincc((parts.size - 1) / 2, max(statistic, 0.0) / 2))
