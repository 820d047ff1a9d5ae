"""One quantile by the exponential mechanism, and noisy counts around it, which bound its error.

With c(x) units below x of n in all, cell [x, y) is as far from the p-quantile as p n is from c(x)
.. c(y). A unit that comes moves c(x) - p n by between -p and 1 - p, so distances move by max(p, 1 -
p) at the most; one that is replaced by 1.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.central.exponential import ExponentialMechanism
from mechanisms.channel import Counts, Guarantee, Neighbours, require_integer
from mechanisms.counters.levels import InLevels, Level, require_levels
from mechanisms.counters.price import require_neighbours
from mechanisms.distribution.quantiles import quantile_limits
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import RandomSource
from mechanisms.sampling.exact_geometric import ExactGeometric

# Of epsilon, for the counts. At epsilon 1 medians are then 1.3 to 1.7 rows off on average, and an
# interval has 80 to 100 rows; with 0.15 of it 1.2 to 1.5 and 130 to 150. Two further draws of outer
# ranks would take 160 and more at the same price: their tails go by the number of cells.
_COUNTED = 0.25
_NEAREST = 11  # the innermost ring has a cell of 2^11, beyond which intervals grow no shorter
_STEPS = 64  # of a score, for each row
_PARTS = 1 << 24  # of a nat: epsilons are rounded down to so many


@dataclass(frozen=True)
class QuantileChoice(InLevels):
    """Draws the cell of a quantile in each group, and counts units in rings of cells around it.

    Rings double in width, and a unit is in one of them. Losses go with how many rows of a unit a
    group has, and so add up to epsilon.

    Attributes:
        levels: the first has a counter for each cell of each group, of which a unit raises some.
            Of others nothing is told.
        groups: how many there are; each has as many cells.
        probability: p, in (0, 1).
        neighbours, epsilon, rows: as of `JobTotals`.
        parts: into how many what a unit raises is divided.

    Source: Smith, "Privacy-preserving statistical estimation with optimal convergence rates", STOC
        2011, Algorithm 2 (the exponential mechanism of ranks); McSherry, Talwar, FOCS 2007.

    >>> choice = QuantileChoice((Level(1, 4),), 1, 0.5, "add or remove", 0.2)
    >>> choice.mechanism.probabilities(choice.scores([10, 20, 30, 40])).round(3).tolist()
    [0.002, 0.039, 0.784, 0.175]
    """

    name: ClassVar[str] = "quantile-choice"
    source: ClassVar[str] = (
        "Smith, STOC 2011, Algorithm 2, in integers as of Ilvento, CCS 2020; noise of counts: "
        "Ghosh, Roughgarden, Sundararajan, STOC 2009"
    )
    delta = messages = 0.0
    number = 0  # there are no dummies

    levels: tuple[Level, ...]
    groups: int
    probability: float
    neighbours: Neighbours
    epsilon: float
    rows: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        require_neighbours(self.neighbours)
        require_levels(self.levels)
        require_integer("rows", self.rows, 1)
        require_integer("parts", self.parts, 1)
        if not (0 < self.probability < 1 <= self.groups):
            raise ValueError("a quantile lies between 0 and 1, and of at least one group")
        if not self._counting >= 1:
            raise ValueError(f"epsilon {self.epsilon:g} is too small for noise on integers")
        _ = self.mechanism

    @property
    def beside(self) -> int:  # type: ignore[override]
        return len(self.levels) - 1

    @cached_property
    def _ratio(self) -> Fraction:
        """p, as it is written."""
        return Fraction(repr(self.probability))

    @property
    def _times(self) -> int:
        """How many rows come or go; a row that is replaced in its group moves it but once."""
        of_two = self.neighbours == "replace" and self.groups > 1
        return self.levels[0].slots * self.rows * (1 + of_two)

    @property
    def _move(self) -> Fraction:
        """How far one of them moves a distance, at the most."""
        alone = self.neighbours == "replace" and self.groups == 1
        return Fraction(1) if alone else max(self._ratio, 1 - self._ratio)

    @property
    def _counting(self) -> int:
        return int(self.epsilon * _COUNTED * _PARTS)

    @cached_property
    def mechanism(self) -> ExponentialMechanism:
        """Of whole scores, of which each row moves one by so many steps."""
        left, steps = self.epsilon - self._counting / _PARTS, _STEPS * self._times
        return ExponentialMechanism(left * (1 - 1e-15), steps, steps)

    @cached_property
    def noise(self) -> ExactGeometric:
        """Of the number of units in a ring, in parts."""
        moved = self.levels[0].slots * self.rows * (1 + (self.neighbours == "replace"))
        return ExactGeometric.falling(Fraction(self._counting, _PARTS * moved * self.parts))

    @property
    def lifts(self) -> list[int]:
        return [self.rows * self.parts] * len(self.levels)

    @property
    def column_variance(self) -> float:
        """Of the rank of what is drawn, in squared parts, where cells are narrow."""
        return 8 * (self._times * float(self._move) * self.parts / self.mechanism.epsilon) ** 2

    @property
    def guarantee(self) -> Guarantee:
        """What holds against who sees what is drawn."""
        how = "exponential mechanism of ranks and two-sided geometric noise, drawn exactly"
        return Guarantee(
            "central", self.epsilon, 0.0, "user", f"closed form: {how} ({self.neighbours})",
            self.neighbours,
        )  # fmt: skip

    def require_met(self, epsilon: float, delta: float) -> None:
        """Refuse a promise of less than is drawn for: all noise follows from the own epsilon.

        Raises:
            ValueError: it is.
        """
        if not (self.epsilon <= epsilon and delta >= 0):
            raise ValueError(f"ranks are drawn for epsilon {self.epsilon}, not for {epsilon}")

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes: pure epsilon."""
        return PrivacyLoss.from_guarantee(self.guarantee)

    @property
    def constants(self) -> dict[str, Any]:
        """What is drawn from, for statements."""
        ring = [self.noise.numerator, self.noise.denominator]
        return {"groups": self.groups, "epsilon": self.mechanism.epsilon, "rings": ring}

    def scores(self, counts: ArrayLike) -> Counts:
        """(cells,) of a group, of which the quantile's cell has 0, from (cells,) exact counts."""
        p = self._ratio
        below = np.append(0, np.cumsum(np.asarray(counts, np.int64)))
        fits = _STEPS * int(below[-1]) * p.denominator < 1 << 62
        below = below.astype(np.int64 if fits else object)  # of Python's integers none overflows
        off = p.denominator * below - p.numerator * below[-1]
        far = np.maximum(np.maximum(off[:-1], -off[1:]), 0)
        return np.asarray(-far * _STEPS // int(self._move * p.denominator * self.parts), np.int64)

    def noisy(self, counts: ArrayLike, rng: RandomSource) -> Counts:
        """(groups * n,) a cell of each, and numbers in rings, from (codes,) exact; drawn once."""
        drawn = []
        for own in np.asarray(counts, np.int64)[: self.levels[0].counters].reshape(self.groups, -1):
            cell = int(self.mechanism.select(self.scores(own), rng)[0])
            drawn.append([cell, *self.rings(cell, own, rng)])
        return np.array(drawn, np.int64).ravel()

    @property
    def drawn(self) -> int:
        """How many numbers `noisy` has."""
        return self.groups * self._ends(0).size

    def rings(self, cell: int, counts: Counts, rng: RandomSource) -> Counts:
        """(rings,) noisy numbers in the rings around a cell, from (cells,) exact counts."""
        exact = np.diff(np.append(0, np.cumsum(counts))[self._ends(cell)])
        return exact + self.noise.draw(exact.size, rng)

    def _ends(self, cell: int) -> NDArray[np.int64]:
        """(rings + 1,) where the rings around a cell begin and end, some of them empty."""
        cells = self.levels[0].counters // self.groups
        nearest = max(cells >> _NEAREST, 1)
        reach = (nearest << np.arange((cells // nearest).bit_length() + 1)) - 1
        return np.clip(np.append(cell - reach[::-1], cell + 1 + reach), 0, cells)

    def limits(self, drawn: ArrayLike, confidence: float, comparisons: int = 1) -> Counts:
        """(groups, 3) the cell of each, and cells before whose beginnings its quantile lies or not.

        Args:
            drawn: as of `noisy`.
            confidence: of the intervals.
            comparisons: how many of them hold together.
        """
        deviation, p, made = math.sqrt(self.noise.var()), self.probability, []
        # Tails of a weighted sum lie between those of one noise and of the normal law.
        heavy = self.noise.isf((1 - confidence) / comparisons / 2) / deviation
        far = deviation * max(normal_quantile(confidence, comparisons), heavy)
        for cell, *rings in np.asarray(drawn, np.int64).reshape(self.groups, -1).tolist():
            ends = self._ends(cell)
            wide = np.diff(ends) > 0
            ends = np.append(ends[:-1][wide], ends[-1])
            below = np.append(0, np.cumsum(np.array(rings)[wide]))
            many = np.arange(below.size)
            half = far * np.sqrt(many * (1 - p) ** 2 + many[::-1] * p**2)
            lower, upper = (below - p * below[-1] + side for side in (-half, half))
            upper[-1] = lower[-1] = math.inf  # none lies beyond
            (low,), (high,) = quantile_limits([0.0], lower, upper, ends.astype(np.float64))
            made.append([cell, min(int(low), cell), max(int(high), cell + 1)])
        return np.array(made, np.int64)
