"""What a collector is handed: counts of reports, or a refusal."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts


def checked_counts(counts: ArrayLike, codes: int) -> Counts:
    """(codes,) the counts as an array.

    Raises:
        ValueError: they are another mechanism's.
    """
    array = np.asarray(counts)
    if array.shape != (codes,):
        raise ValueError(f"counts must be of shape ({codes},), not {array.shape}")
    return array


def reporters(counts: Counts, n: int | None = None) -> int:
    """How many users an estimate is divided by: n, or as many as there are reports.

    Raises:
        ValueError: there are none.

    >>> reporters(np.array([3, 4]))
    7
    """
    n = int(np.sum(counts)) if n is None else n
    if not n > 0:
        raise ValueError("there is no report to estimate from")
    return n
