"""What a shuffled batch lets clients spend on a linear hash, and over how many symbols.

Hash ranges that are worth comparing for a histogram, and how many codes each needs.

Over how many symbols a response answers, where a shuffled batch lets clients spend more.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from mechanisms.algebra.finite_field import next_prime, previous_prime
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.privacy import budget
from mechanisms.privacy.budget import LARGEST_LOCAL, require
from mechanisms.privacy.pair_law import odds, odds_budget, odds_epsilon

Response = TypeVar("Response", bound=FrequencyOracle)
LARGEST_HASH_ALPHABET = 1 << 28
"""How many codes a linear hash may have."""

_CANDIDATES = 160  # hash ranges compared, in geometric progression


def best_range(
    family: Callable[[float, int], Response],
    ranges: Sequence[int],
    epsilon: float,
    delta: float,
    n: int,
    cap: float = math.inf,
) -> Response:
    """The number of symbols and the epsilon_local with the least error for a shuffle-model target.

    Args:
        family: the mechanism of an epsilon_local and a number of symbols.
        ranges: the numbers that are compared.
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: the least batch the shuffler lets through.
        cap: the most a client may spend whatever the shuffler adds.

    Returns:
        The best mechanism at its largest epsilon_local. The range is chosen on a normal
        approximation that one exact solution calibrates (the error is flat around its optimum);
        the epsilon_local is exact and on the private side.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    require(epsilon, delta, n, cap)
    room = odds_budget(epsilon, delta, n)
    tried: dict[int, Response] = {}

    def expected_error(symbols: int) -> float:
        """Average variance at the epsilon_local that the normal approximation allows."""
        local = min(max(odds_epsilon(room, symbols), epsilon), cap, LARGEST_LOCAL)
        return family(local, symbols).average_variance(1)

    # The first round's exact solution calibrates the approximation by which the second one chooses.
    for _ in range(2):
        p = min(ranges, key=expected_error)
        if p in tried:
            break
        over_p = partial(_over, family, p)
        exact = budget.largest_local_epsilon(epsilon, delta, n, over_p, p, cap)
        tried[p] = family(exact, p)
        if epsilon < exact < cap:
            room = odds(exact, p)
    return min(tried.values(), key=lambda mechanism: mechanism.average_variance(1))


def _over(family: Callable[[float, int], Response], symbols: int, epsilon: float) -> Response:
    """A mechanism over a given number of symbols, as a function of epsilon last."""
    return family(epsilon, symbols)


def hash_ranges(domain_size: int) -> list[int]:
    """Primes below the domain size whose collector state fits, in geometric progression.

    Args:
        domain_size: d, the number of values.
    """
    # The error is flat around its optimum: the best of ranges a few per cent apart is near it.
    steps = np.geomspace(2, max(domain_size - 1, 2), _CANDIDATES)
    # The symbols must form a field, for linear hashes are pairwise independent over fields.
    primes = sorted({next_prime(math.ceil(step)) for step in steps})
    fitting = (p for p in primes if alphabet(p, domain_size) <= LARGEST_HASH_ALPHABET)
    return [p for p in fitting if p < domain_size]


def alphabet(p: int, domain_size: int) -> int:
    """How many codes a linear hash over p symbols has.

    Args:
        p: symbols of the hash.
        domain_size: d, the number of values.
    """
    vectors = p
    while vectors < domain_size:
        vectors *= p
    # Multiples of a nonzero vector ask the same question, so one of each direction is a code's.
    return (vectors - 1) // (p - 1) * p


def largest_local_epsilon(
    epsilon: float,
    delta: float,
    n: int,
    domain_size: int,
    hash_range: int | None = None,
    cap: float = math.inf,
) -> float:
    """The most a client may spend on a linear hash: see `budget.largest_local_epsilon`.

    Args:
        epsilon, delta, n, cap: as there.
        domain_size: d, the number of values.
        hash_range: p, prime, or d or None for k-ary response.
    """
    p = domain_size if hash_range is None else hash_range

    def family(epsilon_local: float) -> LinearHash:
        return LinearHash(epsilon_local, domain_size, p)

    return budget.largest_local_epsilon(epsilon, delta, n, family, p, cap)


def local_optimal_range(
    epsilon: float, delta: float, n: int, domain_size: int, cap: float = math.inf
) -> int:
    """The range nearest to OLH's optimum, e^epsilon_local + 1, for what a batch lets clients spend.

    Args:
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: the least batch the shuffler lets through.
        domain_size: d, the number of values.
        cap: the most a client may spend whatever the shuffler adds.

    Returns:
        A prime below d whose collector state fits, or d itself; from the normal approximation,
        in which p = e^epsilon_local + 1 spends the budget B if (p - 2)^2 / (2 p - 2) = B.
    """
    budget.require(epsilon, delta, n, cap)
    half = 2 + odds_budget(epsilon, delta, n)
    least = math.exp(min(epsilon, cap, 40)) + 1
    most = math.exp(min(cap, 40)) + 1
    target = min(max(half + math.sqrt(half * half - 2 * half), least), most)
    if target >= domain_size:
        return domain_size
    p = previous_prime(round(target))
    # Fewer symbols need fewer counters but for the jumps where one more digit is needed.
    while alphabet(p, domain_size) > LARGEST_HASH_ALPHABET:
        p = previous_prime(p - 1)
    return p


@dataclass(frozen=True)
class HistogramChoice:
    """The two single-message histograms that meet a shuffle-model target.

    Attributes:
        k_ary: randomised response on the value itself.
        hashed: the best linear hash over fewer symbols than values, or None if there is none.
    """

    k_ary: LinearHash
    hashed: LinearHash | None

    @property
    def best(self) -> LinearHash:
        """The one with the least average variance over the domain."""
        options = [self.k_ary] if self.hashed is None else [self.k_ary, self.hashed]
        return min(options, key=lambda mechanism: mechanism.average_variance(1))


def best_histogram(
    epsilon: float, delta: float, n: int, domain_size: int, cap: float = math.inf
) -> HistogramChoice:
    """The hash range and the epsilon_local with the least error for a shuffle-model target.

    Args:
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: the least batch the shuffler lets through.
        domain_size: d, the number of values, at least 2.
        cap: the most a client may spend whatever the shuffler adds.

    Returns:
        k-ary response and the best linear hash, each at its largest epsilon_local. The range is
        chosen on a normal approximation that one exact solution calibrates (the error is flat
        around its optimum); the epsilon_local is exact and on the private side.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    exact = largest_local_epsilon(epsilon, delta, n, domain_size, cap=cap)
    plain = LinearHash(exact, domain_size, domain_size)
    ranges = hash_ranges(domain_size)
    if not ranges:
        return HistogramChoice(plain, None)

    def family(epsilon_local: float, hash_range: int) -> LinearHash:
        return LinearHash(epsilon_local, domain_size, hash_range)

    return HistogramChoice(plain, best_range(family, ranges, epsilon, delta, n, cap))
