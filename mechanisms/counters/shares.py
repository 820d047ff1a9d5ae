"""Split and mix: numbers as shares that tell nothing but their total once they are shuffled.

How near shuffled shares are to telling the total alone is computed here, for any q and n. A party's
first share is uniform. Give it away with its owner's name: what its other k = m - 1 shares add up
to is uniform then, so the worst inputs are no worse than twice the average over all inputs. Over
the average, the chi-square distance from shares that know the total alone is E[q^(C - 1)] - 1, C
the components of the graph that joins party i to party j for each share of i that a uniform
permutation puts in a place of j. Half its root bounds the statistical distance, twice that is the
bound. Graphs by components have an exponential generating function; its q-th power gives

    a_n = 1 + sum over s of ((q + 1) s / n - 1) r(n, s) a_(n - s),   r(n, s) = C(n, s) / C(kn, ks).

Source: the protocol is of Ishai, Kushilevitz, Ostrovsky, Sahai, "Cryptography from anonymity", FOCS
    2006; the graph of Balle, Bell, Gascon, Nissim, "Improved summation from shuffling", 2019, arXiv
    1909.11225 (12 messages at q = 2^32, n = 10^4, sigma = 40). The recurrence takes 10 there.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from mechanisms.channel import Floats, require_integer
from mechanisms.randomness import RandomSource, Words

LARGEST_MODULUS = 1 << 62  # totals are decoded as signed 64-bit numbers
MOST_SHARES = 64
_EXACT = 512  # up to twice as many parties take the recurrence itself
_ROUNDING = 1e-14  # of the largest logarithm that is cancelled


def require_modulus(modulus: int) -> None:
    """Refuse a q that is no power of two: shares are words that are cut off."""
    require_integer("the modulus", modulus)
    if not (2 <= modulus <= LARGEST_MODULUS and modulus & (modulus - 1) == 0):
        raise ValueError(f"the modulus must be a power of two in 2 .. 2^62, not {modulus}")


@lru_cache(maxsize=256)
def distance(parties: int, modulus: int, shares: int) -> float:
    """How far apart the shuffled shares of two inputs with one total are at the most.

    Args:
        parties: n, those who split honestly.
        modulus: q, any of at least 2.
        shares: m, of each number; at least 3.

    Returns:
        An upper end of the statistical distance; 1 where none is shown.

    >>> distance(1_000_001, 1 << 32, 8) <= 2.0**-40 < distance(1_000_001, 1 << 32, 7)
    True
    """
    for name, size, least in (
        ("parties", parties, 2),
        ("modulus", modulus, 2),
        ("shares", shares, 3),
    ):
        require_integer(name, size, least)
    k = shares - 1
    near = _excess(min(parties, 2 * _EXACT), modulus, k)
    excess = near[parties] if parties < near.size else _far(parties, modulus, k, near)
    rounding = _ROUNDING * (float(gammaln(k * parties + 1)) + 1e4)
    return min(math.exp(min(excess + rounding, 0.0) / 2), 1.0)


def least_shares(parties: int, modulus: int, sigma: float) -> int:
    """The fewest shares whose distance is at most 2^-sigma.

    Args:
        parties: as in `distance`.
        modulus: as in `distance`.
        sigma: positive, in bits.

    >>> least_shares(10_000, 1 << 32, 40.0)
    10
    """
    if not 0 < sigma < 1000:
        raise ValueError(f"sigma must be positive and below 1000, not {sigma}")
    for shares in range(3, MOST_SHARES + 1):
        if distance(parties, modulus, shares) <= 2.0**-sigma:
            return shares
    raise ValueError(
        f"{parties:,} honest parties need more than {MOST_SHARES} messages each for 2^-{sigma:g}; "
        "have more of them, or choose a smaller sigma"
    )


def _log_r(n: int, s: Floats, k: int) -> Floats:
    """log C(n, s) / C(kn, ks): it falls in s up to n / 2, and in n."""
    ways = gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1)
    stubs = gammaln(k * n + 1) - gammaln(k * s + 1) - gammaln(k * (n - s) + 1)
    return np.asarray(ways - stubs)


def _excess(limit: int, q: int, k: int) -> Floats:
    """(limit + 1,) log (a_n - 1) for n parties; negative coefficients count as 0."""
    excess, log_a = np.full(limit + 1, -np.inf), np.zeros(limit + 1)
    # Of `_log_r` of every s at every n, the same few logarithms: gammaln took most of the time.
    numbers = np.arange(limit + 1.0)
    orders, stubs = gammaln(numbers + 1), gammaln(k * numbers + 1)
    for n in range(2, limit + 1):
        if (least := n // (q + 1) + 1) >= n:
            continue  # no coefficient is positive
        s, left = slice(least, n), slice(n - least, 0, -1)
        ways = orders[n] - orders[s] - orders[left]
        logs = ways - (stubs[n] - stubs[s] - stubs[left]) + log_a[left]
        most = logs.max()
        weights = ((q + 1.0) * numbers[s] - n) / n
        excess[n] = most + math.log(weights @ np.exp(logs - most))
        log_a[n] = np.logaddexp(0.0, excess[n])
    return excess


def _far(n: int, q: int, k: int, near: Floats) -> float:
    """A bound of log (a_n - 1) for many parties.

    If a_t <= 2 from `_EXACT` on, the recurrence is at most `bound`, which falls in n. So once that
    holds up to 2 `_EXACT` and `bound` is at most 1 there, it holds everywhere.
    """
    s = np.arange(1.0, _EXACT + 1)

    def bound(n: int) -> float:
        few = _log_r(n, s, k)
        middle = math.log(n) + _log_r(n, np.array([_EXACT + 1.0]), k)
        rest = np.concatenate([few + np.log(s / n), middle]) + math.log(2)
        most = few + np.logaddexp(0.0, near[1 : _EXACT + 1])
        return float(math.log(q) + logsumexp(np.concatenate([most, rest])))

    shown = near[_EXACT + 1 :].max() < 0 and bound(2 * _EXACT + 1) < 0
    return bound(n) if shown else math.inf


def split(numbers: ArrayLike, modulus: int, shares: int, rng: RandomSource) -> Words:
    """Uniform shares that add up to numbers.

    Args:
        numbers: (n,) whole numbers, below 0 too; they are taken mod q.
        modulus: q, a power of two.
        shares: m.
        rng: the generator of the client's process.

    Returns:
        (n, m) uint64 below q.
    """
    require_modulus(modulus)
    whole = np.asarray(numbers, np.int64).astype(np.uint64)
    mask = np.uint64(modulus - 1)
    # 2^64 is a multiple of q, so what wraps around is right, and the low bits of words are uniform.
    words = rng.words(whole.size * shares).reshape(whole.size, shares)
    words[:, -1] = whole - words[:, :-1].sum(axis=1, dtype=np.uint64)
    return np.asarray(words & mask)


def total(words: Words, modulus: int) -> int:
    """What shares add up to, mod q."""
    return int(words.sum(dtype=np.uint64)) & (modulus - 1)
