"""How far off an estimated mean may be: its variance, from the reports themselves, and limits.

All is relative to the mean of the values that were reported: the reports' randomisation is what
varies. The variance of a report depends on the value behind it, which nobody knows; but the
reports' own first two moments say nearly all about the average of these variances.

How far liars can move a quotient of two averages, such as a mean of those who have a number.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats
from mechanisms.mean.scalar import ScalarMean
from mechanisms.postprocess.intervals import normal_quantile

# Normal limits are drawn where the variance of the sum is this many squares of the farthest that
# one report can be off: some thirty reports or more are then off at all, also where few are.
_NORMAL_FROM = 10.0


class MeanEstimate(NamedTuple):
    """What a batch of reports says about a mean, on the scale of [-1, 1].

    Attributes:
        n: how many reports.
        unbiased: straight from the counts; it may lie outside [-1, 1].
        standard_error: of `unbiased`.
        lower: end of an interval inside [-1, 1].
        upper: its other end.
    """

    n: int
    unbiased: float
    standard_error: float
    lower: float
    upper: float


def estimate_mean(
    mechanism: ScalarMean, counts: Counts, confidence: float, worst: bool = False
) -> MeanEstimate:
    """The mean of a batch, with its error.

    Args:
        mechanism: what perturbed the reports.
        counts: (codes,) from `count`, at least one of them positive.
        confidence: the probability that the interval covers, in (0, 1).
        worst: take the largest variance that any values could have, rather than the reports' own.

    Returns:
        The estimate. Its interval is a normal one where there are reports enough, and otherwise
        Bernstein's, which covers for any number of reports and any values.

    Raises:
        ValueError: there is no report, or confidence is not inside (0, 1).

    >>> from mechanisms.mean.two_point import duchi
    >>> estimate = estimate_mean(duchi(1.0), np.array([4000, 6000]), 0.95)
    >>> round(estimate.unbiased, 3), round(estimate.standard_error, 4)
    (0.433, 0.0212)
    """
    unbiased, n = float(mechanism.estimate(counts)), int(np.sum(counts))
    largest = mechanism.worst_variance
    variance = largest if worst else plugged_in_variance(mechanism, counts)
    reach = 1 + float(np.abs(mechanism.decoded).max())
    half = float(half_width(np.array(variance), np.array(largest), np.array(reach), n, confidence))
    # An unbiased estimate may lie outside of the bounds; the interval of a mean never does.
    middle = min(max(unbiased, -1.0), 1.0)
    lower, upper = max(unbiased - half, -1.0), min(unbiased + half, 1.0)
    # Where nothing inside the bounds agrees with the reports, the interval is no point either.
    lower, upper = min(lower, middle, 1 - half / 2), max(upper, middle, half / 2 - 1)
    error = math.sqrt(variance / n)
    return MeanEstimate(n, unbiased, error, max(lower, -1.0), min(upper, 1.0))


def plugged_in_variance(mechanism: ScalarMean, counts: Counts) -> float:
    """The average variance of the reports, given the values behind them, from their own moments.

    A report D of a value x has mean x and mean square M(x); its variance is M(x) - x^2. Where that
    is c_0 + c_1 x + c_2 M(x), as with windows, additive noise and their mixtures, the same
    combination of the mean report and the mean squared report estimates the average variance.
    Elsewhere the combination is raised until it is a bound at every grid point. What rounding to
    the grid may add is at most 1 / N^2. The spread of the reports, into which the spread of the
    values enters, bounds the average variance as well, and so does the worst.

    Args:
        mechanism: what perturbed the reports.
        counts: (codes,) from `count`, at least one of them positive.

    Returns:
        The variance per report, in squared units of the value. Its expectation is never below the
        truth but for what the mean's own error adds to the spread, 1/n of it.
    """
    share = counts / np.sum(counts)
    mean, square = float(share @ mechanism.decoded), float(share @ mechanism.decoded**2)
    grid = mechanism.grid
    moments = mechanism.second_moment(np.arange(mechanism.inputs))
    profile = moments - grid**2
    known = np.stack([np.ones_like(grid), grid, moments], axis=1)
    # The variance given the value, as a combination of what reports show on average: 1, x and M(x).
    fitted = np.linalg.lstsq(known, profile)[0]
    # Raised to lie nowhere below the variance, the combination can only overstate an error.
    excess = float(np.max(profile - known @ fitted))
    combined = float(fitted @ [1.0, mean, square]) + excess + 1 / mechanism.cells**2
    spread = square - mean * mean
    largest = mechanism.worst_variance
    return min(max(min(combined, spread), float(profile.min()), 0.0), largest)


def half_width(
    variance: Floats, largest: Floats, reach: Floats, n: int, confidence: float
) -> Floats:
    """How far an interval reaches to either side of the mean of n independent reports.

    Args:
        variance: average variance of a report, of any shape.
        largest: a bound on it that does not come from the reports.
        reach: how far a report can be from its own mean.
        n: how many reports.
        confidence: in (0, 1).

    Returns:
        Of the same shape: normal where n variance >= 10 reach^2, else from Bernstein's inequality
        with `largest` and `reach`.

    Source: Bernstein's inequality, as in Boucheron, Lugosi, Massart, "Concentration inequalities",
        2013, eq. 2.10.
    """
    normal = normal_quantile(confidence) * np.sqrt(variance / n)
    risk = math.log(2 / (1 - confidence))
    linear = reach * risk / (3 * n)
    sure = linear + np.sqrt(linear**2 + 2 * largest * risk / n)
    return np.asarray(np.where(n * variance >= _NORMAL_FROM * reach**2, normal, sure))


HONEST = np.array([[-1.0, 1.0], [1.0, 1.0]])
"""What values at the ends of [-1, 1] add to a sum, and to a number of values."""

NOBODY = np.zeros((1, 2))
"""What is added by whoever has no value, or one of another group."""


def quotient_reach(averages: tuple[ArrayLike, ArrayLike], reports: Floats, share: float) -> Floats:
    """How far a quotient may be from what it were had a share of the reports been others.

    What liars change of the two averages lies among the mixtures of differences between two
    reports, times the share. A quotient with a positive denominator is monotone along every line,
    so over that set it is largest and least at a corner.

    Args:
        averages: the numerator and the denominator as they were published; of any one shape.
        reports: (k, 2) what one report adds to either, at the extremes: all that can be sent lies
            in their convex hull.
        share: of reports that are lies.

    Returns:
        Of the shape of the averages; infinite where so many liars can take the denominator to 0.

    >>> float(quotient_reach((0.2, 1.0), HONEST, 0.01).round(9))
    0.02
    >>> round(float(quotient_reach((0.1, 0.5), np.append(HONEST, NOBODY, axis=0), 0.01)), 4)
    0.04
    """
    above, below = (np.asarray(part, np.float64)[..., None] for part in averages)
    change = share * (reports[:, None] - reports).reshape(-1, 2)
    lowest = below + change[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.abs((above + change[:, 0]) / lowest - above / below).max(axis=-1)
    return np.asarray(np.where((lowest > 0).all(axis=-1), moved, np.inf))
