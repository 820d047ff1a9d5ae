"""Sums of very many coins, at edges that are many counts apart.

Where a count spreads over 10^5 places, nothing that an accountant asks about it needs each of them.
The law is inverted from its characteristic function, which is closed and of which some sixty
frequencies count; tilted towards several places, so that the tail that decides a delta of 10^-12
keeps its digits. Neither the time nor the rounding grows with the number of coins.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from mechanisms.channel import Floats

LEAST_VARIANCE = 1 << 12  # of a count: the series below converge, and tilted laws are alike
_ROUNDING = (
    4e-13  # of the peak of a tilted law; relative to what is read, as much more as that is less
)
_CELLS = 100  # to a standard deviation, about
_REACH = 15.0  # standard deviations to either side of the mean that are looked at
_PERIOD = 24.0  # standard deviations after which the inverted law repeats itself: negligible
_TILTS = (-12.5, -7.5, -2.5, 2.5, 7.5, 12.5)  # deviations from the mean, around which to read
_FREQUENCIES = 16.0  # over the standard deviation: beyond, a characteristic function is negligible
# e^x - 1 - x and log(1 + x): both are asked for near 0, where differences would lose all digits.
_EXPONENTIAL = [0.0, 0.0, *(1 / math.factorial(k) for k in range(2, 16))]
_LOGARITHM = [0.0, *((-1) ** (k + 1) / k for k in range(1, 10))]

Complex = NDArray[np.complexfloating[Any, Any]]


class Edges(NamedTuple):
    """The law of a count where cells of counts begin.

    Attributes:
        first: the first edge, and
        step: how many counts lie between two.
        below: (edges,) P(the count is the last one below the edge).
        at: (edges,) P(the count is the edge's).
        cell: (edges,) P(the count lies in the cell that begins at the edge).
        missing: bound on the probability outside the cells.
        relative: bound on the relative error of each probability.
    """

    first: int
    step: int
    below: Floats
    at: Floats
    cell: Floats
    missing: float
    relative: float


def binomial_edges(*parts: tuple[int, float]) -> Edges:
    """The law of a sum of binomial numbers, at edges some hundredth of a standard deviation apart.

    Args:
        *parts: (n, chance) of each, n at least 0 and chance in [0, 1], taken as exact; the
            variance of the sum is at least `LEAST_VARIANCE`.

    Raises:
        ValueError: the variance is smaller, or not a number.

    Source: tails by Bernstein's inequality, for what lies outside and for what repeats (Boucheron,
        Lugosi, Massart, "Concentration inequalities", 2013, Corollary 2.11). A coin's
        |1 - p + p e^it|^2 = 1 - 4 p (1 - p) sin(t / 2)^2 <= e^(-4 p (1 - p) t^2 / pi^2), so that
        beyond the last frequency the sum's is below 10^-22. Rounding of transforms: Brent,
        Percival, Zimmermann, "Error bounds on complex floating-point multiplication", Math. Comp.
        2007.
    """
    variance = sum(n * chance * (1 - chance) for n, chance in parts)
    if not variance >= LEAST_VARIANCE:
        raise ValueError(f"the variance must be at least {LEAST_VARIANCE}, not {variance}")
    deviation = math.sqrt(variance)
    step = max(1, math.floor(deviation / _CELLS))
    period = scipy.fft.next_fast_len(math.ceil(_PERIOD * deviation / step), real=True)  # in cells
    mean = sum((n * Fraction(chance) for n, chance in parts), Fraction())
    first = math.floor(mean) - math.ceil(_REACH * deviation)
    # Exact: a shift by a millionth of a count is as much as a user's bit shifts a large batch.
    start = float(first - mean)
    place = start + step * np.arange(math.ceil((2 * _REACH * deviation + 2) / step))
    nearest = np.abs(place[:, None] / deviation - _TILTS).argmin(axis=1)
    turns = np.arange(math.ceil(_FREQUENCIES / deviation * period * step / (2 * math.pi)))
    rows, relative = np.empty((3, place.size)), 0.0
    for i, tilt in enumerate(_TILTS):
        power = tilt / deviation - 2j * math.pi / (period * step) * turns
        law = np.exp(sum(n * _cumulants(chance, power) for n, chance in parts))
        back = np.exp(power)
        spans = np.array([back, np.ones_like(back), _geometric(power, step)])
        here, theta = np.flatnonzero(nearest == i), tilt / deviation
        turned = law * spans * np.exp(-1j * power.imag * start)
        inverted = scipy.fft.irfft(turned, period)[:, here % period] / step
        rows[:, here] = inverted * np.exp(-theta * place[here])
        tilted = [(n, p, p * math.exp(theta) / (1 + p * math.expm1(theta))) for n, p in parts]
        centre, spread = (
            sum(n * (q - p) for n, p, q in tilted),
            sum(n * q * (1 - q) for n, _, q in tilted),
        )
        farthest = float(np.abs(place[here] - centre).max() / math.sqrt(spread))
        relative = max(relative, _ROUNDING * math.exp(farthest**2 / 2))
    missing = 2 * math.exp(-(_REACH**2) / 2 / (1 + _REACH / (3 * deviation)))
    below, at, cell = rows
    return Edges(first, step, below, at, cell, missing, relative)


def _cumulants(chance: float, power: Complex) -> Complex:
    """log E e^(power (coin - chance)): what is of first order cancels before it is rounded."""
    tails = polyval(-chance * power, _EXPONENTIAL)
    heads = polyval((1 - chance) * power, _EXPONENTIAL)
    return np.asarray(polyval((1 - chance) * tails + chance * heads, _LOGARITHM))


def _geometric(power: Complex, terms: int) -> Complex:
    """1 + e^-power + ... of so many terms."""
    step = np.where(power == 0, 1.0, power)
    one, all_ = (polyval(-x, _EXPONENTIAL) - x for x in (step, terms * step))
    return np.asarray(np.where(power == 0, terms, all_ / one))
