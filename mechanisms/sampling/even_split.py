"""Balls into urns, each its own fair way: how many of every colour fall where, drawn at once.

To draw an urn for each of n balls takes n numbers, and then a sort. Halves take n bits: of the
balls of one colour, as many go to the one side as a string of as many random bits has ones.
"""

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource

Numbers = NDArray[np.int64]


def even_split(counts: Numbers, urns: int, rng: RandomSource) -> Numbers:
    """How many balls of each colour fall into each urn, all alike and each for itself.

    Args:
        counts: (colours,) how many balls there are.
        urns: how many, at least 1.
        rng: the generator of this process.

    Returns:
        (urns, colours), exactly multinomial for each colour; the sum over urns is `counts`.

    >>> from mechanisms.randomness import SeededRandom
    >>> even_split(np.array([6, 0, 3000]), 3, SeededRandom(1)).sum(axis=0).tolist()
    [6, 0, 3000]
    """
    if not urns >= 1:
        raise ValueError(f"there must be at least 1 urn, not {urns}")
    places = np.zeros((urns, counts.size), np.int64)
    left = counts.astype(np.int64)
    while left.any():
        parts = left[None]
        for _ in range((urns - 1).bit_length()):
            ones = _heads(parts, rng)
            parts = np.concatenate([parts - ones, ones])
        # Urns are rarely a power of two: what falls behind the last one is thrown again.
        places += parts[:urns]
        left = parts[urns:].sum(axis=0)
    return places


def _heads(coins: Numbers, rng: RandomSource) -> Numbers:
    """How many of so many fair coins fall heads, for each number of an array of any shape."""
    heads = np.zeros_like(coins)
    thrown = coins > 0
    number = coins[thrown]
    words = -(-number // 64)
    ends = np.cumsum(words)
    drawn = rng.words(int(ends[-1]) if ends.size else 0)
    drawn[ends - 1] >>= (-number % 64).astype(np.uint64)
    heads[thrown] = np.add.reduceat(np.bitwise_count(drawn), ends - words, dtype=np.int64)
    return heads
