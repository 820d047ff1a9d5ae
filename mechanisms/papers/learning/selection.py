"""Which parts of what it has learnt a participant uploads."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats, Guarantee
from mechanisms.papers.learning.exchange import portion
from mechanisms.randomness import RandomSource


class Chosen(NamedTuple):
    """What is uploaded.

    Attributes:
        places: (m,) distinct places of parameters.
        values: (m,) what is to be added to them.
    """

    places: NDArray[np.intp]
    values: Floats


@dataclass(frozen=True)
class Selection(ABC):
    """A rule that picks from one epoch's change of the parameters.

    Attributes:
        share: theta_u, in (0, 1]: what part of the parameters is uploaded at most.
        bound: gamma, at which every uploaded change is clipped, in units of the parameters.
    """

    share: float
    bound: float = math.inf

    def __post_init__(self) -> None:
        portion(self.share, 1)
        if not 0 < self.bound <= math.inf:
            raise ValueError(f"bound must be positive, not {self.bound}")

    @abstractmethod
    def choose(self, change: Floats, rng: RandomSource) -> Chosen:
        """What to upload of a (p,) change of the parameters."""

    def guarantee(self, dimension: int) -> Guarantee:
        """What one upload of so many parameters' changes reveals of a participant's records."""
        return Guarantee.none("changes are chosen by what they are and uploaded without noise")

    def after(self, dimension: int, epochs: int, delta: float) -> tuple[Guarantee, Guarantee]:
        """What many uploads reveal: the sum, and the least epsilon proven at a delta."""
        return self.guarantee(dimension), self.guarantee(dimension)

    def _clipped(self, change: Floats) -> Floats:
        """Changes within the bound."""
        return np.clip(change, -self.bound, self.bound)


@dataclass(frozen=True)
class LargestValues(Selection):
    """The changes that are largest in size.

    Source: Shokri, Shmatikov, "Privacy-preserving deep learning", CCS 2015, section 5.2.

    >>> from mechanisms.randomness import SeededRandom
    >>> chosen = LargestValues(0.5).choose(np.array([0.1, -3.0, 2.0, 0.0]), SeededRandom(1))
    >>> sorted(chosen.places.tolist())
    [1, 2]
    """

    def choose(self, change: Floats, rng: RandomSource) -> Chosen:
        size = portion(self.share, change.size)
        places = np.argpartition(-np.abs(change), size - 1)[:size]
        return Chosen(places, self._clipped(change[places]))


@dataclass(frozen=True)
class RandomAbove(Selection):
    """Changes drawn at random from those that are larger than a threshold.

    Attributes:
        threshold: tau, at least 0; if too few exceed it, fewer are uploaded.

    Source: Shokri, Shmatikov 2015, section 5.2.
    """

    threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_threshold(self.threshold, self.bound)

    def choose(self, change: Floats, rng: RandomSource) -> Chosen:
        # Without noise this choice tells what it looked at: `guarantee` says that nothing is
        # promised.
        above = np.flatnonzero(np.abs(change) > self.threshold)
        size = min(portion(self.share, change.size), above.size)
        places = above[rng.choice(above.size, size).astype(np.intp)]
        return Chosen(places, self._clipped(change[places]))


def require_threshold(threshold: float, bound: float) -> None:
    """Refuse a threshold that nothing can exceed (NaN included)."""
    if not 0 <= threshold < bound:
        raise ValueError(f"threshold must lie in [0, bound = {bound}), not {threshold}")
