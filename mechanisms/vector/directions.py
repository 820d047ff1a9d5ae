"""Random directions that everybody can rebuild one by one from a public seed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from mechanisms.channel import Floats
from mechanisms.randomness import Words

_GOLDEN = 0x9E3779B97F4A7C15


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
