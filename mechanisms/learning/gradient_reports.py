"""The mechanism for gradients: whose error is least where gradients are, not at worst.

Most coordinates of a gradient are near 0. There a coordinate that was not sent costs little, so
fewer are sent, each with more epsilon, than where rows may lie in any corner of the cube; and a
mechanism whose variance grows towards 1 may be better than the one that is best at worst.
"""

from __future__ import annotations

from collections.abc import Iterator

from mechanisms import catalog
from mechanisms.channel import require_epsilon
from mechanisms.learning.schedule import typical_variance
from mechanisms.mean.scalar import LARGEST_ALPHABET
from mechanisms.vector.multi import multi_optimal
from mechanisms.vector.rows import equal_share, require_dimension
from mechanisms.vector.sampled import SampledCoordinates

_SCALAR = ("duchi", "pm", "hm", "window_optimal", "hybrid_optimal")
_LEAST_SHARE = 1.5  # of epsilon for one coordinate, below which more coordinates never pay
_FINEST = 1024  # cells, where there is room


def gradient_mechanism(epsilon: float, dimension: int) -> SampledCoordinates:
    """Sampled coordinates with the least variance at a typical coordinate of a gradient.

    Args:
        epsilon: privacy loss of one user's report, in nats.
        dimension: how many parameters the model has.

    Returns:
        The best of `optimal`, Duchi's mechanism, PM, HM and the best window and hybrid, over the
        number of coordinates that are sent.

    Raises:
        ValueError: a parameter is out of range, or no mechanism reaches so large an epsilon.

    >>> best = gradient_mechanism(4.0, dimension=40)
    >>> best.sampled, round(typical_variance(best) / typical_variance(multi_optimal(4.0, 40)), 2)
    (1, 0.39)
    """
    require_epsilon(epsilon)
    require_dimension(dimension)
    most = min(dimension, max(1, int(epsilon / _LEAST_SHARE)))
    found: list[SampledCoordinates] = []
    refusals: list[ValueError] = []
    for sampled in range(1, most + 1):
        for each in _built(epsilon, dimension, sampled, refusals):
            found.append(each)
    if not found:
        raise refusals[0]
    return min(found, key=typical_variance)


def _built(
    epsilon: float, dimension: int, sampled: int, refusals: list[ValueError]
) -> Iterator[SampledCoordinates]:
    """What can be had that sends so many coordinates; what cannot leaves its refusal."""
    cells = max(1, min(_FINEST, LARGEST_ALPHABET // (4 * dimension)))
    share = equal_share(epsilon, sampled)
    try:
        yield multi_optimal(epsilon, dimension, sampled=sampled)
    except ValueError as refusal:
        refusals.append(refusal)
    for name in _SCALAR:
        try:
            scalar = catalog.build_mean(name, epsilon=share, cells=cells)
            yield SampledCoordinates(epsilon, dimension, sampled, scalar)
        except ValueError as refusal:
            refusals.append(refusal)
