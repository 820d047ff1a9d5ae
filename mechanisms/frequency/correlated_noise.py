"""Histograms whose error comes near central Laplace noise: noise in the clear, behind a mask.

Two messages name each value, one that adds to its count and one that takes away. Besides the true
one, users send shares of noise: adding messages A and taking ones B, whose difference is discrete
Laplace noise, and pairs of both that cancel in the estimate and hide all the rest. Shares are
negative binomial; most users' share of most bins is nothing, and a cluster of messages otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Report
from mechanisms.frequency.dummy_batch import STEEPEST, IndependentBins
from mechanisms.frequency.task import FrequencyTask
from mechanisms.postprocess.intervals import Noise
from mechanisms.privacy.masked_design import LEAST_SHARE, fewest_messages, least_variance
from mechanisms.privacy.masked_laplace import MaskedLaplace
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling import integer_tables
from mechanisms.sampling.dummy_shares import Keys, MaskedShare
from mechanisms.sampling.integer_noise import IntegerNoise
from mechanisms.targets.rules import Target

_UNIT = 2.0**-53
_SPARED = 1e-6  # of delta: for what drawing from tables may add


def as_many_messages(target: Target[FrequencyTask]) -> "CorrelatedNoise":
    """Correlated noise of as many messages as a plan allows; by default of its own choice."""
    most = target.task.max_messages
    return CorrelatedNoise.meeting(target, max_messages=most if most > 1 else None)


@register(
    "correlated",
    task="frequency",
    sends="the value among plus and minus messages whose difference is discrete Laplace noise",
    source="Ghazi, Kumar, Manurangsi, Pagh, ICML 2020",
    models=["shuffle"],
    batch=True,
    searched=True,
    several=True,
    postprocess="auto",
    small={"epsilon": 4.0, "delta": 0.2, "n": 3, "domain_size": 2, "honest_share": 0.7},
    stands_in="tests.oracles.stand_ins:BinCounters",
    rules={"shuffle": lambda target: as_many_messages(target)},
)
@dataclass(frozen=True)
class CorrelatedNoise(IndependentBins):
    """The true value, a share of Laplace noise, and a share of a mask that cancels.

    Codes 0 .. d - 1 add to a value's count, codes d .. 2 d - 1 take away from it.

    Attributes:
        epsilon, delta, n, domain_size, honest_share, bound: as in `DummyBatch`; epsilon is at
            least 0.005.
        max_messages: how many messages a user may send on average, the true one included; the
            variance is the least that this allows. None spends four fifths of epsilon on the
            noise, for a variance 1.6 times that of central Laplace noise.

    Source: Ghazi, Golowich, Kumar, Manurangsi, Pagh, Velingker, "Pure differentially private
        summation from anonymous messages", ITC 2020; Ghazi, Kumar, Manurangsi, Pagh, "Private
        counting from anonymous messages: near-optimal accuracy with vanishing communication
        overhead", ICML 2020. Both split epsilon and delta between noise and mask, and between
        the two bins; here the law of what is seen is evaluated, which saves half the messages.

    >>> mechanism = CorrelatedNoise(0.5, 1e-6, n=602_325, domain_size=915, honest_share=1.0)
    >>> round(mechanism.noise.variance, 1), round(mechanism.messages, 2)
    (49.8, 1.82)
    """

    max_messages: float | None = None
    keep: ClassVar[float] = 1.0
    other: ClassVar[float] = 0.0

    @cached_property
    def noise(self) -> MaskedLaplace:
        """The noise of one bin from the users that count."""
        epsilon, delta = min(self.epsilon, STEEPEST), self.delta * (1 - _SPARED)
        if self.max_messages is None:
            return fewest_messages(epsilon, delta)
        per_bin = self.honest(self.n) / self.domain_size
        least = 1 + fewest_messages(epsilon, delta, LEAST_SHARE).messages / per_bin
        if not self.max_messages >= least:
            raise ValueError(
                f"max_messages must be at least {math.ceil(least * 100) / 100:g} here, "
                f"not {self.max_messages}"
            )
        return least_variance(epsilon, delta, (self.max_messages - 1) * per_bin)

    @cached_property
    def share(self) -> MaskedShare:
        """What one user adds of the noise and of the mask."""
        noise, honest = self.noise, self.honest(self.n)
        share = MaskedShare(self.domain_size, noise.decay, noise.shape, noise.ratio, honest)
        most = share.most
        if not most <= integer_tables.LARGEST_MEAN / 2:
            least = self.least_batch(math.ceil(2 * most * honest / integer_tables.LARGEST_MEAN))
            raise ValueError(
                f"n must be at least {least:,} for {self.domain_size} values, or a user would send "
                f"more than {integer_tables.LARGEST_MEAN // 2:,} clusters, not {self.n:,}"
            )
        return share

    @cached_property
    def dummies(self) -> float:
        honest = self.honest(self.n)
        # Laws that move by t in total variation move delta by up to (1 + e^epsilon) t, in both
        # bins.
        added = 2 * (1 + math.exp(min(self.epsilon, STEEPEST))) * honest * self.share.distance
        if not added <= self.delta * _SPARED:
            raise ValueError(
                f"delta must be at least {added / _SPARED:.1g} for tables of 128 bits and "
                f"{self.n:,} users, not {self.delta}"
            )
        return self.noise.messages * self.domain_size / honest

    # ---- the oracle --------------------------------------------------------------------------

    @property
    def codes(self) -> int:
        return 2 * self.domain_size

    def support(self, counts: Counts) -> Counts:
        """Messages that add less messages that take away."""
        added, taken = np.asarray(counts, np.int64).reshape(2, self.domain_size)
        balance: Counts = added - taken
        return balance

    @property
    def lifts(self) -> tuple[int, int]:
        return -self.share.lift, 1 + self.share.lift

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        per_report = self.noise.variance / self.honest(self.n)
        return np.zeros_like(np.asarray(frequency, np.float64)) + per_report / n

    def added(self, n: int) -> Noise:
        return IntegerNoise(*self.noise.difference(n / self.honest(self.n)))

    def constants(self) -> dict[str, float]:
        noise = self.noise
        return super().constants() | {
            "decay": noise.decay,
            "mask_shape": noise.shape,
            "mask_ratio": noise.ratio,
        }

    # ---- the shuffled batch ------------------------------------------------------------------

    def bin_law(self, users: int) -> BinLaw:
        law = self._law(users)
        if law is None:
            raise ValueError(
                f"what {users:,} users' noise shows is too large to compute at epsilon "
                f"{self.epsilon}; it is known for {self.honest(self.n):,}"
            )
        return law

    def _law(self, users: int) -> BinLaw | None:
        law = self.noise.bin_law(users / self.honest(self.n))
        return law and replace(law, distance=users * self.share.distance)

    def revealing_law(self, users: int) -> BinLaw:
        law = self._law(users)
        if law is not None:
            return law
        _, pmf = self.noise.difference(users / self.honest(self.n))
        own, free = np.append(0.0, pmf), np.append(pmf, 0.0)
        return BinLaw(own, free, 1e-16, 4 * _UNIT * pmf.size, users * self.share.distance)

    def hiding_law(self, users: int) -> BinLaw | None:
        # More users' shares are more noise, which cannot tell more.
        honest = self.honest(self.n)
        return self._law(users) or (self._law(honest) if users > honest else None)

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        holders, source = np.asarray(histogram, np.int64), rng.generator()
        noise, share = self.noise, int(holders.sum()) / self.honest(self.n)
        a, b = source.negative_binomial(share, 1 - noise.decay, (2, self.domain_size))
        mask = source.negative_binomial(share * noise.shape, 1 - noise.ratio, self.domain_size)
        return np.concatenate([holders + a + mask, b + mask]).astype(np.int64)

    # ---- client ------------------------------------------------------------------------------

    def _extras(self, size: int, rng: RandomSource) -> Keys:
        return self.share.draw(size, rng)

    def _extra_law(self) -> Mapping[Report, Fraction]:
        raise ValueError(
            "there are too many reports to list: clusters of messages may be hundreds long"
        )
