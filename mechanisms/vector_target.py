"""What the mean of rows must satisfy, and the mechanisms of the catalogue made for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from mechanisms import catalog
from mechanisms.mean.scalar import LARGEST_ALPHABET
from mechanisms.target import ReleaseTarget
from mechanisms.vector.base import VectorMean
from mechanisms.vector.rows import require_dimension, require_radius

_LOCAL_CELLS, _SHUFFLE_CELLS = 1024, 256
_LARGEST_MATRIX = 1 << 24  # entries of a projection


@dataclass(frozen=True)
class VectorTarget(ReleaseTarget):
    """What the mean of rows must satisfy.

    Attributes:
        model: "local" or "shuffle".
        epsilon: of the release, in nats; None in the shuffle model derives it from epsilon_local.
        delta: of the release; 0 in the local model.
        n: the least number of rows.
        dimension: d, how many numbers a row has, each in [-1, 1].
        epsilon_local: the most that one user's report may reveal, or None.
        unit: whose row is protected: "row" or "user".
        radius: a length that no row exceeds (public, on the scale of [-1, 1]), or None.

    Raises:
        ValueError: one of them is out of range.
    """

    model: str
    epsilon: float | None
    delta: float
    n: int
    dimension: int
    epsilon_local: float | None = None
    unit: str = "row"
    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_dimension(self.dimension)
        if self.radius is not None:
            require_radius(self.radius)

    def _require_delta_unshuffled(self) -> None:
        """Refuse a delta that nothing makes use of."""
        if self.delta != 0:
            raise ValueError(
                f"delta must be 0 in the local model, not {self.delta}: no mechanism for rows "
                "makes use of it"
            )

    @property
    def grid(self) -> int:
        """How many cells: a power of two of which windows' codes fit the counters."""
        cells = _SHUFFLE_CELLS if self.model == "shuffle" else _LOCAL_CELLS
        while cells > 1 and self.dimension * (2 * cells + 2) > LARGEST_ALPHABET:
            cells //= 2
        return cells

    @property
    def mean_square(self) -> float:
        """The most that the squares of a row's numbers average."""
        return 1.0 if self.radius is None else min(1.0, self.radius**2 / self.dimension)


def build(target: VectorTarget, name: str, epsilon: float, **more: int) -> VectorMean:
    """A mechanism of the catalogue for a target's rows.

    Args:
        target: its dimension, radius and grid.
        name: of the task "vector".
        epsilon: what a user's report spends.
        **more: other parameters.

    Raises:
        ValueError: a parameter is out of range.
    """
    registration = catalog.of_task("vector")[name]
    offered = {
        "cells": target.grid if name != "laplace_vector" else None,
        "radius": target.radius,
        "projected": max(
            1, min(round(0.3 * target.dimension), _LARGEST_MATRIX // target.dimension)
        ),
    }
    taken = registration.parameters
    fitting = {key: value for key, value in offered.items() if key in taken and value is not None}
    parameters = {"epsilon": epsilon, "dimension": target.dimension} | fitting | more
    return cast("VectorMean", registration.build(**parameters))
