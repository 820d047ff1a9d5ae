"""AsFields hash functions of prefixes: what a longer prefix adds is one more XOR."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import AsFields
from mechanisms.heavy_hitters.prefix_code import Codes
from mechanisms.randomness import SeededRandom

Buckets = NDArray[np.uint32]


@dataclass(frozen=True)
class PrefixHash(AsFields):
    """For each group of users, a function from prefixes of one length to buckets.

    It is simple tabulation: each symbol at each place selects a random word, and the words are
    XORed. Over the choice of the seed any three prefixes have independent, uniform buckets, and
    different groups have independent functions. The seed is public: it hides nothing.

    Attributes:
        seed: any integer; equal seeds give equal functions everywhere.
        width: how many buckets, a power of two up to 2^32.
        lengths: of the prefixes of each group, in symbols.
        symbols: how many symbols there are.

    Source: Carter, Wegman, "Universal classes of hash functions", J. of Computer and System
        Sciences 1979; Pătraşcu, Thorup, "The power of simple tabulation hashing", J. of the ACM
        2012, for how much more like a random function it is than that.

    >>> import numpy as np
    >>> hashed = PrefixHash(seed=7, width=1 << 16, lengths=(2, 3), symbols=5)
    >>> codes = np.array([[1, 2, 3], [1, 2, 4]])
    >>> first, second = hashed.buckets(codes, np.array([0, 0]))
    >>> bool(first == second)  # the first group looks at two symbols only
    True
    """

    seed: int
    width: int
    lengths: tuple[int, ...]
    symbols: int

    def __post_init__(self) -> None:
        if not (2 <= self.width <= 1 << 32 and self.width & (self.width - 1) == 0):
            raise ValueError(f"width must be a power of two in 2 .. 2^32, not {self.width}")

    @cached_property
    def tables(self) -> Buckets:
        """(groups, places, symbols) words; 0 beyond the length of a group."""
        label = hashlib.sha256(b"hushbeam prefix hash %d" % self.seed).digest()
        rng = SeededRandom(int.from_bytes(label, "big"))
        tables = np.zeros((len(self.lengths), max(self.lengths), self.symbols), np.uint32)
        for table, length in zip(tables, self.lengths, strict=True):
            # Rows beyond a group's length stay 0, so that its hash looks at a prefix and at nothing
            # else.
            words = rng.words(length * self.symbols).reshape(length, self.symbols)
            table[:length] = words & np.uint64(self.width - 1)
        return tables

    def buckets(self, codes: Codes, groups: NDArray[np.int64]) -> Buckets:
        """The bucket of each prefix.

        Args:
            codes: (n, places or more) symbols, of which each group looks at its first ones.
            groups: (n,) whose function is used.

        Returns:
            (n,) in 0 .. width - 1.
        """
        places = self.tables.shape[1]
        flat, start = self.tables.ravel(), groups * (places * self.symbols)
        buckets = np.zeros(len(codes), np.uint32)
        for place in range(places):
            buckets ^= flat[start + codes[:, place]]
            start = start + self.symbols
        return buckets

    def part(self, codes: Codes, groups: NDArray[np.int64], start: int) -> Buckets:
        """What some symbols add to the hashes of a prefix: to be XORed with what came before.

        Args:
            codes: (m, steps) symbols.
            groups: (g,) whose functions are used.
            start: the place of the first of these symbols.

        Returns:
            (g, m) in 0 .. width - 1.
        """
        parts = np.zeros((len(groups), len(codes)), np.uint32)
        for step in range(codes.shape[1]):
            # Row by row, by indices of numpy's own width: a third of the time, a million ways long.
            own = codes[:, step].astype(np.intp)
            for part, table in zip(parts, self.tables[groups, start + step], strict=True):
                part ^= table.take(own)
        return parts

    def ending(self, groups: NDArray[np.int64], start: int) -> Buckets:
        """What the padding of a string adds that is over before a place.

        Args:
            groups: (g,) whose functions are used.
            start: the first place that is padded.

        Returns:
            (g,) in 0 .. width - 1.
        """
        padding: Buckets = np.bitwise_xor.reduce(self.tables[groups, start:, 0], axis=1)
        return padding
