"""Random directions that everybody can rebuild one by one from a public seed.

Public codebooks of random lines: which are near to a row, and what reported ones add up to.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.randomness import Words

_GOLDEN = 0x9E3779B97F4A7C15
_NUMBERS = 1 << 22  # of directions treated at a time


@dataclass(frozen=True)
class PublicDirections:
    """Any number of unit vectors, uniform on the sphere over the choice of the seed.

    Direction i consists of the words i w .. i w + w - 1 of a generator that any of its words can
    be had from directly. It is no cipher and need not be one: what it yields is public.

    Attributes:
        seed: any integer.
        length: D, how many numbers a direction has, at least 1.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
        (SplitMix64); Muller, "A note on a method for generating points uniformly on n-dimensional
        spheres", Communications of the ACM 1959.

    >>> directions = PublicDirections(seed=1, length=3)
    >>> bool((directions.rows([7, 8])[1] == directions.rows([8])[0]).all())
    True
    """

    seed: int
    length: int

    @cached_property
    def _key(self) -> int:
        # With a label of its own, so that directions share no words with hashes or projections of
        # the same small seed.
        digest = hashlib.sha256(b"hushbeam public directions %d" % self.seed).digest()
        return int.from_bytes(digest[:8], "big")

    def rows(self, numbers: ArrayLike) -> Floats:
        """Directions by their numbers.

        Args:
            numbers: (m,) integers of at least 0.

        Returns:
            (m, length) float64, each row of length 1.
        """
        width = -(-self.length // 2)
        first = np.asarray(numbers).astype(np.uint64) * np.uint64(width)
        within: Words = np.arange(1, width + 1, dtype=np.uint64)
        words = self._words(np.add.outer(first, within))
        halves = words.astype("<u8", copy=False).view("<u4")[:, : self.length]
        normal = halves.astype(np.float64)
        # The middle of a 32-bit step, so that no quantile is infinite.
        normal += 0.5
        normal *= 2.0**-32
        scipy.special.ndtri(normal, out=normal)
        normal /= np.sqrt(np.einsum("ij,ij->i", normal, normal))[:, None]
        return normal

    def _words(self, counters: Words) -> Words:
        """The generator's words at some places; the counters are overwritten."""
        z = counters
        z *= np.uint64(_GOLDEN)
        z += np.uint64(self._key)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z ^= z >> np.uint64(shift)
            z *= np.uint64(factor)
        z ^= z >> np.uint64(31)
        return z


@dataclass(frozen=True)
class Codebooks:
    """Any number of codebooks of H lines through 0, the same for all clients of a collection.

    Direction e of a codebook is numbered 2 * line, plus 1 for the negative end.

    Attributes:
        seed: the public randomness of the lines.
        sphere: D, the dimension of the directions.
        lines: H.

    >>> books = Codebooks(seed=0, sphere=3, lines=4)
    >>> line = books.directions.rows([4 + 2])  # line 2 of codebook 1
    >>> int(books.ranked(-line, np.array([1]))[0, 0])
    5
    """

    seed: int
    sphere: int
    lines: int

    @cached_property
    def directions(self) -> PublicDirections:
        """The positive ends of all lines of all codebooks."""
        return PublicDirections(self.seed, self.sphere)

    @property
    def at_once(self) -> int:
        """Of how many rows the codebooks can be held, one for each."""
        return max(1, _NUMBERS // (self.lines * self.sphere))

    def ranked(self, units: Floats, books: NDArray[np.int64]) -> NDArray[np.int64]:
        """The near ends of a codebook's lines, nearest first.

        Args:
            units: (n, sphere) unit vectors, not many more than `at_once`.
            books: (n,) the codebook of each.

        Returns:
            (n, lines) directions.
        """
        numbers = (books * self.lines)[:, None] + np.arange(self.lines)
        lines = self.directions.rows(numbers.ravel()).reshape(len(units), self.lines, -1)
        projections = np.einsum("nhd,nd->nh", lines, units)
        # However ties and rounding rank the lines, a cap has K directions: privacy does not depend
        # on it.
        order = np.argsort(-np.abs(projections), axis=1, kind="stable")
        return 2 * order + (np.take_along_axis(projections, order, axis=1) < 0)

    def total(self, counts: Counts) -> Floats:
        """(sphere,) the sum of all reported directions.

        Only directions that were reported are rebuilt, in time proportional to their number.

        Args:
            counts: (codes,) how often each direction came: codebook by codebook, line by line,
                both ends.
        """
        # The ends of a line cancel, so each line is rebuilt once, and only if it has a say.
        surplus = counts[::2] - counts[1::2]
        lines, total = np.flatnonzero(surplus), np.zeros(self.sphere)
        step = max(1, _NUMBERS // self.sphere)
        for start in range(0, lines.size, step):
            part = lines[start : start + step]
            total += surplus[part].astype(np.float64) @ self.directions.rows(part)
        return total
