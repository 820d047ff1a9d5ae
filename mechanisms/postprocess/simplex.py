"""POP: the histogram nearest to an estimate, as post-processing that costs no privacy.

Unbiased frequencies are often negative and need not add up to 1. Projecting them on the
probability simplex never moves them away from the truth, which lies in it, in Euclidean
distance. It is biased (heads go down, tails go up), so the unbiased estimate stays beside it.

Isotonic regression: the rising curve nearest to noisy shares below rising numbers.
"""

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats


def project(vector: ArrayLike) -> Floats:
    """The exact Euclidean projection on the probability simplex, in O(d log d).

    Args:
        vector: (d,) finite numbers, d >= 1.

    Returns:
        (d,) nonnegative numbers that add up to 1.

    Raises:
        ValueError: the vector is empty, not one-dimensional, or holds NaN or infinity.

    Source: Held, Wolfe, Crowder, "Validation of subgradient optimization", 1974; it is eq. 22 of
        Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of
        Software 2022, with the support D_1 that the paper leaves open.

    >>> project([0.5, 0.4, 0.3, -0.2]).round(3).tolist()
    [0.433, 0.333, 0.233, 0.0]
    """
    v = _checked(vector)
    # Adding a constant changes nothing, and entries 1 or more below the largest end up 0. So all
    # is measured from the largest entry, where nothing cancels; in halves, so nothing overflows.
    v = np.maximum(v / 2 - v.max() / 2, -1) * 2
    descending = np.sort(v)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, v.size + 1)
    # The last place at which the sorted entry exceeds the shift is the size of the support.
    shift = excess[np.flatnonzero(descending > excess)[-1]]
    projection: Floats = np.maximum(v - shift, 0)
    return projection


def _checked(vector: ArrayLike) -> Floats:
    """The vector as doubles, or a ValueError."""
    v = np.asarray(vector, np.float64)
    if v.ndim != 1 or not v.size:
        raise ValueError(f"expected a vector with at least one entry, not shape {v.shape}")
    if not np.isfinite(v).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(v))} of {v.size} entries are not finite")
    return v


def rising(shares: ArrayLike) -> Floats:
    """The rising curve of shares that is nearest to noisy ones, in the Euclidean distance.

    It never lies farther from a rising truth than they do, and it keeps order: of two vectors, one
    of which is nowhere above the other, the fits are so too. So if limits hold at every point, the
    fits of the limits do as well, for the truth is its own fit; and the fit of what lies between
    limits lies between theirs.

    Args:
        shares: (m,) finite numbers, unbiased: clipped ones would be drawn inwards from the ends.

    Returns:
        (m,) rising numbers within 0 .. 1.

    Source: Robertson, Wright, Dykstra, "Order restricted statistical inference", 1988, Theorem
        1.3.4 and section 1.4; the fit within bounds is the fit cut off at them.

    >>> rising([-0.25, 0.5, 0.25, 1.5]).tolist()
    [0.0, 0.375, 0.375, 1.0]
    """
    from scipy.optimize import isotonic_regression  # dear to import, and few requests come here

    fit = isotonic_regression(np.asarray(shares, np.float64)).x
    return np.asarray(np.clip(fit, 0.0, 1.0))
