"""What a mechanism for rows errs by on average over the coordinates, whatever the rows are."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from mechanisms.vector.base import VectorMean
from mechanisms.vector.privunit import PrivUnit
from mechanisms.vector.random_projection import MultiRphm

_TRIED = 257  # values of a coordinate


def average_variance(mechanism: VectorMean, mean_square: float) -> float:
    """The largest variance of a report, averaged over the coordinates of a row.

    Args:
        mechanism: what reports rows.
        mean_square: the most that the squares of a row's numbers average, in (0, 1].

    Returns:
        The largest average of `variance` over any law of numbers of [-1, 1] whose squares average
        to at most that: it needs two of them, and those tried are a fine grid.
    """
    values = np.sqrt(np.linspace(0, 1, _TRIED)) * float(getattr(mechanism, "radius", 1.0))
    values = np.sort(np.append(values, np.sqrt(mean_square)))
    variances = np.maximum(mechanism.variance(values), mechanism.variance(-values))
    squares = values**2
    low, high = squares <= mean_square, squares > mean_square
    best = float(variances[low].max())
    if not high.any():
        return best
    one, other = squares[low][:, None], squares[high][None, :]
    share = (mean_square - one) / (other - one)
    mixed = (1 - share) * variances[low][:, None] + share * variances[high][None, :]
    return max(best, float(mixed.max()))


@singledispatch
def worst_error(mechanism: VectorMean, mean_square: float, n: int) -> float:
    """The largest mean squared error of a coordinate, averaged over a row's coordinates.

    Args:
        mechanism: what reports rows.
        mean_square: the most that the squares of a row's numbers average, in (0, 1].
        n: how many users report.

    Returns:
        In squared units of the value, bias and public seeds included.
    """
    return average_variance(mechanism, mean_square) / n


@worst_error.register
def _(mechanism: MultiRphm, mean_square: float, n: int) -> float:
    """With all that lies outside of the subspace, which no number of users brings back."""
    return mechanism.error(mean_square, mean_square, n)


@worst_error.register
def _(mechanism: PrivUnit, mean_square: float, n: int) -> float:
    """With what sharing one seed adds, whatever the number of users."""
    return average_variance(mechanism, mean_square) / n + mechanism.seed_variance
