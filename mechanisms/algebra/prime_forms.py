"""Linear forms over a large prime field: arithmetic in place of tables, and fast transforms."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from mechanisms.algebra.finite_field import (
    FiniteField,
    is_order,
    is_prime,
    next_prime,
    previous_prime,
)
from mechanisms.algebra.linear_forms import Forms, LinearForms
from mechanisms.channel import Counts
from mechanisms.randomness import Words

_TABLES = 64  # up to this order a product of matrices beats an FFT of prime length


@dataclass(frozen=True)
class PrimeForms(Forms):
    """Forms over the integers mod a prime.

    Attributes:
        modulus: q, a prime below 2^28.
        digits: m, at least 0.

    >>> forms = PrimeForms(701, 2)
    >>> int(forms.evaluate(np.array([5], np.uint64), np.array([701 * 2 + 3], np.uint32))[0])
    694
    """

    modulus: int
    digits: int

    @property
    def order(self) -> int:
        return self.modulus

    @property
    def negatives(self) -> NDArray[np.uint32]:
        return (-np.arange(self.order) % self.order).astype(np.uint32)

    def add(self, left: Words, right: Words) -> Words:
        return residue(left + right, np.uint64(self.order))

    def evaluate(self, points: Words, vectors: NDArray[np.uint32]) -> Words:
        q = np.uint64(self.order)
        a, v = self.padded[points].astype(np.uint64), vectors.astype(np.uint64)
        total: Words = np.zeros(len(vectors), np.uint64)
        for _ in range(self.digits):
            a_rest, v_rest = a // q, v // q
            total += (a - a_rest * q) * (v - v_rest * q)  # below 2^56: no sum of these overflows
            a, v = a_rest, v_rest
        return total % q

    @cached_property
    def _multiples(self) -> NDArray[np.intp]:
        """(points, q - 1) the form w * a for each point a and w = 1 .. q - 1, as an integer."""
        q = self.order
        scale = np.arange(1, q, dtype=np.int64)
        rest, power = self.representatives.astype(np.int64)[:, None], 1
        multiples = np.zeros((self.points, q - 1), np.int64)
        for _ in range(self.digits):
            multiples += rest % q * scale % q * power
            rest, power = rest // q, power * q
        return multiples

    def passed(self, table: Counts) -> Counts:
        q, n = self.order, int(table.sum())
        # The spectrum's norm is at most n sqrt(D), and a transform's error a few units in the
        # last place times log D of that; the residuals below confirm it.
        if not n * math.sqrt(self.vectors) * math.log2(self.vectors) / q < 1 << 50:
            raise ArithmeticError(f"{n} reports are too many to decode exactly in doubles")
        spectrum = np.empty(self.vectors, np.complex128)
        spectrum[self._multiples] = scipy.fft.fft(table, axis=1)[:, 1:]
        spectrum[0] = n
        transform = scipy.fft.ifftn(spectrum.reshape((q,) * self.digits), overwrite_x=True)
        counts = transform.real.ravel() * (self.vectors // q)
        # Counts are whole, so an error below a quarter is seen and rounds away.
        exact = np.rint(counts)
        if not np.abs(counts - exact).max() < 0.25:
            raise ArithmeticError("the Fourier transform lost the exact counts")
        return exact.astype(np.int64)


def residue(sums: Words, q: np.uint64) -> Words:
    """Numbers below 2q, mod q: where q is too much to subtract, the difference wraps far up."""
    smaller: Words = np.minimum(sums, sums - q)
    return smaller


def require_order(order: int) -> None:
    """Refuse a hash range over which there is no field here; the message names the nearest."""
    if not (is_order(order) or is_prime(order)):
        raise ValueError(
            "hash_range must be a prime, a power of two up to 512, or at least domain_size, not "
            f"{order}; the nearest are {nearest_order(order, -1)} and {nearest_order(order, 1)}"
        )


def forms_over(order: int, digits: int) -> Forms:
    """The forms on vectors of so many digits over the field of an order, in the fastest way.

    Raises:
        ValueError: there is no such field here.

    >>> type(forms_over(4, 3)).__name__, type(forms_over(701, 2)).__name__
    ('LinearForms', 'PrimeForms')
    """
    require_order(order)
    if order > _TABLES and is_prime(order):
        return PrimeForms(order, digits)
    return LinearForms(FiniteField(order), digits)


def nearest_order(number: int, direction: int) -> int:
    """The order of a field nearest to a number on one side, or the number itself.

    Args:
        number: where to start.
        direction: 1 for upwards, -1 for downwards (2 if there is none).

    >>> nearest_order(6, -1), nearest_order(6, 1), nearest_order(4, 1)
    (5, 7, 4)
    """
    if direction > 0:
        power = 1 << max(number - 1, 1).bit_length()
        prime = next_prime(number)
        return power if power < prime and is_order(power) else prime
    power = 1 << max(number, 2).bit_length() - 1
    prime = previous_prime(number)
    return power if power > prime and is_order(power) else prime
