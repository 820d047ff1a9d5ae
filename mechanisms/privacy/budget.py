"""What clients may spend so that a shuffled batch meets a target: the accountant, inverted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mechanisms.algebra.primes import previous_prime
from mechanisms.channel import Mechanism, require_epsilon
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.projective_geometry import ProjectiveGeometry, orders
from mechanisms.privacy.amplification import BatchAccounted, laws_of
from mechanisms.privacy.blanket import COARSE, require_batch, require_delta, upper_delta
from mechanisms.privacy.hash_ranges import LARGEST_HASH_ALPHABET, alphabet, hash_ranges
from mechanisms.privacy.odds import odds, odds_budget, odds_epsilon
from mechanisms.privacy.search import TOLERANCE, private_end

_LARGEST_LOCAL = 44.0  # beyond this a lie is rarer than the 2^-64 a report can express
_LARGEST_CLONED = 20.0  # no batch hides what a report spends beyond it
_REACH = 1.05  # how far beyond a guess a limit may lie that is tried before the search

_Hashed = TypeVar("_Hashed", LinearHash, ProjectiveGeometry)


def _require(epsilon: float, delta: float, n: int, cap: float) -> None:
    """Refuse a target that means nothing (NaN included)."""
    require_epsilon(epsilon)
    require_delta(delta)
    require_batch(n)
    if not cap > 0:
        raise ValueError(f"the cap on epsilon_local must be positive, not {cap}")


def largest_local_epsilon(
    epsilon: float,
    delta: float,
    n: int,
    domain_size: int,
    hash_range: int | None = None,
    cap: float = math.inf,
    family: Callable[[float, int, int], LinearHash | ProjectiveGeometry] = LinearHash,
) -> float:
    """The most a client may spend so that n shuffled reports are (epsilon, delta)-DP.

    Args:
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: the least batch the shuffler lets through.
        domain_size: d, the number of values.
        hash_range: p, prime, or d or None for k-ary response.
        cap: the most a client may spend whatever the shuffler adds.
        family: the mechanism of an epsilon_local, a domain size and a hash range.

    Returns:
        epsilon_local, on the private side: the upper bound on delta was evaluated there for the
        mechanism as shipped (64-bit thresholds and all). At least min(epsilon, cap), since a
        batch never loses more than one report alone.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    _require(epsilon, delta, n, cap)
    p = domain_size if hash_range is None else hash_range
    limit = min(cap, _LARGEST_LOCAL)
    if limit <= epsilon:
        return limit

    def delta_at(epsilon_local: float) -> float:
        laws = family(epsilon_local, domain_size, p).shuffle_laws()
        return upper_delta(laws, n, epsilon, COARSE)

    guess = odds_epsilon(odds_budget(epsilon, delta, n), p)
    if cap <= guess * 1.02 and delta_at(cap) <= delta:
        return cap
    guess = min(max(guess, epsilon * (1 + 1e-3)), limit * (1 - 1e-3))
    return private_end(delta_at, delta, private=epsilon, exposed=limit, guess=guess)[0]


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
    _require(epsilon, delta, n, cap)
    half = 2 + odds_budget(epsilon, delta, n)
    least = math.exp(min(epsilon, cap, 40)) + 1
    most = math.exp(min(cap, 40)) + 1
    target = min(max(half + math.sqrt(half * half - 2 * half), least), most)
    if target >= domain_size:
        return domain_size
    p = previous_prime(round(target))
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
    _require(epsilon, delta, n, cap)
    exact = largest_local_epsilon(epsilon, delta, n, domain_size, cap=cap)
    k_ary = LinearHash(exact, domain_size, domain_size)
    ranges = hash_ranges(domain_size)
    if not ranges:
        return HistogramChoice(k_ary, None)
    hashed = _best_range(LinearHash, ranges, epsilon, delta, n, domain_size, cap)
    return HistogramChoice(k_ary, hashed)


def best_projective(
    epsilon: float, delta: float, n: int, domain_size: int, cap: float = math.inf
) -> ProjectiveGeometry:
    """The field and the epsilon_local with the least error, as `best_histogram` finds them.

    Args:
        epsilon, delta, n, domain_size, cap: as there.

    Returns:
        Projective geometry response at its largest epsilon_local.
    """
    _require(epsilon, delta, n, cap)
    ranges = orders(domain_size)
    return _best_range(ProjectiveGeometry, ranges, epsilon, delta, n, domain_size, cap)


def _best_range(
    family: Callable[[float, int, int], _Hashed],
    ranges: list[int],
    epsilon: float,
    delta: float,
    n: int,
    domain_size: int,
    cap: float,
) -> _Hashed:
    """The best of a family, its range chosen on an approximation that is calibrated once."""
    budget = odds_budget(epsilon, delta, n)
    tried: dict[int, _Hashed] = {}

    def expected_error(p: int) -> float:
        """Average variance at the epsilon_local that the normal approximation allows."""
        local = min(max(odds_epsilon(budget, p), epsilon), cap, _LARGEST_LOCAL)
        return family(local, domain_size, p).average_variance(1)

    for _ in range(2):
        p = min(ranges, key=expected_error)
        if p in tried:
            break
        exact = largest_local_epsilon(epsilon, delta, n, domain_size, p, cap, family)
        tried[p] = family(exact, domain_size, p)
        if epsilon < exact < cap:
            budget = odds(exact, p)
    return min(tried.values(), key=lambda mechanism: mechanism.average_variance(1))


def largest_shuffled(
    epsilon: float,
    delta: float,
    n: int,
    family: Callable[[float], Mechanism],
    cap: float = math.inf,
    guess: float | None = None,
    tolerance: float = TOLERANCE,
) -> float:
    """`largest_local_epsilon` for any family of mechanisms.

    Args:
        epsilon, delta, n: as there.
        family: the mechanism of an epsilon_local.
        cap: the most a client may spend whatever the shuffler adds.
        guess: where to look first; by default what two codes could spend if losses were normal.
        tolerance: relative width at which to stop.

    Returns:
        epsilon_local, on the private side, whatever the guess and the tolerance: the upper bound
        on delta was evaluated there. At least min(epsilon, cap).

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    _require(epsilon, delta, n, cap)
    limit = min(cap, _LARGEST_CLONED)
    if limit <= epsilon:
        return limit

    def delta_at(epsilon_local: float) -> float:
        return _most_delta(family(epsilon_local), n, epsilon)

    start = odds_epsilon(odds_budget(epsilon, delta, n), 2) if guess is None else guess
    # A search would creep up to a limit that it may reach: once in its reach, it is tried first.
    if limit <= start * _REACH and delta_at(limit) <= delta:
        return limit
    start = min(max(start, epsilon * (1 + 1e-3)), limit * (1 - 1e-3))
    return private_end(delta_at, delta, epsilon, limit, start, tolerance)[0]


def _most_delta(mechanism: Mechanism, n: int, epsilon: float) -> float:
    """No shuffled batch of n reports has a larger delta; batches that exist are not looked for."""
    if isinstance(mechanism, BatchAccounted):
        return mechanism.batch_delta(n, epsilon)[1]
    return upper_delta(laws_of(mechanism), n, epsilon, COARSE)
