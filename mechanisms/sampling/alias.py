"""Exact draws from any table of integer weights: one 64-bit word and two look-ups each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import Words

_WORD = 1 << 64


@dataclass(frozen=True, eq=False)
class AliasTable:
    """A law on 0 .. outcomes - 1 whose probabilities are multiples of 2^-64.

    The 2^64 words are cut into 2^k columns of equal height, 2^k at least the number of outcomes.
    Each column holds one outcome of its own and, above a threshold, its alias. A word's high bits
    choose the column and its low bits the height in it, so the law of the draw is exactly the
    table's, at a cost that does not depend on its size.

    Attributes:
        shift: 64 - k.
        threshold: (2^k,) heights below which a column's own outcome is drawn.
        alias: (2^k,) the outcome above.

    Source: Walker, "An efficient method for generating discrete random variables with general
        distributions", ACM TOMS 1977; the construction by sweeping over prefix sums is that of
        Huebschle-Schneider, Sanders, "Parallel weighted random sampling", ESA 2019, section 4.

    >>> table = AliasTable.of([1 << 62, 1 << 62, 1 << 63])
    >>> table.draw(np.array([0, 1 << 62, 1 << 63, 3 << 62], np.uint64)).tolist()
    [0, 1, 2, 2]
    """

    shift: int
    threshold: Words
    alias: NDArray[np.uint32]

    @classmethod
    def of(cls, weights: NDArray[np.uint64] | list[int]) -> AliasTable:
        """Build the table.

        Args:
            weights: (outcomes,) integers of at least 0 that add up to 2^64, at most 2^32 of them.

        Raises:
            ValueError: they do not add up to 2^64.
        """
        given = np.asarray(weights, np.uint64)
        # In halves, for 2^64 does not fit a word and a sum of 0 would look the same.
        high, low = given >> np.uint64(32), given & np.uint64(0xFFFFFFFF)
        if (int(high.sum()) << 32) + int(low.sum()) != _WORD:
            raise ValueError("the weights of an alias table must add up to 2^64")
        # One column would be 2^64 high, which does not fit a word.
        columns = 1 << max(1, (given.size - 1).bit_length())
        height = np.uint64(_WORD // columns)
        heap = np.zeros(columns, np.uint64)
        # A column without an outcome of its own has threshold 0 and belongs to its alias.
        heap[: given.size] = given
        light, heavy = np.flatnonzero(heap <= height), np.flatnonzero(heap > height)
        threshold, alias = heap.copy(), np.arange(columns, dtype=np.uint32)
        if heavy.size:
            # The heavy outcomes fill up the light columns one after the other; the one whose
            # surplus runs out while it does keeps what it has left, below the next heavy one.
            missing, surplus = (height - heap[light]).cumsum(), (heap[heavy] - height).cumsum()
            before = np.concatenate([np.zeros(1, np.uint64), missing[:-1]])
            filler = np.searchsorted(surplus, before, side="right")
            alias[light] = heavy[np.minimum(filler, heavy.size - 1)]
            emptied = missing[np.searchsorted(missing, surplus, side="left")]
            threshold[heavy] = height - (emptied - surplus)
            alias[heavy] = np.append(heavy[1:], heavy[-1])
        return cls(64 - columns.bit_length() + 1, threshold, alias)

    def draw(self, words: Words) -> NDArray[np.int64]:
        """Outcomes, one for each uniform word.

        Args:
            words: (n,) uint64.

        Returns:
            (n,) int64, each exactly of the table's law if its word is uniform.
        """
        column = (words >> np.uint64(self.shift)).view(np.int64)
        height = words & np.uint64((1 << self.shift) - 1)
        return np.where(height < self.threshold[column], column, self.alias[column])
