"""Totals to which whoever counts them adds integers: the central model.

Whole numbers of units are added to counters, and nobody hides them: the job adds them up and draws
a noise for each total. What it has counted it sees.

Noise is of one of two laws, whichever errs less. Two-sided geometric noise costs what one unit
moves all totals by (L1), and has no delta; rounded Gaussian noise costs the square root of the
squares (L2), and is the better one where a unit moves many of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Neighbours,
    require_epsilon,
    require_integer,
)
from mechanisms.counters.job_noise import (
    Charges,
    Law,
    Moves,
    curve,
    divergence,
    gaussian,
    geometric,
    moved,
    shown,
)
from mechanisms.counters.levels import InLevels, Level, Portion, require_portions, require_unit
from mechanisms.counters.noise import recorded
from mechanisms.counters.price import require_neighbours
from mechanisms.counters.solve import SHARE
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_epsilon
from mechanisms.randomness import RandomSource
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum
from mechanisms.sampling.rounded_gaussian import RoundedGaussian

_Row = tuple[Sequence[Level], Portion]

_LARGEST_DELTA = 0.1


@dataclass(frozen=True)
class JobTotals(InLevels):
    """Totals of whole numbers, the integers that are added to them, and what holds.

    Attributes:
        levels: the footprint.
        laws: of the noise of each of `parts`, and then of each level beside the statistic.
        neighbours: which inputs look alike.
        epsilon: of all totals together, in nats.
        delta: of the same; 0 where all noise is geometric.
        beside: how many of the last levels are no part of the statistic, say what was cut.
        parts: what is added to the statistic's levels; ones, each to its own, if it is empty.
        rows: of how many rows a unit raises the footprint, once for each, and perhaps the same
            counters again and again; what is beside is of the unit.
        share: of the price, for what is beside.
        unit: what 1 stands for in the numbers that are added up, which are rounded to it; None of
            others.

    >>> count = JobTotals.meeting([Level(1, 1)], "add or remove", epsilon=1.0, delta=1e-6)
    >>> count.guarantee.delta, round(count.column_variance, 3)
    (0.0, 1.841)
    >>> many = JobTotals.meeting([Level(99, 99)], "add or remove", epsilon=1.0, delta=1e-6)
    >>> many.guarantee.delta, round(many.variances[0] ** 0.5, 1)
    (1e-06, 42.0)
    """

    levels: tuple[Level, ...]
    laws: tuple[Law, ...]
    neighbours: Neighbours
    epsilon: float
    delta: float = 0.0
    beside: int = 0
    parts: tuple[Portion, ...] = ()
    rows: int = 1
    share: float = SHARE
    unit: float | None = None

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_neighbours(self.neighbours)
        require_unit(self.unit)
        require_integer("rows", self.rows, 1)
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must lie in [0, 1), not {self.delta}")
        self._require_statistic()
        if self.parts and sum(part.levels for part in self.parts) != len(self.statistic):
            raise ValueError("each level of the statistic must be of one part")
        require_portions(self.parts)
        if not 0 < self.share < 1:
            raise ValueError(f"share must lie in (0, 1), not {self.share}")
        if not all(isinstance(law, ExactGeometric | RoundedGaussian) for law in self.laws):
            raise ValueError("each noise must be geometric or Gaussian")
        if len(self.laws) != len(self._rows):
            raise ValueError("there must be a noise for totals, and one for each level beside them")
        if any(
            len({(lv.slots, lv.counters, abs(lv.weight)) for lv in row}) > 1
            for row, _ in self._rows
        ):
            raise ValueError("levels of a part must be alike")

    @classmethod
    def meeting(
        cls,
        levels: Sequence[Level],
        neighbours: Neighbours,
        epsilon: float,
        delta: float,
        beside: Sequence[Level] = (),
        share: float = SHARE,
        parts: Sequence[Portion] = (),
        releases: int = 1,
        rows: int = 1,
        law: Literal["geometric", "gaussian"] | None = None,
    ) -> "JobTotals":
        """The totals with the least noise that meets a target.

        Args:
            levels, neighbours, epsilon, parts, rows: as above; variances are weighed by the squares
                of levels' weights.
            delta: in [0, 1); of 0 all noise is geometric.
            beside: levels that come after these.
            share: of epsilon, or of squared moves, for the noise of `beside`.
            releases: as of `least_noise`.
            law: of the noise; None for the one that errs less.

        Raises:
            ValueError: epsilon is out of range, or too small.
        """
        require_epsilon(epsilon)
        require_neighbours(neighbours)
        split = _split(levels, parts, beside)
        worth = [abs(row[0].weight) for row, _ in split]
        moves = _moved(split, len(beside), rows, neighbours)
        price = worth, moves, Charges(share, len(beside))
        made, refused = [], ValueError("there is no noise")
        for name, laws, own in (("geometric", geometric, 0.0), ("gaussian", gaussian, delta)):
            if law not in (None, name) or (laws is gaussian and not delta):
                continue
            try:
                noises = laws(*price, epsilon, own)
            except ValueError as error:
                refused = error
                continue
            fields = (*levels, *beside), noises, neighbours, epsilon, own, len(beside)
            made.append(cls(*fields, tuple(parts), rows, share))
        if not made:
            raise refused
        return min(made, key=lambda design: design.error(releases, delta))

    def meeting_another(self, epsilon: float, delta: float) -> "JobTotals":
        """The same totals, with noise of the same law that meets another target.

        Args:
            epsilon, delta: as of `meeting`.

        Raises:
            ValueError: no such noise does.
        """
        own = len(self.statistic)
        return self.meeting(
            self.levels[:own], self.neighbours, epsilon, delta, self.levels[own:], self.share,
            self.parts, rows=self.rows, law="gaussian" if self.delta else "geometric",
        )  # fmt: skip

    def error(self, releases: int, delta: float) -> float:
        """The weighted variance, at the same price of so many releases together."""
        if releases == 1 or not delta:
            return self.column_variance
        spread = math.sqrt(2 * releases * divergence(self.laws, self.moves))
        together = gaussian_epsilon(spread, min(releases * delta, _LARGEST_DELTA))
        # Of few releases the normal law says too much: losses at most add up.
        return self.column_variance * min(together, releases * self.epsilon) ** 2

    @cached_property
    def _rows(self) -> list[_Row]:
        """The levels of each law of noise, and what is added to them."""
        own = len(self.statistic)
        return _split(self.levels[:own], self.parts, self.levels[own:])

    @cached_property
    def _laws(self) -> list[Law]:
        rows = zip(self._rows, self.laws, strict=True)
        return [law for (row, _), law in rows for _ in row]

    # ---- what holds --------------------------------------------------------------------------

    @cached_property
    def moves(self) -> list[Moves]:
        """How far one unit moves totals, for each law."""
        return _moved(self._rows, self.beside, self.rows, self.neighbours)

    @property
    def losses(self) -> tuple[Fraction, ...]:
        """What each geometric noise lets a unit lose at the most."""
        rows = zip(self.laws, self.moves, strict=True)
        return tuple(law.decay * m.all for law, m in rows if isinstance(law, ExactGeometric))

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds against who sees the noisy totals.

        Raises:
            ValueError: the noise is too small for what is claimed.
        """
        gaussian = any(isinstance(law, RoundedGaussian) for law in self.laws)
        spent = shown(self.laws, self.moves, self.epsilon - float(sum(self.losses)))
        met = spent <= self.delta and (self.delta > 0 or not gaussian)
        if not (sum(self.losses) <= Fraction(self.epsilon) and met):
            raise ValueError(
                f"this noise does not meet epsilon {self.epsilon} at delta {self.delta}: see "
                "`meeting`"
            )
        how = "two-sided geometric noise, drawn exactly, whose probabilities one unit changes by a "
        how += "factor of at most e^epsilon"
        if gaussian:
            how = "rounded Gaussian noise, which shows no more than the Gaussian mechanism does"
        return Guarantee(
            "central", self.epsilon, self.delta if gaussian else 0.0, "user",
            f"closed form: {how} ({self.neighbours})", self.neighbours,
        )  # fmt: skip

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; under add or remove, that of a replacement with it."""
        own = curve(self.laws, self.moves)
        if self.neighbours == "replace":
            return own
        twice = _moved(self._rows, self.beside, self.rows, "replace")
        return replace(own, apart=curve(self.laws, twice))

    @property
    def lifts(self) -> list[int]:
        own = len(self._rows) - self.beside
        return [
            max(part.high, -part.low) * (self.rows if place < own else 1)
            for place, (row, part) in enumerate(self._rows)
            for _ in row
        ]

    messages = 0.0  # what units contribute never leaves the job
    number = 0  # there are no dummies

    @property
    def constants(self) -> dict[str, Any]:
        """What the noise is, for statements."""
        return {
            "levels": [list(level) for level in self.levels],
            "parts": [list(part) for _, part in self._rows],
            "noise": recorded(self.laws),
            **({"rows": self.rows} if self.rows > 1 else {}),
        }

    def part(self, first: int, last: int) -> "JobTotals":
        """The totals of levels first .. last - 1, as of `Counters`."""
        ends = [0, *accumulate(len(row) for row, _ in self._rows)]
        kept = slice(ends.index(first), ends.index(last))
        parts = tuple(part for _, part in self._rows[kept])
        return replace(
            self, levels=self.levels[first:last], laws=self.laws[kept], beside=0, parts=parts
        )

    def coarser(self, by: int) -> "JobTotals":
        """About the same of numbers that are so many times smaller: whose laws have short tables.

        Args:
            by: what all numbers are divisible by.
        """
        laws = tuple(
            ExactGeometric.falling(law.decay * by)
            if isinstance(law, ExactGeometric)
            else RoundedGaussian(law.sigma / by)
            for law in self.laws
        )
        parts = tuple(
            part._replace(low=part.low // by, high=part.high // by) for part in self.parts
        )
        return replace(self, laws=laws, parts=parts)

    # ---- the job -----------------------------------------------------------------------------

    def noisy(self, counts: ArrayLike, rng: RandomSource) -> Counts:
        """Totals and their noise, drawn once.

        Args:
            counts: (codes,) exact.
            rng: the generator of this process.

        Returns:
            (codes,) totals with noise; of nulls nothing is left.
        """
        exact, ends = np.asarray(counts, np.int64), self.layout.starts
        drawn = np.zeros_like(exact)
        for place, (start, end) in enumerate(pairwise(ends.tolist())):
            drawn[start:end] = exact[start:end] + self.noise(place, end - start, rng)
        return drawn

    def noise(self, place: int, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """(size,) that is added to counters of a level."""
        return self._laws[place].draw(size, rng)

    def centred(self, counts: ArrayLike) -> list[Floats]:
        """What `noisy` has made, by level: nothing is expected beside the truth."""
        return self.layout.split(counts)

    @cached_property
    def variances(self) -> list[float]:
        """Of each level's counters, as `noisy` makes them."""
        return [law.var() for law in self._laws]

    @cached_property
    def column_variance(self) -> float:
        """Of a total; where there are several kinds, of the weighted sum of one of each."""
        rows = zip(self._rows[: len(self._rows) - self.beside], self.laws, strict=False)
        return sum(row[0].weight ** 2 * law.var() for (row, _), law in rows)

    def error_law(self, columns: int = 1, taken: int = 0) -> Law | IntegerNoise:
        """The exact law of a total's error.

        Args:
            columns: how many totals are added up.
            taken: how many of them are taken away; this noise has no sign.

        Raises:
            ValueError: a sum's law is too long to tabulate.
        """
        del taken
        return _together(self.laws[0], columns)

    def level_law(self, place: int) -> Law:
        """The exact law of the error of one counter of a level."""
        return self._laws[place]


@lru_cache(maxsize=16)  # of whatever columns are taken away it is the same
def _together(law: Law, columns: int) -> Law | IntegerNoise:
    """The law of so many independent noises."""
    return law if columns == 1 else weighted_sum([(law.first, law.pmf, 1)] * columns)


def _moved(rows: Sequence[_Row], beside: int, times: int, neighbours: Neighbours) -> list[Moves]:
    """How far one unit moves totals, for each law; those of the statistic so many times."""
    moves = [moved(*row, neighbours) for row in rows]
    own = len(moves) - beside
    return [*(one.times(times) for one in moves[:own]), *moves[own:]]


def _split(
    levels: Sequence[Level], parts: Sequence[Portion], beside: Sequence[Level]
) -> list[_Row]:
    """Levels part by part."""
    known = parts or [Portion()] * len(levels)
    ends = [0, *accumulate(part.levels for part in known)]
    own = [levels[a:b] for a, b in pairwise(ends)]
    return [*zip(own, known, strict=True), *(((level,), Portion()) for level in beside)]
