"""Noise with any law on the integers, given by its probabilities over a window."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from mechanisms.channel import Floats

LONGEST = 1 << 23  # of a sum's law
_FEW = 64  # outcomes
_ADDED = 20  # shifted copies of a law are added as fast as one spectrum of it is made


@dataclass(frozen=True, eq=False)  # laws of one sum are one object, by which more is remembered
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
        return float(self.first + self.pmf.size - 1 - np.searchsorted(self._beyond, q, "right"))

    @cached_property
    def _beyond(self) -> Floats:
        """Of each integer but the greatest, from the last: what is above it."""
        return self.pmf[:0:-1].cumsum()

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
    alike: dict[int, Floats] = {}
    spectral = Counter[tuple[int, bytes]]()
    for _, pmf, weight in terms:
        forward = pmf if weight > 0 else pmf[::-1]
        if pmf.size <= _FEW:  # terms of one weight are one term, of more outcomes
            alike[abs(weight)] = np.convolve(alike.get(abs(weight), np.ones(1)), forward)
        else:
            spectral[abs(weight), forward.tobytes()] += 1
    law = np.ones(1)
    for weight, pmf in sorted(alike.items()):
        width = law.size + weight * (pmf.size - 1)
        if pmf.size * width < _ADDED * (high - low + 1):
            law = _added(law, pmf, weight, width)
        else:
            spectral[weight, pmf.tobytes()] += 1
    if spectral:
        law = _convolved(law, spectral, high - low + 1)
    return IntegerNoise(low, law / law.sum())


def _added(law: Floats, pmf: Floats, weight: int, width: int) -> Floats:
    """A law and a few outcomes more, far from each other: as many shifted copies, added up."""
    total = np.zeros(width)
    for place, probability in enumerate(pmf):
        total[weight * place : weight * place + law.size] += probability * law
    return total


def _convolved(law: Floats, terms: Mapping[tuple[int, bytes], int], length: int) -> Floats:
    """A law and more terms, each as often as it comes, by their spectra."""
    size = int(scipy.fft.next_fast_len(length, real=True))
    # That of no terms is 1 everywhere; to make it took a third of the time of two noises of a job.
    spectrum = scipy.fft.rfft(law, size) if law.size > 1 else law
    for (weight, data), times in terms.items():
        pmf = np.frombuffer(data)
        apart = pmf if weight == 1 else np.bincount(weight * np.arange(pmf.size), pmf)
        spectrum = spectrum * scipy.fft.rfft(apart, size) ** times
    return np.maximum(scipy.fft.irfft(spectrum, size)[:length], 0.0)
