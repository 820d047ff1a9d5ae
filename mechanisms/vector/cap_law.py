"""Directions of which some are likelier, equally many for everybody: PrivUnit's exact law.

A codebook has H lines and so 2 H directions, the ends of its lines. A user's cap is an end of each
of K lines. Direction e is numbered 2 * line, plus 1 for the negative end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.randomness import Words

_WORD = 1 << 64


@dataclass(frozen=True)
class CapLaw:
    """The integer weights of the directions, and what follows from them.

    Attributes:
        lines: H.
        size: K, how many directions a cap has; at most H.
        inside: the weight of each of them.
        outside: the weight of each other direction.

    >>> CapLaw(lines=2, size=1, inside=5, outside=1).weights(np.array([3])).tolist()
    [1, 1, 1, 5]
    """

    lines: int
    size: int
    inside: int
    outside: int

    @classmethod
    def within(cls, epsilon: float, lines: int, size: int) -> CapLaw:
        """The weights whose ratio is epsilon's or a little less, as large as fit into 2^64."""
        lower, _ = exponential_bounds(epsilon)
        others = 2 * lines - size
        # Integers from a lower bound of e^epsilon; both are rounded down, the ratio last.
        outside = max(1, math.floor(_WORD / (size * lower + others)))
        inside = min(math.floor(outside * lower), (_WORD - others * outside) // size)
        return cls(lines, size, inside, outside)

    @property
    def ends(self) -> int:
        """2 H, how many directions there are."""
        return 2 * self.lines

    @property
    def total(self) -> int:
        """The weight of all directions."""
        return self.size * self.inside + (self.ends - self.size) * self.outside

    @property
    def caps(self) -> int:
        """How many caps there are: sets of K lines, and an end of each."""
        return int(math.comb(self.lines, self.size) << self.size)

    def cap(self, number: int) -> NDArray[np.int64]:
        """(size,) the directions of a cap by its number: that of its lines, then of its ends.

        Raises:
            ValueError: the number is out of range.
        """
        if not 0 <= number < self.caps:
            raise ValueError("1 of 1 cells lie outside the inputs")
        which, ends = number >> self.size, number & ((1 << self.size) - 1)
        lines = next(islice(combinations(range(self.lines), self.size), which, None))
        return np.array([2 * line + (ends >> i & 1) for i, line in enumerate(lines)])

    def weights(self, cap: NDArray[np.int64]) -> Words:
        """(ends,) the weights of all directions, given a cap."""
        table = np.full(self.ends, self.outside, np.uint64)
        table[cap] = self.inside
        return table

    def kinds(self, shared: int) -> Mapping[tuple[int, int], int]:
        """How many directions have each pair of weights, given two caps that share some."""
        a, b, only = self.inside, self.outside, self.size - shared
        neither = self.ends - 2 * self.size + shared
        kinds = {(a, b): only, (b, a): only, (a, a): shared, (b, b): neither}
        return {pair: count for pair, count in kinds.items() if count}

    def pick(self, draws: Words, ranked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Directions from integers that are uniform below the total.

        Args:
            draws: (n,) uint64.
            ranked: (n, lines) an end of each line; the first `size` of them are the cap.

        Returns:
            (n,) directions.
        """
        mass = np.uint64(self.size * self.inside)
        hit = draws < mass
        near = (draws // np.uint64(self.inside)).astype(np.int64)
        far = ((draws - mass) // np.uint64(self.outside)).view(np.int64)
        # Outside are first the far ends of the cap's lines, then both ends of all others.
        beyond = far - self.size
        others = beyond >= 0
        place = np.where(hit, near, np.where(others, self.size + beyond // 2, far))
        turned = np.where(hit, 0, np.where(others, beyond & 1, 1))
        ends: NDArray[np.int64] = np.take_along_axis(ranked, place[:, None], axis=1)[:, 0] ^ turned
        return ends
