"""Which of very many coins fall heads, in time and memory proportional to those that do.

Coins of one kind are independent, so it does not matter how they are put together. Where heads
are rare, the coins are cut into stretches of 2^b; the number of heads in a stretch is binomial,
and given their number their places are a uniform set. Where heads are common, every coin is
tossed. Both give each coin its probability, a multiple of 2^-64, exactly, and leave it
independent of all others.

How many of a number of coins fall heads, drawn from the exact binomial law.

A real number U is drawn bit by bit, 64 at first, and the count is the least k with U < F(k). A
table brackets each F(k) between integers; where a word falls inside a bracket, more bits of U are
drawn and the brackets are computed that much more finely. No rounding is left in the result, so
a privacy claim for single coins holds for coins that were counted first and placed afterwards.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, Words

_WORD = 1 << 64
_GUARD = 64  # bits by which terms are computed more finely than the brackets need
Indices = NDArray[np.int64]

RARE = 1 << 60  # of 2^64: up to this chance counting heads is cheaper than tossing coins
_HEADS = 64  # the least mean of a stretch: enough to share the cost of its count
_LONGEST = 40  # log2 of the longest stretch
# What only speed decides: coins tossed, or places marked, at a time; places drawn at a time; and
# columns for each chosen one: with fewer, marking is cheaper than sorting.
_COINS, _DRAWS, _DENSE = 1 << 20, 1 << 17, 16


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


def heads(coins: int, threshold: int, rng: RandomSource) -> Indices:
    """The places of heads in a row of coins.

    Args:
        coins: how many, up to 2^62.
        threshold: the chance of heads in units of 2^-64, 0 .. 2^64.
        rng: the generator of this process.

    Returns:
        (heads,) int64 in 0 .. coins - 1, ascending.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0 <= coins <= 1 << 62:
        raise ValueError(f"coins must lie in 0 .. 2^62, not {coins}")
    if not 0 <= threshold <= 1 << 64:
        raise ValueError(f"threshold must lie in 0 .. 2^64, not {threshold}")
    if coins == 0 or threshold == 0:
        return np.empty(0, np.int64)
    return (_counted if threshold <= RARE else _tossed)(coins, threshold, rng)


def distinct(counts: Indices, columns: int, rng: RandomSource) -> Indices:
    """A uniform random set of columns for each row: samples without replacement.

    Args:
        counts: (size,) integers, how many columns each row gets.
        columns: how many there are.
        rng: the generator of this process.

    Returns:
        (sum of counts,) int64, row * columns + column, ascending.

    Raises:
        ValueError: a count is out of range.
    """
    counts = np.asarray(counts, np.int64)
    if counts.size and not (0 <= counts.min() and counts.max() <= columns):
        raise ValueError(f"counts must lie in 0 .. {columns}, the number of columns")
    most = int(counts.max(initial=0))
    if not most:
        return np.empty(0, np.int64)
    dense = most * _DENSE > columns
    step = max(1, _COINS // columns if dense else _DRAWS // most)
    draw = _marked if dense else _sorted
    parts = [
        draw(counts[start : start + step], columns, rng) + start * columns
        for start in range(0, counts.size, step)
    ]
    return np.concatenate(parts)


def _tossed(coins: int, threshold: int, rng: RandomSource) -> Indices:
    """`heads` where they are common: coin by coin."""
    parts = [
        np.flatnonzero(rng.bernoulli(threshold, min(_COINS, coins - start))) + start
        for start in range(0, coins, _COINS)
    ]
    return np.concatenate(parts)


def _counted(coins: int, threshold: int, rng: RandomSource) -> Indices:
    """`heads` where they are rare: first how many, then where."""
    law = _stretch(threshold)
    # The last stretch may reach beyond the coins asked for: those it has in excess are ignored.
    counts = law.draw(-(-coins // law.trials), rng)
    places = distinct(counts, law.trials, rng)
    return places[: np.searchsorted(places, coins)]


@lru_cache(maxsize=32)
def _stretch(threshold: int) -> ExactBinomial:
    """The law of the heads in a stretch of coins: 2^b of them, with 64 to 128 heads on average."""
    length = ((_HEADS << 64) // threshold).bit_length()
    return ExactBinomial(1 << min(length, _LONGEST), threshold)


def _sorted(counts: Indices, columns: int, rng: RandomSource) -> Indices:
    """`distinct` for few of many columns: repeats show when each row is sorted."""
    width = int(counts.max())
    drawn = rng.integers(columns, counts.size * width).view(np.int64).reshape(-1, width)
    drawn[np.arange(width) >= counts[:, None]] = columns  # no column, and last in order
    open_rows = np.arange(counts.size)
    while open_rows.size:
        part = np.sort(drawn[open_rows], axis=1)
        repeated = np.zeros(part.shape, np.bool_)
        repeated[:, 1:] = (part[:, 1:] == part[:, :-1]) & (part[:, 1:] < columns)
        # Drawing on and ignoring what was seen before is sampling without replacement.
        part[repeated] = rng.integers(columns, int(np.count_nonzero(repeated))).view(np.int64)
        drawn[open_rows] = part
        open_rows = open_rows[repeated.any(axis=1)]
    kept = drawn < columns
    drawn += columns * np.arange(counts.size)[:, None]
    return drawn[kept]


def _marked(counts: Indices, columns: int, rng: RandomSource) -> Indices:
    """`distinct` for a good part of the columns: what is drawn is marked, in or out."""
    # The complement of a uniform set is a uniform set, and the smaller one is sooner marked.
    fewer = np.minimum(counts, columns - counts)
    marks = np.zeros((counts.size, columns), np.bool_)
    places, missing = marks.ravel(), fewer
    while missing.any():
        rows = np.repeat(np.arange(counts.size) * columns, missing)
        places[rows + rng.integers(columns, rows.size).view(np.int64)] = True
        # Going on until enough are marked is sampling without replacement.
        missing = fewer - np.count_nonzero(marks, axis=1)
    marks[counts > fewer] ^= True
    return np.flatnonzero(places)


def chosen_coordinates(n: int, places: int, sampled: int, rng: RandomSource) -> NDArray[np.int64]:
    """Uniform sets of places, whatever is there.

    Args:
        n: how many users.
        places: how many a row has.
        sampled: how many of them each user gets, at least 1.
        rng: the generator of this process.

    Returns:
        (n, sampled) integers in 0 .. places - 1, those of a user ascending and distinct.
    """
    if sampled == 1:
        # The usual case, and many times faster than sets without replacement.
        return rng.integers(places, n).view(np.int64)[:, None]
    if sampled == places:
        return np.broadcast_to(np.arange(places), (n, places))
    drawn = distinct(np.full(n, sampled), places, rng)
    return drawn.reshape(n, sampled) - places * np.arange(n)[:, None]
