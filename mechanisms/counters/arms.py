"""An experiment as counters: how many units each arm has, and what they come to in each outcome.

A unit is in one arm, and in one bin of what was known of it before. Of all these cells it moves its
own alone, so that arms and bins share one price: parallel composition within one design. Quantiles
are read from trees of counters, one an arm and column, whose bins know nothing of before.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import AsFields, Floats
from mechanisms.counters.levels import Level, Portion, Slots
from mechanisms.counters.rows import fine_steps
from mechanisms.counters.tree import Tree
from mechanisms.randomness import RandomSource
from mechanisms.sampling.grid import Grid

_OF_UNITS = 0.5  # what noise on the number of units weighs: a mean far from its middle moves by it
_OF_SQUARES = 0.2  # the same of squares, of which only how far means scatter is made
_OF_TREES = 0.5  # of a tree's levels: beside it a rate errs by 1.4 times less than at 1

# Of fan-outs from 2 to 32 with growths 1.15 and 1.3, within 5 % of the best beside 0 to 3 rates.
USUAL_TREE = Tree.uniform(1024, 8, 1.3)


class ArmTotals(NamedTuple):
    """What the counters say.

    Attributes:
        units: (arms, bins) how many units there are.
        several: how many units were in several arms, and count in none.
        totals: (outcomes, arms, bins) of rates, and then of numbers on the scale of [-1, 1].
        squares: (numbers, arms, bins) what the squares of these add up to.
        below: (columns, arms, leaves + 1) how many units lie below each end of a tree's bins.
    """

    units: Floats
    several: float
    totals: Floats
    squares: Floats
    below: Floats


@dataclass(frozen=True)
class ArmCounters(AsFields):
    """The counters of an experiment.

    Attributes:
        arms: how many, at least 2.
        bins: of what was known of units before; 1 where nothing was.
        rates: how many outcomes a unit has or has not.
        numbers: how many outcomes are numbers.
        steps: half the range of a number is cut into so many; a coin rounds to them.
        columns: how many numbers quantiles are compared of.
        tree: over the bins of each of them.

    >>> counters = ArmCounters(arms=2, rates=1, numbers=1, steps=9)
    >>> [level[:2] for level in counters.levels]
    [(1, 3), (1, 2), (1, 2), (1, 2)]
    """

    arms: int
    bins: int = 1
    rates: int = 0
    numbers: int = 0
    steps: int = 1
    columns: int = 0
    tree: Tree = USUAL_TREE

    @classmethod
    def fine(
        cls, arms: int, bins: int, rates: int, numbers: int, n: int, epsilon: float, delta: float,
        columns: int = 0,
    ) -> "ArmCounters":  # fmt: skip
        """With as many steps as keep rounding out of sight; as of `fine_steps`."""
        steps = fine_steps(2 * numbers, rates, n, epsilon, delta) if numbers else 1
        return cls(arms, bins, rates, numbers, steps, columns)

    @property
    def cells(self) -> int:
        """A cell is an arm and a bin of it."""
        return self.arms * self.bins

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Units, rates, numbers and their squares, weighed by what an effect errs by."""
        r, d, fine = self.rates, self.numbers, math.sqrt(self.numbers) / self.steps
        sizes = [(r, math.sqrt(r)), (d, fine), (d, _OF_SQUARES * fine)]
        units = Level(1, self.cells + 1, _OF_UNITS * math.sqrt(max(r + d, _OF_UNITS**2)))
        levels = [units, *(Level(k, k * self.cells, weight) for k, weight in sizes if k)]
        for lv in self.tree.levels * bool(self.columns):
            k, weight = self.columns, _OF_TREES * math.sqrt(self.columns) * lv.weight
            levels.append(Level(k * lv.slots, k * self.arms * lv.counters, weight))
        return tuple(levels)

    @property
    def flat(self) -> int:
        """How many levels come before those of trees."""
        return 1 + bool(self.rates) + 2 * bool(self.numbers)

    @property
    def parts(self) -> tuple[Portion, ...]:
        """What is added to the levels."""
        numbers = [Portion(1, -self.steps, self.steps), Portion(1, 0, self.steps)]
        trees = [Portion()] * (len(self.levels) - self.flat)
        return (*[Portion()] * (1 + bool(self.rates)), *numbers * bool(self.numbers), *trees)

    def encode(
        self, cells: NDArray[np.int64], rates: NDArray[np.bool_], numbers: Floats,
        leaves: NDArray[np.int64], rng: RandomSource,
    ) -> tuple[list[Slots], list[Slots]]:  # fmt: skip
        """The counters that units raise, and by how much.

        Args:
            cells: (n,) arm * bins + bin; -1 of units in several arms, -2 of those in none.
            rates: (n, rates) which outcomes they have.
            numbers: (n, numbers) in [-1, 1].
            leaves: (n, columns) places of bins; -1 of units without a number.
            rng: the generator of the client's process.

        Returns:
            For each level (n, slots) places, and -1 where there is none; and what is added to each,
            but for those of trees, where it is 1.
        """
        several = cells < 0
        places = [np.where(cells == -1, self.cells, np.maximum(cells, -1))[:, None]]
        for k, there in ((self.rates, rates), (self.numbers, True)):
            own = np.arange(k) * self.cells + cells[:, None]
            places += [np.where(there & ~several[:, None], own, -1)] * bool(k)
        added = [np.ones_like(of_level) for of_level in places]
        if self.numbers:
            added.pop()
            places.append(places[-1])
            for values, low in ((numbers, -self.steps), (2 * numbers**2 - 1, 0)):
                units = Grid(self.steps - low).encode(np.clip(values, -1, 1).ravel(), rng)
                added.append(units.reshape(numbers.shape).astype(np.int64) + low)
        arms = np.arange(self.columns) * self.arms + (cells // self.bins)[:, None]
        there = (leaves >= 0) & ~several[:, None]
        for lv, size in zip(self.levels[self.flat :], self.tree.sizes[1:], strict=False):
            own = arms * (lv.counters // (self.columns * self.arms)) + leaves // size
            places.append(np.where(there, own, -1))
        return places, added

    def totals(self, counts: Sequence[Floats], variances: Sequence[float]) -> ArmTotals:
        """What counters say, unbiased.

        Args:
            counts: for each level (counters,); what stands beside them is passed over.
            variances: of each level's counters.
        """
        units, *rest = counts[: self.flat]
        *totals, squares = (part.reshape(-1, self.arms, self.bins) for part in (*rest, np.empty(0)))
        if self.numbers:
            *totals, squares = *totals[:-2], totals[-2] / self.steps, totals[-1] / self.steps
        cells = units[:-1].reshape(self.arms, self.bins)
        trees = (part.reshape(self.columns * self.arms, -1) for part in self._of_trees(counts))
        below = np.zeros((self.columns, self.arms, self.tree.cells + 1))
        for row, own in zip(
            below.reshape(-1, below.shape[2]), zip(*trees, strict=True), strict=True
        ):
            row[1:] = np.cumsum(self.tree.estimate(own, self._of_trees(variances)))
        flat = np.concatenate([np.empty((0, *cells.shape)), *totals])
        return ArmTotals(cells, float(units[-1]), flat, squares, below)

    def _of_trees(self, of_levels: Sequence[Any]) -> Sequence[Any]:
        return of_levels[self.flat : len(self.levels)]

    def below_variances(self, probability: float, variances: Sequence[float]) -> Floats:
        """(leaves + 1,) of the noise of `ArmTotals.below`, less a share of all."""
        shares = np.full(self.tree.cells + 1, probability)
        return self.tree.below_variances(shares, self._of_trees(variances))

    def noises(self, variances: Sequence[float]) -> tuple[float, ...]:
        """The variances of `ArmTotals`: of units, rates if there are any, numbers and squares."""
        fine = [1.0] * (1 + bool(self.rates)) + [1 / self.steps**2] * 2
        return tuple(x * y for x, y in zip(fine, variances[: self.flat], strict=False))
