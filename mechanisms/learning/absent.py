"""Targets of rows that cannot be used: NaN among numbers, below 0 among classes.

Such a row takes part like any other. Its gradient is 0 at every model, so a sum of gradients is
that of the others. In an opening, which asks for targets, it answers as if its own were 0: the
middle of the bounds. Where it is asked how wrong predictions are, it answers 0, and errors are held
against the share of the others.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def present(targets: ArrayLike) -> NDArray[np.bool_]:
    """(n,) which targets there are.

    >>> present([0.5, np.nan]).tolist(), present([1, -1]).tolist()
    ([True, False], [True, False])
    """
    array = np.asarray(targets)
    return ~np.isnan(array) if array.dtype.kind == "f" else array >= 0


def filled(targets: ArrayLike) -> NDArray[Any]:
    """(n,) targets, those that are not there 0."""
    array = np.asarray(targets)
    return np.where(present(array), array, array.dtype.type(0))
