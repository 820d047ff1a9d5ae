"""Totals to which whoever counts them adds integers: the central model, without a delta.

Units raise counters as they do among dummies, and nobody hides them: the job adds the digits of
each total up and draws one noise for it. What it has counted it sees.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Guarantee, Neighbours, require_epsilon
from mechanisms.counters.levels import InLevels, Level
from mechanisms.counters.price import changes, require_neighbours
from mechanisms.counters.solve import SHARE
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import RandomSource
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum

_PARTS = 1 << 24  # of a nat: epsilons are rounded down to so many
_POINTS = 400  # of a profile


def changed(levels: Sequence[Level], neighbours: Neighbours) -> int:
    """How far one unit moves totals, all of them together, at the most: their L1 sensitivity.

    Args:
        levels: digits of whole weights, all of the same counters.
        neighbours: what is to look alike.

    >>> changed([Level(2, 9, 1), Level(2, 9, 2)], "add or remove")
    6
    """
    slots, counters, _ = levels[0]
    up = sum(int(level.weight) for level in levels if level.weight > 0)
    down = -sum(int(level.weight) for level in levels if level.weight < 0)
    if neighbours == "add or remove":
        return slots * max(up, down)
    if not down:
        return changes(slots, counters, neighbours) * up
    # A total goes from one end to the other, or one falls to 0 where another rises from it.
    return slots * (up + down if slots == counters else 2 * max(up, down))


@dataclass(frozen=True)
class JobTotals(InLevels):
    """Totals of digits, the integers that are added to them, and what holds.

    Attributes:
        levels: the footprint; all levels of the statistic are digits of the same totals.
        noises: of each total of the statistic, and then of each counter of each level beside it.
        neighbours: which inputs look alike.
        epsilon: of all totals together, in nats.
        beside: how many of the last levels are no part of the statistic, say what was cut.

    >>> count = JobTotals.meeting([Level(1, 1)], "add or remove", epsilon=1.0)
    >>> count.guarantee.delta, round(count.column_variance, 3)
    (0.0, 1.841)
    """

    levels: tuple[Level, ...]
    noises: tuple[ExactGeometric, ...]
    neighbours: Neighbours
    epsilon: float
    beside: int = 0

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_neighbours(self.neighbours)
        if not 0 <= self.beside < len(self.levels):
            raise ValueError("beside must leave levels to the statistic")
        if len(self.noises) != 1 + self.beside:
            raise ValueError("there must be a noise for totals, and one for each level beside them")
        if len({level[:2] for level in self.statistic}) > 1:
            raise ValueError("digits of the same totals have the same counters")

    @classmethod
    def meeting(
        cls,
        levels: Sequence[Level],
        neighbours: Neighbours,
        epsilon: float,
        beside: Sequence[Level] = (),
        share: float = SHARE,
    ) -> "JobTotals":
        """The totals with the least noise that meets a target.

        Args:
            levels, neighbours, epsilon: as above.
            beside: levels that come after these.
            share: of epsilon, for the noise of `beside`.

        Raises:
            ValueError: epsilon is out of range, or too small.
        """
        require_epsilon(epsilon)
        # The least weighted sum of variances at this price.
        sizes = [(abs(level.weight) * level.slots) ** (2 / 3) for level in beside]
        parts = [share * size / sum(sizes) for size in sizes]
        moves = [
            changed(levels, neighbours),
            *(changes(level.slots, level.counters, neighbours) for level in beside),
        ]
        spent = [int(epsilon * part * _PARTS) for part in (1 - sum(parts), *parts)]
        if not min(spent) >= 1:
            raise ValueError(f"epsilon {epsilon:g} is too small for noise on integers: have more")
        noises = [
            ExactGeometric.falling(Fraction(part, _PARTS) / move)
            for part, move in zip(spent, moves, strict=True)
        ]
        every = (*levels, *beside)
        return cls(every, tuple(noises), neighbours, epsilon, len(beside))

    # ---- what holds --------------------------------------------------------------------------

    @property
    def losses(self) -> tuple[Fraction, ...]:
        """What each noise lets a unit lose at the most: of all totals, and of each level beside."""
        sides = self.levels[len(self.statistic) :]
        moves = [changed(self.statistic, self.neighbours)]
        moves += [changes(level.slots, level.counters, self.neighbours) for level in sides]
        return tuple(noise.decay * move for noise, move in zip(self.noises, moves, strict=True))

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds against who sees the noisy totals.

        Raises:
            ValueError: the noise is too small for what is claimed.
        """
        if not sum(self.losses) <= Fraction(self.epsilon):
            raise ValueError(f"this noise does not meet epsilon {self.epsilon}: see `meeting`")
        return Guarantee(
            "central",
            self.epsilon,
            0.0,
            "user",
            "closed form: two-sided geometric noise, drawn exactly, whose probabilities one unit "
            f"changes by a factor of at most e^epsilon ({self.neighbours})",
            self.neighbours,
        )

    @property
    def delta(self) -> float:
        """Nothing is left to chance."""
        return 0.0

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; under add or remove, that of a replacement with it."""
        own = self._curve(1)
        return own if self.neighbours == "replace" else replace(own, apart=self._curve(2))

    def _curve(self, steps: int) -> PrivacyLoss:
        """Of inputs so many steps apart.

        Noise that falls evenly shows most where all that moves is one total: the best tests of
        every step are thresholds, and these compose. Beside it every loss counts in full.
        """
        most, sides = steps * float(self.epsilon), steps * float(sum(self.losses[1:]))
        noise = self.noises[0]
        move, slope = steps * changed(self.statistic, self.neighbours), float(noise.decay)

        def delta(epsilon: float) -> float:
            # Of noise that makes as much as it may of epsilon, whatever its law.
            coin = math.expm1(most - epsilon) / (math.exp(-epsilon) + math.exp(most - epsilon))
            left = epsilon - sides
            if left < 0:
                return coin
            last = math.ceil((move - left / slope) / 2 + 1e-9) - 1
            shown = noise.below(last) - math.exp(left) * noise.below(last - move)
            return min(coin, max(shown, 0.0) + 1e-15)

        inner = np.linspace(0, most, _POINTS, endpoint=False).tolist()
        return PrivacyLoss.from_profile([*inner, most], [*map(delta, inner), 0.0])

    messages = 0.0  # what units contribute never leaves the job
    number = 0  # there are no dummies

    @property
    def constants(self) -> dict[str, Any]:
        """What the noise is, for statements."""
        return {
            "levels": [list(level) for level in self.levels],
            "falls": [[noise.numerator, noise.denominator] for noise in self.noises],
        }

    # ---- the job -----------------------------------------------------------------------------

    def noisy(self, counts: ArrayLike, rng: RandomSource) -> Counts:
        """Totals and their noise, drawn once.

        Args:
            counts: (codes,) exact.
            rng: the generator of this process.

        Returns:
            (codes,) of which the first digit of each total holds all of it, and others nothing.
        """
        exact = np.asarray(counts, np.int64)
        starts, digits = self.layout.starts, len(self.statistic)
        rows = [exact[starts[i] : starts[i + 1]] for i in range(len(self.levels))]
        total = sum(int(lv.weight) * row for lv, row in zip(self.statistic, rows, strict=False))
        drawn = np.zeros_like(exact)
        sums = [(0, np.asarray(total)), *((i, rows[i]) for i in range(digits, len(rows)))]
        for (place, row), noise in zip(sums, self.noises, strict=True):
            drawn[starts[place] : starts[place + 1]] = row + noise.draw(row.size, rng)
        return drawn

    def centred(self, counts: ArrayLike) -> list[Floats]:
        """What `noisy` has made, by level: nothing is expected beside the truth."""
        return self.layout.split(counts)

    @cached_property
    def variances(self) -> list[float]:
        """Of each level's counters, as `noisy` makes them."""
        own, *sides = (noise.var() for noise in self.noises)
        return [own, *[0.0] * (len(self.statistic) - 1), *sides]

    @property
    def column_variance(self) -> float:
        """Of a total."""
        return self.variances[0]

    def error_law(self, columns: int = 1, taken: int = 0) -> ExactGeometric | IntegerNoise:
        """The exact law of a total's error.

        Args:
            columns: how many totals are added up.
            taken: how many of them are taken away; this noise has no sign.

        Raises:
            ValueError: a sum's law is too long to tabulate.
        """
        del taken
        return _summed(self.noises[0], columns)

    def level_law(self, place: int) -> ExactGeometric | IntegerNoise:
        """The exact law of the error of one counter of a level."""
        first = len(self.statistic)
        return self.noises[max(place - first + 1, 0)]


def _summed(noise: ExactGeometric, times: int) -> ExactGeometric | IntegerNoise:
    if times == 1:
        return noise
    return weighted_sum([(noise.first, noise.pmf, 1)] * times)
