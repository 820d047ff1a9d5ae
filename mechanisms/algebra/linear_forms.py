"""Linear forms on GF(q)^m up to scale, and the finite Radon transform over them.

A form and its multiples have the same kernel, so one of each class is kept: a point of the
projective space. A pair (form a, symbol y) tests a vector v: does <a, v> = y hold? Counting, for
each of q^m vectors, how many of n such pairs it passes takes n q^m tests if done one by one; here
it takes a Fourier transform of q^m cells.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.algebra.finite_field import Elements, FiniteField
from mechanisms.channel import Counts
from mechanisms.randomness import Words

_LARGEST_TABLE = 1 << 18  # entries of the inner-product table, so that it stays in a core's cache


def projective_points(q: int, t: int) -> int:
    """How many points the projective space of t digits over GF(q) has: (q^t - 1)/(q - 1).

    >>> [projective_points(4, t) for t in range(4)]
    [0, 1, 5, 21]
    """
    return int(q**t - 1) // (q - 1)


class Forms(ABC):
    """The linear forms on vectors of m digits; a vector is an integer in base q.

    Attributes:
        digits: m, at least 0.
    """

    digits: int

    @property
    @abstractmethod
    def order(self) -> int:
        """q, the number of field elements."""

    @property
    def polynomial(self) -> int | None:
        """What products are taken modulo over 2^k elements: see `irreducible`; None of a prime."""
        return None

    @property
    @abstractmethod
    def negatives(self) -> NDArray[np.uint32]:
        """(q,) minus each element."""

    @property
    def points(self) -> int:
        """How many forms there are up to scale."""
        return projective_points(self.order, self.digits)

    @property
    def vectors(self) -> int:
        """q^m."""
        return int(self.order**self.digits)

    @cached_property
    def representatives(self) -> NDArray[np.uint32]:
        """(points,) the form whose lowest nonzero digit is 1, as an integer.

        Point k < points - 1 is point k // q of m - 1 digits below the new digit -(k % q); the
        last point has the new digit alone.
        """
        forms = np.zeros(0, np.uint32)
        for place in range(self.digits):
            power = np.uint32(self.order**place)
            longer = forms[:, None] + power * self.negatives
            forms = np.append(longer.ravel(), power)
        return forms

    @cached_property
    def padded(self) -> NDArray[np.uint32]:
        """The representatives, and the zero form."""
        return np.append(self.representatives, np.uint32(0))

    @abstractmethod
    def add(self, left: Words, right: Words) -> Words:
        """Sums of field elements, element by element."""

    @abstractmethod
    def evaluate(self, points: Words, vectors: NDArray[np.uint32]) -> NDArray[Any]:
        """The value of a form at a vector, for many of both.

        Args:
            points: (n,) numbers of forms, 0 .. points; the last of these is the zero form.
            vectors: (n,) in 0 .. q^m - 1.

        Returns:
            (n,) field elements <a, v>, unsigned.
        """

    @abstractmethod
    def passed(self, table: Counts) -> Counts:
        """How many of the tests each vector passes: the finite Radon transform.

        [<a, v> = y] is the mean over w of chi(w <a, v>) chi(-w y), chi a character of the field.
        Summing over tests leaves, for each form w a, a transform over y, and over all forms the
        additive group's Fourier transform, one digit at a time.

        Args:
            table: (points, q) how often each test (form, symbol) came.

        Returns:
            (q^m,) int64, equal to the brute-force count in every bin.

        Raises:
            ArithmeticError: there are too many tests for exact arithmetic in doubles.
        """


@dataclass(frozen=True)
class LinearForms(Forms):
    """Forms over a small field, by tables.

    Attributes:
        field: GF(q).
        digits: m, at least 0.

    >>> forms = LinearForms(FiniteField(4), 2)
    >>> forms.representatives.tolist()  # 1 + 4 y for y = 0 .. 3, and the form 4 * 1
    [1, 5, 9, 13, 4]
    >>> int(forms.evaluate(np.array([2], np.uint64), np.array([4 * 3 + 2], np.uint32))[0])
    3
    """

    field: FiniteField
    digits: int

    @property
    def order(self) -> int:
        return self.field.order

    @property
    def polynomial(self) -> int | None:
        return self.field.polynomial

    @property
    def negatives(self) -> NDArray[np.uint32]:
        return self.field.negatives.astype(np.uint32)

    def add(self, left: Words, right: Words) -> Words:
        return self.field.add(left, right)

    @cached_property
    def _limb_digits(self) -> int:
        """How many digits of an inner product are looked up at a time (at least 1)."""
        w = 1
        # The more digits a look-up takes, the fewer there are, until the table leaves the cache.
        while w < self.digits and self.field.order ** (2 * w + 2) <= _LARGEST_TABLE:
            w += 1
        return w

    @cached_property
    def _products(self) -> Elements:
        """(limb^2,) inner products of all pairs of limbs, a limb being a few digits."""
        products = table = self.field.products
        for _ in range(self._limb_digits - 1):
            longer = self.field.add(products[:, None, :, None], table[None, :, None, :])
            table = longer.reshape((len(products) * len(table),) * 2)
        return table.ravel()

    def evaluate(self, points: Words, vectors: NDArray[np.uint32]) -> Elements:
        limb = np.uint32(self.field.order**self._limb_digits)
        a, v = self.padded[points], vectors
        total = np.zeros(len(vectors), np.uint16)
        for _ in range(0, self.digits, self._limb_digits):
            a_rest, v_rest = a // limb, v // limb
            entries = (a - a_rest * limb) * limb + (v - v_rest * limb)
            total = self.field.add(total, self._products[entries])
            a, v = a_rest, v_rest
        return total

    @cached_property
    def _multiples(self) -> NDArray[np.intp]:
        """(q - 1, points) the form w * a for w = 1 .. q - 1 and each point a, as an integer."""
        q = self.field.order
        rest, power = self.representatives.astype(np.intp), 1
        multiples = np.zeros((q - 1, self.points), np.intp)
        for _ in range(self.digits):
            multiples += power * self.field.products[1:, rest % q].astype(np.intp)
            rest, power = rest // q, power * q
        return multiples

    def passed(self, table: Counts) -> Counts:
        q, n = self.field.order, int(table.sum())
        # The spectrum's moduli add up to q n at most. Each of m + 1 transforms adds q terms, so
        # a count is off by (m + 1) (q + 3) n times a few units of 2^-53: here below 1/4.
        if not 16 * (self.digits + 1) * (q + 3) * n <= 1 << 53:
            raise ArithmeticError(f"{n} reports are too many to decode exactly in doubles")
        # Over 2^k no sum exceeds q n.
        table = table.astype(np.int32 if q * n < 1 << 31 else np.int64)
        first = self.field.transform(table.T)[1:].conj()
        spectrum = np.zeros(self.vectors, first.dtype)
        spectrum[self._multiples] = first
        spectrum[0] = n
        for _ in range(self.digits):  # the highest digit is transformed and becomes the lowest
            spectrum = self.field.transform(spectrum.reshape(q, -1)).T.ravel()
        return np.rint(spectrum.real / q).astype(np.int64)
