"""The mechanism for gradients: whose error is least where gradients are, not at worst.

Coordinates of a gradient are nearer to 0 than to 1, also those along which the loss bends most.
There a coordinate that was not sent costs little, so fewer are sent, each with more epsilon, than
where rows may lie in any corner of the cube; and a mechanism whose variance grows towards 1 may be
better than the one that is best at worst. It is so from an epsilon of about 0.9 on; below that it
is the one that is best at worst.
"""

from collections.abc import Iterator

import numpy as np

from mechanisms.channel import require_epsilon
from mechanisms.mean.hybrid import hm, hybrid_optimal
from mechanisms.mean.scalar import LARGEST_ALPHABET, require_cells
from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import moments
from mechanisms.mean.window import Window
from mechanisms.papers.learning.schedule import TYPICAL, typical_variance
from mechanisms.vector.multi import multi_optimal
from mechanisms.vector.rows import equal_share, require_dimension
from mechanisms.vector.sampled import SampledCoordinates

_SCALAR = (duchi, hm, hybrid_optimal)
_LEAST_SHARE = 1.5  # of epsilon for one coordinate, below which more coordinates never pay
_FINEST = 1024  # cells, where there is room


def gradient_mechanism(epsilon: float, dimension: int) -> SampledCoordinates:
    """Sampled coordinates with the least variance at a typical coordinate of a gradient.

    Args:
        epsilon: privacy loss of one user's report, in nats.
        dimension: how many parameters the model has.

    Returns:
        The best of `optimal`, Duchi's mechanism, HM, the best hybrid and every window, PM's among
        them, over the number of coordinates that are sent.

    Raises:
        ValueError: a parameter is out of range, or no mechanism reaches so large an epsilon.

    >>> best = gradient_mechanism(4.0, dimension=40)
    >>> best.sampled, round(typical_variance(best) / typical_variance(multi_optimal(4.0, 40)), 2)
    (1, 0.51)
    """
    require_epsilon(epsilon)
    require_dimension(dimension)
    most = min(dimension, max(1, int(epsilon / _LEAST_SHARE)))
    built: list[SampledCoordinates] = []
    refusals: list[ValueError] = []
    for sampled in range(1, most + 1):
        for candidate in _built(epsilon, dimension, sampled, refusals):
            built.append(candidate)
    if not built:
        raise refusals[0]
    return min(built, key=typical_variance)


def _built(
    epsilon: float, dimension: int, sampled: int, refusals: list[ValueError]
) -> Iterator[SampledCoordinates]:
    """What can be had that sends so many coordinates; what cannot leaves its refusal."""
    # A window has up to three codes for a cell, and a report names its coordinate beside the code.
    cells = max(1, min(_FINEST, LARGEST_ALPHABET // (4 * dimension)))
    share = equal_share(epsilon, sampled)
    try:
        yield multi_optimal(epsilon, dimension, sampled=sampled)
    except ValueError as refusal:
        refusals.append(refusal)
    try:
        yield SampledCoordinates(epsilon, dimension, sampled, window_for_gradients(share, cells))
    except ValueError as refusal:
        refusals.append(refusal)
    for scalar in _SCALAR:
        try:
            yield SampledCoordinates(epsilon, dimension, sampled, scalar(share, cells=cells))
        except ValueError as refusal:
            refusals.append(refusal)


def window_for_gradients(epsilon: float, cells: int = _FINEST) -> Window:
    """The window of least variance at a typical coordinate, by trying every width.

    Args:
        epsilon: privacy loss of one report, in nats.
        cells: how many cells [-1, 1] is cut into.

    Raises:
        ValueError: a parameter is out of range.

    >>> window_for_gradients(2.0).width  # PM's is 377, that of `window_optimal` 606
    480
    """
    require_epsilon(epsilon)
    require_cells(cells)
    slope, spread = moments(epsilon, 0.0, cells, np.arange(1.0, cells + 1))
    return Window(epsilon, cells, 1 + int(np.argmin(spread + TYPICAL**2 / slope)))
