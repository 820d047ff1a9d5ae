"""The central model's histograms behind one face: exact counts in, a private release out.

Nothing is randomised before the collector, who is trusted with the raw counts. That is the model
to compare others with, and the one to use where the collector may see everything anyway.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Counts, Floats, Guarantee, Messages
from mechanisms.frequency.noise_laws import IntegerLaw
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.intervals import Noise
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register


@dataclass(frozen=True)
class TwoSidedGeometric(IntegerLaw):
    """P(X = k) proportional to exp(-decay |k|).

    >>> TwoSidedGeometric(1.0).ppf(0.025), TwoSidedGeometric(1.0).isf(0.025)
    (-3.0, 3.0)
    """

    decay: float

    def mean(self) -> float:
        return 0.0

    def excess_kurtosis(self) -> float:
        return 2 + math.cosh(self.decay)

    def cdf(self, k: int) -> float:
        return self._beyond(-k) if k < 0 else 1 - self._beyond(k + 1)

    def sf(self, k: int) -> float:
        return 1 - self._beyond(-k) if k < 0 else self._beyond(k + 1)

    def _beyond(self, k: int) -> float:
        """P(X >= k), of k >= 1."""
        return math.exp(-self.decay * k) / (1 + math.exp(-self.decay))


def histogram(epsilon: float) -> DiscreteLaplace:
    """The mechanism for all counts of a histogram when one user's value may be replaced.

    A replacement lowers one count and raises another: L1 sensitivity 2.
    """
    return DiscreteLaplace(epsilon, sensitivity=2)


class CentralHistogram(FrequencyOracle):
    """A mechanism whose client changes nothing, and whose collector adds noise to all counts.

    Subclasses are frozen dataclasses of `epsilon` and `domain_size`.
    """

    epsilon: float
    # Holders are counted once each
    keep: ClassVar[float] = 1.0
    # Nobody else is
    other: ClassVar[float] = 0.0
    contrast: ClassVar[float] = 1.0
    # What the collector sees
    local: ClassVar[Guarantee] = Guarantee.none("the collector sees every value as it is")
    # More than one, so that a value may change among others that stay
    trial_users: ClassVar[int] = 4

    @property
    def codes(self) -> int:
        """How many counters the collector holds: one for each value."""
        return self.domain_size

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        return self._checked(cells).astype(np.uint64)

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        (value,) = self._checked([cell])
        return np.eye(1, self.codes, value, dtype=np.uint64)[0], 1

    def pairs(self) -> Iterable[tuple[int, int]]:
        return [(0, 1)]

    def support(self, counts: Counts) -> Counts:
        return counts

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        return np.asarray(histogram, np.int64)

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """Refused: it would publish exact counts. `release` draws the noise, once."""
        raise TypeError("exact counts are no estimate to be published; release draws their noise")

    @abstractmethod
    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        """Draw the noise, once: of exact counts, at least one in all."""

    def released(self, cells: Sequence[int], times: int, rng: RandomSource) -> NDArray[Any]:
        counts = np.bincount(np.asarray(cells), minlength=self.domain_size)
        return np.array([np.concatenate(self.release(counts, rng)) for _ in range(times)])

    @abstractmethod
    def count_variance(self) -> float:
        """Variance of an unbiased count, averaged over the domain, in squared counts."""

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        """As `FrequencyOracle.variance`; noise that is added to counts ignores the frequency."""
        return np.full(np.shape(frequency), self.count_variance() / n**2)

    def average_variance(self, n: int) -> float:
        return self.count_variance() / n**2

    @abstractmethod
    def added(self, n: int) -> Noise:
        """The law of the noise in an unbiased count, or one with wider tails."""


@register(
    "laplace",
    task="frequency",
    sends="the value; each count is published with discrete Laplace noise",
    source="Dwork, McSherry, Nissim, Smith, TCC 2006",
    models=["central"],
    searched=True,
    postprocess="auto",
    small={"epsilon": 1.0, "domain_size": 4},
    stands_in="tests.oracles.stand_ins:counts",
)
@dataclass(frozen=True)
class LaplaceHistogram(CentralHistogram):
    """Every count with its own two-sided geometric noise.

    >>> from mechanisms.randomness import SeededRandom
    >>> unbiased, _ = LaplaceHistogram(1.0, 3).release(np.array([50, 30, 20]), SeededRandom(1))
    >>> unbiased.shape
    (3,)
    """

    epsilon: float
    domain_size: int

    def __post_init__(self) -> None:
        require_domain(self.domain_size)
        histogram(self.epsilon)  # refuses an epsilon that no noise table can hold

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Of each count; a replaced value changes two of them by 1."""
        return histogram(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return self.noise.guarantee

    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        unbiased = self.noise.perturb(counts, rng) / counts.sum()
        return unbiased, unbiased.copy()

    def count_variance(self) -> float:
        return self.noise.variance()

    def added(self, n: int) -> Noise:
        return TwoSidedGeometric(self.noise.decay)


def require_domain(domain_size: int) -> None:
    """Refuse a histogram of fewer than two values."""
    if not (domain_size >= 2 and domain_size == int(domain_size)):
        raise ValueError(f"domain_size must be an integer of at least 2, not {domain_size}")
