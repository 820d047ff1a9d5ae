"""Isotonic regression: the rising curve nearest to noisy shares below rising numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats


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
