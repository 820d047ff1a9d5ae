"""Factors of the running sum: what noise of one day says of that of the next.

Running totals are A x, A lower triangular and full of ones. Where A = B C, the release A x + B z is
what anybody makes of C x + z, z independent: it costs what z hides of C x, the largest column of C,
and errs by the rows of B. Both are Toeplitz here, so power series: b(q) c(q) = 1 / (1 - q). Best of
all, to a few percent, is b = c, the square root (Fichtenberger, Henzinger, Upadhyay, "Constant
matters", ICML 2023). Its coefficients are no short recursion, and to draw its noise all earlier
noise has to be kept.

A sum of some powers is one: b_0 = 1, b_k = sum_j w_j l_j^(k - 1) takes a buffer for each j, which
fades by l_j from day to day (Dvijotham, McMahan, Pillutla, Steinke, Thakurta, "Efficient and
near-optimal noise generation for streaming differential privacy", FOCS 2024: buffered linear
Toeplitz matrices). The square root's coefficients are an integral of powers, b_k = (1 / pi)
int_0^1 l^k / sqrt(l (1 - l)) dl, so rates that grow geometrically from one in a horizon to one in
two days, with weights by least squares, come within a part in a hundred: three for a year.

Where nobody knows how many days there will be, the square root errs on early days as on the last
one. Coefficients of C that fall a little faster, s_k / (1 + 0.15 log(1 + k)), cost some of the last
day's error and spare the first ones: over 20,000 days the variance of each from the 14th on is 1.3
to 1.45 times that of the square root for just as many days.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.signal import lfilter

from mechanisms.channel import Floats

BITS = 40  # of the fractions in which decays and weights are said
LONGEST = 20_000  # days: of so many nobody knows how many there will be
_NEAR = 1.01  # of the square root's error
_MOST = 12  # buffers, of which a horizon of 20,000 takes four
_FADING = 0.15  # how much faster coefficients fall where no day is the last one
_FASTEST = 0.5  # the rate of the buffer that fades first, a day
_ROUNDED_UP = 1 + 1e-9  # more than doubles lose in sums of this length


def square_root(horizon: int) -> Floats:
    """(horizon,) coefficients of the series 1 / sqrt(1 - q).

    >>> square_root(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    k = np.arange(1.0, horizon)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def divided(series: Floats, by: Floats) -> Floats:
    """(horizon,) coefficients of the quotient of two power series; by_0 is 1.

    >>> divided(np.ones(4), square_root(4)).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    return np.asarray(lfilter([1.0], by, series))


@dataclass(frozen=True)
class Factors:
    """Two factors of the running sum, of which one is said by a few buffers.

    Attributes:
        horizon: how many days there are.
        decays: of each buffer, from a day to the next, in units of 2^-40.
        weights: of each buffer in a day's noise, in units of 2^-40.

    >>> factors = buffered(365)
    >>> len(factors.decays), round(factors.error / float(np.sum(square_root(365) ** 2)), 4)
    (3, 1.0017)
    """

    horizon: int
    decays: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.horizon <= LONGEST:
            raise ValueError(f"horizon must be 1 .. {LONGEST:,} windows, not {self.horizon}")
        if not len(self.decays) == len(self.weights) <= _MOST:
            raise ValueError(f"each of at most {_MOST} buffers has a decay and a weight")
        if not all(0 <= decay < 1 << BITS for decay in self.decays):
            raise ValueError("decays must lie in [0, 1)")
        if not all(0 < weight <= 1 << BITS for weight in self.weights):
            raise ValueError("weights must lie in (0, 1]")

    @cached_property
    def noise(self) -> Floats:
        """(horizon,) b: how far noise that was drawn so many days ago is in the total."""
        noise = np.zeros(self.horizon)
        noise[0] = 1.0
        ages = np.arange(self.horizon - 1)
        for decay, weight in zip(self.decays, self.weights, strict=True):
            noise[1:] += math.ldexp(weight, -BITS) * math.ldexp(decay, -BITS) ** ages
        return noise

    @cached_property
    def strategy(self) -> Floats:
        """(horizon,) c: how far what was added so many days ago is in what noise hides."""
        return divided(np.ones(self.horizon), self.noise)

    @cached_property
    def undone(self) -> float:
        """A bound of the sum of |coefficients| of 1 / b: how rounding of totals reaches noise."""
        one = np.zeros(self.horizon)
        one[0] = 1.0
        return float(np.abs(divided(one, self.noise)).sum()) * _ROUNDED_UP

    def sensitivity(self, days: int = 1) -> float:
        """A bound of the norm of C u, where u adds 1 or -1 on so many days.

        Columns of C have no negative product, and a smaller one the later they are and the farther
        apart: nothing is worse than the first days, all in one direction.

        Args:
            days: at most so many of the horizon.

        Raises:
            ValueError: it is not in 1 .. horizon, or coefficients do not fall, which this rests on.
        """
        if not 1 <= days <= self.horizon:
            raise ValueError(f"days must lie in 1 .. {self.horizon}, not {days}")
        c = self.strategy
        if days > 1 and not (c.min() >= 0 and np.all(np.diff(c) <= 0)):
            raise ValueError("coefficients of the strategy must fall, and not below 0")
        first = np.ones(min(days, self.horizon))
        return float(np.linalg.norm(lfilter(first, [1.0], c))) * _ROUNDED_UP

    @property
    def error(self) -> float:
        """The largest standard error of a total, for noise that just hides one day's unit."""
        return float(np.linalg.norm(self.noise)) * self.sensitivity()

    def window_norm(self, day: int, window: int | None = None) -> float:
        """The standard error of the sum over some last days, in that of the noise that is drawn.

        Args:
            day: the last of them, from 0 on.
            window: how many; all since the first where it is None, or reaches there.
        """
        if not 0 <= day < self.horizon:
            raise ValueError(f"day must lie in 0 .. {self.horizon - 1}, not {day}")
        window_noise = self.noise[: day + 1].copy()
        if window is not None and window <= day:
            window_noise[window:] -= self.noise[: day + 1 - window]
        return float(np.linalg.norm(window_noise))


def buffered(horizon: int) -> Factors:
    """The fewest buffers that err by at most a part in a hundred more than the best series.

    Args:
        horizon: how many days there are.

    Raises:
        ValueError: it is out of range.
    """
    factors = Factors(horizon, (), ())  # refuses what is no horizon
    if horizon == 1:
        return factors
    best = strategy = square_root(horizon)
    fewest = 1
    if horizon == LONGEST:
        fewest = 4  # fewer do not, and to try each takes half a second
        strategy = best / (1 + _FADING * np.log1p(np.arange(horizon)))
        best = divided(np.ones(horizon), strategy)
    least = _NEAR * float(np.linalg.norm(best) * np.linalg.norm(strategy))
    for buffers in range(fewest, _MOST + 1):
        factors = _fitted(best, buffers)
        if factors.error <= least:
            return factors
    raise ValueError(f"no {_MOST} buffers serve a horizon of {horizon:,} windows")


def _fitted(best: Floats, buffers: int) -> Factors:
    """So many buffers whose coefficients are next to those of a series."""
    slowest = min(1 / best.size, _FASTEST)
    rates = np.geomspace(slowest, _FASTEST, buffers) if buffers > 1 else np.array([_FASTEST])
    decays = np.rint(np.exp(-rates) * 2.0**BITS).astype(np.int64)
    powers = (decays * 2.0**-BITS) ** np.arange(best.size - 1)[:, None]
    # What is far from the first day is small, and there is much of it.
    scale = np.sqrt(best[1:])
    weights = np.linalg.lstsq(powers / scale[:, None], best[1:] / scale, rcond=None)[0]
    whole = np.clip(np.rint(weights * 2.0**BITS), 1, 2.0**BITS).astype(np.int64)
    return Factors(best.size, tuple(decays.tolist()), tuple(whole.tolist()))
