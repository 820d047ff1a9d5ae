"""Noisy counters from end to end: what users send, what the shuffler adds, what is made of counts.

Nothing protects a single user's messages: they lie open to whoever opens the seals and sees who
sent them. What the collector sees of all of them together is private, whoever takes part, because
the dummies do not depend on who does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Messages,
    Neighbours,
    require_epsilon,
)
from mechanisms.counters.dummies import Dummies, complete, telling
from mechanisms.counters.levels import InLevels, Level, require_unit
from mechanisms.counters.noise import recorded
from mechanisms.counters.price import Price
from mechanisms.counters.solve import alike, least_noise
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import RandomSource
from mechanisms.sampling.integer_noise import IntegerNoise

Priced = tuple[Dummies, tuple[Level, ...], Neighbours]


class Range(NamedTuple):
    """Counters whose dummies are drawn in one go: start .. stop - 1 of some levels."""

    levels: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Counters(InLevels):
    """Counters, their dummies, and what holds for them.

    Attributes:
        levels: the footprint.
        dummies: of the shuffler.
        neighbours: which inputs look alike: "add or remove" hides who takes part.
        epsilon: of all counters together, in nats.
        delta: in (0, 1).
        beside: how many of the last levels are no part of the statistic, say what was cut.
        unit: as of `JobTotals`.

    >>> count = Counters.meeting([Level(1, 1)], "add or remove", epsilon=1.0, delta=1e-6)
    >>> count.dummies.means, round(count.variances[0], 3), count.guarantee.epsilon
    ((14,), 1.841, 1.0)
    """

    levels: tuple[Level, ...]
    dummies: Dummies
    neighbours: Neighbours
    epsilon: float
    delta: float
    beside: int = 0
    unit: float | None = None

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_unit(self.unit)
        if len(self.dummies.means) != len(self.layout.levels):
            raise ValueError("there must be a law of dummies for each level")
        self._require_statistic()

    @classmethod
    def meeting(
        cls,
        levels: Sequence[Level],
        neighbours: Neighbours,
        epsilon: float,
        delta: float,
        beside: Sequence[Level] = (),
        **more: Any,
    ) -> "Counters":
        """The counters of a footprint with the least noise that meets a target.

        Args:
            levels: the footprint, `Level` by `Level`.
            neighbours, epsilon, delta: as above.
            beside: levels that come after these and are no part of the statistic.
            **more: further arguments of `least_noise`.
        """
        dummies = least_noise(levels, neighbours, epsilon, delta, beside=beside, **more)
        return cls((*levels, *beside), dummies, neighbours, epsilon, delta, len(beside))

    def meeting_another(self, epsilon: float, delta: float) -> "Counters":
        """The same counters, with noise of the same laws that meets another target.

        Args:
            epsilon, delta: as above.

        Raises:
            ValueError: no such noise does.
        """
        target = self.levels, self.neighbours, epsilon, delta
        dummies = alike(self.dummies, *target, self.epsilon / epsilon)
        return replace(self, dummies=dummies, epsilon=epsilon, delta=delta)

    # ---- what holds --------------------------------------------------------------------------

    @cached_property
    def price(self) -> Price:
        """What all counters reveal together."""
        return Price(self.dummies.charges(self.levels, self.neighbours), self.neighbours)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds against who sees the shuffled messages.

        Raises:
            ValueError: the noise is too small for what is claimed.
        """
        if not _spent(*self._priced, self.epsilon) <= self.delta:
            raise ValueError(
                f"this noise does not meet epsilon {self.epsilon} at delta {self.delta}; see "
                "`Counters.meeting`"
            )
        return Guarantee(
            "shuffle",
            self.epsilon,
            self.delta,
            "user",
            f"numerical accountant: the exact laws of all counters that one user may change "
            f"({self.neighbours}), composed and rounded up; the shuffler draws the dummies",
            self.neighbours,
        )

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; under add or remove, that of a replacement with it."""
        return _profile(*self._priced, self.epsilon)

    @property
    def _priced(self) -> Priced:
        """What the price follows from."""
        return self.dummies, telling(self.levels), self.neighbours

    @property
    def nulls(self) -> NDArray[np.int64]:
        """(levels,) the codes of empty slots."""
        return self.layout.nulls

    least_reports = 0  # for whoever waits for some would tell how many came

    def filled(self, words: Messages, rng: RandomSource) -> Messages:
        """(n, F) the reports of users: what they have to say, for others draw the dummies."""
        return words

    @property
    def messages(self) -> float:
        """Of a user, empty slots among them."""
        return float(self.layout.types.size)

    @property
    def number(self) -> int:
        """How many dummies there are on average, nulls left out."""
        return self.dummies.number(self.levels)

    @property
    def constants(self) -> dict[str, Any]:
        """What the noise is, for statements."""
        return {
            "levels": [list(level) for level in self.levels],
            "expected_dummies": list(self.dummies.means),
            "noise": recorded(self.dummies),
        }

    # ---- the shuffler ------------------------------------------------------------------------

    def ranges(self, most: int) -> list[Range]:
        """All counters, in ranges whose dummies workers may draw on their own, each of them once.

        Args:
            most: columns in a range.
        """
        return [
            Range(group, start, min(start + most, self.levels[group[0]].counters))
            for group in self.dummies.groups
            for start in range(0, self.levels[group[0]].counters, most)
        ]

    def draw(self, range_: Range, rng: RandomSource) -> tuple[Counts, Counts]:
        """The dummies of a range, nulls included: to be drawn once a window.

        Args:
            range_: one of `ranges`.
            rng: the generator of the shuffler's process; a key that is destroyed after use.

        Returns:
            ((k,) codes, (k,) how many dummies of each); `Layout.level_of` names their slots.
        """
        levels, start, stop = range_
        drawn = self.dummies.draw(levels, stop - start, rng)
        codes = [self.layout.starts[i] + np.arange(start, stop) for i in levels]
        nulls = [self._nulls(i, row, start == 0, rng) for i, row in zip(levels, drawn, strict=True)]
        codes.append(self.layout.nulls[list(levels)])
        return np.concatenate(codes), np.concatenate([drawn.ravel(), nulls]).astype(np.int64)

    def _nulls(self, level: int, others: Counts, first: bool, rng: RandomSource) -> int:
        """The null dummies that go with some counters' dummies."""
        shape = self.levels[level]
        if complete(shape, self.neighbours):
            return int((2 * self.dummies.means[level] - others).sum())
        laws = self.dummies.null_laws(level) if first else ()
        return sum(int(law.draw(shape.slots, rng).sum()) for law in laws)

    def noise(self, level: int, size: int, rng: RandomSource) -> Counts:
        """(size,) the dummies of some counters of a level, less those that are expected."""
        drawn = self.dummies.draw([level], size, rng)[0]
        return np.asarray(drawn - self.dummies.means[level], np.int64)

    # ---- the collector -----------------------------------------------------------------------

    def centred(self, counts: ArrayLike) -> list[Floats]:
        """The counters of each level less the dummies that were expected: unbiased.

        Args:
            counts: (codes,) as `Layout.count` makes them.
        """
        rows = zip(self.layout.split(counts), self.dummies.means, strict=True)
        return [row - mean for row, mean in rows]

    @cached_property
    def variances(self) -> list[float]:
        """Of each level's counters."""
        return [self.dummies.variance(unit.tolist()) for unit in np.eye(len(self.levels))]

    @cached_property
    def column_variance(self) -> float:
        """Of the weighted sum of one counter of each level of the statistic."""
        return self.dummies.variance([level.weight for level in self.statistic])

    def error_law(self, columns: int = 1, taken: int = 0) -> IntegerNoise:
        """The exact law of that sum's error, if weights are whole: see `Dummies.error_law`.

        Args:
            columns: how many such sums are added up.
            taken: how many of them are taken away; this noise has no sign.
        """
        del taken
        return self.dummies.error_law([int(lv.weight) for lv in self.statistic], columns)

    def level_law(self, place: int) -> IntegerNoise:
        """The exact law of the error of one counter of a level."""
        return _level_law(self.dummies, place)

    # ---- simulation --------------------------------------------------------------------------

    def simulate(self, raised: ArrayLike, rng: RandomSource) -> Counts:
        """The collector's counts, from sums in place of reports: the same law, at once.

        Args:
            raised: (codes,) how many users raise each counter, and how many empty slots there are.
            rng: draws the dummies.
        """
        counts = np.array(raised, np.int64)
        for range_ in self.ranges(1 << 20):
            np.add.at(counts, *self.draw(range_, rng))
        return counts


@lru_cache(maxsize=64)  # each limit of each figure asks for the law of each level
def _level_law(dummies: Dummies, place: int) -> IntegerNoise:
    return dummies.error_law([0] * place + [1])


# Metrics of a plan often have the same noise over other domains, whose price it is.
@lru_cache(maxsize=256)
def _spent(dummies: Dummies, levels: Sequence[Level], of: Neighbours, epsilon: float) -> float:
    """The delta at an epsilon."""
    return Price(dummies.charges(levels, of), of).upper(epsilon)


@lru_cache(maxsize=64)
def _profile(
    dummies: Dummies, levels: Sequence[Level], of: Neighbours, epsilon: float
) -> PrivacyLoss:
    """As of `Counters.profile`."""
    charges = dummies.charges(levels, of)
    own = Price(charges, of).profile(epsilon)
    if of == "replace":
        return own
    # With its nulls, a user raises exactly `slots` of so many more counters; another replaces all
    # of them.
    both = Price([c._replace(counters=c.counters + c.slots) for c in charges], "replace")
    return replace(own, apart=both.profile(2 * epsilon))
