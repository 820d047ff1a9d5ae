"""Sums of independent binomial numbers, and numbers they seldom stay below."""

from __future__ import annotations

import math

import numpy as np
import scipy

from mechanisms.channel import Floats
from mechanisms.privacy.dummy_laws import DummyLaw, binomial

_UNIT = 2.0**-53
# Relative to the mode: what convolutions leave out. Transforms fill the ends with rounding errors
# of about this size, whose ratios are all different and would be looked at one by one.
_FAINT = 16 * _UNIT
_FEW = 1 << 20  # products, below which sums of them are as fast, and keep their digits


def binomial_sum(*parts: tuple[int, float]) -> DummyLaw:
    """The law of a sum of binomial numbers.

    Args:
        *parts: (n, chance) of each, n at least 0 and chance in [0, 1].

    Returns:
        The law over a window of counts. One binomial keeps its relative accuracy, and so do sums of
        few; transforms make larger ones only as accurate as `distance` tells.

    >>> law = binomial_sum((2, 0.5), (1, 1.0))
    >>> law.first, law.pmf.tolist()
    (1, [0.25, 0.5, 0.25])
    """
    # Coins that always fall heads shift the window and add no uncertainty.
    sure = sum(n for n, chance in parts if chance == 1)
    laws = [binomial(n, chance) for n, chance in parts if n > 0 and 0 < chance < 1]
    if not laws:
        return DummyLaw(sure, np.ones(1))
    first, total, distance = sure + laws[0].first, laws[0].pmf, 0.0
    for law in laws[1:]:
        total, cut, error = _convolved(total, law.pmf)
        first, distance = first + law.first + cut, distance + error
    missing = sum(law.missing for law in laws)
    relative = sum(law.relative + 2 * _UNIT * law.pmf.size for law in laws)
    return DummyLaw(first, total, missing, relative, distance)


def _convolved(one: Floats, other: Floats) -> tuple[Floats, int, float]:
    """A convolution without its faint ends, how many entries the first end had, the error."""
    size = one.size + other.size - 1
    if one.size * other.size <= _FEW:
        return np.convolve(one, other), 0, 0.0
    length = scipy.fft.next_fast_len(size, real=True)
    total = scipy.fft.irfft(scipy.fft.rfft(one, length) * scipy.fft.rfft(other, length), length)[
        :size
    ]
    faint = _FAINT * float(total.max())
    kept = np.flatnonzero(total > faint)
    # What the transforms round, in each entry (Brent, Percival, Zimmermann, "Error bounds on
    # complex floating-point multiplication", Math. Comp. 2007, Theorem 5.1), and what was cut.
    norms = math.sqrt(float((one * one).sum() * (other * other).sum()))
    error = size * (16 * _UNIT * math.log2(2 * length) * norms + faint)
    first = int(kept[0])
    # Transforms leave values a little below 0, which the error covers.
    return np.maximum(total[first : kept[-1] + 1], 0.0), first, error


def seldom_below(n: int, chance: float, tail: float) -> int:
    """A number that Bin(n, chance) stays below with at most a given probability.

    Args:
        n: at least 0.
        chance: in [0, 1].
        tail: at least 10^-30.

    Returns:
        The largest such number, up to rounding.
    """
    if n == 0 or not 0 < chance < 1:
        return n if chance == 1 else 0
    law = binomial(n, chance)
    # Rounded up, so that the number is truly missed no more often than allowed.
    below = law.missing + law.pmf.cumsum() * (1 + law.relative)
    return law.first + int(np.count_nonzero(below <= tail))
