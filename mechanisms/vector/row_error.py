"""What a mechanism for rows errs by on average over the coordinates, whatever the rows are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mechanisms.channel import Floats

_TRIED = 257  # values of a coordinate


def average_variance(
    variance: Callable[[Floats], Floats], largest: float, mean_square: float
) -> float:
    """The largest variance of a report, averaged over the coordinates of a row.

    Args:
        variance: of a report, by the value of the coordinate.
        largest: the most that a coordinate may be.
        mean_square: the most that the squares of a row's numbers average, in (0, 1].

    Returns:
        The largest average of the variance over any law of numbers of [-1, 1] whose squares average
        to at most that: it needs two of them, and those tried are a fine grid.
    """
    values = np.sqrt(np.linspace(0, 1, _TRIED)) * largest
    values = np.sort(np.append(values, np.sqrt(mean_square)))
    variances = np.maximum(variance(values), variance(-values))
    squares = values**2
    low, high = squares <= mean_square, squares > mean_square
    best = float(variances[low].max())
    if not high.any():
        return best
    one, other = squares[low][:, None], squares[high][None, :]
    # Of laws with a given mean square the worst has at most two values: a linear programme with two
    # constraints has a solution with two.
    share = (mean_square - one) / (other - one)
    mixed = (1 - share) * variances[low][:, None] + share * variances[high][None, :]
    return max(best, float(mixed.max()))
