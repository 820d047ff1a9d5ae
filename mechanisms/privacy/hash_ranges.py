"""Hash ranges that are worth comparing for a histogram, and how many codes each needs."""

from __future__ import annotations

import math

import numpy as np

from mechanisms.algebra.primes import next_prime

LARGEST_HASH_ALPHABET = 1 << 28
"""How many codes a linear hash may have."""

_CANDIDATES = 160  # hash ranges compared, in geometric progression


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
