"""Histograms of large domains in the augmented shuffle model: few values get dummies.

Users send a hash of their value and, sealed for later, the value. The shuffler adds dummies to
every hash; the collector opens hashes, and hands back what has a hash that is frequent enough, and
nulls for the rest; the shuffler adds dummies to each value of such a hash, and the collector opens
those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from hushbeam.studies.systems.augmented import NOTHING, Augmented, drawn
from hushbeam.studies.systems.dummy_laws import ThinnedLaw, truncated
from mechanisms.channel import Counts, Floats
from mechanisms.counters.levels import Level
from mechanisms.counters.solve import least_noise
from mechanisms.frequency.task import FrequencyTask
from mechanisms.postprocess.intervals import Noise
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.targets.rules import Target

ALPHA = 0.05  # of the hashes that nobody holds, how many pass
_SIZES = 7  # of a dummy of a hash, sealed up to three times, in messages sealed once
_ANY = 1 << 62  # dummies: most of a domain gets none


@dataclass(frozen=True)
class Filtered(Augmented):
    """FME: values whose hash is frequent, among dummies of the hashes and of the values.

    A replaced value changes two hashes, and then two among the values and the nulls, whichever
    hashes passed; each has dummies, drawn on their own, so that two rounds cost what two levels of
    counters cost (adaptive composition of dominating pairs: Zhu, Dong, Wang, AISTATS 2022).

    Attributes:
        parts: the dummies of a value that passed, and of the nulls.
        buckets: how many hashes there are.
        filters: the dummies of a hash.

    Source: Murakami, Sei, Eriguchi, "Augmented shuffle differential privacy protocols for
        large-domain categorical and key-value data", NDSS 2026, arXiv 2509.02004; the filter and
        the number of hashes as in the program that its authors published, for RSA. Dummies of the
        nulls are ours: how many nulls there are would tell how many hold values that passed.
    """

    buckets: int = 1
    filters: ThinnedLaw = field(default=NOTHING, compare=False)

    @classmethod
    def fitting(cls, target: Target[FrequencyTask]) -> Filtered:
        """The least noise of two rounds that meets a target.

        Raises:
            ValueError: the target is out of reach, or there are as many hashes as values.
        """
        (epsilon, delta, _), d = target.batch, target.task.domain_size
        levels = [Level(1, d), Level(1, d + 1)]  # more hashes than that are refused below
        first, second = least_noise(levels, "replace", epsilon, delta, most_dummies=_ANY).parts
        passing = (1 - ALPHA) * (first.law.mu + 1) / first.law.mu
        buckets = math.isqrt(int(passing * target.n * d / _SIZES))
        if not buckets < d:
            raise ValueError(
                f"a filter of {d:,} values would have {buckets:,} hashes: it is for large domains"
            )
        return cls.meeting(
            target, parts=truncated(second.law), buckets=buckets, filters=truncated(first.law)
        )

    def bin_law(self, users: int) -> BinLaw:
        first, second = self.filters.bin_law, self.parts.bin_law
        return BinLaw(
            np.outer(first.occupied, second.occupied).ravel(),
            np.outer(first.free, second.free).ravel(),
            first.missing + second.missing,
            first.relative + 2 * second.relative,
        )

    @property
    def threshold(self) -> int:
        """The least count of a hash that passes."""
        return int(self.filters.law.isf(ALPHA)) + 1

    @property
    def dummies(self) -> float:
        """As `Augmented.dummies`, at most: as if all users held values of different hashes."""
        occupied = -math.expm1(-self.n / self.buckets)
        passed = self.domain_size * (ALPHA + (1 - ALPHA) * occupied)
        return (self.buckets * self.filters.law.mean() + passed * self.law.mean()) / self.n

    def average_variance(self, n: int) -> float:
        """Unknown: it depends on who holds what."""
        return math.nan

    def added(self, n: int) -> Noise | None:
        return None

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        """Who holds what: `release` draws the rest."""
        return self.reported(histogram, rng)

    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        """The shares of the values that passed, unbiased, and 0 for the others."""
        if not isinstance(rng, SeededRandom):
            raise TypeError("a filter is simulated here, and never run: its randomness is a seed's")
        hashes = rng.generator().integers(self.buckets, size=self.domain_size)
        seen = np.bincount(hashes, counts, self.buckets) + drawn(
            self.filters.law, self.buckets, rng
        )
        passed = np.flatnonzero(seen[hashes] >= self.threshold)
        extra = drawn(self.law, passed.size, rng) - self.law.mean()
        shares = np.zeros(self.domain_size)
        shares[passed] = (counts[passed] + extra) / (self.n if n is None else n)
        return shares, shares
