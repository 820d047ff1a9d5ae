"""Histograms in the augmented shuffle model: users send their value, the shuffler does the rest.

It keeps each report with some chance and adds dummies to each value. No user draws anything, so
that none is counted on, and a liar counts once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Report
from mechanisms.counters.levels import Level
from mechanisms.counters.solve import least_noise
from mechanisms.frequency.independent_bins import IndependentBins
from mechanisms.frequency.oracle import FrequencyOracle, Noise
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.design import Design
from mechanisms.planner.search import search
from mechanisms.planner.target import Target
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.sampling.dummy_shares import Keys
from mechanisms.sampling.integer_noise import IntegerNoise

_TAIL = 1e-40


@dataclass(frozen=True)
class Augmented(IndependentBins):
    """Values of which the shuffler keeps some, among its dummies.

    Attributes:
        epsilon, delta, n, domain_size, honest_share, bound: as in `DummyBatch`.
        kept: with what probability a report is kept.
        law: of the dummies of a value, from 0 on.
    """

    kept: float = 1.0
    law: Floats = field(default_factory=lambda: np.ones(1), compare=False)

    def bin_law(self, users: int) -> BinLaw:
        own, free = np.append(0.0, self.law), np.append(self.law, 0.0)
        relative = 2.0**-50 * self.law.size
        return BinLaw(self.kept * own + (1 - self.kept) * free, free, _TAIL, relative)

    @property
    def dummies(self) -> float:
        """For each user, on average; nobody sends them."""
        return self._law.mean() * self.domain_size / self.n

    @property
    def _law(self) -> IntegerNoise:
        return IntegerNoise(0, self.law)

    @property
    def messages(self) -> float:
        return 1.0

    @property
    def keep(self) -> float:
        return self.kept + self.other

    @property
    def contrast(self) -> float:
        return self.kept

    @property
    def lifts(self) -> tuple[int, int]:
        return 0, 1

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        lost = np.asarray(frequency, np.float64) * n * self.kept * (1 - self.kept)
        return np.asarray((lost + self._law.var()) / (n * self.kept) ** 2)

    def added(self, n: int) -> Noise | None:
        return self._law if self.kept == 1 else None

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        drawn = rng.generator().choice(self.law.size, self.domain_size, p=self.law)
        return self.reported(histogram, rng) + drawn

    def reported(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        return rng.generator().binomial(np.asarray(histogram, np.int64), self.kept)

    def forged(self, targets: NDArray[np.int64], users: int, rng: SeededRandom) -> Counts:
        return self.reported(super().forged(targets, users, rng), rng)

    def scattered(self, users: int, rng: SeededRandom) -> Counts:
        return self.reported(super().scattered(users, rng), rng)

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        return np.eye(1, self.domain_size, cell, np.int64)[0], 1

    def _extras(self, size: int, rng: RandomSource) -> Keys:
        return np.empty(0, np.int64)

    def _extra_law(self) -> Mapping[Report, Fraction]:
        return {(): Fraction(1)}


Parts = tuple[float, Floats]


def _counters(epsilon: float, delta: float, d: int) -> Parts:
    """All reports, and the dummies of noisy counters."""
    (part,) = least_noise([Level(1, d)], "replace", epsilon, delta).parts
    return 1.0, part.law.pmf


def _s1geo(epsilon: float, delta: float, d: int) -> Parts:
    """Pure epsilon: no dummies may be all there are, so reports are lost, and one side is enough.

    Source: Murakami, Sei, Eriguchi, "Augmented shuffle protocols for accurate and robust frequency
        estimation under differential privacy", 2025, arXiv 2504.07362: sampling, and dummies of the
        asymmetric two-sided geometric law, without its left side. Its constants follow from what
        it is to keep: (1 - kept) P(k) + kept P(k - 1) is e^(-epsilon / 2) P(k) at k = 0, and
        e^(epsilon / 2) P(k) above.
    """
    kept = -math.expm1(-epsilon / 2)
    ratio = 1 / (1 + math.exp(epsilon / 2))
    pmf = ratio ** np.arange(math.ceil(math.log(_TAIL) / math.log(ratio)))
    return kept, pmf / pmf.sum()


AUGMENTED: Mapping[str, Callable[[float, float, int], Parts]] = {
    "counters": _counters,
    "s1geo": _s1geo,
}
"""Name -> (epsilon, delta, values) -> what is kept, and the law of the dummies."""


@dataclass(frozen=True)
class _Design(Design[FrequencyOracle]):
    """A design that is in no catalogue, for users are only half of it."""

    postprocess = "auto"


def found(target: Target[FrequencyTask], name: str) -> Design[FrequencyOracle]:
    """The best parameters of a system, augmented or of the catalogue.

    Args:
        target: what must hold.
        name: one of `histograms.SYSTEMS`.

    Raises:
        ValueError: the target is out of reach.
    """
    if name not in AUGMENTED:
        return search(target, name)
    epsilon, delta, _ = target.batch
    kept, law = AUGMENTED[name](epsilon, delta, target.task.domain_size)
    return _Design(target, name, Augmented.meeting(target, kept=kept, law=law))
