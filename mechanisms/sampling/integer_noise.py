"""Noise with any law on the integers, given by its probabilities over a window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechanisms.channel import Floats


@dataclass(frozen=True)
class IntegerNoise:
    """A law on consecutive integers, as intervals ask for it.

    Attributes:
        first: the least integer of the window.
        pmf: (window,) probabilities; what is missing from 1 is taken to be nothing.

    >>> noise = IntegerNoise(-1, np.array([0.25, 0.5, 0.25]))
    >>> noise.mean(), noise.ppf(0.5), noise.isf(0.2)
    (0.0, 0.0, 1.0)
    """

    first: int
    pmf: Floats

    def mean(self) -> float:
        """The expectation."""
        return float(self.pmf @ self._integers)

    def var(self) -> float:
        """The variance."""
        return float(self.pmf @ (self._integers - self.mean()) ** 2)

    def excess_kurtosis(self) -> float:
        """By how much its tails are heavier than a normal law's, if they are."""
        fourth = float(self.pmf @ (self._integers - self.mean()) ** 4)
        return max(fourth / self.var() ** 2 - 3, 0.0)

    def ppf(self, q: float) -> float:
        """The least integer that is not exceeded with probability at least q."""
        place = int(np.searchsorted(self.pmf.cumsum(), q))
        return float(self.first + min(place, self.pmf.size - 1))

    def isf(self, q: float) -> float:
        """The least integer that is exceeded with probability at most q."""
        beyond = np.append(self.pmf[:0:-1].cumsum()[::-1], 0.0)
        return float(self.first + np.count_nonzero(beyond > q))

    @cached_property
    def _integers(self) -> Floats:
        return self.first + np.arange(float(self.pmf.size))
