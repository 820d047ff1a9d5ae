"""Gaussian noise rounded to whole numbers, drawn from its exact law up to 2^-150.

Added to a whole number, rounded noise is the rounding of the sum: k + round(Z) = round(k + Z).
A release that adds it to a vector of whole numbers is hence a function of the ideal Gaussian
mechanism's release, and whatever holds for that, through any accountant, holds for it. Nothing
of the sum hides in the low bits of a double, as it does where the noise is a double (Mironov,
"On significance of the least significant bits for differential privacy", CCS 2012).
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mechanisms.channel import Floats
from mechanisms.randomness import RandomSource, Words

LARGEST_SIGMA = 2.0**36
_BITS = 192  # of uniform randomness behind a draw, of which most draws need 64
_BLOCK = 1 << 16  # draws at a time: what fits a processor's cache
_FAR = 4.5  # standard deviations from which 64 bits tell neighbouring integers apart too rarely
_DOUBT = 2.0**-46  # 20 times the error of `ndtri` (7.2e-16 at its worst, says Cephes), and more
_DIGITS = Context(prec=90)
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534"
)


@dataclass(frozen=True)
class RoundedNormal:
    """The nearest integer to a Gaussian variable of mean 0.

    A draw inverts the normal distribution function at a uniform number. The first 64 of its bits
    and arithmetic in doubles settle nearly every draw; where they leave a doubt about the
    integer, 128 more bits and 90 decimal digits decide.

    Attributes:
        sigma: the standard deviation before rounding, in (0, 2^36].

    >>> from mechanisms.randomness import SeededRandom
    >>> RoundedNormal(sigma=3.0).draw(8, SeededRandom(1)).tolist()
    [-1, 2, -1, -2, 0, 0, 0, 5]
    """

    sigma: float

    def __post_init__(self) -> None:
        if not 0 < self.sigma <= LARGEST_SIGMA:
            raise ValueError(f"sigma must be positive and at most 2^36, not {self.sigma}")

    @property
    def farthest(self) -> float:
        """A bound of the total variation between the law of a draw and that of round(Z).

        The uniform number has 192 bits. A draw differs from that of a real number with these
        leading bits only if the law's step from an integer to the next falls within the last
        bit, and there is a step for each integer within 17 standard deviations; what is cut off
        beyond has a mass of 2^-191.
        """
        return 2.0 ** (2 - _BITS) * (2 * 17 * self.sigma + 2)

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Independent integers.

        Args:
            size: how many.
            rng: the generator of this process.

        Returns:
            (size,) int64.
        """
        drawn = np.empty(size, np.int64)
        for start in range(0, size, _BLOCK):
            drawn[start : start + _BLOCK] = self._block(rng.words(min(_BLOCK, size - start)), rng)
        return drawn

    def _block(self, words: Words, rng: RandomSource) -> NDArray[np.int64]:
        """(b,) integers from as many words: a word's last bit is the sign, the rest |Z|."""
        tails = words >> np.uint64(1)
        # The middle of what the word leaves open, which is never 0, whose quantile is infinite.
        distance = -ndtri((tails.astype(np.float64) + 0.5) * 2.0**-64)
        distance *= self.sigma
        drawn = np.rint(distance)
        open_ = np.flatnonzero(self._in_doubt(distance, drawn))
        for place, low, middle in zip(
            open_.tolist(), rng.words(open_.size).tolist(), rng.words(open_.size).tolist(),
            strict=True,
        ):  # fmt: skip
            tail = int(tails[place]) << 128 | middle << 64 | low
            drawn[place] = self._exactly(tail, int(drawn[place]))
        signs = (words & np.uint64(1)).astype(np.int64)
        return np.asarray((1 - 2 * signs) * drawn.astype(np.int64))

    def _in_doubt(self, distance: Floats, drawn: Floats) -> NDArray[np.bool_]:
        """(b,) where another integer is possible, given errors of doubles and bits not drawn."""
        room = 0.5 - np.abs(distance - drawn)
        return np.asarray(
            (room <= _DOUBT * (self.sigma + distance)) | (distance >= _FAR * self.sigma)
        )

    def _exactly(self, tail: int, guess: int) -> int:
        """The greatest k for which a number of at least k - 1/2 has so small a tail."""

        def reached(k: int) -> bool:
            return k <= 0 or tail + 1 <= self._tail(k)

        # The guess is next to the truth but for the far tail, so growing steps soon bracket it.
        low, high, step = guess, guess + 1, 1
        while not reached(low):
            low, high, step = low - step, low, 2 * step
        while reached(high):
            low, high, step = high, high + step, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if reached(middle) else (low, middle)
        return max(low, 0)

    def _tail(self, k: int) -> Decimal:
        """2^192 P(Z >= k - 1/2)."""
        with localcontext(_DIGITS):
            return (1 << _BITS) * normal_tail((Decimal(k) - Decimal("0.5")) / Decimal(self.sigma))


def normal_tail(x: Decimal) -> Decimal:
    """P(Z >= x) of a standard Gaussian variable, in the current context's precision.

    Args:
        x: at least 0; beyond some 18 the digits of a tail cancel, of 90 more than the error needs.

    Returns:
        The tail's probability, its error a few units of the last digit of 1.

    Source: Abramowitz, Stegun, "Handbook of mathematical functions", 1964, formula 26.2.11.

    >>> float(normal_tail(Decimal(2)))
    0.02275013194817921
    """
    term = total = x
    odd, square, smallest = 1, x * x, Decimal(10) ** -90
    while term > smallest:
        odd += 2
        term = term * square / odd
        total += term
    density = (-square / 2).exp() / (2 * _PI).sqrt()
    return Decimal("0.5") - density * total


def unseen(draws: float, farthest: float, epsilon: float) -> float:
    """What delta must hold in reserve because draws follow their law only so closely.

    If each of two laws moves by t in total variation, delta(epsilon) between them grows by at
    most (1 + e^epsilon) t.

    Args:
        draws: how many there are.
        farthest: `RoundedNormal.farthest`.
        epsilon: the claim's, in nats.

    Returns:
        The reserve, rounded up; 1 if it is larger.
    """
    if not draws > 0:
        return 0.0
    logarithm = math.log(draws * farthest) + float(np.logaddexp(0.0, epsilon)) + 1e-9
    return math.exp(min(logarithm, 0.0))
