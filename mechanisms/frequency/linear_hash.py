"""Randomised response on a random linear hash: GRR, OLH, SRR, SOLH, MURS, SH, Hadamard response.

A value v is a vector of t digits in base p, p prime and p^t >= d. A client draws a uniform
nonzero linear form a, computes <a, v> mod p and randomises that symbol. Scaling a by w != 0
scales the symbol by w and tests the same thing, so only one form of each such class is ever
drawn: a point of the projective space. With t = 1 there is one point and the report is k-ary
randomised response, for which any k will do; with p = 2 it is the one-bit Hadamard response.

Counting, for each of d values, the reports that support it costs O(n d) if done report by
report. Here it is a finite Radon transform: one pass over the reports and one t-dimensional
Fourier transform of p^t cells, exact in every bin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft

from mechanisms.channel import Counts, Floats, FrequencyOracle, Guarantee, Messages, require_epsilon
from mechanisms.frequency.primes import is_prime, next_prime, previous_prime
from mechanisms.privacy.pair_law import ShuffleLaws, linear_hash_laws
from mechanisms.randomness import RandomSource, Words
from mechanisms.rounding import ceiling, exponential_bounds

_WORD = 1 << 64
_LARGEST_ALPHABET = 1 << 28  # codes; the collector's table takes 8 bytes for each
_LARGEST_TABLE = 1 << 18  # entries of the inner-product table, so that it stays in a core's cache
_BLOCK = 1 << 15  # reports perturbed at a time, likewise


def support_variance(frequency: ArrayLike, n: int, keep: float, other: float) -> Floats:
    """Variance of an estimate made from support counts.

    Each holder of the value supports it with probability `keep`, everyone else with probability
    `other`, and the estimate is (support / n - other) / (keep - other).

    Args:
        frequency: share of holders, in [0, 1]; any shape.
        n: how many users report.
        keep: P(support | holder).
        other: P(support | not holder).

    Returns:
        Variance in squared frequency units, of the same shape.

    Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of
        Software 2022, Theorem 3, corrected: the paper's own estimator (eq. 19) is biased.
    """
    f = np.asarray(frequency, np.float64)
    spread = f * keep * (1 - keep) + (1 - f) * other * (1 - other)
    return spread / (n * (keep - other) ** 2)


@dataclass(frozen=True)
class LinearHash(FrequencyOracle):
    """p-ary randomised response on a random projective linear hash of the value.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        hash_range: p, the number of symbols: a prime, or d itself for plain k-ary response.

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
        p, d = self.hash_range, self.domain_size
        if not d >= 2:
            raise ValueError(f"domain_size must be at least 2, not {d}")
        if not 2 <= p <= _LARGEST_ALPHABET:
            raise ValueError(f"hash_range must lie in 2 .. {_LARGEST_ALPHABET}, not {p}")
        if p < d and not is_prime(p):
            raise ValueError(
                f"hash_range must be prime (or at least domain_size), not {p}; "
                f"the nearest are {previous_prime(p)} and {next_prime(p)}"
            )
        if not self.codes <= _LARGEST_ALPHABET:
            raise ValueError(
                f"a domain of {d} values at hash_range {p} needs {self.codes} counters, "
                f"more than {_LARGEST_ALPHABET}"
            )
        if not self.keep_weight > self.miss_weight:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    # ---- the hash family ---------------------------------------------------------------------

    @cached_property
    def digits(self) -> int:
        """t, the least number of base-p digits that tells all d values apart."""
        t, reach = 1, self.hash_range
        while reach < self.domain_size:
            t, reach = t + 1, reach * self.hash_range
        return t

    @cached_property
    def vectors(self) -> int:
        """D = p^t, the number of vectors of t digits."""
        return int(self.hash_range**self.digits)

    @cached_property
    def points(self) -> int:
        """(D - 1)/(p - 1), the number of hash functions: points of the projective space."""
        return (self.vectors - 1) // (self.hash_range - 1)

    @property
    def codes(self) -> int:
        """points x p: the code of a report is point * p + symbol."""
        return self.points * self.hash_range

    @cached_property
    def collision(self) -> float:
        """P(two different values get the same symbol): exactly (p^(t-1) - 1)/(p^t - 1)."""
        return (self.vectors // self.hash_range - 1) / (self.vectors - 1)

    @cached_property
    def _representatives(self) -> NDArray[np.uint32]:
        """(points,) the form of each point whose highest nonzero digit is 1, as an integer."""
        powers = (self.hash_range**k for k in range(self.digits))
        return np.concatenate([np.arange(s, 2 * s, dtype=np.uint32) for s in powers])

    @cached_property
    def _limb_digits(self) -> int:
        """How many digits of an inner product are looked up at a time (at least 1)."""
        w = 1
        while w < self.digits and self.hash_range ** (2 * w + 2) <= _LARGEST_TABLE:
            w += 1
        return w

    @property
    def _limb(self) -> int:
        """The base in which vectors are read."""
        return int(self.hash_range**self._limb_digits)

    @cached_property
    def _products(self) -> NDArray[np.uint32]:
        """(limb^2,) inner products of all pairs of limbs, mod p."""
        p, limb = self.hash_range, self._limb
        rest = np.arange(limb, dtype=np.uint32)
        table = np.zeros((limb, limb), np.uint32)
        while rest.any():
            digit = rest % p
            table += np.outer(digit, digit)
            rest //= p
        return (table % p).ravel()

    def _hash(self, points: Words, cells: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """(n,) the symbols <a, v> mod p."""
        if self.digits == 1:
            return cells
        p, limb = self.hash_range, self._limb
        tabulated = limb**2 <= _LARGEST_TABLE
        a, v = self._representatives[points], cells
        total: NDArray[Any] = np.zeros(len(cells), np.uint64)
        for _ in range(0, self.digits, self._limb_digits):
            a_rest, v_rest = a // np.uint32(limb), v // np.uint32(limb)
            a, v = a - a_rest * np.uint32(limb), v - v_rest * np.uint32(limb)
            if tabulated:
                total += self._products[a * np.uint32(limb) + v]
            else:
                total += a.astype(np.uint64) * v
            a, v = a_rest, v_rest
        return (total % np.uint64(p)).astype(np.uint32)

    # ---- randomised response on p symbols ----------------------------------------------------

    @cached_property
    def miss_weight(self) -> int:
        """P(one given wrong symbol) in units of 2^-64, rounded up: away from the truth."""
        lower, _ = exponential_bounds(self.epsilon)
        return ceiling(Fraction(_WORD) / (lower + self.hash_range - 1))

    @cached_property
    def keep_weight(self) -> int:
        """P(the true symbol) in units of 2^-64; at most e^epsilon times `miss_weight`."""
        return _WORD - self.miss_weight * (self.hash_range - 1)

    @cached_property
    def keep(self) -> float:
        """P(support | holder), e^epsilon / (e^epsilon + p - 1)."""
        return self.keep_weight / _WORD

    @cached_property
    def other(self) -> float:
        """P(support | not holder), from the family's exact collision probability."""
        return self.keep - self.contrast

    @cached_property
    def contrast(self) -> float:
        """keep - other, as (1 - collision) (keep - miss) to avoid cancellation."""
        return (1 - self.collision) * ((self.keep_weight - self.miss_weight) / _WORD)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            "local",
            self.epsilon,
            0.0,
            "report",
            "closed form: a symbol's probabilities differ by at most e^epsilon between any two "
            "values; the 64-bit thresholds are rounded to the private side",
        )

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "digits": self.digits,
            "collision": self.collision,
            "keep": self.keep,
            "other": self.other,
        }

    # ---- client and collector ----------------------------------------------------------------

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        values = self._checked(cells)
        messages = np.empty(values.size, np.uint64)
        for start in range(0, values.size, _BLOCK):
            block = values[start : start + _BLOCK].astype(np.uint32)
            messages[start : start + _BLOCK] = self._perturb_block(block, rng)
        return messages

    def _perturb_block(self, cells: NDArray[np.uint32], rng: RandomSource) -> Messages:
        """One block of `perturb`; a word decides both whether to lie and how."""
        p = np.uint64(self.hash_range)
        # The word falls into p - 1 slots of miss_weight, one for each nonzero shift of the
        # symbol, or beyond them: the truth, a shift by p.
        slot = rng.words(cells.size) // np.uint64(self.miss_weight)
        symbols: Words = np.minimum(slot, p - np.uint64(1)) + np.uint64(1)
        if self.digits == 1:
            symbols += cells
            return _residue(symbols, p)
        points = rng.integers(self.points, cells.size)
        symbols += self._hash(points, cells)
        return points * p + _residue(symbols, p)

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        value = self._checked([cell]).astype(np.uint32)
        points = np.arange(self.points, dtype=np.uint64)
        truth = self._hash(points, np.repeat(value, self.points))
        table = np.full((self.points, self.hash_range), self.miss_weight, np.uint64)
        table[points.astype(np.intp), truth] = self.keep_weight
        return table.ravel(), _WORD * self.points

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: affine maps of the values permute the codes and take any pair to any other."""
        return [(0, 1)]

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, in closed form: for the shuffle accountant."""
        p, others = self.hash_range, self.vectors - 1
        pair, triple = self.vectors // p - 1, max(self.vectors // p**2 - 1, 0)
        return linear_hash_laws(
            self.epsilon,
            Fraction(self.keep_weight, _WORD),
            Fraction(self.miss_weight, _WORD),
            p,
            (Fraction(pair, others), Fraction(triple, others)),
            self.domain_size,
        )

    @cached_property
    def _multiples(self) -> NDArray[np.intp]:
        """(points, p - 1) the vector w * a for each point a and w = 1 .. p - 1, as an integer."""
        p = self.hash_range
        scale = np.arange(1, p, dtype=np.int64)
        rest = self._representatives.astype(np.int64)[:, None]
        multiples, power = np.zeros((self.points, p - 1), np.int64), 1
        for _ in range(self.digits):
            multiples += (rest % p * scale % p) * power
            rest, power = rest // p, power * p
        return multiples

    def support(self, counts: Counts) -> Counts:
        """How many reports support each value: the finite Radon transform of the counts.

        Args:
            counts: (codes,) from `count`.

        Returns:
            (domain_size,) int64, equal to the brute-force count in every bin.

        Raises:
            ArithmeticError: the counts are too large for exact arithmetic in doubles.
        """
        if self.digits == 1:
            return np.asarray(counts[: self.domain_size], np.int64)
        p, t, n = self.hash_range, self.digits, int(counts.sum())
        # The spectrum's norm is at most n sqrt(D), and a transform's error a few units in the
        # last place times log D of that; the residuals below confirm it.
        if not n * math.sqrt(self.vectors) * math.log2(self.vectors) / p < 1 << 50:
            raise ArithmeticError(f"{n} reports are too many to decode exactly in doubles")
        spectrum = np.empty(self.vectors, np.complex128)
        spectrum[0] = n
        by_point = fft.fft(counts.reshape(self.points, p), axis=1)
        spectrum[self._multiples] = by_point[:, 1:]
        transform = fft.ifftn(spectrum.reshape((p,) * t), overwrite_x=True)
        support = transform.real.ravel()[: self.domain_size] * (self.vectors // p)
        exact = np.rint(support)
        if not np.abs(support - exact).max() < 0.25:
            raise ArithmeticError("the Fourier transform lost the exact counts")
        return exact.astype(np.int64)

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        n = int(counts.sum()) if n is None else n
        if not n > 0:
            raise ValueError("there is no report to estimate from")
        return (self.support(counts) / n - self.other) / self.contrast

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        return support_variance(frequency, n, self.keep, self.other)


def _residue(symbols: Words, p: np.uint64) -> Words:
    """Symbols below 2p, mod p: where subtracting p is too much, the difference wraps far up."""
    residue: Words = np.minimum(symbols, symbols - p)
    return residue


def k_ary(epsilon: float, domain_size: int) -> LinearHash:
    """Generalised randomised response (GRR, direct encoding; SH when shuffled): p = d, t = 1.

    Source: Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", 2014.
    """
    return LinearHash(epsilon, domain_size, domain_size)


def optimal_local(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """OLH: the hash range that minimises the average variance at this epsilon.

    The continuous optimum is e^epsilon + 1; the primes on either side of it are compared.

    Source: Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency
        estimation", USENIX Security 2017, section 4.4.
    """
    require_epsilon(epsilon)
    if hash_range is not None:
        return _hashed(epsilon, domain_size, hash_range)
    target = math.exp(min(epsilon, 40)) + 1
    return _best(epsilon, domain_size, target)


def shuffled(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """SRR of HP-SDP (also SOLH, MURS): a hash range suited to a shuffled batch.

    Without a range the one that Theorem 1 of the paper makes optimal is taken: the symbol is
    true with probability 2/3, hence p near e^epsilon / 2 + 1.

    Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of
        Software 2022, Algorithm 2 with eq. 7 (its step 3, read literally, is not epsilon-LDP).
    """
    require_epsilon(epsilon)
    if hash_range is not None:
        return _hashed(epsilon, domain_size, hash_range)
    target = math.exp(min(epsilon, 40)) / 2 + 1
    return _best(epsilon, domain_size, target)


def hadamard(epsilon: float, domain_size: int) -> LinearHash:
    """One-bit Hadamard response: p = 2; a report is the index of a parity and one noisy bit.

    Source: Acharya, Sun, Zhang, "Hadamard response", AISTATS 2019.
    """
    return _hashed(epsilon, domain_size, 2)


def _hashed(epsilon: float, domain_size: int, hash_range: int) -> LinearHash:
    """A range of d or more is k-ary response, where more symbols than values only cost accuracy."""
    return LinearHash(epsilon, domain_size, min(hash_range, domain_size))


def _best(epsilon: float, domain_size: int, target: float) -> LinearHash:
    """The better of the two primes around a target range."""
    if target >= domain_size:
        return k_ary(epsilon, domain_size)
    candidates = {previous_prime(math.floor(target)), next_prime(math.ceil(target))}
    return min(
        (_hashed(epsilon, domain_size, p) for p in sorted(candidates)),
        key=lambda mechanism: mechanism.average_variance(1),
    )
