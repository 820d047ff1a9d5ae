"""Bloom filters of single values, in cohorts that hash differently: RAPPOR's encoding."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.papers.public_hash import PublicHash, below

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class BloomFilters:
    """h distinct positions among b for every value, in every cohort.

    Over the seed, the filters of any three values are independent and uniform sets of h positions.

    Attributes:
        seed: any integer; it is public.
        domain_size: d, the number of values.
        bits: b, how many positions a filter has.
        hashes: h, how many of them a value sets, less than b.
        cohorts: how many families of hash functions there are.

    >>> filters = BloomFilters(seed=0, domain_size=1000, bits=16, hashes=2, cohorts=4)
    >>> filters.positions(3, np.array([7, 7, 8])).shape
    (3, 2)
    """

    seed: int
    domain_size: int
    bits: int
    hashes: int
    cohorts: int

    @cached_property
    def hash(self) -> PublicHash:
        """The public functions, `hashes` for each cohort."""
        return PublicHash(self.seed, self.cohorts * self.hashes, self.domain_size)

    def positions(self, cohorts: ArrayLike, values: ArrayLike) -> Positions:
        """Which bits are set.

        Args:
            cohorts: integers in 0 .. cohorts - 1.
            values: integers in 0 .. domain_size - 1, of a shape that broadcasts with it.

        Returns:
            (..., hashes) int64 in 0 .. bits - 1, distinct along the last axis.
        """
        first = np.asarray(cohorts, np.int64) * self.hashes
        chosen: list[Positions] = []
        for hash_ in range(self.hashes):
            words = self.hash.words(first + hash_, values)
            place = below(words, self.bits - hash_).astype(np.int64)
            # The place counts free positions only: those taken are stepped over, lowest first.
            for taken in np.sort(chosen, axis=0):
                place += place >= taken
            chosen.append(place)
        return np.stack(chosen, axis=-1)

    def overlaps(self, values: ArrayLike) -> NDArray[np.int64]:
        """How many positions every two of some values share in each cohort.

        Args:
            values: (k,) in 0 .. domain_size - 1.

        Returns:
            (cohorts, k, k) int64 in 0 .. hashes.
        """
        cells = np.asarray(values)
        shared = np.empty((self.cohorts, cells.size, cells.size), np.int64)
        for cohort in range(self.cohorts):
            # A product of doubles counts the shared positions exactly, and much faster than
            # integers do.
            member = np.zeros((cells.size, self.bits))
            np.put_along_axis(member, self.positions(cohort, cells), 1.0, axis=1)
            shared[cohort] = member @ member.T
        return shared
