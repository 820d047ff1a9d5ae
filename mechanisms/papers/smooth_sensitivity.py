"""The median with noise scaled to how much this data set's median can move.

The median's global sensitivity is the whole range, its local sensitivity is small but itself
depends on the data. Smooth sensitivity lies above the local one and changes by at most a factor
e^beta between neighbours, so that noise may be scaled to it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Floats, Guarantee, require_epsilon
from mechanisms.randomness import RandomSource

_UNIT = 1 << 48  # cell probabilities are cut to multiples of 2^-48, 16 times what doubles resolve
_LEAST = 2.0**-80  # of the range: less noise than this cannot be seen on any grid
_ROUNDING = 1e-9  # share of epsilon kept for the rounding of the scale in doubles


@dataclass(frozen=True)
class SmoothMedian:
    """Releases the median of bounded numbers; neighbours differ by replacing one of them.

    The release is one of `cells` + 1 points of a fixed grid on [low, high]: real noise, clamped
    to the range and rounded to the grid, as a table of integer weights. Each weight gets a few
    units extra, so that rounding cannot make an unlikely point impossible for a neighbour.

    Attributes:
        epsilon: privacy loss, in nats.
        low, high: bounds of the values; what lies outside is moved to the nearer one.
        delta: 0 for Cauchy noise, a number in (0, 1) for Laplace noise of lighter tails.
        cells: how many grid steps the range has.

    Source: Nissim, Raskhodnikova, Smith, "Smooth sensitivity and sampling in private data
        analysis", STOC 2007, section 2.1 (Corollary 2.4 of the full version, 2011): 1. noise of
        density proportional to 1/(1 + |z|^g) with g = 2; 2. Laplace noise.

    >>> mechanism = SmoothMedian(epsilon=1.0, low=0.0, high=1.0)
    >>> ages = [0.1, 0.15, 0.2, 0.3, 0.35, 0.42, 0.5, 0.55, 0.7, 0.8, 0.9]
    >>> round(mechanism.local_sensitivity(ages), 4), round(mechanism.smooth_sensitivity(ages), 4)
    (0.08, 0.2521)
    """

    epsilon: float
    low: float
    high: float
    delta: float = 0.0
    cells: int = 1024

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if not -math.inf < self.low < self.high < math.inf or self.high - self.low == math.inf:
            raise ValueError(f"low must be below high, both finite, not {self.low}, {self.high}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must lie in [0, 1), not {self.delta}")
        if not 1 <= self.cells <= 1 << 20 or self.cells != int(self.cells):
            raise ValueError(f"cells must be an integer in 1 .. 2^20, not {self.cells}")
        if not self._extra <= 1 << 32:
            raise ValueError(f"epsilon {self.epsilon} is too small for a table of 64 bits")

    # ---- sensitivities -----------------------------------------------------------------------

    @property
    def beta(self) -> float:
        """How fast the smooth sensitivity may change: epsilon/6, or epsilon/(2 ln(2/delta))."""
        return self.epsilon / (2 * math.log(2 / self.delta) if self.delta else 6)

    @property
    def global_sensitivity(self) -> float:
        """The most the median of any data set can move: the whole range."""
        return self.high - self.low

    def local_sensitivity(self, values: ArrayLike) -> float:
        """The most the median of these values moves if one of them is replaced."""
        return self.sensitivity_at(values, 0)

    def sensitivity_at(self, values: ArrayLike, distance: int) -> float:
        """The largest local sensitivity after `distance` values were replaced.

        Args:
            values: (n,) finite numbers.
            distance: k, at least 0.

        Returns:
            max over 0 <= t <= k + 1 of x_(m+t) - x_(m+t-k-1), with m = (n + 1) // 2, x sorted,
            and the bounds in place of values that would lie beyond its ends.

        Source: Nissim, Raskhodnikova, Smith 2007, section 3.1, for replacement of a value.
        """
        if not distance >= 0:
            raise ValueError(f"distance must be at least 0, not {distance}")
        return self._spread(self._padded(values), distance)

    def smooth_sensitivity(self, values: ArrayLike) -> float:
        """max over k of e^(-k beta) times the sensitivity at distance k.

        Args:
            values: (n,) finite numbers.

        Returns:
            In the unit of the values, and never below 2^-80 of their range: a constant floor
            keeps the bound smooth, and the noise a positive scale.
        """
        padded, k, discount = self._padded(values), 0, 1.0
        largest = _LEAST * self.global_sensitivity
        while discount * self.global_sensitivity > largest:  # else no data set so far can matter
            largest = max(largest, discount * self._spread(padded, k))
            k, discount = k + 1, math.exp(-(k + 1) * self.beta)
        return largest

    def _padded(self, values: ArrayLike) -> Floats:
        """(3n + 4,) the values in order between copies of the bounds; x_i is at n + 1 + i."""
        ordered = self._sorted(values)
        ends = np.full(ordered.size + 2, self.low), np.full(ordered.size + 2, self.high)
        return np.concatenate([ends[0], ordered, ends[1]])

    def _spread(self, padded: Floats, k: int) -> float:
        """`sensitivity_at` of padded values."""
        n = (padded.size - 4) // 3
        k = min(k, n)  # n replacements reach every data set
        middle = n + 1 + (n + 1) // 2
        return float((padded[middle : middle + k + 2] - padded[middle - k - 1 : middle + 1]).max())

    def _sorted(self, values: ArrayLike) -> Floats:
        """The values within the bounds, in order."""
        array = np.asarray(values, np.float64)
        if not (array.ndim == 1 and array.size and np.isfinite(array).all()):
            raise ValueError("values must be a vector of at least one finite number")
        return np.sort(np.clip(array, self.low, self.high))

    # ---- release -----------------------------------------------------------------------------

    @property
    def grid(self) -> Floats:
        """(cells + 1,) what a release may be; it depends on no value."""
        return np.linspace(self.low, self.high, int(self.cells) + 1)

    @property
    def _extra(self) -> int:
        """Units added to every weight.

        A cut weight lies within 2 units of the ideal one, x <= e^epsilon x' + delta, hence
        x + 2 + c <= e^epsilon (x' - 2 + c) + delta if c >= 2 (e^epsilon + 1)/(e^epsilon - 1).
        """
        growth = exponential_bounds(min(self.epsilon, 100.0))[0]
        return ceiling(2 * (growth + 1) / (growth - 1))

    def scale(self, values: ArrayLike) -> float:
        """By how much unit noise is stretched: 6 S/epsilon (Cauchy) or 2 S/epsilon (Laplace)."""
        factor = 2 if self.delta else 6
        return factor * self.smooth_sensitivity(values) * (1 + _ROUNDING) / self.epsilon

    def weights(self, values: ArrayLike) -> tuple[NDArray[np.uint64], int]:
        """The exact distribution over the grid.

        Args:
            values: (n,) finite numbers.

        Returns:
            ((cells + 1,) uint64 numerators, their sum, which is the same for all values).
        """
        ordered = self._sorted(values)
        median = ordered[(ordered.size + 1) // 2 - 1]
        edges = (self.grid[1:] + self.grid[:-1]) / 2
        below = self._cumulative((edges - median) / self.scale(values))
        # What lies beyond either end of the grid belongs to the end: clamping is post-processing.
        cuts = np.concatenate([[0], np.floor(below * _UNIT).astype(np.int64), [_UNIT]])
        table = (np.diff(cuts) + self._extra).astype(np.uint64)
        return table, _UNIT + self._extra * (int(self.cells) + 1)

    def _cumulative(self, z: Floats) -> Floats:
        """P(unit noise <= z)."""
        if self.delta:
            return np.where(z < 0, np.exp(-np.abs(z)) / 2, 1 - np.exp(-np.abs(z)) / 2)
        return 0.5 + np.arctan(z) / np.pi

    def release(self, values: ArrayLike, rng: RandomSource, times: int = 1) -> Floats:
        """The noisy median, or several independent ones: every release spends the budget.

        Args:
            values: (n,) finite numbers.
            rng: the generator of this process.
            times: how many releases.

        Returns:
            (times,) points of the grid.
        """
        numerators, total = self.weights(values)
        draws = rng.integers(total, times)
        return self.grid[np.searchsorted(numerators.cumsum(), draws, side="right")]

    @property
    def guarantee(self) -> Guarantee:
        """What one release reveals when the number of values is public."""
        noise = "Laplace" if self.delta else "Cauchy"
        return Guarantee(
            "central",
            self.epsilon,
            self.delta,
            "record",
            f"smooth sensitivity with {noise} noise, Nissim, Raskhodnikova, Smith 2007; clamped "
            "and rounded to a fixed grid, whose weights absorb their own rounding",
        )
