"""Effects of an experiment from noisy totals, with errors that count chance among units and noise.

Arms are compared bin by bin of what was known of units before, and bins weighed by how many units
they have: post-stratification, which is regression on the bins ("CUPED").
Source: Miratrix, Sekhon, Yu, "Adjusting treatment effect estimates by post-stratification in
randomized experiments", JRSS B 2013; Deng, Xu, Kohavi, Walker, "Improving the sensitivity of online
controlled experiments by utilizing pre-experiment data", WSDM 2013.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from mechanisms.channel import Floats
from mechanisms.postprocess.simplex import rising

_FEWEST, _DEVIATIONS = 20.0, 8.0  # units of a bin: fewer are no normal law, or may be noise
_SPREAD = 2.0  # standard errors: how far a quantile's limits are apart says its own


class ArmMeans(NamedTuple):
    """One outcome of all arms.

    Attributes:
        mean: (arms,) NaN where there are too few units.
        sampling: (arms,) the variance that chance among units gives it.
        noise: (arms,) the variance that is added for privacy.
        band: of how many standard errors -> both ends (arms,) of intervals; None if the mean is in
            their middle.
    """

    mean: Floats
    sampling: Floats
    noise: Floats
    band: Callable[[float], tuple[Floats, Floats]] | None = None

    def scaled(self, middle: float, half: float) -> "ArmMeans":
        """In other units: the middle and half of the range that [-1, 1] stands for."""
        sampling, noise = (part * half**2 for part in (self.sampling, self.noise))
        return ArmMeans(middle + half * self.mean, sampling, noise)

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
        parts = self._parts(arm, far)
        if not min(first, mean) > 0:  # which ends of both meet is open: the farther ones
            parts = [np.max(parts, axis=0)] * 2
        ends = []
        for side, (own, other) in zip((-1, 1), parts, strict=True):
            certain = first**2 - other**2
            if not certain > 0:
                return (math.nan,) * 3
            root = math.sqrt(max((mean * first) ** 2 - certain * (mean**2 - own**2), 0.0))
            ends.append(float((mean * first + side * root) / certain - 1))
        return float(mean / first - 1), *sorted(ends)  # type: ignore[return-value]

    def reach(self, arm: int, far: float) -> tuple[float, float]:
        """How far the difference of an arm and the first may lie below its estimate, and above.

        Source: Zou and Donner, "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 2008: distances of the arms' own limits add up in squares.

        Args:
            arm: another one.
            far: how many standard errors refute a number.
        """
        below, above = (math.hypot(*part) for part in self._parts(arm, far))
        return below, above

    def _parts(self, arm: int, far: float) -> list[Floats]:
        """(2,) of an arm and the first, what lowers the difference; and what raises it."""
        half = far * np.sqrt(self.sampling + self.noise)
        low, high = self.band(far) if self.band else (self.mean - half, self.mean + half)
        below, above = self.mean - low, high - self.mean
        return [np.array([below[arm], above[0]]), np.array([above[arm], below[0]])]


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


def arm_quantiles(below: Floats, probability: float, edges: Floats, noise: Floats) -> ArmMeans:
    """A quantile of all arms, whose numbers are taken to lie evenly inside a bin.

    A number is refuted where the share below it is too far from the probability: by the variance of
    chance that would hold there, and that of the noise. Inside a bin both are no more than between
    its ends (Minkowski). Curves are fitted to rise, which keeps the order of limits.

    Args:
        below: (arms, bins + 1) noisy numbers of units below each end of a bin.
        probability: of the quantile.
        edges: (bins + 1,) ends of bins.
        noise: (bins + 1,) the variance of that of `below`, less the probability times all.
    """
    usual = probability * (1 - probability)
    n = np.maximum(below[:, -1:], 1.0)
    shares, errors = below / n, np.sqrt(usual / n + noise / n**2)

    def crossings(far: float, side: Literal["left", "right"]) -> Floats:
        curves = shares + far * errors
        return np.array([_crossing(curve, probability, edges, side) for curve in curves])

    def band(far: float) -> tuple[Floats, Floats]:
        return crossings(far, "left"), crossings(-far, "right")

    first, last = band(0.0)
    low, high = band(_SPREAD)
    enough = n[:, 0] >= max(_FEWEST, _DEVIATIONS * math.sqrt(noise.max()))
    middle = np.where(enough, (first + last) / 2, np.nan)
    # All may lie in one bin: then as if evenly.
    within = (edges[1] - edges[0]) ** 2 * usual / n[:, 0]
    variance = np.maximum(((high - low) / (2 * _SPREAD)) ** 2, within)
    own = np.interp((first + last) / 2, edges, noise) / n[:, 0]
    return ArmMeans(middle, variance * usual / (usual + own), variance * own / (usual + own), band)


def _crossing(
    shares: Floats, probability: float, edges: Floats, side: Literal["left", "right"]
) -> float:
    """Where the rising curve nearest to shares first reaches a probability, or last leaves it."""
    curve = np.concatenate([[0.0], rising(shares[1:-1]), [1.0]])
    end = int(np.searchsorted(curve, probability, side))
    begin, height = curve[end - 1], curve[end] - curve[end - 1]
    part = (probability - begin) / height
    return float(edges[end - 1] + part * (edges[end] - edges[end - 1]))


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
