"""AUE: the true value, and for every value one dummy more with a given chance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats, Report, require_epsilon
from mechanisms.frequency.dummy_batch import IndependentBins
from mechanisms.frequency.noise_laws import Binomial
from mechanisms.papers.published_bounds import aue_noise
from mechanisms.postprocess.intervals import Noise
from mechanisms.privacy.divergence import require_batch, require_delta
from mechanisms.privacy.dummy_laws import binomial, dummies_delta, least_mean
from mechanisms.privacy.two_bins import BinLaw
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling.dummy_shares import Keys
from mechanisms.sampling.sparse_bits import heads

_WORD = 1 << 64
_LARGEST_LISTED = 12  # values whose 2^d sets of dummies are listed
_MOST_USERS = 1 << 32  # whose coins are looked at, in a search for how many are needed


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
    lifts: ClassVar[tuple[int, int]] = 0, 2

    @cached_property
    def threshold(self) -> int:
        """The chance of a dummy in units of 2^-64, at most half."""
        honest = self.honest(self.n)
        chance = self._published(honest) if self.bound == "published" else self._exact(honest)
        # Rounded up, towards more dummies; beyond a half more of them would hide less.
        return min(math.ceil(Fraction(chance) * _WORD), _WORD // 2)

    def _exact(self, honest: int) -> float:
        try:
            return least_binomial_chance(self.epsilon, self.delta, honest)
        except ValueError as refusal:
            least = self.least_batch(least_users(self.epsilon, self.delta))
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
        return aue_noise(self.epsilon, self.delta, honest)

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
        return binomial(users, self.chance).bin_law

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


def least_binomial_chance(epsilon: float, delta: float, n: int) -> float:
    """The least probability with which each of n users sends a dummy to a bin, for a target.

    Args:
        epsilon: positive, in nats.
        delta: in (0, 1).
        n: how many users.

    Returns:
        The chance, at most 1/2 (more dummies than that are fewer missing ones), on the private
        side.

    Raises:
        ValueError: an argument is out of range, or not even 1/2 suffices for so few users.
    """
    require_batch(n)
    require_epsilon(epsilon)
    require_delta(delta)
    if not dummies_delta(binomial(n, 0.5), epsilon) <= delta:
        raise ValueError(
            f"{n} users are too few for epsilon {epsilon} at delta {delta}: even coins do not hide "
            f"a message among them; {least_users(epsilon, delta):,} users do"
        )

    def delta_at(mean: float) -> float:
        return dummies_delta(binomial(n, mean / n), epsilon)

    return least_mean(delta_at, epsilon, delta, limit=n / 2) / n


def least_users(epsilon: float, delta: float) -> int:
    """The least number of users whose even coins, summed in each bin, meet a target.

    Args:
        epsilon: positive, in nats.
        delta: in (0, 1).

    Raises:
        ValueError: an argument is out of range, or 2^32 users do not suffice.
    """
    require_epsilon(epsilon)
    require_delta(delta)
    few, enough = 0, 1
    while not dummies_delta(binomial(enough, 0.5), epsilon) <= delta:
        few, enough = enough, 2 * enough
        if not enough <= _MOST_USERS:
            raise ValueError(f"no number of users up to {_MOST_USERS:,} meets epsilon {epsilon}")
    # One more user's coins are independent noise on top, so delta falls with the number of users
    # and halving finds the least.
    while enough - few > 1:
        middle = (few + enough) // 2
        met = dummies_delta(binomial(middle, 0.5), epsilon) <= delta
        few, enough = (few, middle) if met else (middle, enough)
    return enough
