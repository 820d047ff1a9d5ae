"""One coordinate of a row, as one bit: Harmony's mechanism for means."""

from mechanisms.mean.two_point import duchi
from mechanisms.registry import register
from mechanisms.vector.multi import FINEST, hiding
from mechanisms.vector.rows import require_dimension
from mechanisms.vector.sampled import SampledCoordinates


@register(
    "harmony",
    task="vector",
    sends="one of the d coordinates, as one bit",
    source="Nguyen, Xiao, Yang et al., arXiv 1606.05053, 2016",
    small=[
        {"epsilon": 1.0, "dimension": 3, "cells": 2},
        {"epsilon": 2.5, "dimension": 2, "cells": 3},
    ],
)
def harmony(
    epsilon: float, dimension: int, cells: int = FINEST, hides: bool = False
) -> SampledCoordinates:
    """Harmony's mechanism for means: one coordinate, by Duchi's bit.

    Args:
        epsilon: privacy loss of one user's report, in nats.
        dimension: d, how many numbers a row has.
        cells: how many cells [-1, 1] is cut into; the bit's law does not depend on it.
        hides: whether coordinates may have no number, which is as private as one.

    Raises:
        ValueError: a parameter is out of range.

    Source: Nguyen, Xiao, Yang, Hui, Shin, Shin, "Collecting and analyzing data from smart device
        users with local differential privacy", arXiv 1606.05053, 2016, Algorithm 2.

    >>> round(harmony(1.0, dimension=10).worst_variance, 2)
    46.83
    """
    require_dimension(dimension)
    return hiding(SampledCoordinates(epsilon, dimension, 1, duchi(epsilon, cells)), hides)
