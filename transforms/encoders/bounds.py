"""Bounds that numbers are clipped to, and what takes them to cells after that."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource


class Rounding(Protocol):
    """What takes values in [-1, 1] to cells; every mechanism for means does."""

    @property
    def inputs(self) -> int:
        """How many cells there are."""

    def encode(self, values: NDArray[np.float64], rng: RandomSource) -> NDArray[np.uint32]:
        """(n,) values in [-1, 1] to (n,) cells in 0 .. inputs - 1."""


class Bounds(NamedTuple):
    """Declared bounds; what lies beyond them is moved to the nearer one.

    Attributes:
        low: L, finite.
        high: U, finite and above L by a finite amount.

    >>> bounds = Bounds(0.0, 10.0)
    >>> bounds.scale(np.array([0.0, 5.0, 99.0])).tolist()
    [-1.0, 0.0, 1.0]
    >>> bounds.unscale(0.5)
    7.5
    """

    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the distance between them: what one unit of the scaled value is."""
        return self.high / 2 - self.low / 2

    def scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) finite numbers, clipped and mapped to [-1, 1]."""
        return scaled(values, self.low, self.high)

    def unscale(self, value: float) -> float:
        """A number on the scale of [-1, 1], in the units of the bounds; it may lie beyond them."""
        return self.low + (value + 1) * self.half


def scaled(
    values: NDArray[np.float64], low: float | NDArray[np.float64], high: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Numbers clipped to bounds and mapped to [-1, 1].

    Args:
        values: (n,) finite numbers.
        low: their lower bound, or (n,) one for each.
        high: their upper bound, or (n,) one for each.
    """
    # Differences of clipped numbers never round past the difference of the bounds.
    shifted = np.clip(values, low, high)
    shifted -= low
    shifted /= high - low
    shifted *= 2
    shifted -= 1
    return shifted
