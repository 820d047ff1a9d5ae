"""Whether a vector is the projection on the probability simplex, by its optimality conditions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def kkt_residual(vector: ArrayLike, projection: ArrayLike) -> float:
    """How far a vector is from being the projection: the worst violated optimality condition.

    Args:
        vector: (d,) the point that was projected.
        projection: (d,) the claimed projection.

    Returns:
        0 for the exact projection, else the largest violation of: entries nonnegative, sum 1,
        vector - projection equal on the support and nowhere larger off it.
    """
    v, w = np.asarray(vector, np.float64), np.asarray(projection, np.float64)
    on = w > 0
    if not on.any():
        return float("inf")
    shift = float(np.mean(v[on] - w[on]))
    slack = np.where(on, np.abs(v - w - shift), np.maximum(v - shift, 0))
    return float(max(slack.max(), abs(w.sum() - 1), -w.min()))
