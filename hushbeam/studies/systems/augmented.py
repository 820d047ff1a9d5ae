"""Histograms in the augmented shuffle model: users send their value, the shuffler does the rest.

It keeps each report with some chance and adds dummies to each value. No user draws anything, so
that none is counted on, and a liar counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushbeam.studies.systems.dummy_laws import ThinnedLaw
from mechanisms.channel import Counts, Floats, Report
from mechanisms.frequency.dummy_batch import IndependentBins
from mechanisms.postprocess.intervals import Noise
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.sampling.dummy_shares import Keys
from mechanisms.sampling.integer_noise import IntegerNoise

NOTHING = ThinnedLaw(1.0, IntegerNoise(0, np.ones(1)))


@dataclass(frozen=True)
class Augmented(IndependentBins):
    """Values of which the shuffler keeps some, among its dummies.

    Attributes:
        epsilon, delta, n, domain_size, honest_share, bound: as in `DummyBatch`.
        parts: what the shuffler does.
    """

    parts: ThinnedLaw = field(default=NOTHING, compare=False)

    bounds: ClassVar[tuple[str, ...]] = ("exact", "published")

    def bin_law(self, users: int) -> BinLaw:
        return self.parts.bin_law

    @property
    def kept(self) -> float:
        """With what probability a report is kept."""
        return self.parts.kept

    @property
    def law(self) -> IntegerNoise:
        """Of the dummies of a value."""
        return self.parts.law

    @property
    def dummies(self) -> float:
        """For each user, on average; nobody sends them."""
        return self.law.mean() * self.domain_size / self.n

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
        return np.asarray((lost + self.law.var()) / (n * self.kept) ** 2)

    def added(self, n: int) -> Noise | None:
        return self.law if self.kept == 1 else None

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        return self.reported(histogram, rng) + drawn(self.law, self.domain_size, rng)

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


def drawn(law: IntegerNoise, size: int, rng: SeededRandom) -> Counts:
    """(size,) numbers of dummies."""
    places = rng.generator().choice(law.pmf.size, size, p=law.pmf)
    return np.asarray(int(law.first) + places, np.int64)
