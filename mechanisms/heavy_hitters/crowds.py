"""Undeclared strings by the crowds that hold them: a noisy count is published above a threshold.

Every string there could be has a counter, whose noise is Z on -mu .. mu. What a string's counter
says, N + Z for a crowd of N users, is published if it is above mu: which noise alone never is, so
no string that nobody holds is published, and none of them has to be known or counted. All of that
is a reading of noisy counters of which a user raises k, and it costs what they cost, to the last
digit: large crowds are read whole.

Source: the promise is that of Bittau et al., "Prochlo: strong privacy for analytics in the crowd",
    SOSP 2017 (there a rounded normal number of reports is dropped before a threshold); for one
    string a user the mechanism is the truncated geometric thresholding of Desfontaines, Voss,
    Gipson, Mandayam, "Differentially private partition selection", PoPETs 2022 (arXiv 2006.03684),
    which publishes a string with the largest probability that there may be. For several strings the
    noise is that of the least threshold, under exact composition.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import AsFields, Floats, Neighbours, require_epsilon, require_integer
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Independent
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import LARGEST_MU, Gaussian, Laplace, ShufflerNoise
from mechanisms.counters.price import Charge, Price, changes, require_neighbours
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss_sums import CELLS, COARSE
from mechanisms.privacy.search import gaussian_mu
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource

MOST = 1 << 16  # strings of a user

# A slope at which noise is 0 but once in 80,000 draws. Steeper is no better, and between so large a
# loss and so small a spread a lattice has more points than fit into memory.
_STEEPEST = 12.0
_FAINT = 1e-4  # of delta, for the ends of a law that is asked what the rest of it costs
_STEPS, _ROUNDS = 9, 3  # of a search: each round narrows the scale by four
_SPREAD = 1.35  # either way from the scale of Gaussian noise that has no ends
# Of epsilon: what the lattice of composed losses rounds up, see `counters.solve`.
_SLACKS = (1e-12, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


class PublishedCrowds(NamedTuple):
    """What is told of some crowds.

    Attributes:
        kept: (m,) whose strings are published.
        values: (m,) noisy numbers of users; of the others they are nobody's business.
    """

    kept: NDArray[np.bool_]
    values: NDArray[np.int64]


@dataclass(frozen=True)
class Crowds(AsFields):
    """Which strings are published, and with what number.

    Attributes:
        design: counters of one level, of which a user raises as many as it may hold strings.

    >>> crowds = Crowds.meeting(1, "add or remove", epsilon=1.0, delta=1e-7)
    >>> crowds.threshold, crowds.detection_limit
    (16, 18)
    >>> crowds.chances([0, 1, 17]).round(8).tolist()
    [0.0, 5e-08, 0.73105859]
    """

    design: Counters

    def __post_init__(self) -> None:
        if len(self.design.levels) != 1:
            raise ValueError("all strings must have counters of one law")

    @classmethod
    def meeting(
        cls, strings: int, neighbours: Neighbours, epsilon: float, delta: float
    ) -> "Crowds":
        """The crowds with the least detection limit that meet a target.

        Args:
            strings: k, how many strings of a user count, at the most.
            neighbours: which inputs look alike.
            epsilon: of all that is published, in nats.
            delta: in (0, 1).

        Raises:
            ValueError: an argument is out of range, or the target out of reach.
        """
        require_integer("strings", strings)
        if not 1 <= strings <= MOST:
            raise ValueError(f"a user may hold 1 .. {MOST:,} strings, not {strings:,}")
        require_epsilon(epsilon)
        require_delta(delta)
        require_neighbours(neighbours)
        law = _least_threshold(strings, neighbours, epsilon, delta)
        # How many counters there are does not enter into the price.
        levels = (Level(strings, 2 * strings),)
        return cls(Counters(levels, Independent((law,)), neighbours, epsilon, delta))

    @property
    def strings(self) -> int:
        """k, how many of a user count."""
        return self.design.levels[0].slots

    @property
    def law(self) -> ShufflerNoise:
        """Of the noise of one crowd."""
        return self.design.dummies.parts[0].law

    @property
    def threshold(self) -> int:
        """The largest value that is not published: as far as noise alone goes."""
        return self.law.mu

    # ---- what is published -------------------------------------------------------------------

    def publish(self, crowds: ArrayLike, rng: RandomSource) -> PublishedCrowds:
        """Noisy numbers of some crowds: to be drawn once.

        Args:
            crowds: (m,) how many users hold each of some strings, at least 1.
            rng: the generator of whoever draws the noise.
        """
        sizes = np.asarray(crowds, np.int64)
        values = sizes + self.law.draw(sizes.size, rng) - self.law.mean
        return PublishedCrowds(values > self.threshold, values)

    def chances(self, crowds: ArrayLike) -> Floats:
        """The probability that a string is published.

        Args:
            crowds: how many users hold it.
        """
        return self._reached(self.threshold + 1 - np.asarray(crowds, np.int64))

    @cached_property
    def detection_limit(self) -> int:
        """How many users must hold a string so that it is published with 1 - MISSED."""
        sizes = np.arange(1, 2 * self.threshold + 2)
        return int(sizes[np.argmax(self.chances(sizes) >= 1 - MISSED)])

    def too_large(self, crowd: int) -> float:
        """By how much the value of a crowd is too large on average, given that it is published."""
        noise = np.arange(-self.law.mu, self.law.mu + 1)
        seen = noise > self.threshold - crowd
        return float(noise[seen] @ self.law.pmf[seen] / self.law.pmf[seen].sum())

    def limits(
        self, values: ArrayLike, confidence: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The crowds that a published value is likely of, given that it is published.

        Of every crowd, among the values with which it may be published, each of the two tails that
        are left out holds at most half of what confidence leaves.

        Args:
            values: (m,) above the threshold.
            confidence: in (0, 1), of each interval.

        Returns:
            (m,) the least and (m,) the largest number of users.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must lie in (0, 1), not {confidence}")
        given, tail, mu = np.asarray(values, np.int64), (1 - confidence) / 2, self.law.mu
        least = np.maximum(given - mu, 1)

        def above(crowds: NDArray[np.int64]) -> NDArray[np.bool_]:
            """Whether so large a value is not too rare for a crowd."""
            return self._reached(given - crowds) > tail * self.chances(crowds)

        def below(crowds: NDArray[np.int64]) -> NDArray[np.bool_]:
            """Whether so small a value is too rare for a crowd."""
            shown = self.chances(crowds)
            return shown - self._reached(given - crowds + 1) <= tail * shown

        # Laws are log-concave, also beyond a threshold: either tail goes one way with the crowd.
        return _first(above, least, given + mu), _first(below, least, given + mu + 1) - 1

    def _reached(self, noise: NDArray[np.int64]) -> Floats:
        """P(Z at least as large) of each."""
        return np.asarray(self._tails[np.clip(noise + self.law.mu, 0, 2 * self.law.mu + 1)])

    @cached_property
    def _tails(self) -> Floats:
        """(2 mu + 2,) P(Z >= z) of -mu .. mu + 1, small ones to the last digit."""
        return np.append(self.law.pmf[::-1].cumsum()[::-1], 0.0)


def _first(
    holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> NDArray[np.int64]:
    """(m,) the first numbers from low .. high - 1 on for which something holds; high if for none.

    Args:
        holds: (m,) numbers -> (m,) whether it does; once it holds it goes on to.
        low, high: (m,)
    """
    low, high = low.copy(), high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        met = holds(middle)
        high = np.where((low < high) & met, middle, high)
        low = np.where((low < high) & ~met, middle + 1, low)
    return low


# ---- the least threshold ---------------------------------------------------------------------


@lru_cache(maxsize=64)  # it is asked for again wherever a plan is looked at
def _least_threshold(
    strings: int, neighbours: Neighbours, epsilon: float, delta: float
) -> ShufflerNoise:
    """The noise by which a string is found soonest."""
    target = _CrowdTarget(strings, neighbours, epsilon, delta)
    target = target._replace(epsilon=min(epsilon, _STEEPEST * target.times))
    candidates = sorted((*target.laplace(), *target.gaussian()), key=target.rough_limit)
    for likely in candidates:
        certified = target.certified(likely)
        if certified is not None:
            return certified
    raise ValueError(
        f"epsilon {epsilon} at delta {delta} needs a threshold above {LARGEST_MU:,} users, or a "
        "smaller loss than can be told from none; let a user count for fewer strings, or choose a "
        "larger epsilon or delta (1e-12 is small for any number of people)"
    )


class _CrowdTarget(NamedTuple):
    """What is to be met, and noise that all but meets it."""

    strings: int
    neighbours: Neighbours
    epsilon: float
    delta: float

    @property
    def times(self) -> int:
        """How many counters may change."""
        return changes(self.strings, 2 * self.strings, self.neighbours)

    def laplace(self) -> Iterator[ShufflerNoise]:
        """Slopes that add up to epsilon, and steeper ones."""
        least = self.epsilon / self.times
        for slack in _SLACKS:
            yield from self._shortened(_laplace, least * (1 - slack))
        if self.times > 1:
            yield from self._searched(_laplace, least, max(least, min(least * 8, _STEEPEST)))

    def gaussian(self) -> Iterator[ShufflerNoise]:
        """Standard deviations about that of noise without ends."""
        sigma = math.sqrt(self.times) / gaussian_mu(self.epsilon, self.delta)
        yield from self._searched(Gaussian.ending, sigma / _SPREAD, sigma * _SPREAD)

    def certified(self, likely: ShufflerNoise) -> ShufflerNoise | None:
        """The noise with somewhat longer ends, if need be, whose tables meet the target."""
        for tries in range(4):
            mu = likely.mu + tries + tries * likely.mu // 1000
            if not mu <= LARGEST_MU:
                return None
            law = replace(likely, mu=mu)
            if self._delta(law.seen(), CELLS) <= self.delta:
                return law
        return None

    @staticmethod
    def rough_limit(law: ShufflerNoise) -> float:
        """From how many users on a string is found, and not a whole number, so that it can fall."""
        return law.mu + 1.3 * math.sqrt(law.rough_variance)

    def _searched(
        self, family: Callable[[float, float], ShufflerNoise], low: float, high: float
    ) -> list[ShufflerNoise]:
        """Noise of a family, the scale of it between two ends; a few of all that were tried."""
        tried: list[tuple[float, ShufflerNoise]] = []
        for _ in range(_ROUNDS):
            scales = np.geomspace(low, high, _STEPS).tolist()
            tried += [(s, law) for s in scales for law in self._shortened(family, s)]
            if not tried:
                return []
            best = min(tried, key=lambda one: self.rough_limit(one[1]))[0]
            step = (high / low) ** (1 / (_STEPS - 1))
            low, high = best / step, best * step
        tried.sort(key=lambda one: self.rough_limit(one[1]))
        return [law for _, law in tried[:4]]

    def _shortened(
        self, family: Callable[[float, float], ShufflerNoise], scale: float
    ) -> Iterator[ShufflerNoise]:
        """The noise of a scale whose ends take what the rest of it leaves of delta, if it does."""
        try:
            long = family(scale, _FAINT * self.delta / self.times)
        except ValueError:  # it is longer than any may be
            return
        left = self.delta - self._delta(long.nearly(), COARSE)
        if not left > 0:
            return
        yield long.shortened(left / self.times)

    def _delta(self, seen: BinLaw, cells: int) -> float:
        """An upper end of what a law costs."""
        charge = Charge(seen, self.strings, 2 * self.strings)
        return Price([charge], self.neighbours, cells).upper(self.epsilon)


def _laplace(slope: float, ends: float) -> ShufflerNoise:
    """As `Laplace.ending`, which takes long to make noise that is longer than any may be."""
    if not -math.log(ends) / slope < LARGEST_MU:
        raise ValueError("the noise is too long")
    return Laplace.ending(slope, ends)
