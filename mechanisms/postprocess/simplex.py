"""POP: the histogram nearest to an estimate, as post-processing that costs no privacy.

Unbiased frequencies are often negative and need not add up to 1. Projecting them on the
probability simplex never moves them away from the truth, which lies in it, in Euclidean
distance. It is biased (heads go down, tails go up), so the unbiased estimate stays beside it.
"""

from __future__ import annotations

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
