"""Arithmetic of the finite field GF(q), q a prime or a power of two, as tables.

Over a prime p the elements are 0 .. p - 1 and everything is mod p. Over 2^k an element is a
polynomial over GF(2) of degree below k, bit i standing for x^i; addition is XOR, and products
are taken modulo the least irreducible polynomial of degree k.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_ORDER = 512  # the table of products has the square of it
Elements = NDArray[np.uint16]


@dataclass(frozen=True)
class FiniteField:
    """The field with q elements, named 0 .. q - 1; 0 and 1 are its zero and its one.

    Attributes:
        order: q, a prime or a power of two, at most 512.

    Raises:
        ValueError: there is no such field here.

    >>> four = FiniteField(4)
    >>> four.products[2].tolist()
    [0, 2, 3, 1]
    >>> int(four.add(np.uint16(2), np.uint16(3)))
    1
    """

    order: int

    def __post_init__(self) -> None:
        if not is_order(self.order):
            raise ValueError(
                f"the order must be a prime or a power of two in 2 .. {LARGEST_ORDER}, "
                f"not {self.order}"
            )

    @property
    def characteristic(self) -> int:
        """p: adding an element to itself p times gives 0."""
        return self.order if self.order % 2 else 2

    @property
    def degree(self) -> int:
        """k with q = p^k."""
        return 1 if self.order % 2 else self.order.bit_length() - 1

    @property
    def polynomial(self) -> int | None:
        """What products are taken modulo, of the field with 2^k elements; None of a prime."""
        return irreducible(self.degree) if self.characteristic == 2 else None

    def add(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        """Sums, element by element.

        Args:
            left: elements, of any unsigned type that holds 2 q, and of any shape.
            right: the same; the shapes broadcast.

        Returns:
            The sums, of the common type and shape.
        """
        if self.characteristic == 2:
            either: NDArray[Any] = left ^ right
            return either
        total = left + right
        # Where q is too much to subtract, the difference wraps to a huge one.
        residue: NDArray[Any] = np.minimum(total, total - total.dtype.type(self.order))
        return residue

    @cached_property
    def negatives(self) -> Elements:
        """(q,) minus each element."""
        elements = np.arange(self.order)
        negatives = elements if self.characteristic == 2 else -elements % self.order
        return negatives.astype(np.uint16)

    @cached_property
    def products(self) -> Elements:
        """(q, q) the product of each pair of elements."""
        elements: NDArray[np.uint32] = np.arange(self.order, dtype=np.uint32)
        if self.characteristic > 2:
            return (np.outer(elements, elements) % self.order).astype(np.uint16)
        modulus, shifted = irreducible(self.degree), elements
        total = np.zeros((self.order, self.order), np.uint32)
        for power in range(self.degree):  # shifted = x^power times each element
            total ^= np.outer(shifted, elements >> np.uint32(power) & np.uint32(1))
            doubled = shifted << np.uint32(1)
            shifted = doubled ^ np.uint32(modulus) * (doubled >> np.uint32(self.degree))
        return total.astype(np.uint16)

    @cached_property
    def traces(self) -> Elements:
        """(q,) x + x^p + ... + x^(p^(k-1)), an additive map onto 0 .. p - 1 that is not zero."""
        conjugates = np.arange(self.order, dtype=np.uint16)
        total: Elements = np.zeros(self.order, np.uint16)
        for _ in range(self.degree):  # a degree above 1 means that p = 2
            total = self.add(total, conjugates)
            conjugates = self.products[conjugates, conjugates]
        return total

    @cached_property
    def _characters(self) -> NDArray[np.complex128]:
        """(p, p) exp(2 pi i x y / p), over a prime."""
        roots = np.exp(2j * np.pi / self.order * np.arange(self.order))
        return np.asarray(roots[self.products], np.complex128)

    @cached_property
    def _duals(self) -> NDArray[np.intp]:
        """(q,) over 2^k, the z of each x with trace(x y) = the parity of z & y for all y."""
        powers = 1 << np.arange(self.degree)
        return self.traces[self.products[:, powers]].astype(np.intp) @ powers

    def transform(self, values: NDArray[Any]) -> NDArray[Any]:
        """The Fourier transform along the first axis.

        Args:
            values: (q, ...).

        Returns:
            (q, ...) for each x the sum over y of exp(2 pi i trace(x y) / p) values[y]. Over 2^k
            that is 1 or -1, so sums are exact in the type of the values, which must hold them.
        """
        if self.characteristic > 2:
            product: NDArray[Any] = (values.T @ self._characters).T
            return product
        # Walsh and Hadamard's: additions and subtractions, where a matrix has q products for each k
        # of these.
        half = self.order // 2
        for _ in range(self.degree):  # the highest bit is transformed and becomes the lowest
            pairs = np.empty((half, 2, *values.shape[1:]), values.dtype)
            np.add(values[:half], values[half:], out=pairs[:, 0])
            np.subtract(values[:half], values[half:], out=pairs[:, 1])
            values = pairs.reshape(values.shape)
        return values[self._duals]


def is_order(number: int) -> bool:
    """Whether `FiniteField` knows a field with so many elements.

    >>> [q for q in range(-1, 20) if is_order(q)]
    [2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19]
    """
    if not 2 <= number <= LARGEST_ORDER:
        return False
    return number & (number - 1) == 0 or is_prime(number)


def irreducible(degree: int) -> int:
    """The least irreducible polynomial over GF(2), bit i being the coefficient of x^i.

    Found by trial division: a factor of degree at most half of it exists, or none at all.

    Args:
        degree: at least 1.

    Returns:
        The polynomial.

    >>> [bin(irreducible(k)) for k in (2, 3, 8)]
    ['0b111', '0b1011', '0b100011011']
    """
    candidates = range(1 << degree | 1, 2 << degree)
    # A reducible polynomial has a factor of at most half its degree.
    factors = range(2, 2 << degree // 2)
    return next(f for f in candidates if all(_remainder(f, g) for g in factors))


def _remainder(dividend: int, divisor: int) -> int:
    """Of polynomials over GF(2): long division in which subtraction is XOR."""
    while (excess := dividend.bit_length() - divisor.bit_length()) >= 0:
        dividend ^= divisor << excess
    return dividend


def is_prime(number: int) -> bool:
    """Whether a number is prime, by trial division: microseconds up to 10^9.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    if number < 4:
        return number >= 2
    if number % 2 == 0:
        return False
    # Hash ranges stay below 2^28, where a cleverer test would save nothing.
    return all(number % divisor for divisor in range(3, math.isqrt(number) + 1, 2))


def next_prime(number: int) -> int:
    """The least prime that is not below a number.

    >>> next_prime(8), next_prime(-3)
    (11, 2)
    """
    return next(n for n in count(max(number, 2)) if is_prime(n))


def previous_prime(number: int) -> int:
    """The greatest prime that is not above a number; 2 if there is none.

    >>> previous_prime(8), previous_prime(0)
    (7, 2)
    """
    return next((n for n in range(number, 2, -1) if is_prime(n)), 2)
