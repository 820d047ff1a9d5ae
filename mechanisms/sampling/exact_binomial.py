"""How many of a number of coins fall heads, drawn from the exact binomial law.

A real number U is drawn bit by bit, 64 at first, and the count is the least k with U < F(k). A
table brackets each F(k) between integers; where a word falls inside a bracket, more bits of U are
drawn and the brackets are computed that much more finely. No rounding is left in the result, so
a privacy claim for single coins holds for coins that were counted first and placed afterwards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, Words

_WORD = 1 << 64
_GUARD = 64  # bits by which terms are computed more finely than the brackets need


@dataclass(frozen=True)
class ExactBinomial:
    """The number of heads among equal, independent coins.

    Attributes:
        trials: how many coins, at least 1. The table takes time in proportion to the standard
            deviation: tens of milliseconds at 1000.
        threshold: the chance of heads in units of 2^-64, strictly between 0 and 2^64.

    >>> from mechanisms.randomness import SeededRandom
    >>> ExactBinomial(trials=100, threshold=1 << 60).draw(5, SeededRandom(1)).tolist()
    [9, 7, 7, 6, 9]
    """

    trials: int
    threshold: int

    def __post_init__(self) -> None:
        if not self.trials >= 1:
            raise ValueError(f"trials must be at least 1, not {self.trials}")
        if not 0 < self.threshold < _WORD:
            raise ValueError(f"threshold must lie in 1 .. 2^64 - 1, not {self.threshold}")

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Independent counts.

        Args:
            size: how many.
            rng: the generator of this process.

        Returns:
            (size,) int64 in 0 .. trials.
        """
        first, low, high = self._table
        words = rng.words(size)
        passed = np.searchsorted(low, words, side="right")
        counts = first + passed
        for place in np.flatnonzero((passed > 0) & (words <= high[passed - 1])).tolist():
            counts[place] = self._refined(int(words[place]), rng)
        return counts

    def _refined(self, word: int, rng: RandomSource) -> int:
        """The count for a real number of which the first word decides nothing."""
        bits = 64
        while True:
            # The same number is drawn on. A new one in its place would shrink the chance of every
            # count in proportion to its open brackets, and the law would not be the binomial one.
            word, bits = word << 64 | int(rng.words(1)[0]), bits + 64
            first, low, high = self.brackets(bits)
            passed = bisect_right(low, word)
            if not passed or high[passed - 1] <= word:
                return first + passed

    @cached_property
    def _table(self) -> tuple[int, Words, Words]:
        """The brackets at 64 bits, the upper ends less 1, so that all fit a word."""
        first, low, high = self.brackets(64)
        return first, np.array(low, np.uint64), np.array([end - 1 for end in high], np.uint64)

    def brackets(self, bits: int) -> tuple[int, list[int], list[int]]:
        """The distribution function F in units of 2^-bits, from both sides.

        Args:
            bits: the resolution.

        Returns:
            (first, low, high): low[i] <= 2^bits F(first + i) <= high[i], integers at most 2 apart,
            up to where low is 2^bits - 1 or the next count is `trials`, whose F is 1. If first > 0
            the bracket of `first` is 0, 1, and covers all lower counts as well.
        """
        u, unit = self.threshold, 1 << (bits + _GUARD)
        mode = (self.trials + 1) * u // _WORD
        down = ((k * (_WORD - u), (self.trials - k + 1) * u) for k in range(mode, 0, -1))
        up = (
            ((self.trials - k + 1) * u, k * (_WORD - u)) for k in range(mode + 1, self.trials + 1)
        )
        below, error_below = _terms(down, unit)
        above, error_above = _terms(up, unit)
        first = mode - len(below)
        terms = [*reversed(below), unit, *above]
        if first > 0:
            first, terms = first - 1, [0, *terms]
        # All terms are relative to the mode's; their sum, with what is missing from it, is 1 / P.
        total, error = sum(terms), error_below + error_above
        low, high, so_far = [], [], 0
        for term in terms[: self.trials - first]:
            so_far += term
            # Outwards on both sides: whoever falls between them draws on, so looseness costs time
            # alone.
            low.append((so_far << bits) // (total + error))
            high.append(min(1 << bits, -(-(so_far + error << bits) // total)))
        return first, low, high


def _terms(ratios: Iterator[tuple[int, int]], unit: int) -> tuple[list[int], int]:
    """Products of falling ratios, in units of 1 / unit and rounded down, until they vanish.

    Returns:
        (terms; a bound on how far their sum is below that of the unrounded products of all ratios).
    """
    terms, term = [], unit
    for rise, fall in ratios:
        term = term * rise // fall
        if not term:
            break
        terms.append(term)
    # Every step adds less than 1 to the error and shrinks the old one; what follows the last term
    # is below a geometric series that starts at the error and falls with the next ratio.
    steps = len(terms) + 1
    rise, fall = next(ratios, (0, 1))
    return terms, steps * steps - (-steps * fall // (fall - rise))
