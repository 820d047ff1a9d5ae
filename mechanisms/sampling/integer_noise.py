"""Noise with any law on the integers, given by its probabilities over a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from mechanisms.channel import Floats

LONGEST = 1 << 23  # of a sum's law


@dataclass(frozen=True)
class IntegerNoise:
    """A law on consecutive integers, or on these less a mean, as intervals ask for it.

    Attributes:
        first: the least number of the window.
        pmf: (window,) probabilities; what is missing from 1 is taken to be nothing.

    >>> noise = IntegerNoise(-1, np.array([0.25, 0.5, 0.25]))
    >>> noise.mean(), noise.ppf(0.5), noise.isf(0.2)
    (0.0, 0.0, 1.0)
    """

    first: float
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


def weighted_sum(terms: Sequence[tuple[int, Floats, int]]) -> IntegerNoise:
    """The law of a weighted sum of independent integers.

    Args:
        terms: (least integer, (window,) probabilities, whole weight) of each.

    Raises:
        ValueError: the law is too long to tabulate; it is all but normal then.

    >>> coin = np.array([0.5, 0.5])
    >>> weighted_sum([(0, coin, 1), (0, coin, -2)])
    IntegerNoise(first=-2, pmf=array([0.25, 0.25, 0.25, 0.25]))
    """
    ends = [(w * first, w * (first + pmf.size - 1)) for first, pmf, w in terms]
    low, high = sum(map(min, ends)), sum(map(max, ends))
    if not high - low < LONGEST:
        raise ValueError(f"a law may have {LONGEST:,} outcomes at the most, not {high - low + 1:,}")
    size = int(scipy.fft.next_fast_len(high - low + 1, real=True))
    spectrum = np.ones(size // 2 + 1, np.complex128)
    for first, pmf, weight in terms:
        places = weight * (first + np.arange(pmf.size)) % size
        spectrum *= scipy.fft.rfft(np.bincount(places, pmf, size))
    law = np.maximum(np.roll(scipy.fft.irfft(spectrum, size), -low)[: high - low + 1], 0.0)
    return IntegerNoise(low, law / law.sum())
