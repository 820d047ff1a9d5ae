"""Totals to which whoever counts them adds integers: the central model.

Units raise counters as they do among dummies, and nobody hides them: the job adds the digits of
each total up and draws one noise for it. What it has counted it sees.

Noise is of one of two laws, whichever errs less. Two-sided geometric noise costs what one unit
moves all totals by (L1), and has no delta; rounded Gaussian noise costs the square root of the
squares (L2), and is the better one where a unit moves many of them.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Guarantee, Neighbours, require_epsilon
from mechanisms.counters.levels import InLevels, Level
from mechanisms.counters.noise import recorded
from mechanisms.counters.price import changes, require_neighbours
from mechanisms.counters.solve import SHARE
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_delta, gaussian_mu
from mechanisms.randomness import RandomSource
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum
from mechanisms.sampling.rounded_gaussian import RoundedGaussian

Law = ExactGeometric | RoundedGaussian

_PARTS = 1 << 24  # of a nat: epsilons are rounded down to so many
_POINTS = 400  # of a profile
_FAR = 9.0  # standard deviations of a loss, beyond which nothing is left of a delta
_LARGEST_DELTA = 0.1


class Moves(NamedTuple):
    """How far one unit moves totals of one law, at the most.

    Attributes:
        totals: how many of them.
        all: all of them together: their L1 sensitivity.
        squares: the sum of squares: that of L2, squared.
    """

    totals: int
    all: int
    squares: int


def moved(levels: Sequence[Level], neighbours: Neighbours) -> Moves:
    """How far one unit moves totals of some digits.

    Args:
        levels: digits of whole weights, in units of the first, all of the same counters.
        neighbours: what is to look alike.

    >>> moved([Level(2, 9, 1), Level(2, 9, 2)], "add or remove")
    Moves(totals=2, all=6, squares=18)
    """
    slots, counters, _ = levels[0]
    digits = digits_of(levels)
    up, down = (sum(max(sign * digit, 0) for digit in digits) for sign in (1, -1))
    most = max(up, down)
    if neighbours == "add or remove":
        return Moves(slots, slots * most, slots * most**2)
    if not down:
        times = changes(slots, counters, neighbours)
        return Moves(times, times * up, times * up**2)
    # A total goes from one end to the other, or one falls to 0 where another rises from it.
    if slots == counters:
        return Moves(slots, slots * (up + down), slots * (up + down) ** 2)
    return Moves(2 * slots, slots * 2 * most, slots * max((up + down) ** 2, 2 * most**2))


def digits_of(levels: Sequence[Level]) -> list[int]:
    """What the levels of a total count for in it, whose first one counts for 1."""
    return [round(level.weight / levels[0].weight) for level in levels]


@dataclass(frozen=True)
class JobTotals(InLevels):
    """Totals of digits, the integers that are added to them, and what holds.

    Attributes:
        levels: the footprint.
        laws: of the noise of each of `parts`, and then of each level beside the statistic.
        neighbours: which inputs look alike.
        epsilon: of all totals together, in nats.
        delta: of the same; 0 where all noise is geometric.
        beside: how many of the last levels are no part of the statistic, say what was cut.
        parts: how many levels are digits of the same totals, one such part after the other; all of
            the statistic's, if it is empty.

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
    parts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_neighbours(self.neighbours)
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must lie in [0, 1), not {self.delta}")
        if not 0 <= self.beside < len(self.levels):
            raise ValueError("beside must leave levels to the statistic")
        if self.parts and not (min(self.parts) >= 1 and sum(self.parts) == len(self.statistic)):
            raise ValueError("each level of the statistic must be of one part")
        if len(self.laws) != len(self._rows):
            raise ValueError("there must be a noise for totals, and one for each level beside them")
        if any(len({level[:2] for level in row}) > 1 for row in self._rows):
            raise ValueError("digits of the same totals have the same counters")

    @classmethod
    def meeting(
        cls,
        levels: Sequence[Level],
        neighbours: Neighbours,
        epsilon: float,
        delta: float,
        beside: Sequence[Level] = (),
        share: float = SHARE,
        parts: Sequence[int] = (),
        releases: int = 1,
    ) -> "JobTotals":
        """The totals with the least noise that meets a target.

        Args:
            levels, neighbours, epsilon, parts: as above; variances are weighed by the squares of
                weights, those of the first digits.
            delta: in [0, 1); of 0 all noise is geometric.
            beside: levels that come after these.
            share: of epsilon, or of squared moves, for the noise of `beside`.
            releases: as of `least_noise`.

        Raises:
            ValueError: epsilon is out of range, or too small.
        """
        require_epsilon(epsilon)
        require_neighbours(neighbours)
        common = (*levels, *beside), neighbours, epsilon
        rows = [*_split(levels, parts), *([level] for level in beside)]
        shares = [1 - share * bool(beside)] * (len(rows) - len(beside)) + [share] * len(beside)
        made, why = [], ValueError("delta must lie in [0, 1)")
        for laws, own in ((_geometric, 0.0), (_gaussian, delta)):
            try:
                noises = laws(rows, shares, len(beside), neighbours, epsilon, own)
                made.append(cls(*common[:1], noises, *common[1:], own, len(beside), tuple(parts)))
            except ValueError as refused:
                why = refused if not own else why
        if not made:
            raise why
        return min(made, key=lambda design: design.error(releases, delta))

    def error(self, releases: int, delta: float) -> float:
        """The variance of the weighted sum, at the same price of so many releases together."""
        variance = sum(
            row[0].weight ** 2 * law.var()
            for row, law in zip(
                self._rows[: len(self._rows) - self.beside], self.laws, strict=False
            )
        )
        if releases == 1 or not delta:
            return variance
        together = compose({self.profile(): releases})
        return variance * together.epsilon(min(releases * delta, _LARGEST_DELTA)) ** 2

    @cached_property
    def _rows(self) -> list[list[Level]]:
        """The levels of each law of noise."""
        own, sides = self.statistic, self.levels[len(self.statistic) :]
        return [*_split(own, self.parts), *([level] for level in sides)]

    @cached_property
    def _firsts(self) -> list[int]:
        """The places of the first levels of each law."""
        return [0, *accumulate(map(len, self._rows))][:-1]

    # ---- what holds --------------------------------------------------------------------------

    @cached_property
    def moves(self) -> list[Moves]:
        """How far one unit moves totals, for each law."""
        return [moved(row, self.neighbours) for row in self._rows]

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
        held = _gaussian_delta(self.laws, self.moves, self.epsilon - float(sum(self.losses)))
        if not (sum(self.losses) <= Fraction(self.epsilon) and held <= self.delta):
            raise ValueError(
                f"this noise does not meet epsilon {self.epsilon} at delta {self.delta}: see "
                "`meeting`"
            )
        how = "two-sided geometric noise, drawn exactly, whose probabilities one unit changes by a "
        how += "factor of at most e^epsilon"
        if held:
            how = "rounded Gaussian noise, which shows no more than the Gaussian mechanism does"
        return Guarantee(
            "central", self.epsilon, self.delta if held else 0.0, "user",
            f"closed form: {how} ({self.neighbours})", self.neighbours,
        )  # fmt: skip

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; under add or remove, that of a replacement with it."""
        own = self._curve(self.moves)
        if self.neighbours == "replace":
            return own
        return replace(own, apart=self._curve([moved(row, "replace") for row in self._rows]))

    def _curve(self, moves: Sequence[Moves]) -> PrivacyLoss:
        """Of inputs that are so far apart.

        Noise that falls evenly shows most where all that moves is one total: the best tests of
        every step are thresholds, and these compose. Beside it every loss counts in full.
        """
        rows = [*zip(self.laws, moves, strict=True)]
        if any(isinstance(law, RoundedGaussian) for law in self.laws):
            spread = _spread(self.laws, moves)
            last = spread**2 / 2 + _FAR * spread + 1e-3
            inner = np.linspace(0, last, _POINTS).tolist()
            shown = [_gaussian_delta(self.laws, moves, epsilon) for epsilon in inner]
            return PrivacyLoss.from_profile(inner, np.minimum.accumulate(np.minimum(shown, 1.0)))
        kept, sides = rows[: len(rows) - self.beside], rows[len(rows) - self.beside :]
        beside = float(sum(law.decay * m.all for law, m in sides))  # type: ignore[union-attr]
        alone = compose(Counter(_falling(law, m.all) for law, m in kept))  # type: ignore[arg-type]
        most = beside + alone.reach

        def delta(epsilon: float) -> float:
            # Of noise that makes as much as it may of epsilon, whatever its law.
            coin = math.expm1(most - epsilon) / (math.exp(-epsilon) + math.exp(most - epsilon))
            return coin if epsilon < beside else min(coin, alone.delta(epsilon - beside))

        inner = np.linspace(0, most, _POINTS, endpoint=False).tolist()
        return PrivacyLoss.from_profile([*inner, most], [*map(delta, inner), 0.0])

    messages = 0.0  # what units contribute never leaves the job
    number = 0  # there are no dummies

    @property
    def constants(self) -> dict[str, Any]:
        """What the noise is, for statements."""
        return {
            "levels": [list(level) for level in self.levels],
            "parts": list(self.parts) or [len(self.statistic)],
            "noise": recorded(self.laws),
        }

    def part(self, first: int, last: int) -> "JobTotals":
        """The totals of levels first .. last - 1, as of `Counters`."""
        kept = [i for i, place in enumerate(self._firsts) if first <= place < last]
        parts = tuple(len(self._rows[i]) for i in kept)
        laws = tuple(self.laws[i] for i in kept)
        return replace(self, levels=self.levels[first:last], laws=laws, beside=0, parts=parts)

    # ---- the job -----------------------------------------------------------------------------

    def noisy(self, counts: ArrayLike, rng: RandomSource) -> Counts:
        """Totals and their noise, drawn once.

        Args:
            counts: (codes,) exact.
            rng: the generator of this process.

        Returns:
            (codes,) of which the first digit of each total holds all of it, and others nothing.
        """
        exact, starts = np.asarray(counts, np.int64), self.layout.starts
        drawn = np.zeros_like(exact)
        for first, row in zip(self._firsts, self._rows, strict=True):
            own = drawn[starts[first] : starts[first + 1]]
            for i, digit in enumerate(digits_of(row), first):
                own += digit * exact[starts[i] : starts[i + 1]]
            own += self.noise(first, own.size, rng)
        return drawn

    def noise(self, place: int, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """(size,) that is added to counters of a level, the first of its totals' digits."""
        return self.level_law(place).draw(size, rng)

    def centred(self, counts: ArrayLike) -> list[Floats]:
        """What `noisy` has made, by level: nothing is expected beside the truth."""
        return self.layout.split(counts)

    @cached_property
    def variances(self) -> list[float]:
        """Of each level's counters, as `noisy` makes them."""
        laws = dict(zip(self._firsts, self.laws, strict=True))
        return [laws[i].var() if i in laws else 0.0 for i in range(len(self.levels))]

    @property
    def column_variance(self) -> float:
        """Of the weighted sum of one counter of each level of the statistic."""
        own = zip(self.statistic, self.variances, strict=False)
        return float(sum(level.weight**2 * variance for level, variance in own))

    def error_law(self, columns: int = 1, taken: int = 0) -> Law | IntegerNoise:
        """The exact law of a total's error.

        Args:
            columns: how many totals are added up.
            taken: how many of them are taken away; this noise has no sign.

        Raises:
            ValueError: a sum's law is too long to tabulate.
        """
        del taken
        law = self.laws[0]
        return law if columns == 1 else weighted_sum([(law.first, law.pmf, 1)] * columns)

    def level_law(self, place: int) -> Law:
        """The exact law of the error of one counter of a level."""
        return self.laws[max(i for i, first in enumerate(self._firsts) if first <= place)]


def _split(levels: Sequence[Level], parts: Sequence[int]) -> list[list[Level]]:
    """Levels part by part."""
    ends = [0, *accumulate(parts or [len(levels)])]
    return [list(levels[a:b]) for a, b in zip(ends, ends[1:], strict=False)]


def _geometric(
    rows: Sequence[Sequence[Level]], shares: Sequence[float], beside: int,
    neighbours: Neighbours, epsilon: float, delta: float,
) -> tuple[Law, ...]:  # fmt: skip
    """The least weighted sum of variances at this price, of losses that add up to epsilon."""
    moves = [moved(row, neighbours) for row in rows]
    worth = [(abs(row[0].weight) * m.all) ** (2 / 3) for row, m in zip(rows, moves, strict=True)]
    spent = [int(epsilon * part * _PARTS) for part in _parted(worth, shares, beside)]
    if not min(spent) >= 1:
        raise ValueError(f"epsilon {epsilon:g} is too small for noise on integers: have more")
    return tuple(
        ExactGeometric.falling(Fraction(part, _PARTS) / m.all)
        for part, m in zip(spent, moves, strict=True)
    )


def _gaussian(
    rows: Sequence[Sequence[Level]], shares: Sequence[float], beside: int,
    neighbours: Neighbours, epsilon: float, delta: float,
) -> tuple[Law, ...]:  # fmt: skip
    """The same of squared moves that add up to mu^2."""
    if not 0 < delta < 1:
        raise ValueError("Gaussian noise has a delta")
    moves = [moved(row, neighbours) for row in rows]
    worth = [abs(r[0].weight) * math.sqrt(m.squares) for r, m in zip(rows, moves, strict=True)]
    parted, slack = _parted(worth, shares, beside), 0.0
    while slack < epsilon / 2:  # what a draw is off by goes with the noise
        mu = gaussian_mu(epsilon - slack, delta * math.exp(-slack)) * (1 - 1e-9)
        laws = tuple(
            RoundedGaussian(math.sqrt(m.squares / part) / mu)
            for part, m in zip(parted, moves, strict=True)
        )
        if _gaussian_delta(laws, moves, epsilon) <= delta:
            return laws
        slack = 1.01 * _slack(laws, moves)
    raise ValueError(f"epsilon {epsilon:g} is too small for so many totals: have more")


def _parted(worth: Sequence[float], shares: Sequence[float], beside: int) -> list[float]:
    """Shares of a price, of the statistic's laws and of those beside them, each by its worth."""
    first = len(worth) - beside
    sums = [sum(worth[:first])] * first + [sum(worth[first:])] * beside
    return [share * own / all_ for own, all_, share in zip(worth, sums, shares, strict=True)]


def _spread(laws: Sequence[Law], moves: Sequence[Moves]) -> float:
    """mu: how many standard deviations of Gaussian noise a unit moves totals by."""
    rows = zip(laws, moves, strict=True)
    return math.sqrt(
        sum(m.squares / law.sigma**2 for law, m in rows if isinstance(law, RoundedGaussian))
    )


def _slack(laws: Sequence[Law], moves: Sequence[Moves]) -> float:
    """By how much a loss may be more than that of the Gaussian mechanism."""
    rows = zip(laws, moves, strict=True)
    return sum(m.totals * law.slack for law, m in rows if isinstance(law, RoundedGaussian))


def _gaussian_delta(laws: Sequence[Law], moves: Sequence[Moves], epsilon: float) -> float:
    """Of Gaussian noise, as it is drawn, at an epsilon."""
    slack, mu = _slack(laws, moves), _spread(laws, moves)
    return math.exp(slack) * gaussian_delta(mu, epsilon - slack) * (1 + 1e-9) if mu else 0.0


def _falling(noise: ExactGeometric, move: int) -> PrivacyLoss:
    """Of one total that moves by so much."""
    most, slope = float(noise.decay * move), float(noise.decay)

    def delta(epsilon: float) -> float:
        last = math.ceil((move - epsilon / slope) / 2 + 1e-9) - 1
        shown = noise.below(last) - math.exp(epsilon) * noise.below(last - move)
        return max(shown, 0.0) + 1e-15

    inner = np.linspace(0, most, _POINTS, endpoint=False).tolist()
    return PrivacyLoss.from_profile([*inner, most], [*map(delta, inner), 0.0])
