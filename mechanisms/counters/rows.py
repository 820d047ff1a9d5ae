"""The average row as counters: all its numbers, each told from both ends, and all its categories.

Whoever has a number raises a counter of each of its digits, whether they are 0 or 1, so a number
that is missing is told from one in the middle and each coordinate knows how many it is of. A
category raises the counter of its value, one of which stands for none; and every row one that
counts rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import AsFields, Counts, Floats
from mechanisms.counters.amounts import LARGEST, Amounts, Ends, by_part, tallied, weighed
from mechanisms.counters.levels import Level, Portion, Slots
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import RandomSource
from mechanisms.sampling.grid import Grid

MOST_DIGITS = 16
_ROUNDED = 1 / 3  # of the noise's variance: what a coin adds at the most, unless digits are named


class RowTotals(NamedTuple):
    """What counters say of rows.

    Attributes:
        sums: (numbers,) of each coordinate, on the scale of [-1, 1].
        counts: (numbers,) how many rows have it.
        values: of each category (size + 1,) how many rows have each value, and after them none.
        rows: how many there are.
    """

    sums: Floats
    counts: Floats
    values: list[Floats]
    rows: float


class RowNoise(NamedTuple):
    """Standard deviations of what `RowTotals` holds.

    Attributes:
        sum: of a coordinate, and of its count; their noises have no covariance.
        value: of one value's rows.
        rows: of all rows.
    """

    sum: float
    value: float
    rows: float


@dataclass(frozen=True)
class RowCounters(AsFields):
    """The counters of rows.

    Attributes:
        numbers: how many a row has, at least 1.
        steps: into so many a number's range is cut; its ends are rounded to by a coin.
        sizes: how many values each category has.

    >>> rows = RowCounters(numbers=400, steps=15, sizes=(4, 9))
    >>> [level[:2] for level in rows.levels]
    [(400, 800), (400, 800), (400, 800), (400, 800), (2, 15), (1, 1)]
    """

    numbers: int
    steps: int
    sizes: tuple[int, ...] = ()

    @cached_property
    def _ends(self) -> Ends:
        return Ends(self.numbers, self.numbers, self.steps)

    @cached_property
    def _parts(self) -> tuple[Amounts, ...]:
        """Those, those of categories if there are any, and that of rows."""
        kinds = len(self.sizes)
        values = (Amounts(sum(self.sizes) + kinds, kinds),) if kinds else ()
        return self._ends, *values, Amounts(1)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The footprint."""
        return weighed(self._parts)

    def encode(
        self, numbers: NDArray[np.floating], categories: NDArray[np.integer], rng: RandomSource
    ) -> list[Slots]:
        """The counters that rows raise.

        Args:
            numbers: (n, numbers) in [-1, 1], NaN where there is none.
            categories: (n, categories) the places of values, and after the last one that of none.
            rng: the generator of the client's process.

        Returns:
            For each level (n, slots) places, and -1 where there is none.

        Raises:
            ValueError: a number or a place is out of range. The message never holds it.
        """
        none = np.isnan(numbers)
        units, sets = self._units(numbers, none, categories, rng)
        return [*self._ends.encode(np.where(none, -1, np.arange(self.numbers)), units), *sets]

    def totals(
        self, numbers: NDArray[np.floating], categories: NDArray[np.integer], rng: RandomSource
    ) -> Counts:
        """(counters,) of all levels, one after the other: what rows add to them; as `encode`."""
        none = np.isnan(numbers)
        units, sets = self._units(numbers, none, categories, rng)
        beside = zip(self.levels[-len(sets) :], sets, strict=True)
        rest = [tallied(places, level.counters) for level, places in beside]
        return np.concatenate([*self._added(units, none), *rest])

    def _added(self, units: Slots, none: NDArray[np.bool_]) -> list[Counts]:
        """What numbers add to the first levels."""
        groups = np.where(none, -1, np.arange(self.numbers))
        return [self._ends.totals(groups.ravel(), units.ravel())]

    def _units(
        self,
        numbers: NDArray[np.floating],
        none: NDArray[np.bool_],
        categories: NDArray[np.integer],
        rng: RandomSource,
    ) -> tuple[Slots, list[Slots]]:
        """((n, numbers) how many units each is from the lower end, what rows raise beside them)."""
        usable = np.where(none, 0, numbers) if none.any() else numbers
        if not ((categories >= 0) & (categories <= np.array(self.sizes, np.int64))).all():
            raise ValueError("a category has no value of that place")
        units = Grid(self.steps).encode(usable.ravel(), rng).reshape(usable.shape).astype(np.int64)
        values = [categories + self._starts[:-1]] if self.sizes else []
        return units, [*values, np.zeros((len(numbers), 1), np.int64)]

    @property
    def _starts(self) -> NDArray[np.int64]:
        """(categories + 1,) where the counters of each category begin, and the last ones end."""
        return np.cumsum([0, *(size + 1 for size in self.sizes)]).astype(np.int64)

    def sums(self, counts: Sequence[Floats]) -> RowTotals:
        """What counters say, unbiased.

        Args:
            counts: for each level (counters,) less the dummies that were expected.
        """
        own, *values, [rows] = by_part(self._parts, counts)
        split = np.split(values[0][0], self._starts[1:-1]) if values else []
        total, number = self._ends.estimate(own), self._ends.number(own)
        return RowTotals(total / self.steps, number / self.steps, split, float(rows[0]))

    def noise(self, variances: Sequence[float]) -> RowNoise:
        """What the dummies add to that.

        Args:
            variances: of each level's counters.
        """
        own, *values, [rows] = by_part(self._parts, variances)
        column = sum(
            level.weight**2 * variance
            for level, variance in zip(self._ends.levels, own, strict=True)
        )
        value = values[0][0] if values else 0.0
        return RowNoise(math.sqrt(2 * column) / self.steps, math.sqrt(value), math.sqrt(rows))

    def rounding(self, n: Floats) -> Floats:
        """What rounding adds to the variance of a sum of n numbers, at the most."""
        # A coin's variance is a quarter of a squared step, which is 2 / steps long.
        return np.asarray(np.maximum(n, 0.0) / self.steps**2)


@dataclass(frozen=True)
class SummedRows(RowCounters):
    """The same where who counts adds whole numbers up: without digits, and by default one count.

    Numbers are told from the middle of their range, in units of half of which there are `steps`.
    One that is missing counts as the middle, of which nobody pays for more than one count of rows;
    or each coordinate has a count of its own, at the price of telling it from both ends.

    Attributes:
        own_counts: whether each coordinate has a count of its own.

    >>> rows = SummedRows(numbers=12, steps=999)
    >>> [level[:2] for level in rows.levels], rows.parts[0]
    ([(12, 12), (1, 1)], Portion(levels=1, low=-999, high=999))
    """

    own_counts: bool = False

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The footprint: noise on a sum, in halves of its range, is that on a count."""
        d, kinds = self.numbers, len(self.sizes)
        weight, signs = math.sqrt(d) / self.steps, (1.0, -1.0) if self.own_counts else (1.0,)
        values = (Level(kinds, sum(self.sizes) + kinds, math.sqrt(kinds)),) if kinds else ()
        return *(Level(d, d, sign * weight) for sign in signs), *values, Level(1, 1)

    @property
    def parts(self) -> tuple[Portion, ...]:
        """What is added to the levels."""
        own = Portion(2, 0, self.steps) if self.own_counts else Portion(1, -self.steps, self.steps)
        return own, *[Portion()] * bool(self.sizes), Portion()

    def summed(
        self, numbers: NDArray[np.floating], categories: NDArray[np.integer], rng: RandomSource
    ) -> tuple[list[Slots], list[Slots]]:
        """The counters that rows raise, and for the first levels by how much; as of `encode`."""
        none = np.isnan(numbers)
        units, sets = self._units(numbers, none, categories, rng)
        places = np.broadcast_to(np.arange(self.numbers), none.shape)
        if not self.own_counts:
            return [places, *sets], [np.where(none, 0, 2 * units - self.steps)]
        places = np.where(none, -1, places)
        return [places, places, *sets], [units, self.steps - units]

    def _added(self, units: Slots, none: NDArray[np.bool_]) -> list[Counts]:
        above = np.where(none, 0, units).sum(axis=0)
        reach = self.steps * np.count_nonzero(~none, axis=0)
        return [above, reach - above] if self.own_counts else [2 * above - reach]

    def sums(self, counts: Sequence[Floats]) -> RowTotals:
        own, rest = (counts[:2], counts[2:]) if self.own_counts else (counts[:1], counts[1:])
        *values, [rows] = rest
        split = np.split(values[0], self._starts[1:-1]) if values else []
        number = sum(own) / self.steps if self.own_counts else np.full(self.numbers, rows)
        total = own[0] - own[1] if self.own_counts else own[0]
        return RowTotals(total / self.steps, np.asarray(number), split, float(rows))

    def noise(self, variances: Sequence[float]) -> RowNoise:
        column, rows = (1 + self.own_counts) * variances[0], variances[len(self.levels) - 1]
        value = variances[len(self.levels) - 2] if self.sizes else 0.0
        return RowNoise(math.sqrt(column) / self.steps, math.sqrt(value), math.sqrt(rows))


_FINE = 10.0  # steps in a standard deviation that a coin of every row has: a hundredth of variance


def fine_steps(numbers: int, categories: int, n: int, epsilon: float, delta: float) -> int:
    """How many steps half a range of `SummedRows` should have, so that rounding does not show.

    Args:
        numbers, categories, n, epsilon, delta: as of `digits_for`.
    """
    noise = math.sqrt(numbers + categories + 1) / gaussian_mu(epsilon, delta)
    # Beside so few numbers noise of another law may err less than that, by a half at the most.
    return min(math.ceil(2 * _FINE * math.sqrt(n) / noise), LARGEST)


def digits_for(numbers: int, categories: int, n: int, epsilon: float, delta: float) -> int:
    """How many digits a number should have, so that noise is more than what rounding adds.

    Args:
        numbers: how many a row has.
        categories: how many of these.
        n: how many rows are planned for; a public number.
        epsilon: of all together, in nats.
        delta: in (0, 1).
    """
    changes = numbers + categories + 1
    noise = 2 * changes / gaussian_mu(epsilon, delta) ** 2
    steps = math.ceil(math.sqrt(n / (_ROUNDED * noise)))
    return min(max(steps, 1).bit_length(), MOST_DIGITS)
