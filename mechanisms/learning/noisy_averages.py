"""Averages over rows that somebody holds, with a little noise on their sums.

Source: Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC
    2009, section 2 (the noise).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Floats, Guarantee
from mechanisms.randomness import RandomSource

# Grid cells of [0, 1]. Rounding to them is nothing beside the noise; the delta of the noise's table
# grows with their square, and is below 1e-13 at so many.
_FINEST = 1 << 6
_ENTRIES = 1 << 14  # of half a table of noise at the scale of one grid cell


@dataclass(frozen=True)
class NoisyAverages:
    """Sums of several numbers in [0, 1] of each row, each with discrete Laplace noise, over n.

    Attributes:
        epsilon: privacy loss of all of them together, in nats.
        moved: the most by which one row's being another changes its numbers, in L1 norm.

    Raises:
        ValueError: epsilon is not positive and finite, or too small for a table of noise.

    >>> averages = NoisyAverages(epsilon=0.05, moved=3)
    >>> averages.guarantee.epsilon, averages.guarantee.delta < 1e-13
    (0.05, True)
    """

    epsilon: float
    moved: int

    def __post_init__(self) -> None:
        _ = self.noise

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Of a sum, in grid cells."""
        return DiscreteLaplace(self.epsilon, self.moved * self.grid)

    @property
    def grid(self) -> int:
        """Into how many cells [0, 1] is divided: as many as a small table of noise allows."""
        most = max(1.0, min(float(_FINEST), _ENTRIES * self.epsilon / self.moved))
        return 1 << math.floor(math.log2(most))

    @property
    def guarantee(self) -> Guarantee:
        """Of all averages together."""
        return self.noise.guarantee

    def release(self, blocks: Iterable[ArrayLike], rng: RandomSource) -> tuple[Floats, float]:
        """(averages, the variance that noise gives each).

        Args:
            blocks: of rows, (n, k) in [0, 1] each; how many rows there are is public, and at least
                1.
            rng: the generator of this process.
        """
        rows, sums = 0, np.zeros(1, np.int64)
        for block in blocks:
            array = np.asarray(block, np.float64)
            # Rounded up or down by chance, so that no grid is too coarse to be right on average.
            chance = rng.integers(1 << 53, array.size).astype(np.float64) / 2**53
            steps = np.floor(array * self.grid + chance.reshape(array.shape))
            rows, sums = rows + len(array), sums + steps.astype(np.int64).sum(axis=0)
        whole = rows * self.grid
        return self.noise.perturb(sums, rng) / whole, self.noise.variance() / whole**2
