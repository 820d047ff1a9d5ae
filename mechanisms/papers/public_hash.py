"""Hash functions that everybody can rebuild from a public seed.

Some mechanisms encode a value by a random function that clients and the collector must share. Its
randomness hides nothing: privacy comes from the noise on top, which no seed reaches.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.randomness import SeededRandom, Words

_BYTE = 256
_MOST_TABLES = 1 << 16  # of 2 KiB each


def places(domain_size: int) -> int:
    """How many bytes the largest value of a domain takes, at least 1."""
    return max(1, -(-(domain_size - 1).bit_length() // 8))


def most_functions(domain_size: int) -> int:
    """How many functions on a domain fit into 128 MiB of tables.

    >>> most_functions(256), most_functions(42_178)
    (65536, 32768)
    """
    return _MOST_TABLES // places(domain_size)


def below(words: Words, bound: int) -> Words:
    """Uniform words scaled to 0 .. bound - 1; each has probability 1/bound within 2^-64.

    Args:
        words: (...) uniform uint64.
        bound: 1 .. 2^32 - 1.

    Returns:
        (...) uint64: floor(word * bound / 2^64).
    """
    half, factor = np.uint64(32), np.uint64(bound)
    # The product has up to 96 bits: in two halves it fits 64-bit words.
    low = (words & np.uint64(0xFFFFFFFF)) * factor
    scaled: Words = ((words >> half) * factor + (low >> half)) >> half
    return scaled


@dataclass(frozen=True)
class PublicHash:
    """Functions from values to 64-bit words: one table look-up for each byte of the value.

    Over the choice of the seed, the words of any three values are independent and uniform, those
    of different functions are independent, and so are the bits of one word.

    Attributes:
        seed: any integer; it is public, and equal seeds give equal functions everywhere.
        functions: how many functions there are.
        domain_size: d, the number of values.

    Source: Zobrist 1970; Carter, Wegman, "Universal classes of hash functions", J. of Computer
        and System Sciences 1979; Pătraşcu, Thorup, "The power of simple tabulation hashing", J. of
        the ACM 2012, for how much stronger it is than that.

    >>> first = PublicHash(seed=7, functions=2, domain_size=1000)
    >>> int(first.words(1, 999)) == int(PublicHash(7, 2, 1000).words(1, 999))
    True
    """

    seed: int
    functions: int
    domain_size: int

    @cached_property
    def tables(self) -> Words:
        """(functions, bytes of a value, 256) uint64."""
        # Hashed with a label of its own, lest a simulation's noise, seeded with the same small
        # number, repeats these very words.
        label = hashlib.sha256(b"hushbeam public hash %d" % self.seed).digest()
        shape = (self.functions, places(self.domain_size), _BYTE)
        words = SeededRandom(int.from_bytes(label, "big")).words(int(np.prod(shape)))
        return words.reshape(shape)

    def words(self, functions: ArrayLike, values: ArrayLike) -> Words:
        """The words of some values under some functions.

        Args:
            functions: integers in 0 .. functions - 1.
            values: integers in 0 .. domain_size - 1, of a shape that broadcasts with it.

        Returns:
            uint64, of the common shape.
        """
        digits = places(self.domain_size)
        rest = np.asarray(values).astype(np.int64)
        start = np.asarray(functions).astype(np.int64) * (digits * _BYTE)
        flat = self.tables.ravel()
        words: Words = flat[start + rest % _BYTE]
        for _ in range(digits - 1):
            rest, start = rest // _BYTE, start + _BYTE
            words = words ^ flat[start + rest % _BYTE]
        return words
