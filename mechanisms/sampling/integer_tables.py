"""Small integers drawn from tables: exact rational laws, close to one that is not rational.

A table holds probabilities in units of 2^-128. A 64-bit word decides nearly every draw; where it
does not, a second word is drawn, so that the law is that of the table to the last unit. How far
the table is from the law it stands for is bounded, and whoever claims privacy adds that up.

Exact draws from any table of integer weights: one 64-bit word and two look-ups each.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, Words

_WORD = 1 << 64
BITS = 128
FARTHEST = 2.0**-104  # no table is further in total variation from the law it stands for
LARGEST_MEAN = 1 << 20
_GUARD = 64  # bits by which terms are computed more finely than the table needs
_NATS = (BITS + _GUARD) * math.log(2)  # what terms fall by until they vanish
_MOST_ENTRIES = 1 << 21

Ratio = Callable[[int], tuple[int, int]]


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
    def of(cls, weights: NDArray[np.uint64] | list[int]) -> "AliasTable":
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


@dataclass(frozen=True)
class IntegerTable:
    """A law on consecutive integers.

    Attributes:
        first: the least integer.
        weights: probabilities in units of 2^-128; they add up to 2^128.

    >>> from mechanisms.randomness import SeededRandom
    >>> poisson(2.0).draw(6, SeededRandom(1)).tolist()
    [3, 2, 3, 2, 4, 4]
    """

    first: int
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not (sum(self.weights) == 1 << BITS and min(self.weights) >= 0):
            raise ValueError("weights must be at least 0 and add up to 2^128")

    @property
    def largest(self) -> int:
        """The largest integer that is ever drawn."""
        return self.first + len(self.weights) - 1

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Independent integers.

        Args:
            size: how many.
            rng: the generator of this process.

        Returns:
            (size,) int64.
        """
        words = rng.words(size)
        passed = np.searchsorted(self._high, words, side="right")
        open_ = np.flatnonzero((passed > 0) & (self._high[passed - 1] == words))
        for place, low in zip(open_.tolist(), rng.words(open_.size).tolist(), strict=True):
            passed[place] = bisect_right(self.ends, int(words[place]) << 64 | low)
        return self.first + passed

    def beyond(self, k: int) -> float:
        """The probability of more than k, rounded up."""
        units = sum(self.weights[max(k + 1 - self.first, 0) :])
        return math.nextafter(units / (1 << BITS), math.inf) if units else 0.0

    def end(self, tail: float) -> int:
        """The least integer beyond which there is a probability of at most `tail`."""
        rest, most = 0, int(tail * (1 << BITS))
        for k in range(self.largest, self.first, -1):
            rest += self.weights[k - self.first]
            if rest > most:
                return k
        return self.first

    def law(self) -> dict[int, Fraction]:
        """integer -> its probability."""
        return {
            self.first + i: Fraction(weight, 1 << BITS) for i, weight in enumerate(self.weights)
        }

    @cached_property
    def ends(self) -> list[int]:
        """Where each integer's share of 0 .. 2^128 - 1 ends, but for the last one's."""
        return list(accumulate(self.weights[:-1]))

    @cached_property
    def _high(self) -> NDArray[np.uint64]:
        """The words those ends begin with, and the largest word, which no draw may pass unseen."""
        return np.array([*(end >> 64 for end in self.ends), (1 << 64) - 1], np.uint64)


@lru_cache(maxsize=32)
def poisson(mean: float) -> IntegerTable:
    """The Poisson law, within `FARTHEST`.

    Args:
        mean: in [0, 2^20]; taken as the exact value of the double.

    Raises:
        ValueError: the mean is out of range, or not a number.
    """
    if not 0 <= mean <= LARGEST_MEAN:
        raise ValueError(f"the mean must lie in [0, {LARGEST_MEAN}], not {mean}")
    top, bottom = mean.as_integer_ratio()
    return _table(0, int(mean), lambda k: (top, k * bottom), (0, 1))


@lru_cache(maxsize=32)
def logarithmic(ratio: float) -> IntegerTable:
    """The logarithmic series law, P(k) proportional to ratio^k / k, within `FARTHEST`.

    A negative binomial number is the sum of a Poisson number of such integers.

    Args:
        ratio: in (0, 1); taken as the exact value of the double.

    Raises:
        ValueError: the ratio is out of range, not a number, or so near 1 that the table is large.

    Source: Quenouille, "A relation between the logarithmic, Poisson, and negative binomial
        series", Biometrics 1949.
    """
    if not 0 < ratio < 1:
        raise ValueError(f"the ratio must lie strictly between 0 and 1, not {ratio}")
    if not _NATS / (1 - ratio) <= _MOST_ENTRIES:
        raise ValueError(
            f"the ratio must be at most {1 - _NATS / _MOST_ENTRIES:.6f}, or the table would have "
            f"more than {_MOST_ENTRIES:,} entries, not {ratio}"
        )
    top, bottom = ratio.as_integer_ratio()
    return _table(1, 1, lambda k: (top * (k - 1), bottom * k), (top, bottom))


def _table(least: int, mode: int, ratio: Ratio, limit: tuple[int, int]) -> IntegerTable:
    """A law from `least` on, with a given mode and P(k) / P(k - 1) = rise / fall, rounded.

    Away from the mode the ratios are monotone; above it, their limit is given.
    """
    unit = 1 << (BITS + _GUARD)

    def up(k: int) -> tuple[int, int]:
        return ratio(mode + k)

    def down(k: int) -> tuple[int, int]:
        rise, fall = ratio(mode + 1 - k)
        return fall, rise

    above, missed_above = _side(up, unit, 1 << 62, limit)
    below, missed_below = _side(down, unit, mode - least, (0, 1))
    terms = [*below[::-1], unit, *above]
    total = sum(terms)
    weights = [(term << BITS) // total for term in terms]
    place = len(below)
    # What rounding left over goes to the mode, where it changes the ratios least.
    weights[place] += (1 << BITS) - sum(weights)
    # Each weight lost less than a unit; the terms lost what was missed, and so did their total.
    distance = len(terms) + (2 * (missed_above + missed_below) << BITS) // total + 1
    if not distance <= FARTHEST * (1 << BITS):
        raise ArithmeticError("the table is further from its law than promised")
    kept = [i for i, weight in enumerate(weights) if weight]
    return IntegerTable(mode - place + kept[0], tuple(weights[kept[0] : kept[-1] + 1]))


def _side(ratio: Ratio, unit: int, most: int, limit: tuple[int, int]) -> tuple[list[int], int]:
    """Products of ratios, rounded down until they vanish, and a bound on what they lack in sum.

    A step rounds by less than 1 and shrinks earlier errors; beyond the last term the products are
    below a geometric series that falls with the largest ratio that is left.
    """
    terms: list[int] = []
    term = unit
    for k in range(1, most + 1):
        rise, fall = ratio(k)
        term = term * rise // fall
        if not term:
            rest = max(Fraction(rise, fall), Fraction(*limit))
            return terms, k * k + math.ceil(k / (1 - rest))
        terms.append(term)
    return terms, most * most
