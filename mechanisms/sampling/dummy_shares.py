"""One user's share of dummies in many bins: laws that are sums of many users' shares.

A negative binomial number is a Poisson number of logarithmic clusters, so a user's share of it is
such a number, too, with its part of the mean (Quenouille 1949). Most users' share of most bins is
nothing.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from mechanisms.sampling import integer_tables

Keys = NDArray[np.int64]  # user * codes + code

_UP = 1 + 8 * 2.0**-53  # more dummies than were asked for are only more private


@dataclass(frozen=True)
class DummyShare(ABC):
    """What one user adds to bins that are alike.

    Attributes:
        bins: how many there are.
    """

    bins: int

    signs: ClassVar[int]
    """Codes of a bin: one, or one that adds and one that takes away."""

    @property
    def codes(self) -> int:
        """Those that add, and after them those that take away."""
        return self.signs * self.bins

    @property
    @abstractmethod
    def distance(self) -> float:
        """How far a user's messages are in total variation from those that are meant."""

    @property
    @abstractmethod
    def most(self) -> float:
        """The largest mean of a Poisson number that a user draws."""

    @property
    @abstractmethod
    def lift(self) -> int:
        """How far a user who follows the protocol ever moves one bin."""

    @abstractmethod
    def draw(self, users: int, rng: RandomSource) -> Keys:
        """The messages of so many users, in any order."""


@dataclass(frozen=True)
class PoissonShare(DummyShare):
    """A part of a Poisson number in each bin.

    Attributes:
        mean: dummies in each bin, of all users together.
        users: of whom there are so many; fewer than 1 for what several add together.
    """

    mean: float
    users: float
    signs = 1
    distance: ClassVar[float] = integer_tables.FARTHEST

    @property
    def most(self) -> float:
        return self.mean * self.bins * _UP / self.users

    @property
    def lift(self) -> int:
        return integer_tables.poisson(self.most).largest

    def draw(self, users: int, rng: RandomSource) -> Keys:
        numbers = integer_tables.poisson(self.most).draw(users, rng)
        return uniform_keys(numbers, self.bins, rng)


@dataclass(frozen=True)
class MaskedShare(DummyShare):
    """A part of masked discrete Laplace noise in each bin.

    Attributes:
        decay, shape, ratio: of all users' noise together, as in `MaskedLaplace`.
        users: as of `PoissonShare`.
    """

    decay: float
    shape: float
    ratio: float
    users: float
    signs = 2

    @property
    def clusters(self) -> tuple[float, float]:
        """How many clusters of noise, and of the mask, a user sends on average; rounded up."""
        signed = 2 * self.bins * -math.log1p(-self.decay)
        paired = self.bins * self.shape * -math.log1p(-self.ratio)
        return signed * _UP / self.users, paired * _UP / self.users

    @property
    def distance(self) -> float:
        return (2 + sum(self.clusters)) * integer_tables.FARTHEST * 1.01

    @property
    def most(self) -> float:
        return max(self.clusters)

    @property
    def lift(self) -> int:
        # As many of the longest clusters as their tables know, all of them on one code; a mask
        # takes away as often as it adds.
        clusters = integer_tables.poisson(self.clusters[0]).largest
        return clusters * integer_tables.logarithmic(self.decay).largest

    def draw(self, users: int, rng: RandomSource) -> Keys:
        signed, paired = (integer_tables.poisson(mean).draw(users, rng) for mean in self.clusters)
        alone = _clusters(uniform_keys(signed, self.codes, rng), self.decay, rng)
        places = uniform_keys(paired, self.bins, rng)
        places += places // self.bins * self.bins  # a user has twice as many codes as bins
        pairs = _clusters(places, self.ratio, rng)
        return np.concatenate([alone, pairs, pairs + self.bins])


def uniform_keys(numbers: NDArray[np.int64], codes: int, rng: RandomSource) -> Keys:
    """So many messages from each user, uniform over the codes."""
    users = np.repeat(np.arange(numbers.size) * codes, numbers)
    return users + rng.integers(codes, users.size).view(np.int64)


def _clusters(places: Keys, ratio: float, rng: RandomSource) -> Keys:
    """Every place as often as a logarithmic number tells."""
    return np.repeat(places, integer_tables.logarithmic(ratio).draw(places.size, rng))
