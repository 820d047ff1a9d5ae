"""Sampled coordinates by name: Multi-HM, and the best that sampling can do."""

import math
from typing import Any

from mechanisms.channel import require_epsilon, require_integer
from mechanisms.mean.hybrid import hm
from mechanisms.mean.optimal import Optimal
from mechanisms.mean.scalar import LARGEST_ALPHABET
from mechanisms.registry import register
from mechanisms.targets.rules import Target
from mechanisms.vector.limits import UsableCoordinates
from mechanisms.vector.rows import equal_share, require_dimension
from mechanisms.vector.sampled import SampledCoordinates
from mechanisms.vector.shuffled_rows import best_sampled
from mechanisms.vector.task import VectorTask, grid

_BEST_SHARE = 2.1  # the epsilon of one coordinate at which `Optimal` makes the most of it
_PUBLISHED_SHARE = 2.5  # and the paper's, where Multi-HM has several good ones
_LARGEST_SHARE = 8.0  # the largest epsilon for which `Optimal` is made
FINEST = 1024  # cells, where there is room


def _rows(target: Target[VectorTask]) -> dict[str, Any]:
    dimension = target.task.dimension
    cells = grid(target.model, dimension)
    return {"dimension": dimension, "cells": cells, "hides": target.task.hides}


def _optimal_alone(target: Target[VectorTask]) -> SampledCoordinates:
    """The mechanism that spends what it may, and can."""
    epsilon = min(target.spent, _LARGEST_SHARE * target.task.dimension)
    return multi_optimal(epsilon, **_rows(target))


def _optimal_in_batch(target: Target[VectorTask]) -> SampledCoordinates:
    """The best number of coordinates for what a shuffled batch lets them spend."""

    def family(epsilon: float, k: int) -> SampledCoordinates:
        return multi_optimal(epsilon, **_rows(target), sampled=k)

    return best_sampled(target, family, [_BEST_SHARE], _LARGEST_SHARE)


def _hybrid_in_batch(target: Target[VectorTask]) -> SampledCoordinates:
    def family(epsilon: float, k: int) -> SampledCoordinates:
        return multi_hm(epsilon, **_rows(target), sampled=k)

    return best_sampled(target, family, [_BEST_SHARE, _PUBLISHED_SHARE])


@register(
    "multi_optimal",
    task="vector",
    sends="k of the d coordinates, each through `optimal` with epsilon / k",
    source="coordinate sampling of Wang et al., ICDE 2019, over the optimal scalar mean",
    searched=True,
    small={"epsilon": 2.0, "dimension": 2, "cells": 3},
    rules={"local": _optimal_alone, "shuffle": _optimal_in_batch},
)
def multi_optimal(
    epsilon: float,
    dimension: int,
    cells: int = FINEST,
    sampled: int | None = None,
    hides: bool = False,
) -> SampledCoordinates:
    """Coordinates through the scalar mechanism of least worst-case variance.

    Args:
        epsilon: privacy loss of one user's report, in nats; epsilon / k must suit `Optimal`.
        dimension: d, how many numbers a row has.
        cells: how many cells [-1, 1] is cut into; the number of codes does not depend on it.
        sampled: k; by default the better of the two around epsilon / 2.1, where what a coordinate
            costs is worth most.
        hides: whether coordinates may have no number, which is as private as one.

    Raises:
        ValueError: a parameter is out of range.

    >>> mechanism = multi_optimal(4.0, dimension=100)
    >>> mechanism.sampled, round(mechanism.worst_variance, 1)
    (2, 92.3)
    """
    require_epsilon(epsilon)
    require_dimension(dimension)
    # The variance has one minimum in k near there, so its neighbours are the only candidates.
    near = epsilon / _BEST_SHARE
    tried = {math.floor(near), math.ceil(near)} if sampled is None else {sampled}
    if sampled is None:
        tried = {max(1, min(dimension, k)) for k in tried}
    for k in tried:
        _require_sampled(k, dimension)
    built = [
        hiding(SampledCoordinates(epsilon, dimension, k, Optimal(share, cells)), hides)
        for k, share in ((k, equal_share(epsilon, k)) for k in sorted(tried))
    ]
    return min(built, key=lambda mechanism: mechanism.worst_variance)


@register(
    "multi_hm",
    task="vector",
    sends="k of the d coordinates, each through `hm` with epsilon / k",
    source="Wang, Xiao, Yang et al., ICDE 2019",
    searched=True,
    small=[
        {"epsilon": 1.0, "dimension": 3, "cells": 2},
        {"epsilon": 5.0, "dimension": 3, "cells": 1},
        {"epsilon": 1.5, "dimension": 2, "cells": 2, "sampled": 2},
    ],
    second_to="multi_optimal",
    rules={"shuffle": _hybrid_in_batch},
)
def multi_hm(
    epsilon: float,
    dimension: int,
    cells: int | None = None,
    sampled: int | None = None,
    hides: bool = False,
) -> SampledCoordinates:
    """Multi-HM: coordinates through the hybrid mechanism.

    Args:
        epsilon: privacy loss of one user's report, in nats.
        dimension: d, how many numbers a row has.
        cells: how many cells [-1, 1] is cut into; by default 1024, or as many as leave a table
            that a collector can count in.
        sampled: k; by default max(1, min(d, floor(epsilon / 2.5))).
        hides: whether coordinates may have no number, which is as private as one.

    Raises:
        ValueError: a parameter is out of range.

    Source: Wang et al., ICDE 2019, Algorithm 4 and eq. 12; Sun, Yang, Cheng, Su, "High-dimensional
        numeric data collection under local differential privacy based on random projection", Big
        Data Research 2020, Algorithm 1.

    >>> round(multi_hm(1.0, dimension=10).worst_variance, 1)
    51.9
    """
    require_epsilon(epsilon)
    require_dimension(dimension)
    k = (
        max(1, min(dimension, math.floor(epsilon / _PUBLISHED_SHARE)))
        if sampled is None
        else sampled
    )
    _require_sampled(k, dimension)
    cells = _finest_grid(dimension) if cells is None else cells
    rows = SampledCoordinates(epsilon, dimension, k, hm(equal_share(epsilon, k), cells))
    return hiding(rows, hides)


def hiding(rows: SampledCoordinates, hides: bool) -> SampledCoordinates:
    """The same, with absence as one more input if it is to be hidden."""
    return UsableCoordinates.hiding(rows) if hides else rows


def _finest_grid(dimension: int) -> int:
    """The most cells, a power of two, of which a window's codes fit a table for all coordinates."""
    cells = FINEST
    while cells > 1 and dimension * (2 * cells + 2) > LARGEST_ALPHABET:
        cells //= 2
    return cells


def _require_sampled(sampled: int, dimension: int) -> None:
    require_integer("sampled", sampled, 1, dimension)
