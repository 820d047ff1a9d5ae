"""A grid on [-1, 1]: rounding to it without bias, and how far reports on its values scatter."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats
from mechanisms.randomness import RandomSource

_BLOCK = 1 << 15  # values treated at a time, so that they stay in a core's cache
_FINE = 32  # bits of a position below the grid


@dataclass(frozen=True)
class Grid:
    """The points 2 j / N - 1, j = 0 .. N.

    Attributes:
        cells: N, how many cells [-1, 1] is cut into.

    >>> from mechanisms.randomness import SeededRandom
    >>> grid = Grid(cells=4)
    >>> grid.points.tolist(), grid.encode([-1.0, 0.5, 1.0], SeededRandom(0)).tolist()
    ([-1.0, -0.5, 0.0, 0.5, 1.0], [0, 3, 4])
    """

    cells: int

    @property
    def inputs(self) -> int:
        """How many points there are."""
        return self.cells + 1

    @property
    def points(self) -> Floats:
        """(inputs,) the values that the points stand for."""
        return self.values(np.arange(self.inputs))

    def values(self, cells: NDArray[Any]) -> Floats:
        """The values that some points stand for, by their numbers; any shape."""
        return np.asarray((2.0 * cells - self.cells) / self.cells)

    def encode(self, values: ArrayLike, rng: RandomSource) -> NDArray[np.uint32]:
        """Round values to the grid by a coin, so that the rounding is unbiased.

        A value is first taken to the nearest multiple of 2^-32 of a cell, which moves it by at
        most 2^-31 / N; from there a 32-bit die chooses between the two grid points around it with
        exactly the probabilities that make their mean that multiple.

        Args:
            values: (n,) numbers in [-1, 1]; whoever calls has clipped them.
            rng: the generator of this process.

        Returns:
            (n,) uint32 cells in 0 .. N.

        Raises:
            ValueError: a value is outside [-1, 1] or not a number. The message never holds it.
        """
        array = _checked_values(values)
        cells = np.empty(array.size, np.uint32)
        for start in range(0, array.size, _BLOCK):
            position = array[start : start + _BLOCK].astype(np.float64)
            # In units of 2^-32 of a cell, for which adding a 32-bit die and cutting its bits off
            # again rounds up with exactly the odds of what was cut.
            position += 1.0
            position *= self.cells * 2.0 ** (_FINE - 1)
            fine = np.rint(position, out=position).astype(np.uint64)  # up to 2^63
            fine += rng.words((fine.size + 1) // 2).view(np.uint32)[: fine.size]
            cells[start : start + _BLOCK] = fine >> np.uint64(_FINE)
        return cells

    def largest_variance(self, moments: Floats) -> float:
        """The largest variance of a report on any value in [-1, 1].

        Between two grid points the second moment is interpolated and the square of the mean is
        not, so the variance is a parabola there and its top is known.

        Args:
            moments: (inputs,) the mean square of an unbiased report, given each point.

        Returns:
            In squared units of the value.
        """
        left, step, rise = self.points[:-1], 2 / self.cells, np.diff(moments)
        # Where the derivative of the parabola is 0, or at the nearer end.
        share = np.clip((rise / (2 * step) - left) / step, 0, 1)
        return float(np.max(moments[:-1] + share * rise - (left + share * step) ** 2))


def _checked_values(values: ArrayLike) -> NDArray[Any]:
    """The values as an array, or a ValueError that tells how many are no numbers of [-1, 1]."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iuf":
        raise ValueError(f"values must be numbers, not {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"values must be one-dimensional, not of shape {array.shape}")
    if array.size and not (-1 <= array.min() and array.max() <= 1):
        inside = np.count_nonzero((array >= -1) & (array <= 1))
        raise ValueError(f"{array.size - inside} of {array.size} values lie outside [-1, 1]")
    return array
