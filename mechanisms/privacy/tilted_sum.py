"""The law of a sum of independent losses on a lattice, tilted until a given sum is likely."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from mechanisms.channel import Floats
from mechanisms.privacy.loss_lattice import Lattice

REACH = 13.0  # standard deviations to either side; beyond lies a probability of 10^-38
STEEPEST = 700.0  # e^epsilon is followed this far
_UNIT = 2.0**-53
_MOST_CELLS = 1 << 23
_SMALL = 1 << 17  # places of a window, if there are so many
_ROUGH = 32  # times fewer places than in a window do to look for a tilt

Laws = Sequence[tuple[Lattice, int]]


class SpreadError(ValueError):
    """A sum's losses spread over more cells than are followed."""


class TiltedSum:
    """The law of a sum of lattice losses in a window, tilted.

    Attributes:
        tilt: theta, in 1 / nats.
        places: of the window, ascending, in steps; of one loss those that it takes, alone.
        loss: the same, in nats.
        mass: the tilted probabilities.
        error: a bound of each one's absolute error, besides what wraps around.
        scale: what a tilted probability is multiplied by for the true one.
    """

    def __init__(
        self,
        laws: Laws,
        step: float,
        tilt: float,
        places: NDArray[np.int64] | None = None,
        small: int = _SMALL,
    ) -> None:
        self._laws, self._slope, self.tilt, self._small = laws, tilt * step, tilt, small
        self._least, self._most = (sum(int(x.places[i]) * t for x, t in laws) for i in (0, -1))
        self._log, mean, self._variance = _moments(laws, self._slope)
        count = sum(times for _, times in laws)
        # Steep noise has five losses that are 10^6 steps apart: one alone needs no transform.
        self._alone = laws[0][0] if count == 1 else None
        if places is None:
            places = self._window(mean) if self._alone is None else self._alone.places
        self.places = places
        self.loss = self.places * step
        self.scale = np.exp(np.minimum(self._log - tilt * self.loss, STEEPEST))
        exponents = [self._slope * law.places - law.moments(self._slope)[0] for law, _ in laws]
        tilted = [law.mass * np.exp(e) for (law, _), e in zip(laws, exponents, strict=True)]
        steep = max(float(p @ np.abs(e)) for p, e in zip(tilted, exponents, strict=True))
        self.mass: Floats = self._added(tilted)
        # A coefficient is at most 1; each of its factors is off by the transform's error and the
        # exponents'. As in Higham, "Accuracy and stability of numerical algorithms", 2002, Theorem
        # 24.2, but radix by radix, of 4, 2, 3, 5: a product with a root of 1 that is itself one of
        # two roots costs 9.9, and a butterfly 2, 1, 5, 8. That is at most 10 to a doubling (9.4 of
        # radix 3), but for a single 2; and in one of the passes all roots are 1.
        self.error = 10 * _UNIT * (math.log2(places.size) + steep + 4) * (count + 2)

    @classmethod
    def around(cls, laws: Laws, step: float, loss: float, small: int = _SMALL) -> "TiltedSum":
        """So tilted that the sum is about as large as a given loss; any tilt is right."""
        rough = [(law.gathered(small // _ROUGH), times) for law, times in laws]
        low, high = 0.0, 60 / (math.sqrt(_moments(rough, 0.0)[2]) * step or 1.0)
        starts = np.cumsum([0, *(law.places.size for law, _ in rough)])[:-1]
        numbers = np.array([times for _, times in rough])
        places, mass = (np.concatenate([law[i] for law, _ in rough]) for i in (0, 1))
        below = np.concatenate([(law.places - law.places[-1]) * step for law, _ in rough])
        for _ in range(16):
            tilt = (low + high) / 2
            tilted = mass * np.exp(tilt * below)
            sums = [np.add.reduceat(terms, starts) for terms in (tilted * places, tilted)]
            above = tilt * (float(numbers @ (sums[0] / sums[1])) * step - loss) > 1
            low, high = (low, tilt) if above else (tilt, high)
        return cls(laws, step, high, small=small)

    def missed(self, loss: float) -> float:
        """A bound of the true probability above a loss and outside the window."""
        above = self._tail(1) * float(self.scale[-1])
        if not self.loss[0] > loss:
            return min(1.0, above)
        nearest = math.exp(min(self._log - self.tilt * loss, STEEPEST))
        return min(1.0, above + self._tail(-1) * nearest)

    @property
    def wrapped(self) -> float:
        """A bound of the tilted probability outside the window, all of which wrapped into it."""
        return self._tail(1) + self._tail(-1)

    def _added(self, tilted: Sequence[Floats]) -> Floats:
        """The tilted law of the sum at the window's places, from the tilted masses of each loss."""
        size = self.places.size
        if self._alone is not None:
            mass = np.zeros(size)
            at = np.searchsorted(self.places, self._alone.places)
            inside = self.places[np.minimum(at, size - 1)] == self._alone.places
            mass[at[inside]] = tilted[0][inside]
            return mass
        spectrum: Any = 1.0
        for (law, times), mass in zip(self._laws, tilted, strict=True):
            folded = fft.rfft(np.bincount(law.places % size, mass, size))
            spectrum = spectrum * _power(folded, times)
        # Negative numbers are rounding errors.
        return np.maximum(fft.irfft(spectrum, size)[self.places % size], 0.0)

    def _window(self, mean: float) -> NDArray[np.int64]:
        """Places around a mean, as many as the sum needs."""
        support = self._most - self._least + 1
        # All of it if it is small: a few atoms need not lie within any number of deviations.
        width = min(max(2 * REACH * math.sqrt(self._variance) + 64, self._small), support)
        size = int(fft.next_fast_len(math.ceil(width), real=True))
        if not size <= _MOST_CELLS:
            raise SpreadError(
                f"the losses of a sum spread over more than {_MOST_CELLS:,} cells, as those of "
                "steep noise may; choose a smaller epsilon"
            )
        start = min(
            max(round(mean) - size // 2, self._least), max(self._most - size + 1, self._least)
        )
        return np.arange(start, start + size)

    def _tail(self, side: int) -> float:
        """A bound of the tilted probability above the window, or below it, by Chernoff."""
        end, farthest = (self.places[-1], self._most) if side > 0 else (self.places[0], self._least)
        if side * (farthest - int(end)) <= 0:
            return 0.0
        bounds = [0.0]
        for steps in (2.0, 5.0, 8.0, 13.0, 20.0):
            more = side * steps / math.sqrt(self._variance)
            log = _moments(self._laws, self._slope + more)[0]
            bounds.append(log - self._log - more * float(end) + 1e-9)
        return math.exp(min(bounds))


def _moments(laws: Laws, slope: float) -> tuple[float, float, float]:
    """Of the sum, as `Lattice.moments`."""
    rows = [(times, law.moments(slope)) for law, times in laws]
    log, mean, variance = (sum(times * row[i] for times, row in rows) for i in range(3))
    return log, mean, variance


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """By squaring: a thousand factors are ten multiplications."""
    result = values
    for bit in bin(times)[3:]:
        result = result * result
        if bit == "1":
            result = result * values
    return result
