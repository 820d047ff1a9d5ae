"""Many means at once, moved towards a common point: post-processing that costs no privacy.

An unbiased estimate of a long row is longer than the row itself, by its noise. James and Stein's
estimator takes off as much as the noise is expected to add, and for three coordinates or more its
mean squared error is below the unbiased one's, whatever the truth. It is biased, coordinate by
coordinate, so the unbiased estimate stays beside it, and standard errors belong to that.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats


class Shrunk(NamedTuple):
    """An estimate and what became of it.

    Attributes:
        unbiased: (d,) as it was.
        estimate: (d,) target + factor * (unbiased - target).
        target: (d,) the point that it was moved towards.
        factor: in [0, 1]; 1 if nothing was moved.
    """

    unbiased: Floats
    estimate: Floats
    target: Floats
    factor: float


def to_prior(unbiased: ArrayLike, variance: ArrayLike, prior: ArrayLike = 0.0) -> Shrunk:
    """The positive-part James-Stein estimator, towards a point that is known beforehand.

    Args:
        unbiased: (d,) finite numbers.
        variance: of each of them, () or (d,), at least 0. Unequal ones are replaced by their
            mean: the promise that no truth is served worse is for equal variances, and holds
            roughly where they differ by a little.
        prior: () or (d,), chosen without looking at these reports; 0 by default.

    Returns:
        The estimate, moved by max(0, 1 - (d - 2) variance / |unbiased - prior|^2). With fewer than
        three coordinates nothing is moved.

    Raises:
        ValueError: an argument is empty, of another shape, or holds what is no finite number.

    Source: James, Stein, "Estimation with quadratic loss", Berkeley Symposium 1961; Baranchik 1964
        for the positive part.

    >>> to_prior([0.5, -0.2, 0.1, 0.4], 0.1).estimate.round(3).tolist()
    [0.283, -0.113, 0.057, 0.226]
    """
    row = _row(unbiased)
    target = np.broadcast_to(_finite("prior", prior, row.size), row.shape).astype(np.float64)
    return _moved(row, _noise(variance, row.size), target, lost=2)


def to_mean(unbiased: ArrayLike, variance: ArrayLike) -> Shrunk:
    """The positive-part James-Stein estimator, towards the mean of the coordinates themselves.

    Args:
        unbiased: (d,) finite numbers.
        variance: of each of them, () or (d,), as for `to_prior`.

    Returns:
        The estimate, moved by max(0, 1 - (d - 3) variance / |unbiased - mean|^2). With fewer than
        four coordinates nothing is moved.

    Raises:
        ValueError: as `to_prior`.

    Source: Efron, Morris, "Stein's estimation rule and its competitors", JASA 1973, whose d - 3
        pays for the mean that is estimated; the suggestion is Lindley's, in Stein, J. of the Royal
        Statistical Society B, 1962.

    >>> to_mean([0.5, 0.4, 0.6, 0.5, 0.5], 0.01).estimate.round(3).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5]
    """
    row = _row(unbiased)
    return _moved(row, _noise(variance, row.size), np.full(row.size, row.mean()), lost=3)


def _moved(row: Floats, noise: float, target: Floats, lost: int) -> Shrunk:
    """The row moved towards a target, `lost` of its dimensions being spent."""
    apart = row - target
    size = float(np.abs(apart).max())
    dimensions = row.size - lost
    if dimensions <= 0:
        return Shrunk(row, row, target, 1.0)
    if size == 0:
        return Shrunk(row, target, target, 0.0)
    # In units of the largest distance, so that no square overflows or vanishes.
    squares = float(np.sum((apart / size) ** 2))
    # The positive part: below 0 the estimate would be turned round, which serves no truth.
    factor = max(0.0, 1 - dimensions * (noise / size) / (size * squares))
    return Shrunk(row, target + factor * apart, target, factor)


def _row(unbiased: ArrayLike) -> Floats:
    """The estimate as an array, or a ValueError."""
    row = np.asarray(unbiased, np.float64)
    if row.ndim != 1 or not row.size:
        raise ValueError(f"unbiased must be a row of numbers, not of shape {row.shape}")
    return _finite("unbiased", row, row.size)


def _noise(variance: ArrayLike, size: int) -> float:
    """The mean variance of a coordinate, or a ValueError."""
    array = _finite("variance", variance, size)
    if not array.min() >= 0:
        raise ValueError("variance must be at least 0")
    return float(array.mean())


def _finite(name: str, given: ArrayLike, size: int) -> Floats:
    """Finite numbers, one or as many as there are coordinates, or a ValueError."""
    array = np.asarray(given, np.float64)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} must be a number or {size} of them, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only")
    return array
