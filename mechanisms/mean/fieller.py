"""Intervals of quotients: every mean that the reports do not refute, asked candidate by candidate.

Whether sum - mean * share may be 0 is asked for each mean, so nothing is divided by a share that
may be 0 itself.

Source: Fieller, "Some problems in interval estimation", J. Royal Statistical Society Series B,
    1954.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats

_TRIED, _FAR = 4001, 40.0  # candidates for a mean, within so many standard errors
_MEANS = 33  # tried of an interval of means
_FARTHER = 25.0  # times as far where none of these is refuted; so steps stay below 1 % of the way


def candidates(centre: Floats, error: Floats) -> Floats:
    """(k, tried) means of [-1, 1] in ascending order, around (k,) estimates with their errors.

    Where there is no finite estimate, they lie all over [-1, 1].
    """
    inside = np.isfinite(centre)
    around = np.where(inside, centre, 0.0)[:, None]
    width = np.where(inside, np.minimum(_FAR * error, 2.0), 2.0)[:, None]
    return np.clip(around + width * np.linspace(-1, 1, _TRIED), -1, 1)


def unrefuted(
    allowed: Callable[[Floats], NDArray[np.bool_]], centre: Floats, error: Floats
) -> tuple[Floats, Floats]:
    """The least and the largest mean that the reports do not refute.

    Where few reports are off at all, as at a great epsilon, limits that hold for any number of
    reports lie hundreds of standard errors away: whatever is not refuted at the farthest
    candidate is asked again of candidates that lie farther.

    Args:
        allowed: which of (k, tried) means are not refuted.
        centre: (k,) estimates in [-1, 1]; not finite where there is none.
        error: (k,) their standard errors.

    Returns:
        ((k,) the lower ends, (k,) the upper ones), in [-1, 1].

    >>> near = lambda means: np.abs(means - 0.25) <= 0.125
    >>> lower, upper = unrefuted(near, np.array([0.25]), np.array([1e-6]))
    >>> lower.round(2).tolist(), upper.round(2).tolist()
    ([0.12], [0.38])
    """
    while True:
        means = candidates(centre, error)
        allowed_means = allowed(means)
        farther = (allowed_means[:, 0] & (means[:, 0] > -1)) | (
            allowed_means[:, -1] & (means[:, -1] < 1)
        )
        if not farther.any():
            return ends(allowed_means, means)
        error = np.where(farther, np.maximum(_FARTHER * error, 1e-12), error)


def ends(allowed: NDArray[np.bool_], means: Floats) -> tuple[Floats, Floats]:
    """The ends of what is not refuted.

    Args:
        allowed: (k, tried) which means are not.
        means: (k, tried), from `candidates`.

    Returns:
        ((k,) the lower ends, (k,) the upper ones), in [-1, 1].
    """
    last, row = means.shape[1] - 1, np.arange(means.shape[0])
    low, high = allowed.argmax(axis=1), last - allowed[:, ::-1].argmax(axis=1)
    # Outward to the next candidate, which is the first that was refuted; where the outermost was
    # not, there is none.
    lower = np.where(low > 0, means[row, np.maximum(low - 1, 0)], -1.0)
    upper = np.where(high < last, means[row, np.minimum(high + 1, last)], 1.0)
    some = allowed.any(axis=1)
    return np.where(some, lower, -1.0), np.where(some, upper, 1.0)


class RatioEstimate(NamedTuple):
    """Means that are quotients of two noisy numbers, on the scale of [-1, 1].

    Attributes:
        ratio: (k,) NaN where the divisor is not positive.
        error: (k,) by the delta method; NaN where there is none.
        lower: (k,) the ends of all that is not refuted, in [-1, 1].
        upper: (k,)
    """

    ratio: Floats
    error: Floats
    lower: Floats
    upper: Floats


def quotients(
    sums: Floats,
    numbers: Floats | np.float64,
    sum_error: Floats | float,
    number_error: Floats | float,
    far: Floats | float,
    covariance: Floats | float = 0.0,
    most: float = 1.0,
) -> RatioEstimate:
    """Sums over numbers whose noises are known.

    A mean m is refuted where |sum - m number| is more than `far` of its standard deviations: the
    roots of a parabola, or nothing where the number may be 0.

    Args:
        sums: (k,) unbiased.
        numbers: (k,) unbiased, of who is in each sum, or of all of them.
        sum_error: the standard deviation of a sum, or (k,) of each.
        number_error: that of a number.
        far: how many standard deviations refute.
        covariance: of a sum's noise and its number's.
        most: the largest quotient there can be, in place of 1.

    >>> found = quotients(np.array([50.0, 1.0]), np.array([100.0, 1.0]), 3.0, 4.0, 2.0)
    >>> found.lower.round(3).tolist(), found.upper.round(3).tolist()
    ([0.431, -1.0], [0.576, 1.0])
    """
    known = numbers > 0
    divisors = np.where(known, numbers, 1.0)
    ratio = np.where(known, sums / divisors, np.nan)
    inside = np.clip(ratio, -most, most)
    variance = sum_error**2 - 2 * inside * covariance + (inside * number_error) ** 2
    error = np.sqrt(np.maximum(variance, 0.0)) / divisors
    a = numbers**2 - (far * number_error) ** 2
    certain = known & (a > 0)
    safe = np.where(certain, a, 1.0)
    middle = sums * numbers - far**2 * covariance
    root = np.sqrt(np.maximum(middle**2 - a * (sums**2 - (far * sum_error) ** 2), 0.0))
    lower = np.where(certain, np.clip((middle - root) / safe, -most, most), -most)
    upper = np.where(certain, np.clip((middle + root) / safe, -most, most), most)
    return RatioEstimate(ratio, error, lower, upper)


def variances(
    moments: tuple[Floats, Floats, Floats],
    covariance: Floats,
    rounding: Floats,
    far: float,
    means: tuple[Floats, Floats],
) -> RatioEstimate:
    """How far numbers in [-1, 1] scatter, from noisy totals of them and of their squares.

    At the mean m the sum of (x - m)^2 - variance is 0: a variance is refuted as a quotient is. All
    means are tried that an interval of theirs holds; the risks of both add up (Bonferroni).

    Args:
        moments: (k,) each, unbiased: how many there are, their sum, and that of their squares.
        covariance: (3, 3) of the noises of these.
        rounding: (k,) the variance of the roundings of such a sum, at the most.
        far: how many standard deviations refute.
        means: (k,) each, the ends of intervals of the means.

    >>> known = tuple(np.array([x]) for x in (1000.0, 0.0, 250.0)), 9 * np.eye(3), np.zeros(1)
    >>> ratios = variances(*known, 2.0, (np.array([-0.01]), np.array([0.01])))
    >>> [round(float(x[0]), 4) for x in ratios]
    [0.25, 0.0031, 0.2438, 0.2563]
    """
    people, sums, squares = moments

    def around(mean: Floats) -> RatioEstimate:
        """The variance less the square of the mean."""
        weights = np.stack([0 * mean, -2 * mean, 1 + 0 * mean])
        own = np.sqrt(np.einsum("ik,ij,jk->k", weights, covariance, weights) + rounding)
        one, beside = math.sqrt(covariance[0, 0]), covariance[0] @ weights
        return quotients(squares - 2 * mean * sums, people, own, one, far, beside)

    mean = sums / np.where(people > 0, people, np.nan)
    best = around(np.clip(mean, -1, 1))
    tried = [means[0] + part * (means[1] - means[0]) for part in np.linspace(0, 1, _MEANS)]
    ratios = [(at**2, around(at)) for at in tried]
    most = 1 - np.square(np.clip(0, *means))  # the farther the mean, the less room there is
    low = np.min([one.lower + square for square, one in ratios], axis=0)
    high = np.max([one.upper + square for square, one in ratios], axis=0)
    spread = best.ratio + 2 * mean * np.clip(mean, -1, 1) - mean**2
    return RatioEstimate(spread, best.error, np.clip(low, 0, most), np.clip(high, 0, most))
