"""A few places of a row, chosen at random: what all mechanisms that sample attributes share.

Rows of cells that came from outside, each held against what its attribute takes.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.sampling.grid import Grid


def cells_in_range(cells: ArrayLike, inputs: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of cells, or a ValueError that tells how many are wrong and never which.

    Args:
        cells: (n, attributes) integers.
        inputs: (attributes,) how many cells each attribute takes: 0 .. that - 1.

    Raises:
        ValueError: rows of another length, or cells that are no integers or out of range.

    >>> cells_in_range([[0, 4]], np.array([2, 5])).tolist()
    [[0, 4]]
    """
    try:
        array: NDArray[Any] = np.asarray(cells)
    except ValueError:
        raise ValueError(f"cells must be rows of {inputs.size} integers each") from None
    if array.ndim != 2 or array.shape[1] != inputs.size:
        raise ValueError(
            f"cells must be rows of {inputs.size} integers each, not of shape {array.shape}"
        )
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"cells must be integers, not {array.dtype}")
    if array.size and not (0 <= array.min() and (array.max(axis=0) < inputs).all()):
        outside = np.count_nonzero((array < 0) | (array >= inputs))
        raise ValueError(f"{outside} of {array.size} cells lie outside their attribute's inputs")
    return array


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
