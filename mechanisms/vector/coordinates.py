"""A few places of a row, chosen at random: what all mechanisms that sample attributes share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.sampling.grid import Grid


def together(one: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    """The law of two independent parts of a report, the last one varying first."""
    return np.asarray(np.multiply.outer(one, more)).ravel()


def largest_scaled(mechanism: ScalarMean | WithUnusable, scale: float) -> float:
    """The largest variance of a decoded report that is sent with chance 1 / scale, and scaled up.

    Args:
        mechanism: what randomises the number.
        scale: at least 1.

    Returns:
        The most that scale (variance(x) + x^2) - x^2 comes to, in squared units of the value; of
        what hides absence, where everybody has a number and their mean is 0.
    """
    grid = Grid(mechanism.cells)
    return grid.largest_variance(scale * mechanism.moments[: grid.points.size])
