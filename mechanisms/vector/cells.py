"""Rows of cells that came from outside, each held against what its attribute takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
    array: NDArray[Any] = np.asarray(cells)
    if array.ndim != 2 or array.shape[1] != inputs.size:
        raise ValueError(
            f"cells must be rows of {inputs.size} integers each, not of shape {array.shape}"
        )
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"cells must be integers, not {array.dtype}")
    outside = np.count_nonzero((array < 0) | (array >= inputs))
    if outside:
        raise ValueError(f"{outside} of {array.size} cells lie outside their attribute's inputs")
    return array
