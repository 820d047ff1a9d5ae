"""Totals as counters: how many have a value, how many events there were, sums of numbers, by group.

Whole numbers up to b are written in digits of the weights 1, 2, 4, ... and a remainder, which add
up to exactly b: every number has digits, and the price is that of b and not of the next power of
two. A user raises a counter for each digit of what it has of each of its groups. Digits with a
remainder may have one weight, and are told apart by their place.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, require_integer
from mechanisms.counters.levels import Level, Portion, Slots
from mechanisms.randomness import RandomSource
from mechanisms.sampling.grid import Grid
from mechanisms.specification import Digits

LARGEST = 1 << 30
_EXACT = (1 << 53) // LARGEST  # numbers that doubles add up exactly


def digit_weights(most: int) -> tuple[int, ...]:
    """The weights of digits that add up to a number.

    >>> digit_weights(8), digit_weights(1), digit_weights(1023)[-1]
    ((1, 2, 4, 1), (1,), 512)
    """
    require_integer("most", most)
    if not 1 <= most <= LARGEST:
        raise ValueError(f"the largest number must lie in 1 .. {LARGEST:,}, not {most}")
    whole = (most + 1).bit_length() - 1
    weights = tuple(1 << i for i in range(whole))
    rest = most - sum(weights)
    return (*weights, rest) if rest else weights


def digits(numbers: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """(digits, ...) of whole numbers 0 .. most, of any shape."""
    weights = digit_weights(most)
    whole = (most + 1).bit_length() - 1
    left = numbers.astype(np.min_scalar_type(~most))
    rest = left >= 1 << whole
    if len(weights) > whole:
        left -= rest * left.dtype.type(weights[-1])
    rows = [(left & (1 << i)) != 0 for i in range(whole)]
    return np.stack([*rows, rest] if len(weights) > whole else rows)


def whole_amounts(numbers: ArrayLike, bound: float, most: int, rng: RandomSource) -> Slots:
    """Numbers in units of bound / most, rounded by a coin that keeps their mean.

    Args:
        numbers: of any shape, in [-bound, bound]; whoever calls has clipped them.
        bound: positive.
        most: how many units the bound has.
        rng: the generator of the client's process.

    Returns:
        Integers in -most .. most.
    """
    if not 0 < bound < math.inf:
        raise ValueError(f"the bound must be positive and finite, not {bound}")
    values = np.asarray(numbers, np.float64)
    scaled = values.ravel() if bound == 1 else values.ravel() / bound
    cells = Grid(2 * most).encode(scaled, rng).astype(np.int64)
    cells -= most
    return cells.reshape(values.shape)


@dataclass(frozen=True)
class Amounts:
    """Totals of whole numbers by group.

    Attributes:
        groups: how many there are; 1 for a total.
        most_groups: k, how many of them a user may have.
        most: b, the largest number that a user has of a group; 1 counts users.
        signed: whether there are negative numbers, down to -b; they have counters of their own.

    >>> [tuple(level) for level in Amounts(groups=915, most_groups=10, most=8).levels]
    [(10, 915, 1), (10, 915, 2), (10, 915, 4), (10, 915, 1)]
    """

    groups: int
    most_groups: int = 1
    most: int = 1
    signed: bool = False

    def __post_init__(self) -> None:
        require_integer("groups", self.groups)
        require_integer("most_groups", self.most_groups, 1, self.groups)
        digit_weights(self.most)

    @property
    def digits(self) -> Digits:
        """Their sort, for clients in other languages."""
        return "signed" if self.signed else "whole"

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """One for each digit."""
        counters = self.groups * (2 if self.signed else 1)
        return tuple(Level(self.most_groups, counters, w) for w in digit_weights(self.most))

    def encode(self, groups: Slots, amounts: Slots) -> list[Slots]:
        """The counters that users raise.

        Args:
            groups: (n, k) distinct within a row, and -1 where there is none.
            amounts: (n, k) of each group.

        Returns:
            For each level (n, k) places, and -1 where there is none.

        Raises:
            ValueError: an amount is out of range. The message never holds it.
        """
        self._require(amounts)
        # Negative parts stand behind positive ones, so a user has one of either.
        places = np.where(amounts < 0, groups + self.groups, groups) if self.signed else groups
        set_ = digits(np.abs(amounts), self.most) & (groups >= 0)
        # -1 has all bits set, so this is `np.where(digit, places, -1)`, at an eighth of its time.
        return [places | (digit.astype(places.dtype) - 1) for digit in set_]

    @property
    def low(self) -> int:
        """The least number."""
        return int(getattr(self, "least", -self.most if self.signed else 0))

    def _require(self, amounts: Slots) -> None:
        if amounts.size and not (self.low <= amounts.min() and amounts.max() <= self.most):
            raise ValueError(f"an amount lies outside {self.low} .. {self.most}")

    def totals(self, groups: Slots, amounts: Slots) -> Counts:
        """(counters,) of all levels, one after the other: what is added to each of them.

        Equal numbers of a group are written in digits once, where there are fewer than numbers.

        Args:
            groups: (n,) of each number, and -1 where there is none.
            amounts: (n,) or (n, m) of each group, as of `encode`.

        Raises:
            ValueError: as of `encode`.
        """
        span, times = self.most - self.low + 1, None
        if amounts.ndim == 1 and (self.groups + 1) * span <= groups.size:
            self._require(amounts)
            codes = groups * span  # in place: of 40 million numbers each copy took 0.05 s
            codes += amounts
            codes += span - self.low
            came = np.bincount(codes)
            different = np.flatnonzero(came)
            groups, amounts = different // span - 1, different % span + self.low
            times = came[different]
        sets = self.encode(groups[:, None], amounts[:, None])
        pairs = zip(self.levels, sets, strict=True)
        return np.concatenate([tallied(places, level.counters, times) for level, places in pairs])

    def estimate(self, counts: Sequence[Floats]) -> Floats:
        """(groups,) totals, unbiased.

        Args:
            counts: for each level (counters,) less the dummies that were expected.
        """
        total = sum(level.weight * row for level, row in zip(self.levels, counts, strict=True))
        parts = np.asarray(total, np.float64).reshape(-1, self.groups)
        return np.asarray(parts[0] - parts[1] if self.signed else parts[0])

    rounded: ClassVar[Callable[..., Any]] = staticmethod(whole_amounts)
    """What takes numbers to amounts."""

    coin = 0.25
    """The variance of a number's rounding, at the most, in squared units of totals."""

    def variance(self, column: float) -> float:
        """Of a group's total.

        Args:
            column: the variance of the weighted sum of one counter of each level.
        """
        return 2 * column if self.signed else column

    @property
    def poisoning(self) -> int:
        """How far one liar moves a group's total, at the most: all its slots of that group."""
        return self.most_groups * self.most


@dataclass(frozen=True)
class SignedDigits(Amounts):
    """Totals of whole numbers that may be below 0, in one set of digits, the last of them negative.

    A negative number raises the counter of the least one, and the digits of how far it lies above.
    So where digits share one noise, it is that of one set of counters and not of two.

    Attributes:
        least: the smallest number, in -b .. -1.

    >>> told = SignedDigits(groups=1, most=3, least=-2)
    >>> [level.weight for level in told.levels]
    [1, 2, -2]
    >>> [places.tolist() for places in told.encode(np.array([[0]]), np.array([[-1]]))]
    [[[0]], [[-1]], [[0]]]
    """

    least: int = -1
    digits: ClassVar[Digits] = "lifted"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("least", self.least)
        if self.signed or not -self.most <= self.least < 0:
            raise ValueError(f"the least number must lie in {-self.most} .. -1, not {self.least}")

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return (*super().levels, Level(self.most_groups, self.groups, self.least))

    def encode(self, groups: Slots, amounts: Slots) -> list[Slots]:
        self._require(amounts)
        below = amounts < 0
        raised = super().encode(groups, np.where(below, amounts - self.least, amounts))
        return [*raised, np.where(below, groups, -1)]


@dataclass(frozen=True)
class Ends(Amounts):
    """Totals of numbers in [-1, 1], told from both ends: a digit that is 0 raises a counter, too.

    Whoever has a number of a group raises one counter of each digit's two. So the two tell, besides
    the total of the numbers, how many there are, and that at no price: as many counters change as
    where numbers have signs.

    >>> told = Ends(groups=2, most_groups=2, most=3)
    >>> [places.tolist() for places in told.encode(np.array([[0, 1]]), np.array([[2, 3]]))]
    [[[2, 1]], [[0, 1]]]
    """

    signed: bool = True
    coin = 1.0  # what is above the middle is twice what is above the lower end
    least: ClassVar[int] = 0
    digits: ClassVar[Digits] = "ends"

    def encode(self, groups: Slots, amounts: Slots) -> list[Slots]:
        """As of `Amounts`.

        Args:
            groups: (n, k) distinct within a row, and -1 where there is no number.
            amounts: (n, k) in 0 .. b: how many units a number is from the lower end.
        """
        self._require(amounts)
        rows = digits(amounts, self.most)
        return [
            np.where(groups < 0, -1, np.where(row, groups, groups + self.groups)) for row in rows
        ]

    def number(self, counts: Sequence[Floats]) -> Floats:
        """(groups,) how many have a number, in units as totals are, unbiased; as `estimate`."""
        total = sum(level.weight * row for level, row in zip(self.levels, counts, strict=True))
        return np.asarray(np.asarray(total).reshape(2, -1).sum(axis=0), np.float64)


@dataclass(frozen=True)
class WholeAmounts(Amounts):
    """Totals of whole numbers that are added up as they are, by who sees them: without digits.

    Attributes:
        least: the smallest number, in -b .. 0.

    >>> told = WholeAmounts(groups=2, most=3, least=-2)
    >>> told.levels, told.parts
    ((Level(slots=1, counters=2, weight=1.0),), (Portion(levels=1, low=-2, high=3),))
    """

    least: int = 0

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return (Level(self.most_groups, self.groups),)

    @property
    def parts(self) -> tuple[Portion, ...]:
        """What is added to the levels."""
        return (Portion(1, self.least, self.most),)

    def encode(self, groups: Slots, amounts: Slots) -> list[Slots]:
        self._require(amounts)
        return [groups] * len(self.levels)

    def totals(self, groups: Slots, amounts: Slots) -> Counts:
        sets = self.encode(groups[:, None], amounts[:, None])
        rows = zip(self.levels, sets, self.added(amounts[:, None]), strict=True)
        return np.concatenate([tallied(own, level.counters, more) for level, own, more in rows])

    def added(self, amounts: Slots) -> list[Slots]:
        """For each level (n, k) what is added to its counters; arguments as of `encode`."""
        return [amounts]


@dataclass(frozen=True)
class WholeEnds(WholeAmounts):
    """The same of numbers in [-1, 1]: how far they are from the lower end, and from the upper.

    Both tell the total and how many there are at the price of one of them; as of `Ends`.

    >>> [part.tolist() for part in WholeEnds(groups=1, most=3).added(np.array([[2]]))]
    [[[2]], [[1]]]
    """

    coin = 1.0  # as of `Ends`

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return tuple(Level(self.most_groups, self.groups, sign) for sign in (1.0, -1.0))

    @property
    def parts(self) -> tuple[Portion, ...]:
        return (Portion(2, 0, self.most),)

    def added(self, amounts: Slots) -> list[Slots]:
        return [amounts, self.most - amounts]

    def number(self, counts: Sequence[Floats]) -> Floats:
        """As of `Ends`."""
        return np.asarray(counts[0] + counts[1], np.float64)

    def variance(self, column: float) -> float:
        return 2 * column


def tallied(places: Slots, counters: int, times: Slots | None = None) -> Counts:
    """(counters,) how often each place stands in a set, or what is added to it; -1 is none.

    Args:
        places: (n, k) below `counters`.
        counters: how many there are.
        times: as many, up to `LARGEST` from 0: what each of them adds, if that is not 1.
    """
    there = np.flatnonzero(places.ravel() >= 0)
    own = places.ravel() if there.size == places.size else places.ravel()[there]
    if times is None:
        return np.bincount(own, minlength=counters)
    more = times.ravel() if there.size == places.size else times.ravel()[there]
    # Doubles add whole numbers exactly up to 2^53, and a rounded total may move by more than a row
    # does. A block is seldom so long that it is more than one piece.
    pieces = (slice(at, at + _EXACT) for at in range(0, max(own.size, 1), _EXACT))
    first, *rest = (np.bincount(own[p], more[p], counters).astype(np.int64) for p in pieces)
    return sum(rest, first)


def weighed(parts: Iterable[Amounts]) -> tuple[Level, ...]:
    """The levels of several totals, weighted so that all digits of all counters are equally noisy.

    Args:
        parts: of which a user has all.
    """
    # The least noise is sought for one counter of each level; here all that a user has matter.
    return tuple(
        Level(level.slots, level.counters, math.sqrt(level.slots) * level.weight / part.most)
        for part in parts
        for level in part.levels
    )


def by_part(parts: Sequence[Amounts], levels: Iterable[Any]) -> list[list[Any]]:
    """What there is of each level, for each part that has these levels in turn."""
    rest = iter(levels)
    return [list(islice(rest, len(part.levels))) for part in parts]


def units(noise: float, n: int, bound: float) -> int:
    """How many units a bound needs so that rounding adds at most a hundredth to the variance.

    Args:
        noise: the standard deviation of the total, in the units of the numbers.
        n: how many numbers are rounded, at the most.
        bound: of their absolute values.
    """
    if not (noise > 0 and n >= 1):
        raise ValueError("there must be noise, and numbers")
    # A coin's variance is a quarter of a squared unit at the most.
    return min(max(math.ceil(5 * math.sqrt(n) * bound / noise), 1), LARGEST)
