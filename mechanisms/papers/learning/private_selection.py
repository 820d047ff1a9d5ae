"""Which parts of what it has learnt a participant uploads, and with how much noise."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Floats, Guarantee, require_epsilon, require_integer
from mechanisms.papers.learning.exchange import portion
from mechanisms.papers.learning.selection import Chosen, Selection, require_threshold
from mechanisms.papers.sparse_vector import (
    BALANCED,
    EpsilonSplit,
    SparseVector,
    accounted,
    shifted_loss,
)
from mechanisms.privacy.composition import sequential
from mechanisms.randomness import RandomSource


@dataclass(frozen=True)
class PrivateSelection(Selection):
    """Changes that the sparse vector technique finds to be above a threshold, with noise.

    One record may change everything that its participant learns, so every clipped change may go
    from -bound to bound. Clipped changes are rounded at random to a grid, unbiased, before
    anything is compared, and noisy ones are clipped again, which costs nothing.

    Attributes:
        epsilon: privacy loss of one upload by one participant, in nats: epsilon / c for each of
            the c = theta_u p parameters, which is the number that the paper reports. A run of T
            epochs costs T times as much, or what `SparseVector.after` says.
        threshold: tau, at least 0.
        levels: of the grid, steps from 0 to the bound.
        split: of epsilon, between threshold, sizes and values.

    Source: Shokri, Shmatikov 2015, section 6.2; see `SparseVector` for what was corrected.

    >>> rule = PrivateSelection(0.1, bound=0.01, epsilon=10.0, threshold=0.001)
    >>> rule.sparse_vector(1000).uploads, rule.guarantee(1000).epsilon
    (100, 10.0)
    """

    epsilon: float = math.nan
    threshold: float = 0.0
    levels: int = 8
    split: EpsilonSplit = BALANCED

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_noise(self.epsilon, self.levels, self.bound)
        require_threshold(self.threshold, self.bound)

    def sparse_vector(self, dimension: int) -> SparseVector:
        """The mechanism for so many parameters."""
        uploads = portion(self.share, dimension)
        return _technique(self.epsilon, uploads, dimension, self.levels, self.split)

    def guarantee(self, dimension: int) -> Guarantee:
        return self.sparse_vector(dimension).guarantee

    def after(self, dimension: int, epochs: int, delta: float) -> tuple[Guarantee, Guarantee]:
        return self.sparse_vector(dimension).after(epochs, delta)

    def choose(self, change: Floats, rng: RandomSource) -> Chosen:
        mechanism, step = self.sparse_vector(change.size), self.bound / self.levels
        tau = round(self.threshold / step)
        steps = to_grid(change, self.bound, self.levels, rng)
        places, values = mechanism.release(steps, tau, rng)
        return Chosen(places, self._clipped(step * values.astype(np.float64)))


@dataclass(frozen=True)
class RandomPlaces(Selection):
    """Changes at places drawn without looking, so that all of epsilon pays for their noise.

    What the sparse vector technique spends on the choice is saved, and each value has a fraction
    of its noise; a choice made under noise larger than the changes is hardly better than this one.

    Attributes:
        epsilon: privacy loss of one upload by one participant, in nats.
        levels: of the grid, steps from 0 to the bound.

    >>> RandomPlaces(0.1, bound=0.01, epsilon=10.0).guarantee(1000).epsilon
    10.0
    """

    epsilon: float = math.nan
    levels: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_noise(self.epsilon, self.levels, self.bound)

    def _noise(self, dimension: int) -> DiscreteLaplace:
        return _laplace(self.epsilon / portion(self.share, dimension), 2 * self.levels)

    def guarantee(self, dimension: int) -> Guarantee:
        uploads, one = portion(self.share, dimension), self._noise(dimension).guarantee
        how = f"basic composition of {uploads} values at places that depend on no record"
        return replace(one, epsilon=self.epsilon, delta=min(1.0, uploads * one.delta), how=how)

    def after(self, dimension: int, epochs: int, delta: float) -> tuple[Guarantee, Guarantee]:
        total = sequential([self.guarantee(dimension)] * epochs)
        rounds, noise = epochs * portion(self.share, dimension), self._noise(dimension)
        return total, accounted(noise.guarantee, [shifted_loss(noise)], rounds, delta)

    def choose(self, change: Floats, rng: RandomSource) -> Chosen:
        # Drawn before the changes are looked at, so the places cost no privacy.
        places = rng.choice(change.size, portion(self.share, change.size)).astype(np.intp)
        steps = to_grid(change[places], self.bound, self.levels, rng)
        noisy = self._noise(change.size).perturb(steps, rng)
        return Chosen(places, self._clipped(self.bound / self.levels * noisy.astype(np.float64)))


def to_grid(change: Floats, bound: float, levels: int, rng: RandomSource) -> Counts:
    """Changes, clipped, in steps of bound / levels, rounded at random so as to be unbiased.

    Args:
        change: (m,) finite numbers.
        bound: gamma, positive and finite.
        levels: how many steps it is.
        rng: the generator of this process.

    Returns:
        (m,) int64 in -levels .. levels.
    """
    steps = np.clip(change, -bound, bound) / bound * levels
    below = np.floor(steps)
    # Rounding by a coin is for the mean's sake; privacy does not rest on its law.
    uniform = (rng.words(steps.size) >> np.uint64(11)) * 2.0**-53
    return np.asarray(below + (uniform < steps - below), np.int64)


# Noise tables take longer to make than to use.
_laplace = lru_cache(maxsize=8)(DiscreteLaplace)


@lru_cache(maxsize=8)
def _technique(
    epsilon: float, uploads: int, dimension: int, levels: int, split: EpsilonSplit
) -> SparseVector:
    """The sparse vector technique, kept with its tables."""
    return SparseVector(epsilon, uploads, dimension, levels, split)


def _require_noise(epsilon: float, levels: int, bound: float) -> None:
    """Refuse what no noise can be made for."""
    require_epsilon(epsilon)
    require_integer("levels", levels, 1)
    if not bound < math.inf:
        raise ValueError("bound must be finite: noise is made for the largest change")
