"""The mean of rows, of numbers or of numbers and categories: two questions to a population."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mechanisms.mean.scalar import LARGEST_ALPHABET
from mechanisms.registry import Registration
from mechanisms.targets.rules import Target, Task
from mechanisms.vector.base import VectorMean
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.rows import require_dimension, require_radius

_LOCAL_CELLS, _SHUFFLE_CELLS = 1024, 256


@dataclass(frozen=True)
class VectorTask(Task[VectorMean]):
    """The mean of rows of numbers, each in [-1, 1].

    Attributes:
        dimension: d, how many numbers a row has.
        radius: a length that no row exceeds (public, on the scale of [-1, 1]), or None.
        hides: whether coordinates may have no number, which is as private as one.

    Raises:
        ValueError: one of them is out of range.
    """

    dimension: int
    radius: float | None = None
    hides: bool = False

    name: ClassVar[str] = "vector"

    def __post_init__(self) -> None:
        require_dimension(self.dimension)
        if self.radius is not None:
            require_radius(self.radius)

    @property
    def mean_square(self) -> float:
        """The most that the squares of a row's numbers average."""
        return 1.0 if self.radius is None else min(1.0, self.radius**2 / self.dimension)

    def error(self, mechanism: VectorMean, n: int) -> float:
        """The largest mean squared error of a coordinate, on average over them, for n rows."""
        return mechanism.worst_error(self.mean_square, n)

    def offers(self, target: Target[Any]) -> Mapping[str, Any]:
        cells = grid(target.model, self.dimension)
        return {
            "dimension": self.dimension, "radius": self.radius, "cells": cells,
            "hides": self.hides or None,
        }  # fmt: skip

    def admits(self, registration: Registration) -> bool:
        if self.hides:  # who reports whole rows has no place for what single numbers lack
            return "hides" in registration.parameters
        # Of rows in a cube PrivUnit's clients would compare each with some hundred random lines.
        return self.radius is not None or "radius" not in registration.parameters


@dataclass(frozen=True)
class AttributeTask(Task[MixedRows]):
    """The means and shares of rows of numbers, each in [-1, 1], and categories.

    Attributes:
        sizes: of each attribute how many values it has, or None for a number.
        hides: whether attributes may have no value, which is as private as one.
    """

    sizes: tuple[int | None, ...]
    hides: bool = False

    name: ClassVar[str] = "attributes"

    def __post_init__(self) -> None:
        require_dimension(len(self.sizes))

    def error(self, mechanism: MixedRows, n: int) -> float:
        """The geometric mean of the attributes' variances for n rows: units do not matter."""
        return math.exp(mechanism.log_error / len(self.sizes)) / n

    def offers(self, target: Target[Any]) -> Mapping[str, Any]:
        cells = grid(target.model, len(self.sizes))
        return {"sizes": self.sizes, "cells": cells, "hides": self.hides or None}


def grid(model: str, dimension: int) -> int:
    """How many cells: a power of two of which windows' codes fit the counters."""
    cells = _SHUFFLE_CELLS if model == "shuffle" else _LOCAL_CELLS
    # The widest window has as many codes as cells beside the cells themselves; a coordinate has
    # all.
    while cells > 1 and dimension * (2 * cells + 2) > LARGEST_ALPHABET:
        cells //= 2
    return cells
