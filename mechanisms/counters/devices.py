"""Counters whose dummies the devices send: laws that are sums of many users' shares.

Poisson dummies serve many counters. For few of them masked Laplace noise has less error: two codes
a counter, one of which adds and one of which takes away (`masked_laplace`). A device sends as many
messages as it has, so that there are no nulls.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mechanisms.channel import Counts, Floats, Neighbours, require_epsilon
from mechanisms.counters.levels import Layout, Level
from mechanisms.counters.price import Charge, Price, changes, require_neighbours
from mechanisms.counters.solve import SHARE
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.dummy_laws import LARGEST_MEAN, poisson
from mechanisms.privacy.masked_design import LARGEST_SHARE, ROUGH, fewest_messages
from mechanisms.privacy.masked_laplace import MaskedLaplace
from mechanisms.privacy.search import gaussian_mu, private_end
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.dummy_shares import DummyShare, MaskedShare, PoissonShare

_CLOSE = 1e-5  # relative, of a scale
# Changes up to which masked noise is tried unasked. A sum of ten digits would err by 3.1 ranges in
# place of 4.8 with it; but one liar, whose clusters are long, moves that sum by 2,900 ranges, and
# by 9 with Poisson dummies.
_FEW = 8
# Of a lattice: with laws of many levels each further bit is twice the time, for 10^-5 of delta.
_CELLS = 1 << 14
_LEAST = 0.005  # epsilon below which masks take millions of counts


Law = Literal["poisson", "masked"]

LAWS: tuple[Law, ...] = ("poisson", "masked")


class DeviceNoise(ABC):
    """What devices that follow the protocol add to all counters together."""

    @property
    @abstractmethod
    def messages(self) -> tuple[float, ...]:
        """On average, on each counter of each level."""

    @property
    @abstractmethod
    def variances(self) -> tuple[float, ...]:
        """Of each level's estimated counts."""

    @property
    @abstractmethod
    def expected(self) -> tuple[float, ...]:
        """By how much each level's counts are too large on average."""

    @abstractmethod
    def laws(self) -> list[BinLaw]:
        """What is seen of a counter of each level."""

    @abstractmethod
    def added(self, share: float) -> list[tuple[int, Floats]]:
        """The laws of what is added to a counter of each level, and what is taken away left out.

        Args:
            share: by how many more devices send than make up this noise.

        Returns:
            Of each level the least integer, and the probabilities from there on.
        """

    @abstractmethod
    def simulated(self, levels: Sequence[Level], share: float, rng: SeededRandom) -> Counts:
        """(codes,) dummies of all codes, as in `added`, by sums."""

    @abstractmethod
    def shares(self, levels: Sequence[Level], devices: float) -> list[DummyShare]:
        """What one of so many devices adds to each level, which together add this noise.

        Args:
            levels: the footprint.
            devices: any positive number: half a device adds what two do.
        """

    def price(
        self, levels: Sequence[Level], neighbours: Neighbours, distances: Sequence[float] = ()
    ) -> Price:
        """What all counters reveal together.

        Args:
            levels: the footprint.
            neighbours: what is to look alike.
            distances: how far, in total variation, each level's dummies are from these laws.
        """
        laws = self.laws()
        if distances:
            pairs = zip(laws, distances, strict=True)
            laws = [replace(law, distance=distance) for law, distance in pairs]
        rows = zip(laws, levels, strict=True)
        charges = [Charge(law, level.slots, level.counters) for law, level in rows]
        return Price(charges, neighbours, _CELLS)

    def number(self, levels: Sequence[Level]) -> float:
        """How many dummies there are on average."""
        return sum(m * level.counters for m, level in zip(self.messages, levels, strict=True))

    def variance(self, weights: Sequence[float]) -> float:
        """Of a weighted sum of one counter of each level."""
        return sum(w * w * v for w, v in zip(weights, self.variances, strict=True))


@dataclass(frozen=True)
class PoissonCounters(DeviceNoise):
    """A Poisson number of dummies on each counter.

    Attributes:
        means: of each level.
    """

    means: tuple[float, ...]

    @property
    def messages(self) -> tuple[float, ...]:
        return self.means

    @property
    def variances(self) -> tuple[float, ...]:
        return self.means

    @property
    def expected(self) -> tuple[float, ...]:
        return self.means

    def laws(self) -> list[BinLaw]:
        return [poisson(mean).bin_law for mean in self.means]

    def added(self, share: float) -> list[tuple[int, Floats]]:
        laws = [poisson(mean * share) for mean in self.means]
        return [(law.first, law.pmf) for law in laws]

    def simulated(self, levels: Sequence[Level], share: float, rng: SeededRandom) -> Counts:
        means = np.repeat(self.means, [level.counters for level in levels])
        return rng.generator().poisson(means * share).astype(np.int64)

    def shares(self, levels: Sequence[Level], devices: float) -> list[DummyShare]:
        rows = zip(levels, self.means, strict=True)
        return [PoissonShare(level.counters, mean, devices) for level, mean in rows]


@dataclass(frozen=True)
class MaskedCounters(DeviceNoise):
    """Discrete Laplace noise behind a mask, on each counter.

    Attributes:
        noises: of each level.
    """

    noises: tuple[MaskedLaplace, ...]

    @property
    def messages(self) -> tuple[float, ...]:
        return tuple(noise.messages for noise in self.noises)

    @property
    def variances(self) -> tuple[float, ...]:
        return tuple(noise.variance for noise in self.noises)

    @property
    def expected(self) -> tuple[float, ...]:
        return (0.0,) * len(self.noises)

    def laws(self) -> list[BinLaw]:
        return [law for noise in self.noises if (law := noise.bin_law()) is not None]

    def added(self, share: float) -> list[tuple[int, Floats]]:
        return [noise.difference(share) for noise in self.noises]

    def simulated(self, levels: Sequence[Level], share: float, rng: SeededRandom) -> Counts:
        source, counters = rng.generator(), [level.counters for level in levels]
        fields = [(noise.decay, noise.shape, noise.ratio) for noise in self.noises]
        decay, shape, ratio = np.repeat(fields, counters, axis=0).T
        a, b = source.negative_binomial(share, 1 - decay, (2, decay.size))
        mask = source.negative_binomial(share * shape, 1 - ratio)
        return np.concatenate([a + mask, b + mask]).astype(np.int64)

    def shares(self, levels: Sequence[Level], devices: float) -> list[DummyShare]:
        return [
            MaskedShare(level.counters, noise.decay, noise.shape, noise.ratio, devices)
            for level, noise in zip(levels, self.noises, strict=True)
        ]


def least_device_noise(
    levels: Sequence[Level],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    most_dummies: float = math.inf,
    laws: Collection[Law] = LAWS,
    beside: Sequence[Level] = (),
    share: float = SHARE,
) -> DeviceNoise:
    """The devices' noise with the least variance of a weighted sum of one counter of each level.

    Args:
        levels: the footprint.
        neighbours: what is to look alike.
        epsilon: of all counters together, in nats.
        delta: in (0, 1); what drawing shares from tables adds is for the caller to set aside.
        most_dummies: how many there may be on average, of all devices together.
        laws: that are tried; of both, masked noise for few changes alone.
        beside: levels that come after these and are no part of that sum, say what was cut.
        share: of what may be revealed, for the noise of `beside`: of the squared standard
            deviations that losses have with Poisson noise, of epsilon with masked noise.

    Raises:
        ValueError: an argument is out of range, or no noise meets the target.

    >>> noise = least_device_noise([Level(10, 915)], "replace", epsilon=1.0, delta=1e-6)
    >>> round(noise.messages[0], 1)
    358.1
    """
    require_epsilon(epsilon)
    require_delta(delta)
    require_neighbours(neighbours)
    if not 0 < share < 1:
        raise ValueError(f"share must lie in (0, 1), not {share}")
    shape = Layout((*levels, *beside)).levels
    times = [changes(level.slots, level.counters, neighbours) for level in shape]
    candidates: list[DeviceNoise] = []
    if "poisson" in laws:
        candidates.append(
            _poisson(_apart(shape, times, len(levels), share, 0.5, 1.0), neighbours, epsilon, delta)
        )
    able = sum(times) <= _FEW and epsilon / sum(times) >= 2 * _LEAST
    if "masked" in laws and (able or not candidates):
        candidates.append(
            _masked(
                _apart(shape, times, len(levels), share, 1.0, 2 / 3), neighbours, epsilon, delta
            )
        )
    weights = [*(level.weight for level in levels), *[0.0] * len(beside)]
    numbers = [noise.number(shape) for noise in candidates]
    if not min(numbers) <= most_dummies:
        raise ValueError(
            f"these counters need {min(numbers):,.0f} dummies and may have {most_dummies:,.0f}; "
            "allow more messages, or have more devices or fewer counters"
        )
    candidates = [noise for noise, n in zip(candidates, numbers, strict=True) if n <= most_dummies]
    return min(candidates, key=lambda noise: noise.variance(weights))


def _apart(
    levels: tuple[Level, ...],
    times: Sequence[int],
    statistic: int,
    share: float,
    root: float,
    power: float,
) -> tuple[Level, ...]:
    """Levels, with such weights beside the statistic that what stands there costs its share.

    Args:
        levels: of the statistic, and those beside it.
        times: how many counters of each may change.
        statistic: how many levels it has.
        share: in (0, 1).
        root, power: a level costs (times^root weight)^power.
    """
    costs = [(t**root * level.weight) ** power for t, level in zip(times, levels, strict=True)]
    whole, beside = sum(costs[:statistic]), sum(costs[statistic:])
    if not beside:
        return levels
    scale = (share / (1 - share) * whole / beside) ** (1 / power)
    more = [level._replace(weight=scale * level.weight) for level in levels[statistic:]]
    return (*levels[:statistic], *more)


def _poisson(
    levels: tuple[Level, ...], neighbours: Neighbours, epsilon: float, delta: float
) -> DeviceNoise:
    """Means in proportion to sqrt(changes) / weight, as for Gaussian noise."""
    times = [changes(level.slots, level.counters, neighbours) for level in levels]
    shape = [math.sqrt(t) / level.weight for t, level in zip(times, levels, strict=True)]
    least = sum(t / v for t, v in zip(times, shape, strict=True)) / gaussian_mu(epsilon, delta) ** 2

    def scaled(scale: float) -> DeviceNoise:
        if not scale * max(shape) <= LARGEST_MEAN:
            raise ValueError(
                f"epsilon {epsilon} at delta {delta} needs more than {LARGEST_MEAN:g} dummies a "
                "counter; let a user raise fewer counters, or choose a larger epsilon"
            )
        return PoissonCounters(tuple(scale * v for v in shape))

    def delta_at(scale: float) -> float:
        return scaled(scale).price(levels, neighbours).upper(epsilon)

    high = least
    while not delta_at(high) <= delta:
        high *= 1.5
    return scaled(private_end(delta_at, delta, high, 0.0, min(least, high * 0.99), _CLOSE)[0])


def _masked(
    levels: tuple[Level, ...], neighbours: Neighbours, epsilon: float, delta: float
) -> DeviceNoise:
    """Epsilons in proportion to weight^(2/3), each with a mask that takes a twentieth of it."""
    times = [changes(level.slots, level.counters, neighbours) for level in levels]
    shape = [(level.weight**2 / t) ** (1 / 3) for t, level in zip(times, levels, strict=True)]
    unit = epsilon / sum(t * s for t, s in zip(times, shape, strict=True))

    # A mechanism for a replaced value, two changes, spends half on each of them.
    spent = [max(2 * unit * s, _LEAST) for s in shape]
    alone = [fewest_messages(e, delta / sum(times), LARGEST_SHARE, ROUGH) for e in spent]

    def scaled(scale: float) -> MaskedCounters:
        # Masks stay, for to solve for one takes a second; what all of them leave goes to the noise.
        return MaskedCounters(tuple(replace(one, decay=one.decay**scale) for one in alone))

    def delta_at(scale: float) -> float:
        return scaled(scale).price(levels, neighbours).upper(epsilon)

    low = 0.9
    while not delta_at(low) <= delta:
        low /= 2
        if not low > 0.01:
            raise ValueError(f"no mask meets epsilon {epsilon} at delta {delta} here")
    return scaled(private_end(delta_at, delta, low, 1.5, 1.0, 1e-3)[0])
