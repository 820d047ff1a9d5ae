"""Histograms from several messages a user: the true value among dummies on random values.

Nothing protects a single user's messages; shuffled with everybody's, they hide the value as well
as central noise of the same variance would. Dummies that fall on each value on its own are
accounted exactly: a Poisson number from each user, or a coin for each value (AUE). DUMP, whose
users send a given number, is the rest of the family.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms import specification
from mechanisms.channel import Counts, Floats, Report
from mechanisms.frequency.dummy_batch import uniform_bags
from mechanisms.frequency.dump import MixDump, PureDump
from mechanisms.frequency.independent_bins import STEEPEST, IndependentBins
from mechanisms.frequency.noise_laws import Binomial, Poisson
from mechanisms.postprocess.intervals import Noise
from mechanisms.privacy import dummies_accounting, published
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling import integer_tables
from mechanisms.sampling.dummy_shares import Keys, uniform_keys
from mechanisms.sampling.sparse_bits import heads

__all__ = ["Aue", "MixDump", "PoissonDummies", "PureDump"]

_WORD = 1 << 64
_UNIT = 2.0**-53
_LARGEST_LISTED = 12  # values whose 2^d sets of dummies are listed


@register(
    "poisson",
    task="frequency",
    sends="the value among a Poisson number of uniform dummies",
    source="uniform dummies, a Poisson number from each user, accounted exactly",
    models=["shuffle"],
    batch=True,
    searched=True,
    several=True,
    postprocess="auto",
    small=[
        {"epsilon": 1.0, "delta": 0.05, "n": 4, "domain_size": 2, "honest_share": 0.75},
        {"epsilon": 3.0, "delta": 0.5, "n": 3, "domain_size": 3, "honest_share": 0.7},
    ],
    rules={"shuffle": lambda target: PoissonDummies.meeting(target)},
)
@dataclass(frozen=True)
class PoissonDummies(IndependentBins):
    """The true value and a Poisson number of uniform dummies.

    The bins' dummy counts are then independent Poisson numbers, whose mean c is the least that
    meets the target exactly; c is also the variance of every count.

    Attributes: those of `DummyBatch`.

    Source: the family is that of Balcer, Cheu, ITC 2020, and of DUMP (Li, Liu, Ren et al., IEEE
        TDSC 2023); a Poisson number makes the bins independent and the accounting exact.

    >>> mechanism = PoissonDummies(0.5, 1e-6, n=1_000_000, domain_size=42_178, honest_share=1.0)
    >>> round(mechanism.bin_mean, 1), round(mechanism.messages, 2)
    (136.1, 6.74)
    """

    @cached_property
    def bin_mean(self) -> float:
        """c, dummies in each bin from the users that count."""
        epsilon = min(self.epsilon, STEEPEST)
        # Every honest user's draw may be that far from its law, and that shows (1 + e^epsilon)
        # times.
        slack = 2.02 * (1 + math.exp(epsilon)) * self.honest(self.n) * integer_tables.FARTHEST
        if not slack <= self.delta / 100:
            raise ValueError(
                f"delta must be at least {100 * slack:.1g} for tables of 128 bits and {self.n:,} "
                f"users, not {self.delta}"
            )
        return dummies_accounting.least_poisson_mean(epsilon, self.delta - slack)

    @cached_property
    def dummies(self) -> float:
        # Rounded up: the guarantee is of no fewer dummies than this.
        total = self.bin_mean * self.domain_size * (1 + 8 * _UNIT)
        if not total / self.honest(self.n) <= integer_tables.LARGEST_MEAN:
            least = self.least_batch(math.ceil(total / integer_tables.LARGEST_MEAN))
            raise ValueError(
                f"n must be at least {least:,} for {self.domain_size} values, or a user would send "
                f"more than {integer_tables.LARGEST_MEAN:,} dummies, not {self.n:,}"
            )
        return total / self.honest(self.n)

    def bin_law(self, users: int) -> BinLaw:
        law = dummies_accounting.poisson(users * self.other).bin_law
        return replace(law, distance=users * integer_tables.FARTHEST)

    @property
    def lifts(self) -> tuple[int, int]:
        # As many dummies as the table of their number knows, all of them on one value.
        return 0, 1 + integer_tables.poisson(self.dummies).largest

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        return np.zeros_like(np.asarray(frequency, np.float64)) + self.other / n

    def added(self, n: int) -> Noise:
        return Poisson(n * self.other)

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        holders = np.asarray(histogram, np.int64)
        dummies = rng.generator().poisson(holders.sum() * self.other, self.codes)
        return holders + dummies.astype(np.int64)

    @property
    def specification(self) -> specification.Channel:
        table = integer_tables.poisson(self.dummies)
        ends = specification.decimals(table.ends)
        return specification.DummiesSpecification(
            inputs=self.domain_size, first=table.first, ends=ends
        )

    def _extras(self, size: int, rng: RandomSource) -> Keys:
        return uniform_keys(integer_tables.poisson(self.dummies).draw(size, rng), self.codes, rng)

    def _extra_law(self) -> Mapping[Report, Fraction]:
        return uniform_bags(integer_tables.poisson(self.dummies).law(), self.codes)


@register(
    "aue",
    task="frequency",
    sends="the value, and each value once more with a small probability",
    source="Balcer, Cheu, ITC 2020",
    models=["shuffle"],
    batch=True,
    several=True,
    small=[
        {"epsilon": 1.0, "delta": 0.1, "n": 14, "domain_size": 2, "honest_share": 0.8},
        {"epsilon": 2.0, "delta": 0.3, "n": 4, "domain_size": 3, "honest_share": 1.0},
    ],
    rules=dict.fromkeys(("shuffle", "published"), lambda target: Aue.meeting(target)),
)
@dataclass(frozen=True)
class Aue(IndependentBins):
    """The true value and, for every value, one dummy with a given chance.

    As published, a user sends a dummy for each value with probability p = 1 - noise, close to 1:
    1 + d p messages. Which side of the coin is sent changes neither privacy nor error, since a
    count and the number of users minus it tell the same, so the rarer one is sent here: 1 + d (1
    - p) messages.

    Attributes: those of `DummyBatch`; the published bound needs epsilon up to 2.

    Source: Balcer, Cheu, "Separating local and shuffled differential privacy via histograms", ITC
        2020. By its bound the noise is 200 ln(4/delta) / (epsilon^2 n); its estimator sets counts
        up to n to 0, this one is unbiased.

    >>> mechanism = Aue(0.5, 1e-6, n=100_000, domain_size=50, honest_share=1.0, bound="published")
    >>> round(mechanism.chance, 4), round(Aue(0.5, 1e-6, 100_000, 50, 1.0).chance, 4)
    (0.1216, 0.0014)
    """

    bounds: ClassVar[tuple[str, ...]] = ("exact", "published")

    @cached_property
    def threshold(self) -> int:
        """The chance of a dummy in units of 2^-64, at most half."""
        honest = self.honest(self.n)
        chance = self._published(honest) if self.bound == "published" else self._exact(honest)
        # Rounded up, towards more dummies; beyond a half more of them would hide less.
        return min(math.ceil(Fraction(chance) * _WORD), _WORD // 2)

    def _exact(self, honest: int) -> float:
        try:
            return dummies_accounting.least_binomial_chance(self.epsilon, self.delta, honest)
        except ValueError as refusal:
            least = self.least_batch(dummies_accounting.least_users(self.epsilon, self.delta))
            raise ValueError(
                f"n must be at least {least:,} for epsilon {self.epsilon} and delta {self.delta}: "
                f"even a fair coin for every value of {self.n:,} users does not hide one"
            ) from refusal

    def _published(self, honest: int) -> float:
        if not self.epsilon <= 2:
            raise ValueError(f"AUE's bound is proven for epsilon up to 2, not {self.epsilon}")
        least = self.least_batch(math.ceil(400 * math.log(4 / self.delta) / self.epsilon**2))
        if not self.n >= least:
            raise ValueError(f"n must be at least {least:,} for AUE's bound, not {self.n:,}")
        return published.aue_noise(self.epsilon, self.delta, honest)

    @property
    def chance(self) -> float:
        """1 - p, with which a user sends a dummy for a value."""
        return self.threshold / _WORD

    @property
    def dummies(self) -> float:
        return self.domain_size * self.chance

    @property
    def other(self) -> float:
        return self.chance

    def constants(self) -> dict[str, float]:
        printed = 1 - self.chance
        return super().constants() | {"p": printed, "printed_messages": 1 + self.codes * printed}

    def bin_law(self, users: int) -> BinLaw:
        return dummies_accounting.binomial(users, self.chance).bin_law

    @property
    def lifts(self) -> tuple[int, int]:
        return 0, 2  # the value itself, and its dummy

    def flood(self, targets: int) -> int:
        return targets + 1

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        spread = self.chance * (1 - self.chance)
        return np.zeros_like(np.asarray(frequency, np.float64)) + spread / n

    def added(self, n: int) -> Noise:
        return Binomial(n, self.chance)

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        holders = np.asarray(histogram, np.int64)
        dummies: Counts = rng.generator().binomial(holders.sum(), self.chance, self.codes)
        return holders + dummies

    def _extras(self, size: int, rng: RandomSource) -> Keys:
        return heads(size * self.codes, self.threshold, rng)

    def _extra_law(self) -> Mapping[Report, Fraction]:
        if not self.domain_size <= _LARGEST_LISTED:
            raise ValueError(
                f"{self.domain_size} values have too many sets of dummies to list; domain_size "
                f"may be at most {_LARGEST_LISTED} for that"
            )
        law: dict[Report, Fraction] = {(): Fraction(1)}
        chance = Fraction(self.threshold, _WORD)
        for j in range(self.domain_size):
            without = {report: weight * (1 - chance) for report, weight in law.items()}
            law = without | {(*report, j): weight * chance for report, weight in law.items()}
        return law
