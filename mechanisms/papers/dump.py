"""DUMP: the true value, or k-ary response to it, among a given number of uniform dummies."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Guarantee, Report
from mechanisms.frequency.dummy_batch import DummyBatch, uniform_bags
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.noise_laws import Binomial
from mechanisms.frequency.task import FrequencyTask
from mechanisms.papers.published_bounds import mixdump_dummies, puredump_dummies
from mechanisms.papers.uniform_crowd import UniformCrowd, least_dummies
from mechanisms.postprocess.intervals import Noise
from mechanisms.privacy.binomial_edges import binomial_sum
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling.dummy_shares import Keys, uniform_keys
from mechanisms.sampling.integer_noise import IntegerNoise
from mechanisms.targets.rules import Target

_WORD = 1 << 64
_LARGEST_NUMBER = 1 << 20  # dummies from one user
_MIXED = range(4, 17)  # what a report among dummies may spend: beyond, it hardly ever lies


@register(
    "puredump",
    task="frequency",
    sends="the value among a fixed number of uniform dummies",
    source="Li, Liu, Ren et al., IEEE TDSC 2023",
    models=["shuffle"],
    batch=True,
    several=True,
    small=[
        {"epsilon": 1.0, "delta": 0.05, "n": 4, "domain_size": 3, "honest_share": 0.75},
        {"epsilon": 1.5, "delta": 0.2, "n": 5, "domain_size": 2, "honest_share": 0.6},
    ],
    rules=dict.fromkeys(("shuffle", "published"), lambda target: PureDump.meeting(target)),
)
@dataclass(frozen=True)
class PureDump(DummyBatch):
    """The true value and s uniform dummies; if s is not whole, one more with the rest's chance.

    The bins' dummy counts depend on each other only through their number, and the exact loss is
    that of Poisson dummies but for a hair.

    Attributes: those of `DummyBatch`; the published bound needs epsilon up to 1.

    Source: Li, Liu, Ren et al., "Privacy enhancement via dummy points in the shuffle model", IEEE
        TDSC 2023 (first as Li, Wang, Li, Bai, Song, "DUMP", 2020).

    >>> exact = PureDump(0.5, 1e-6, n=602_325, domain_size=915, honest_share=1.0)
    >>> paper = PureDump(0.5, 1e-6, 602_325, 915, honest_share=1.0, bound="published")
    >>> round(exact.messages, 2), round(paper.messages, 2)
    (1.21, 2.24)
    """

    bounds: ClassVar[tuple[str, ...]] = ("exact", "published")

    @cached_property
    def numbers(self) -> tuple[int, float]:
        """(whole, chance): dummies that are sent for certain, and the chance of one more."""
        honest = self.honest(self.n)
        whole, chance = (
            self._published(honest) if self.bound == "published" else self._exact(honest)
        )
        if not whole < _LARGEST_NUMBER:
            least = self.least_batch(math.ceil((whole + 1) * honest / _LARGEST_NUMBER))
            raise ValueError(
                f"n must be at least {least:,} for {self.domain_size} values, or a user would send "
                f"more than {_LARGEST_NUMBER:,} dummies, not {self.n:,}"
            )
        return whole, chance

    def _exact(self, honest: int) -> tuple[int, float]:
        return least_dummies(self.domain_size, honest, self.epsilon, self.delta, self.miss)

    def _published(self, honest: int) -> tuple[int, float]:
        return puredump_dummies(self.epsilon, self.delta, self.domain_size, honest)

    @property
    def dummies(self) -> float:
        return sum(self.numbers)

    @property
    def miss(self) -> float:
        """P(the report names a given wrong value)."""
        return 0.0

    # ---- the shuffled batch ------------------------------------------------------------------

    def crowd(self, users: int) -> UniformCrowd:
        """The batch of so many users as its accountant sees it."""
        whole, chance = self.numbers
        return UniformCrowd(self.domain_size, users, whole, chance, self.miss)

    def batch_delta(self, n: int, epsilon: float) -> tuple[float, float]:
        """delta of a shuffled batch.

        Args:
            n: how many users; any number, not only those the mechanism is made for.
            epsilon: at least 0, in nats.

        Returns:
            (lower, upper): what is lost, at least, if all users do as they should; and a bound on
            what is lost if only the honest share does.
        """
        require_batch(n)
        require_loss(epsilon)
        lower, honest = self.crowd(n).lower_delta(epsilon), self.honest(n)
        # Dishonest users may send nothing, but they cannot make the user's own response tell more.
        counted = self.crowd(honest)
        upper = min(counted.local_delta(epsilon), counted.delta(epsilon)[1])
        return min(lower, upper), upper

    def batch_epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """epsilon of a shuffled batch.

        Args:
            n: how many users; any number, not only those the mechanism is made for.
            delta: in (0, 1).

        Returns:
            (lower, upper), as in `batch_delta`.
        """
        require_batch(n)
        require_delta(delta)
        counted = self.crowd(self.honest(n))
        upper = min(counted.local_epsilon, self._claimed(n, delta), counted.upper_epsilon(delta))
        lower = self.crowd(n).lower_epsilon(delta, upper)
        return min(lower, upper), upper

    # ---- collector ---------------------------------------------------------------------------

    @property
    def lifts(self) -> tuple[int, int]:
        whole, chance = self.numbers
        return 0, 1 + whole + (chance > 0)

    @property
    def _spread(self) -> float:
        """Variance of one user's dummies in one bin."""
        whole, chance = self.numbers
        share = 1 / self.domain_size
        return whole * share * (1 - share) + chance * share * (1 - chance * share)

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        return np.zeros_like(np.asarray(frequency, np.float64)) + self._spread / n

    def added(self, n: int) -> Noise | None:
        (whole, chance), share = self.numbers, 1 / self.domain_size
        if not (whole and chance):
            return Binomial(n * max(whole, 1), share * (1 if whole else chance))
        law = binomial_sum((n * whole, share), (n, chance * share))
        return IntegerNoise(law.first, law.pmf)

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        holders, source = np.asarray(histogram, np.int64), rng.generator()
        n, (whole, chance) = int(holders.sum()), self.numbers
        # A report is wrong by being replaced by a uniform one, with the blanket's probability.
        true: Counts = source.binomial(holders, 1 - self.domain_size * self.miss)
        uniform = n - int(true.sum()) + n * whole + int(source.binomial(n, chance))
        false: Counts = source.multinomial(uniform, np.full(self.codes, 1 / self.codes))
        return true + false

    # ---- client ------------------------------------------------------------------------------

    @cached_property
    def _threshold(self) -> int:
        """The chance of one more dummy in units of 2^-64, exactly."""
        # `least_dummies` gives a multiple of 2^-53, so nothing is cut off here.
        return int(self.numbers[1] * _WORD)

    def _extras(self, size: int, rng: RandomSource) -> Keys:
        numbers = self.numbers[0] + rng.bernoulli(self._threshold, size).astype(np.int64)
        return uniform_keys(numbers, self.codes, rng)

    def _extra_law(self) -> Mapping[Report, Fraction]:
        whole, chance = self.numbers[0], Fraction(self._threshold, _WORD)
        number = {whole: 1 - chance} | ({whole + 1: chance} if chance else {})
        return uniform_bags(number, self.codes)


def best_mixed(target: Target[FrequencyTask]) -> "MixDump":
    """Dummies among k-ary responses, at the epsilon_local with the least error."""
    best = None
    for local in sorted({min(target.cap, float(local)) for local in _MIXED}):
        mixed = MixDump.meeting(target, epsilon_local=local)
        if best and best.average_variance(target.n) < mixed.average_variance(target.n):
            break  # from here on the error of fewer lies is less than that of more dummies
        best = mixed
    if best is None:
        raise ValueError(f"no epsilon_local of {target.cap:g} or less is left to be mixed")
    return best


@register(
    "mixdump",
    task="frequency",
    sends="a k-ary response among a fixed number of uniform dummies",
    source="Li, Liu, Ren et al., IEEE TDSC 2023",
    models=["shuffle"],
    batch=True,
    several=True,
    small=[
        {"epsilon": 0.5, "delta": 0.02, "n": 4, "domain_size": 3, "epsilon_local": 2.0},
        {"epsilon": 0.6, "delta": 0.1, "n": 3, "domain_size": 4, "epsilon_local": 1.5},
    ],
    rules=dict.fromkeys(("shuffle", "published"), lambda target: best_mixed(target)),
)
@dataclass(frozen=True)
class MixDump(PureDump):
    """k-ary response and s uniform dummies: less is in the open before the shuffle.

    Other users' lies hide a value as dummies do, so fewer are sent: none, where k-ary response
    meets the target by itself. In exchange the estimate pays for the lies.

    Attributes:
        epsilon, delta, n, domain_size, honest_share, bound: as in `DummyBatch`; the published
            bound needs epsilon up to 1.
        epsilon_local: privacy loss of the report among the dummies, in nats. By default 8: two
            reports in three are true in a domain of 1,500 values, and a liar's alibi is left.

    Source: as `PureDump`; accounted by the privacy blanket of k-ary response (Balle, Bell, Gascon,
        Nissim, CRYPTO 2019) together with the dummies.

    >>> mechanism = MixDump(0.2, 1e-6, n=602_325, domain_size=915, honest_share=1.0)
    >>> round(mechanism.messages, 2), mechanism.local.epsilon
    (1.41, 8.0)
    """

    epsilon_local: float = 8.0

    accounting: ClassVar[str] = (
        "numerical accountant: the privacy blanket of k-ary response (Balle, Bell, Gascon, Nissim "
        "2019, Lemma 5.3) and the dummies together, rounded up"
    )

    def __post_init__(self) -> None:
        if not 0 < self.epsilon_local <= 700:
            raise ValueError(f"epsilon_local must lie in (0, 700], not {self.epsilon_local}")
        super().__post_init__()

    @cached_property
    def response(self) -> LinearHash:
        """The report among the dummies."""
        return k_ary(self.epsilon_local, self.domain_size)

    @property
    def miss(self) -> float:
        return self.response.miss_weight / _WORD

    def _published(self, honest: int) -> tuple[int, float]:
        return mixdump_dummies(self.epsilon, self.delta, self.domain_size, honest, self.miss)

    @property
    def local(self) -> Guarantee:
        return self.response.guarantee

    @property
    def keep(self) -> float:
        return self.response.keep + self.dummies / self.domain_size

    @property
    def other(self) -> float:
        return self.response.other + self.dummies / self.domain_size

    @property
    def contrast(self) -> float:
        return self.response.contrast

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        dummies = self._spread / (n * self.contrast**2)
        return self.response.variance(frequency, n) + dummies

    def added(self, n: int) -> Noise | None:
        return None

    def _truth(self, values: NDArray[np.integer], rng: RandomSource) -> NDArray[np.int64]:
        return self.response.perturb(values, rng).view(np.int64)

    def _truth_law(self, cell: int) -> Mapping[int, Fraction]:
        numerators, denominator = self.response.weights(cell)
        return {code: Fraction(int(x), denominator) for code, x in enumerate(numerators)}
