"""Laws of the noise in a count, by their tails: `scipy.stats` has them, and takes a second to load.

Every command and every worker process would pay for that second.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mechanisms.channel import Floats


def binomial_sf(k: ArrayLike, n: ArrayLike, chance: ArrayLike) -> Floats:
    """P(X > k) for whole k from -1 to n, of any shape.

    >>> float(binomial_sf(1, 2, 0.5))
    0.25
    """
    a, b = np.asarray(k) + 1.0, np.asarray(n) - np.asarray(k, np.float64)
    inside = scipy.special.betainc(
        np.maximum(a, 1), np.maximum(b, 1), np.asarray(chance, np.float64)
    )
    return np.where(a < 1, 1.0, np.where(b < 1, 0.0, inside))


def binomial_cdf(k: ArrayLike, n: ArrayLike, chance: ArrayLike) -> Floats:
    """P(X <= k), exact to the last digits where it is next to nothing, too.

    >>> float(binomial_cdf(1, 2, 0.5))
    0.75
    """
    a, b = np.asarray(k) + 1.0, np.asarray(n) - np.asarray(k, np.float64)
    inside = scipy.special.betaincc(
        np.maximum(a, 1), np.maximum(b, 1), np.asarray(chance, np.float64)
    )
    return np.where(a < 1, 0.0, np.where(b < 1, 1.0, inside))


class IntegerLaw(ABC):
    """A law on the integers whose quantiles follow from its two tails."""

    @abstractmethod
    def mean(self) -> float:
        """The expectation."""

    @abstractmethod
    def cdf(self, k: int) -> float:
        """P(X <= k)."""

    def excess_kurtosis(self) -> float:
        """By how much its tails are heavier than a normal law's; 0 says that they are not."""
        return 0.0

    @abstractmethod
    def sf(self, k: int) -> float:
        """P(X > k), computed on its own: 1 - cdf(k) has no digits left far out."""

    def ppf(self, q: float) -> float:
        """The least integer that is not exceeded with probability at least q, in (0, 1)."""
        return float(self._least(lambda k: self.cdf(k) >= q))

    def isf(self, q: float) -> float:
        """The least integer that is exceeded with probability at most q, in (0, 1)."""
        return float(self._least(lambda k: self.sf(k) <= q))

    def _least(self, holds: Callable[[int], bool]) -> int:
        """The least integer for which something holds that holds for all above it."""
        # Doubling steps from the mean: quantiles are a few standard deviations away, however large
        # n is.
        low = high = math.floor(self.mean())
        step = 1
        while not holds(high):
            low, high, step = high, high + step, 2 * step
        while holds(low):
            low, high, step = low - step, low, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high


@dataclass(frozen=True)
class Poisson(IntegerLaw):
    """Of independent arrivals.

    >>> Poisson(4.0).ppf(0.5), Poisson(4.0).isf(0.025)
    (4.0, 8.0)
    """

    expected: float

    def mean(self) -> float:
        return self.expected

    def cdf(self, k: int) -> float:
        return float(scipy.special.pdtr(k, self.expected)) if k >= 0 else 0.0

    def sf(self, k: int) -> float:
        return float(scipy.special.pdtrc(k, self.expected)) if k >= 0 else 1.0


@dataclass(frozen=True)
class Binomial(IntegerLaw):
    """Of n coins.

    >>> Binomial(10, 0.5).ppf(0.5), Binomial(10, 0.5).isf(0.025)
    (5.0, 8.0)
    """

    n: int
    chance: float

    def mean(self) -> float:
        return self.n * self.chance

    def cdf(self, k: int) -> float:
        return float(binomial_cdf(min(max(k, -1), self.n), self.n, self.chance))

    def sf(self, k: int) -> float:
        return float(binomial_sf(min(max(k, -1), self.n), self.n, self.chance))
