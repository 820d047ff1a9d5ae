"""Sums of very many coins, at edges that are many counts apart.

Where a count spreads over 10^5 places, nothing that an accountant asks about it needs each of them.
The law is inverted from its characteristic function, which is closed and of which some sixty
frequencies count; tilted towards several places, so that the tail that decides a delta of 10^-12
keeps its digits. Neither the time nor the rounding grows with the number of coins.

**Rounding**, in units of 2^-53 and relative to the modulus of each frequency's term, with s its
power, f = -Im s, and |s| < 0.32 (a deviation is at least 64). A product of complex numbers costs
sqrt(5) (Brent, Percival, Zimmermann, "Error bounds on complex floating-point multiplication", Math.
Comp. 2007), a sum 1, a quotient by Smith's rule 9; elementary functions are taken to be right to 4
ulp, which is 8 (numpy's and the C library's are).

* The series E(x) of e^x - 1 - x, whose own tail is below 10^-20: a term x^k / k! costs 3.24 k by
  Horner's rule, x itself 2, together 6.2 |x|^2. Two of them weighted, 7.9 p (1 - p) |s|^2; their
  logarithm, whose tail is below 10^-18 of it, 10.4; n times that, summed over parts, 12 + parts
  times variance |s|^2 at most. The frequency costs 3 f |K'(s)| <= 4.2 variance |s|^2 of the
  logarithm K of the transform.
* The phase at the first place of a block costs 6 f |start|. All else costs below 100 and the number
  of frequencies, which are added up: two exponentials 16, a span 18, products 5, roots of 1 27, the
  division by the period 10.

What the frequencies beyond the last would add, and what the law adds to itself a period later, is
below e^-100 of the tilted law's total: the transform's modulus there is at most
exp(-2 v sin(f / 2)^2), as a coin's is 1 - 4 p (1 - p) sin(f / 2)^2 in square, and v >= variance
e^-|tilt|; and Bernstein bounds what lies 19.9 deviations away from a tilted mean. At the least
variance these are e^-104 and e^-150; from there on they fall.

Sums of independent binomial numbers, and numbers they seldom stay below.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.privacy.dummy_laws import DummyLaw, binomial

_UNIT = 2.0**-53
# Relative to the mode: what convolutions leave out. Transforms fill the ends with rounding errors
# of about this size, whose ratios are all different and would be looked at one by one.
_FAINT = 16 * _UNIT
_FEW = 1 << 20  # products, below which sums of them are as fast, and keep their digits
LEAST_VARIANCE = 1 << 12  # of a count: the series below converge, and tilted laws are alike
_MOST_VARIANCE = 1 << 64  # places are exact, and what is below e^-100 stays negligible
_BEYOND = math.exp(-100.0)
_CELLS = 100  # to a standard deviation, about
_REACH = 15.0  # standard deviations to either side of the mean that are looked at
_PERIOD = 24.0  # standard deviations after which the inverted law repeats itself
# Deviations from the mean, around which to read: one for each block of edges.
_TILTS = np.array([-12.5, -7.5, -2.5, 2.5, 7.5, 12.5])[:, None]
_FREQUENCIES = 16.0  # over the standard deviation: beyond, a characteristic function is negligible
# e^x - 1 - x and log(1 + x): both are asked for near 0, where differences would lose all digits.
_EXPONENTIAL = [0.0, 0.0, *(1 / math.factorial(k) for k in range(2, 16))]
_LOGARITHM = [0.0, *((-1) ** (k + 1) / k for k in range(1, 10))]

Complex = NDArray[np.complexfloating[Any, Any]]


def binomial_sum(*parts: tuple[int, float], onto: DummyLaw | None = None) -> DummyLaw:
    """The law of a sum of binomial numbers.

    Args:
        *parts: (n, chance) of each, n at least 0 and chance in [0, 1].
        onto: the law of a number that is added to them.

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
    laws = laws if onto is None else [onto, *laws]
    if not laws:
        return DummyLaw(sure, np.ones(1))
    first, total, distance = sure + laws[0].first, laws[0].pmf, laws[0].distance
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


class Edges(NamedTuple):
    """The law of a count where cells of counts begin.

    Attributes:
        first: the first edge, and
        step: how many counts lie between two.
        below: (edges,) P(the count is the last one below the edge).
        cell: (edges,) P(the count lies in the cell that begins at the edge).
        drop: (edges,) P(that one) / P(the edge's own) - 1, which a difference would round away.
        missing: bound on the probability outside the cells.
        relative: bound on the relative error of each probability.
        drop_error: bound on the error of each drop.
    """

    first: int
    step: int
    below: Floats
    cell: Floats
    drop: Floats
    missing: float
    relative: float
    drop_error: float


def binomial_edges(*parts: tuple[int, float]) -> Edges:
    """The law of a sum of binomial numbers, at edges some hundredth of a standard deviation apart.

    Args:
        *parts: (n, chance) of each, n at least 0 and chance in [0, 1], taken as exact; the
            variance of the sum is at least `LEAST_VARIANCE`, and at most 2^64.

    Raises:
        ValueError: the variance is out of range, or not a number.

    Source: tails by Bernstein's inequality, for what lies outside and for what repeats (Boucheron,
        Lugosi, Massart, "Concentration inequalities", 2013, Corollary 2.11).
    """
    variance = sum(n * chance * (1 - chance) for n, chance in parts)
    if not LEAST_VARIANCE <= variance <= _MOST_VARIANCE:
        raise ValueError(f"the variance must be {LEAST_VARIANCE} to 2^64, not {variance}")
    deviation = math.sqrt(variance)
    step = max(1, math.floor(deviation / _CELLS))
    period = math.ceil(_PERIOD * deviation / step)  # in cells
    mean = sum((n * Fraction(chance) for n, chance in parts), Fraction())
    first = math.floor(mean) - math.ceil(_REACH * deviation)
    # Exact: a shift by a millionth of a count is as much as a user's bit shifts a large batch.
    start = float(first - mean)
    cells = math.ceil((2 * _REACH * deviation + 2) / (step * _TILTS.size))  # of a block
    place = start + step * np.arange(_TILTS.size * cells).reshape(_TILTS.size, cells)
    turns = math.ceil(_FREQUENCIES / deviation * period * step / (2 * math.pi))
    frequency, theta = 2 * math.pi / (period * step) * np.arange(turns), _TILTS / deviation
    power = theta - 1j * frequency
    law = np.exp(sum(n * _cumulants(chance, power) for n, chance in parts))
    # Of the edge's count, of how much likelier the one below is, of the cell.
    spans = np.stack([np.ones_like(power), _less_one(power), _geometric(power, step)], axis=1)
    turned = (law * np.exp(1j * frequency * place[:, :1]))[:, None] * spans / (period * step)
    turned[..., 1:] *= 2  # for the frequencies below 0
    cosine, sine = _waves(turns, cells, period)
    at, more, cell = np.moveaxis(turned.real @ cosine - turned.imag @ sine, 1, 0)
    spread = variance * np.abs(power) ** 2
    rounded = _UNIT * ((17 + len(parts)) * spread + 6 * frequency * abs(start) + turns + 100)
    error = (np.abs(turned) * rounded[:, None]).sum(axis=2) + _BEYOND * step * law[:, :1].real
    at_error, more_error, cell_error = error.T[..., None]
    blurred = np.array([(at_error + more_error) / (at + more), cell_error / cell])
    if not (blurred.min() > 0 and blurred.max() < 1e-3):
        raise ValueError("rounding hides the law of these coins")
    drop, untilted = more / at, np.exp(-theta * place)
    errors = 1.01 * (more_error + np.abs(drop) * at_error) / at + 2 * _UNIT * np.abs(drop)
    relative = 1.01 * float(blurred.max()) + _UNIT * (4 * float(theta.max()) * abs(start) + 12)
    missing = 3 * math.exp(-(_REACH**2) / 2 / (1 + _REACH / (3 * deviation)))  # 2, and rounding
    below, cell = ((row * untilted).ravel() for row in (at + more, cell))
    return Edges(first, step, below, cell, drop.ravel(), missing, relative, float(errors.max()))


def _cumulants(chance: float, power: Complex) -> Complex:
    """log E e^(power (coin - chance)): what is of first order cancels before it is rounded."""
    tails = polyval(-chance * power, _EXPONENTIAL)
    heads = polyval((1 - chance) * power, _EXPONENTIAL)
    return np.asarray(polyval((1 - chance) * tails + chance * heads, _LOGARITHM))


def _less_one(power: Complex) -> Complex:
    """e^power - 1, near 0."""
    return np.asarray(polyval(power, _EXPONENTIAL) + power)


def _geometric(power: Complex, terms: int) -> Complex:
    """1 + e^-power + ... of so many terms; the power is not 0."""
    return np.asarray(_less_one(-terms * power) / _less_one(-power))


@lru_cache(maxsize=8)  # laws of alike many coins have them in common
def _waves(turns: int, cells: int, period: int) -> tuple[Floats, Floats]:
    """Cosine and sine (turns, cells) of the angle at each cell of a block, from its first on."""
    angle = 2 * math.pi / period * (np.multiply.outer(np.arange(turns), np.arange(cells)) % period)
    return np.cos(angle), np.sin(angle)
