"""Histograms from several messages a user: the true value among dummies on random values.

Nothing protects a single user's messages; shuffled with everybody's, they hide the value as well
as central noise of the same variance would. Dummies that fall on each value on its own are
accounted exactly; here a Poisson number from each user. The rest of the family is on the shelf:
a coin for each value (`papers.aue`), and a given number (`papers.dump`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms import specification
from mechanisms.channel import Counts, Floats, Report
from mechanisms.frequency.dummy_batch import STEEPEST, IndependentBins, uniform_bags
from mechanisms.frequency.noise_laws import Poisson
from mechanisms.postprocess.intervals import Noise
from mechanisms.privacy import dummy_laws
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling import integer_tables
from mechanisms.sampling.dummy_shares import Keys, uniform_keys

_UNIT = 2.0**-53


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
        return dummy_laws.least_poisson_mean(epsilon, self.delta - slack)

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
        law = dummy_laws.poisson(users * self.other).bin_law
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
