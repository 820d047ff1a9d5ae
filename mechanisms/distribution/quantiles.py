"""Quantiles of a distribution over bins, and their limits from those of F."""

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats

USUAL = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


def quantiles(
    probabilities: ArrayLike, shares: Floats, edges: Floats, whole: bool = False
) -> Floats:
    """The values below which given shares lie, where values are uniform inside their bins.

    Args:
        probabilities: (k,) in (0, 1).
        shares: (bins,) nonnegative, adding up to 1.
        edges: (bins + 1,) where bins begin and end.
        whole: whether values are whole numbers, and edges are: a bin holds its lower edge and not
            the upper one. A quantile is then the least number up to which the share lies.

    Returns:
        (k,) values between the first and the last edge.

    >>> quantiles([0.25, 0.5], np.array([0.5, 0.0, 0.5]), np.array([0.0, 1.0, 2.0, 3.0])).tolist()
    [0.5, 1.0]
    >>> quantiles([0.25, 0.5], np.array([0.5, 0.0, 0.5]), np.arange(4.0), whole=True).tolist()
    [0.0, 0.0]
    """
    levels = np.asarray(probabilities, np.float64)
    sums = np.concatenate([[0.0], np.cumsum(shares)])
    bin_ = np.searchsorted(sums[1:-1], levels, side="left")
    # In an empty bin every point is a quantile; its beginning is taken.
    mass = np.where(shares[bin_] > 0, shares[bin_], 1)
    inside = np.clip((levels - sums[bin_]) / mass, 0, 1) * np.diff(edges)[bin_]
    return np.asarray(edges[bin_] + (np.maximum(np.ceil(inside) - 1, 0) if whole else inside))


def quantile_limits(
    probabilities: ArrayLike, lower: Floats, upper: Floats, points: Floats
) -> tuple[Floats, Floats]:
    """Limits of quantiles, q(p) the least x with F(x) >= p, from limits of F at some points.

    The lower one is the point before the first whose upper limit reaches p, the upper one that
    after the last whose lower limit stays below p. Only two limits of F need to hold, those at
    the points on either side of the quantile: so these limits are as sure as those of F are at
    one point, though they look at all.

    Args:
        probabilities: (k,) in (0, 1).
        lower: (m,) limits of F at the points.
        upper: (m,) the same from above; the last one is 1.
        points: (m,) rising; every value is at least the first and at most the last of them.

    Returns:
        (lower, upper), each (k,).

    >>> low, high = np.array([0.0, 0.3, 1.0]), np.array([0.2, 0.6, 1.0])
    >>> [bound.tolist() for bound in quantile_limits([0.5], low, high, np.arange(3.0))]
    [[0.0], [2.0]]
    """
    levels = np.asarray(probabilities, np.float64)[:, None]
    first = np.argmax(upper >= levels, axis=1)
    last = lower.size - 1 - np.argmax((lower < levels)[:, ::-1], axis=1)
    last[~(lower < levels).any(axis=1)] = -1
    return points[np.maximum(first - 1, 0)], points[np.minimum(last + 1, points.size - 1)]
