"""Randomised response on a random linear hash: GRR, OLH, SRR, SOLH, MURS, SH, Hadamard response.

A value v is a vector of t digits over GF(q), q^t >= d. A client draws a uniform nonzero linear
form a, computes the symbol <a, v> and randomises it. Scaling a by w != 0 scales the symbol by w
and tests the same thing, so only one form of each such class is ever drawn: a point of the
projective space. With t = 1 there is one point and the report is k-ary randomised response, for
which any k will do; with q = 2 it is the one-bit Hadamard response.

Counting, for each of d values, the reports that support it costs O(n d) if done report by
report. Here it is a finite Radon transform: one pass over the reports and one t-dimensional
Fourier transform of q^t cells, exact in every bin.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms import specification
from mechanisms.algebra.linear_forms import Forms, projective_points
from mechanisms.algebra.prime_forms import forms_over, require_order, residue
from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Counts, Messages, require_epsilon, require_integer
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.privacy.pair_law import ShuffleLaws, linear_hash_laws
from mechanisms.randomness import RandomSource
from mechanisms.sampling.sparse_bits import RARE, heads

_WORD = 1 << 64
_LARGEST_ALPHABET = 1 << 28  # codes; the collector's table takes 8 bytes for each
_BLOCK = 1 << 15  # reports perturbed at a time, so that they stay in a core's cache
_MANY = 1 << 12  # reports, from which on rare lies are counted and placed rather than tossed for


@dataclass(frozen=True)
class LinearHash(FrequencyOracle):
    """q-ary randomised response on a random projective linear hash of the value.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        hash_range: q, the number of symbols: a prime, a power of two up to 512, or d itself for
            plain k-ary response.

    >>> mechanism = LinearHash(epsilon=1.0, domain_size=10, hash_range=3)
    >>> mechanism.digits, mechanism.points, mechanism.codes
    (3, 13, 39)
    >>> round(float(mechanism.variance(0.0, n=1)), 2)
    3.45
    """

    epsilon: float
    domain_size: int
    hash_range: int

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        q, d = self.hash_range, self.domain_size
        require_integer("domain_size", d, 2)
        require_integer("hash_range", q, 2, _LARGEST_ALPHABET)
        if q < d:
            require_order(q)
        if not self.codes <= _LARGEST_ALPHABET:
            raise ValueError(
                f"a domain of {d} values at hash_range {q} needs {self.codes} counters, "
                f"more than {_LARGEST_ALPHABET}"
            )
        if not self.keep_weight > self.miss_weight:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    # ---- the hash family ---------------------------------------------------------------------

    @cached_property
    def digits(self) -> int:
        """t, the least number of base-q digits that tells all d values apart."""
        t, reach = 1, self.hash_range
        while reach < self.domain_size:
            t, reach = t + 1, reach * self.hash_range
        return t

    @cached_property
    def forms(self) -> Forms:
        """The hash functions, where there is more than one."""
        return forms_over(self.hash_range, self.digits)

    @property
    def vectors(self) -> int:
        """D = q^t, the number of vectors of t digits."""
        return int(self.hash_range**self.digits)

    @property
    def supportable(self) -> int:
        """All vectors: a form takes each symbol equally often."""
        return self.vectors

    @property
    def points(self) -> int:
        """(D - 1)/(q - 1), the number of hash functions: points of the projective space."""
        return projective_points(self.hash_range, self.digits)

    @property
    def codes(self) -> int:
        """points x q: the code of a report is point * q + symbol."""
        return self.points * self.hash_range

    @cached_property
    def collision(self) -> float:
        """P(two different values get the same symbol): exactly (q^(t-1) - 1)/(q^t - 1)."""
        return (self.vectors // self.hash_range - 1) / (self.vectors - 1)

    # ---- randomised response on q symbols ----------------------------------------------------

    @cached_property
    def miss_weight(self) -> int:
        """P(one given wrong symbol) in units of 2^-64, rounded up: away from the truth."""
        lower, _ = exponential_bounds(self.epsilon)
        # From a lower bound of e^epsilon, rounded up: lies may only be more likely than asked for.
        return ceiling(Fraction(_WORD) / (lower + self.hash_range - 1))

    @cached_property
    def keep_weight(self) -> int:
        """P(the true symbol) in units of 2^-64; at most e^epsilon times `miss_weight`."""
        return _WORD - self.miss_weight * (self.hash_range - 1)

    @cached_property
    def keep(self) -> float:
        """P(support | holder), e^epsilon / (e^epsilon + q - 1)."""
        return self.keep_weight / _WORD

    @cached_property
    def other(self) -> float:
        """P(support | not holder), from the family's exact collision probability."""
        return self.keep - self.contrast

    @cached_property
    def contrast(self) -> float:
        """keep - other, as (1 - collision) (keep - miss) to avoid cancellation."""
        return (1 - self.collision) * ((self.keep_weight - self.miss_weight) / _WORD)

    derivation = (
        "closed form: a symbol's probabilities differ by at most e^epsilon between any two "
        "values; the 64-bit thresholds are rounded to the private side"
    )

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "digits": self.digits,
            "collision": self.collision,
            "keep": self.keep,
            "other": self.other,
        }

    # ---- client and collector ----------------------------------------------------------------

    @property
    def specification(self) -> specification.Channel:
        d, q, miss = self.domain_size, self.hash_range, str(self.miss_weight)
        if self.digits == 1:
            return specification.KAryResponseSpecification(inputs=d, order=q, miss=miss)
        return specification.LinearHashSpecification(
            inputs=d, order=q, polynomial=self.forms.polynomial, digits=self.digits, miss=miss
        )

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        values = self._checked(cells)
        messages = np.empty(values.size, np.uint64)
        step = _BLOCK * (8 if self._rare else 1)
        for start in range(0, values.size, step):
            block = values[start : start + step].astype(np.uint32, copy=False)
            messages[start : start + step] = self._perturb_block(block, rng)
        return messages

    def _perturb_block(self, cells: NDArray[np.uint32], rng: RandomSource) -> Messages:
        q = np.uint64(self.hash_range)
        places, shift = self._shifted(cells.size, rng)
        # With one digit there is one hash function, and the value is its own symbol.
        if self.digits == 1:
            symbols = cells.astype(np.uint64)
            symbols[places] = residue(symbols[places] + shift, q)
            return symbols
        points = rng.integers(self.points, cells.size)
        symbols = self.forms.evaluate(points, cells).astype(np.uint64, copy=False)
        symbols[places] = self.forms.add(symbols[places], shift)
        return points * q + symbols

    @property
    def _rare(self) -> bool:
        """Whether so few reports lie that it is cheaper to count and to place the lies."""
        return (self.hash_range - 1) * self.miss_weight <= RARE

    def _shifted(self, size: int, rng: RandomSource) -> tuple[Any, Messages]:
        """Which of some reports may lie, and what is added to their true symbols: 0 is the truth.

        Either way a lie has weight (q - 1) miss_weight, and each symbol the same share of it.
        """
        lies = self.hash_range - 1
        if size >= _MANY and self._rare:
            places = heads(size, lies * self.miss_weight, rng)
            return places, rng.integers(lies, places.size) + np.uint64(1)
        # A word falls into q - 1 slots of miss_weight, one for each symbol that may be added to the
        # true one, or beyond them. The truth has all that is left, so its weight is exact as well.
        slot = rng.words(size) // np.uint64(self.miss_weight)
        return slice(None), np.uint64(lies) - np.minimum(slot, np.uint64(lies))

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        value = self._checked([cell]).astype(np.uint32)
        table = np.full((self.points, self.hash_range), self.miss_weight, np.uint64)
        points = np.arange(self.points)
        if self.digits == 1:
            truth: NDArray[Any] = value
        else:
            truth = self.forms.evaluate(points.astype(np.uint64), value.repeat(self.points))
        table[points, truth] = self.keep_weight
        return table.ravel(), _WORD * self.points

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: affine maps of the values permute the codes and take any pair to any other."""
        return [(0, 1)]

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, in closed form: for the shuffle accountant."""
        p, others = self.hash_range, self.vectors - 1
        # Nonzero forms that take two given values to one symbol, or three that are independent.
        pair, triple = self.vectors // p - 1, max(self.vectors // p**2 - 1, 0)
        return linear_hash_laws(
            self.epsilon,
            Fraction(self.keep_weight, _WORD),
            Fraction(self.miss_weight, _WORD),
            p,
            (Fraction(pair, others), Fraction(triple, others)),
            self.domain_size,
        )

    def support(self, counts: Counts) -> Counts:
        """How many reports support each value: the finite Radon transform of the counts.

        Raises:
            ArithmeticError: the counts are too large for exact arithmetic in doubles.
        """
        if self.digits == 1:
            return np.asarray(counts[: self.domain_size], np.int64)
        table = counts.reshape(self.points, self.hash_range)
        return self.forms.passed(table)[: self.domain_size]
