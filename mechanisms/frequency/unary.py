"""Unary encoding: a value as d bits of which one is set, every bit flipped on its own.

RAPPOR without memory (SUE) flips set and unset bits alike. Optimised unary encoding (OUE) lets
the one set bit be decided by a fair coin, and can then afford to set others more rarely; no local
mechanism has a smaller error on large domains. A user sends the positions of the bits that are
set, some d / (e^epsilon + 1) messages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Counts, Report, require_epsilon, require_integer
from mechanisms.frequency.oracle import SMALL
from mechanisms.frequency.set_reports import LARGEST_BATCH, Memberships, SetReports, merged
from mechanisms.privacy.bernoulli_bins import unary_delta, unary_epsilon
from mechanisms.privacy.divergence import tight_delta
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling.sparse_bits import Indices, heads

_WORD = 1 << 64
_LARGEST_DOMAIN = 1 << 28  # values; the collector's table takes 8 bytes for each
_DOUBLE = 53  # bits that a double holds
_LARGEST_LISTED = 14  # values whose 2^d sets are listed


@dataclass(frozen=True)
class Unary(SetReports):
    """Independent bits, one for each value.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        symmetric: whether set and unset bits are flipped with one probability (SUE), or a set
            bit with 1/2 and unset ones as rarely as privacy allows (OUE).

    >>> mechanism = Unary(epsilon=1.0, domain_size=100)
    >>> round(float(mechanism.variance(0.0, n=1)), 3)
    3.683
    >>> round(mechanism.messages, 1)
    27.1
    """

    epsilon: float
    domain_size: int
    symmetric: bool = False
    portion: ClassVar[int] = 1 << 19  # messages drawn at a time

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_integer("domain_size", self.domain_size, 2, _LARGEST_DOMAIN)
        if not self.keep_weight > self.other_weight:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    # ---- the law of a report -----------------------------------------------------------------

    @cached_property
    def other_weight(self) -> int:
        """P(the bit of any one other value is set) in units of 2^-64, rounded up.

        The two bits that tell two values apart lose ((1 - q)/q)^2 in all if they are flipped
        alike, and (1 - q)/q if set bits are decided by fair coins. Both chances are doubles, too:
        the accountant of a batch computes with the very numbers that clients use.
        """
        lower, _ = exponential_bounds(self.epsilon / 2 if self.symmetric else self.epsilon)
        least = ceiling(Fraction(_WORD) / (lower + 1))
        largest = _WORD - 1 if self.symmetric else least  # 1 - q is as fine as q, or not needed
        unit = 1 << max(0, largest.bit_length() - _DOUBLE)
        return -(-least // unit) * unit

    @cached_property
    def keep_weight(self) -> int:
        """P(the bit of the user's own value is set) in units of 2^-64."""
        return _WORD - self.other_weight if self.symmetric else _WORD // 2

    @property
    def keep(self) -> float:
        return self.keep_weight / _WORD

    @property
    def other(self) -> float:
        return self.other_weight / _WORD

    @property
    def contrast(self) -> float:
        return (self.keep_weight - self.other_weight) / _WORD

    @property
    def messages(self) -> float:
        return self.keep + (self.domain_size - 1) * self.other

    derivation = (
        "closed form: two values differ in the laws of two bits only, whose likelihood ratio "
        "is at most e^epsilon; the 64-bit thresholds are rounded to the private side"
    )

    def memberships(self) -> tuple[Memberships, int]:
        own = {True: self.keep_weight, False: _WORD - self.keep_weight}
        second = {True: self.other_weight, False: _WORD - self.other_weight}
        law = {(a, b): own[a] * second[b] for a in own for b in second}
        return law, _WORD**2

    def report_law(self, cell: int) -> Mapping[Report, Fraction]:
        (value,) = self._checked([cell]).tolist()
        if not self.domain_size <= _LARGEST_LISTED:
            raise ValueError(
                f"{self.domain_size} values have too many sets to list them all; domain_size may "
                f"be at most {_LARGEST_LISTED} for that"
            )
        law: dict[Report, Fraction] = {(): Fraction(1)}
        for j in range(self.domain_size):
            chance = Fraction(self.keep_weight if j == value else self.other_weight, _WORD)
            absent = {report: weight * (1 - chance) for report, weight in law.items()}
            law = absent | {(*report, j): weight * chance for report, weight in law.items()}
        return law

    # ---- client and collector ----------------------------------------------------------------

    def _pieces(self, cells: Indices, rng: RandomSource) -> Iterator[Indices]:
        # All users' bits are one row of coins, cut without regard to where a user's begin.
        d, coins = self.domain_size, cells.size * self.domain_size
        step = int(self.portion / (self.other + 1 / d))
        for start in range(0, coins, step):
            end = min(start + step, coins)
            users = np.arange(start // d, (end - 1) // d + 1)
            own = users * d + cells[users]
            own = own[(start <= own) & (own < end)]
            others = heads(end - start, self.other_weight, rng) + start
            # Every bit has had the coin for bits of others; one's own is decided by another.
            senders = others // d
            others = others[others - senders * d != cells[senders]]
            yield merged(others, own[rng.bernoulli(self.keep_weight, own.size)])

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        """The collector's state after a simulated population: each bin is two binomials."""
        holders, source = np.asarray(histogram, np.int64), rng.generator()
        true: Counts = source.binomial(holders, self.keep)
        false: Counts = source.binomial(holders.sum() - holders, self.other)
        return true + false

    # ---- the shuffled batch ------------------------------------------------------------------

    accounting: ClassVar[str] = (
        "numerical accountant: the two bins that one user can change, bounded for any number of "
        "other holders by the blanket of their bits"
    )

    def batch_delta(self, n: int, epsilon: float) -> tuple[float, float]:
        """delta of a batch of n users in which every message is shuffled by itself.

        Args:
            n: how many users report, at least 1. One user's value may be replaced.
            epsilon: at least 0, in nats.

        Returns:
            (lower, upper), between which the truth lies; never above what one report guarantees.

        Raises:
            ValueError: n or epsilon is out of range, or not a number.
        """
        bounds = unary_delta(n, self.keep, self.other, epsilon, self.domain_size)
        return self._bracket(bounds, tight_delta(self, epsilon))

    def batch_epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """epsilon of such a batch at a given delta.

        Args:
            n: how many users report, at least 1. One user's value may be replaced.
            delta: in (0, 1).

        Returns:
            (lower, upper), as `batch_delta` has them.

        Raises:
            ValueError: n or delta is out of range, or not a number.
        """
        bounds = unary_epsilon(n, self.keep, self.other, delta, self.domain_size)
        return self._bracket(bounds, self.epsilon)

    def _bracket(self, bounds: tuple[float, float], alone: float) -> tuple[float, float]:
        """The bounds, and no more than one report loses."""
        lower, upper = bounds
        return min(lower, upper, alone), min(upper, alone)


@register(
    "oue",
    task="frequency",
    sends="a set: the value with probability 1/2, every other with 1/(e^epsilon + 1)",
    source="Wang, Blocki, Li, Jha, USENIX Security 2017",
    searched=True,
    several=True,
    largest_batch=LARGEST_BATCH,
    postprocess="auto",
    small=SMALL,
)
def optimised(epsilon: float, domain_size: int) -> Unary:
    """Optimised unary encoding (OUE): n times the variance of a rare value is 4 e^e / (e^e - 1)^2.

    Source: Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency
        estimation", USENIX Security 2017, section 4.3.
    """
    return Unary(epsilon, domain_size)
