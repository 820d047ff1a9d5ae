"""Noise of totals that one party draws: how far a unit moves them, and the law of least error."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from mechanisms.channel import Neighbours
from mechanisms.counters.levels import Level, Portion
from mechanisms.counters.price import changes
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_delta, gaussian_mu
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.rounded_gaussian import RoundedGaussian

Law = ExactGeometric | RoundedGaussian

_PARTS = 1 << 24  # of a nat: epsilons are rounded down to so many
_POINTS = 400  # of a profile
_FAR = 9.0  # standard deviations of a loss, beyond which nothing is left of a delta


class Moves(NamedTuple):
    """How far one unit moves totals of one law, at the most.

    Attributes:
        totals: how many of them.
        numbers: how many numbers of the unit change, each of which moves one or several.
        step: how far one of them does, all of its totals together.
        squares: the sum of squares: the L2 sensitivity, squared.
    """

    totals: int
    numbers: int
    step: int
    squares: int

    @property
    def all(self) -> int:
        """How far all totals together move: their L1 sensitivity."""
        return self.numbers * self.step

    def times(self, rows: int) -> "Moves":
        """What so many rows do, at the most: all of them move the same totals, where most shows."""
        return Moves(rows * self.totals, self.numbers, rows * self.step, rows**2 * self.squares)


def moved(levels: Sequence[Level], part: Portion, neighbours: Neighbours) -> Moves:
    """How far one unit moves the totals of a part.

    Args:
        levels: of the part.
        part: what is added to them.
        neighbours: what is to look alike.

    >>> moved([Level(2, 9)], Portion(high=3), "add or remove")
    Moves(totals=2, numbers=2, step=3, squares=18)
    """
    slots, counters = levels[0].slots, sum(level.counters for level in levels)
    up, down = part.high, -part.low
    most, shared = max(up, down), len(levels) * slots
    if neighbours == "add or remove":
        return Moves(shared, slots, most, slots * most**2)
    if not down:
        times = changes(slots, counters, neighbours)
        return Moves(2 * shared, times, up, times * up**2)
    # A total goes from one end to the other, or one falls to 0 where another rises from it.
    if slots == counters:
        return Moves(slots, slots, up + down, slots * (up + down) ** 2)
    # The first shows more, though both move as far: one total by twice as much.
    return Moves(2 * shared, slots, 2 * most, slots * max((up + down) ** 2, 2 * most**2))


class Charges(NamedTuple):
    """Shares of a price: of the statistic's laws, and of those beside them.

    Attributes:
        share: of all those beside.
        beside: how many there are.
    """

    share: float
    beside: int

    def __call__(self, worth: Sequence[float]) -> list[float]:
        """Of each law by its worth."""
        first = len(worth) - self.beside
        kept = 1 - self.share * bool(self.beside)
        sums = [sum(worth[:first]) / kept] * first + [sum(worth[first:]) / self.share] * self.beside
        return [own / all_ for own, all_ in zip(worth, sums, strict=True)]


def geometric(
    worth: Sequence[float],
    moves: Sequence[Moves],
    shares: Charges,
    epsilon: float,
    delta: float,
) -> tuple[Law, ...]:
    """The least weighted sum of variances at this price, of losses that add up to epsilon."""
    price = shares([(w * m.all) ** (2 / 3) for w, m in zip(worth, moves, strict=True)])
    spent = [int(epsilon * part * _PARTS) for part in price]
    if not min(spent) >= 1:
        raise ValueError(f"epsilon {epsilon:g} is too small for noise on integers: have more")
    return tuple(
        ExactGeometric.falling(Fraction(part, _PARTS) / m.all)
        for part, m in zip(spent, moves, strict=True)
    )


def gaussian(
    worth: Sequence[float],
    moves: Sequence[Moves],
    shares: Charges,
    epsilon: float,
    delta: float,
) -> tuple[Law, ...]:
    """The same of squared moves that add up to mu^2."""
    price, slack = shares([w * m.squares**0.5 for w, m in zip(worth, moves, strict=True)]), 0.0
    while slack < epsilon / 2:  # what a draw is off by goes with the noise
        mu = gaussian_mu(epsilon - slack, delta * math.exp(-slack)) * (1 - 1e-9)
        laws = tuple(
            RoundedGaussian(math.sqrt(m.squares / part) / mu)
            for part, m in zip(price, moves, strict=True)
        )
        if shown(laws, moves, epsilon) <= delta:
            return laws
        slack = 1.01 * _slack(laws, moves) + 1e-12
    raise ValueError(f"epsilon {epsilon:g} is too small for so many totals: have more")


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


def shown(laws: Sequence[Law], moves: Sequence[Moves], epsilon: float) -> float:
    """Of Gaussian noise, as it is drawn, at an epsilon."""
    slack, mu = _slack(laws, moves), _spread(laws, moves)
    if not mu:
        return 0.0
    return math.exp(slack) * gaussian_delta(mu, epsilon - slack) * (1 + 1e-9)


def curve(laws: Sequence[Law], moves: Sequence[Moves]) -> PrivacyLoss:
    """What inputs that are so far apart show.

    Noise that falls evenly shows most where all that moves is one total: the best tests of every
    step are thresholds, and these compose.

    Args:
        laws: of one kind, or of both.
        moves: for each law.
    """
    losses, least = Counter[PrivacyLoss](), 0.0
    for law, m in zip(laws, moves, strict=True):
        if isinstance(law, ExactGeometric):
            losses[_falling(law, m.step)] += m.numbers
            least += float(law.decay * m.all)
    if not (spread := _spread(laws, moves)):
        return compose(losses)
    ends = np.linspace(0, least + spread**2 / 2 + _FAR * spread, _POINTS).tolist()
    deltas = [min(shown(laws, moves, epsilon - least), 1.0) for epsilon in ends]
    return PrivacyLoss.from_profile(ends, np.minimum.accumulate(deltas))


def divergence(laws: Sequence[Law], moves: Sequence[Moves]) -> float:
    """About what a unit loses on average, by which the price of many releases goes."""
    total = _spread(laws, moves) ** 2 / 2
    for law, m in zip(laws, moves, strict=True):
        if isinstance(law, ExactGeometric):
            most = float(law.decay * m.step)
            # Of a step of 1 one of two losses shows; of many steps all between them do.
            lost = most * math.tanh(most / 2) if m.step == 1 else most + math.expm1(-most)
            total += m.numbers * lost
    return total


def _falling(noise: ExactGeometric, move: int) -> PrivacyLoss:
    """Of one total that moves by so much."""
    most, slope = float(noise.decay * move), float(noise.decay)

    def delta(epsilon: float) -> float:
        last = math.ceil((move - epsilon / slope) / 2 + 1e-9) - 1
        shown = noise.below(last) - math.exp(epsilon) * noise.below(last - move)
        return max(shown, 0.0) + 1e-15

    inner = np.linspace(0, most, _POINTS, endpoint=False).tolist()
    return PrivacyLoss.from_profile([*inner, most], [*map(delta, inner), 0.0])
