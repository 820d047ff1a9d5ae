"""dBitFlip: whether the value is one of a few that were drawn for the user, each answer flipped.

A user is asked about `sampled` values, drawn whatever the user holds, and answers each question
with a bit: whether it is the value. Two of all bits at most depend on which of two values is held,
so that each may be as true as e^(epsilon / 2) allows; a single question may spend all of epsilon.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Kinds,
    Messages,
    Report,
    require_epsilon,
    require_integer,
)
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.privacy.pair_law import ShuffleLaws, clone_laws
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling.sparse_bits import chosen_coordinates

_WORD = 1 << 64
_LARGEST_DOMAIN = 1 << 27  # values; the collector's table takes 16 bytes for each
_MOST_REPORTS = 1 << 14  # that `report_law` lists
_BLOCK = 1 << 18  # users at a time


@register(
    "dbitflip",
    task="frequency",
    sends="of a few values drawn for the user, for each a bit: whether it is the user's",
    source="Ding, Kulkarni, Yekhanin, NIPS 2017",
    several=True,
    postprocess="auto",
    small=[
        {"epsilon": 0.1, "domain_size": 2},
        {"epsilon": 1.0, "domain_size": 10, "sampled": 2},
        {"epsilon": 2.5, "domain_size": 7, "sampled": 1},
        {"epsilon": 6.0, "domain_size": 5, "sampled": 3},
    ],
)
@dataclass(frozen=True)
class BitFlips(SeveralMessages):
    """Answers to a few questions; the code of an answer is 2 value + (1 for yes).

    Attributes:
        epsilon: privacy loss of one user's answers together, in nats.
        domain_size: k, the number of values (buckets).
        sampled: d, of how many a user is asked; of all, if there are fewer.

    Source: Ding, Kulkarni, Yekhanin, "Collecting telemetry data privately", NIPS 2017, section 3:
        dBitFlip. As published a user of d = 1 flips with e^(epsilon / 2), too, and loses half of
        what is claimed; here it flips as rarely as epsilon allows.

    >>> mechanism = BitFlips(epsilon=1.0, domain_size=32)
    >>> round(float(mechanism.variance(0.0, n=1)), 1)  # 32 / 4 times that of all 32 bits
    31.3
    """

    epsilon: float
    domain_size: int
    sampled: int = 4

    accounting = (
        "numerical accountant: the clones bound (Feldman, McMillan, Talwar 2021) of one report's "
        "exact epsilon"
    )

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_integer("domain_size", self.domain_size, 2, _LARGEST_DOMAIN)
        require_integer("sampled", self.sampled, 1)
        if not 2 * self.flip_weight < _WORD:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    # ---- the law of a report -----------------------------------------------------------------

    @property
    def questions(self) -> int:
        """Of how many values a user is asked."""
        return min(self.sampled, self.domain_size)

    @property
    def epsilon_per_bit(self) -> float:
        """What one bit may lose: two of them tell two values apart, where more than one is sent."""
        return self.epsilon if self.questions == 1 else self.epsilon / 2

    @cached_property
    def flip_weight(self) -> int:
        """P(an answer is a lie) in units of 2^-64, rounded up."""
        lower, _ = exponential_bounds(self.epsilon_per_bit)
        return ceiling(Fraction(_WORD) / (lower + 1))

    @property
    def share(self) -> float:
        """P(a user is asked about a given value)."""
        return self.questions / self.domain_size

    @property
    def flip(self) -> float:
        """P(an answer is a lie)."""
        return self.flip_weight / _WORD

    @property
    def slope(self) -> float:
        """1 - 2 flip, without cancellation."""
        return (_WORD - 2 * self.flip_weight) / _WORD

    @property
    def keep(self) -> float:
        """P(asked about one's own value, and yes)."""
        return self.share * (1 - self.flip)

    @property
    def other(self) -> float:
        """P(asked about a given other value, and yes)."""
        return self.share * self.flip

    @property
    def contrast(self) -> float:
        return self.share * self.slope

    @property
    def codes(self) -> int:
        return 2 * self.domain_size

    @property
    def messages(self) -> float:
        return float(self.questions)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.of_report(
            self.epsilon,
            0.0,
            "closed form: which values are asked about does not depend on the value, and two "
            "values differ in the laws of two bits, or of the one that there is; the 64-bit "
            "thresholds are rounded to the private side",
        )

    def over_time(self, distinct: int) -> float:
        """What permanent answers lose over all time, of histories that change at the same times.

        As published, the questions of a user are drawn once for ever, and so is the report of each
        value. A value that is not asked about has the law of all others of its kind: of a history
        only the values asked about tell it from another, at most d of either.

        Args:
            distinct: k, how many values a user ever has, at least 1.

        Returns:
            In nats, attained: min(k, d) epsilon, and of d = 1 with k > 1 twice epsilon. That
            values change, and when, is not hidden.
        """
        require_integer("distinct", distinct, 1)
        bits = 2 * min(distinct, self.questions) if self.questions > 1 else min(distinct, 2)
        return bits * self.epsilon_per_bit

    def report_law(self, cell: int) -> Mapping[Report, Fraction]:
        (value,) = self._checked([cell]).tolist()
        subsets = math.comb(self.domain_size, self.questions)
        if not subsets << self.questions <= _MOST_REPORTS:
            raise ValueError(f"at most {_MOST_REPORTS} reports can be listed; ask about fewer")
        lie = Fraction(self.flip_weight, _WORD)
        law: dict[Report, Fraction] = {}
        for subset in combinations(range(self.domain_size), self.questions):
            for bits in product((0, 1), repeat=self.questions):
                chance = Fraction(1, subsets)
                for one, bit in zip(subset, bits, strict=True):
                    chance *= 1 - lie if bit == (one == value) else lie
                law[tuple(2 * one + bit for one, bit in zip(subset, bits, strict=True))] = chance
        return law

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """In closed form: which of the two values are asked about, and the answers to that.

        All other answers have one law under both, whatever these say, and are left out.
        """
        self._checked([one, other])
        lie, true = self.flip_weight, _WORD - self.flip_weight
        left, subsets = self.domain_size - 2, math.comb(self.domain_size, self.questions)
        both, lone = (_choices(left, self.questions - seen) for seen in (2, 1))
        kinds: Counter[tuple[int, int]] = Counter()
        kinds[_WORD**2, _WORD**2] = subsets - both - 2 * lone
        for weights in ((true, lie), (lie, true)):
            if one == other:  # nothing tells a value from itself
                weights = weights[:1] * 2
            first, second = weights
            kinds[first * _WORD, second * _WORD] += 2 * lone
            kinds[first * first, second * second] += both
            kinds[first * (_WORD - first), second * (_WORD - second)] += both
        return +kinds, (subsets * _WORD**2, subsets * _WORD**2)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: permutations of the values permute the reports and take any pair to another."""
        return [(0, 1)]

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals at most, whatever the answers are."""
        return clone_laws(self.epsilon)

    # ---- the client --------------------------------------------------------------------------

    def send(self, cells: ArrayLike, rng: RandomSource) -> tuple[Messages, NDArray[np.int64]]:
        values = self._checked(cells)
        parts = [np.empty(0, np.uint64)]
        for start in range(0, values.size, _BLOCK):
            block = values[start : start + _BLOCK]
            parts.append(self._answers(block, self._questions(block.size, rng), rng))
        return np.concatenate(parts), np.repeat(np.arange(values.size), self.questions)

    def remember(self, cells: ArrayLike, lasting: RandomSource, rng: RandomSource) -> Messages:
        """The questions last for ever; the answers, for ever for each value."""
        values = self._checked(cells)
        return self._answers(values, self._questions(values.size, lasting), rng)

    def _questions(self, n: int, rng: RandomSource) -> NDArray[np.int64]:
        """(n, asked) the values that each user is asked about."""
        return chosen_coordinates(n, self.domain_size, self.questions, rng)

    def _answers(self, values: Counts, cells: NDArray[np.int64], rng: RandomSource) -> Messages:
        """(n * asked,) the messages."""
        lies = rng.bernoulli(self.flip_weight, cells.size).reshape(cells.shape)
        answers = (cells == values[:, None]) ^ lies
        return np.asarray(2 * cells + answers, np.uint64).reshape(-1)

    # ---- the collector -----------------------------------------------------------------------

    def users(self, counts: Counts, reported: int) -> int:
        """As many as the messages stand for: everybody sends equally many."""
        return int(counts.sum()) // self.questions

    def support(self, counts: Counts) -> Counts:
        return np.asarray(counts[1::2], np.int64)

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """Unbiased: of each value the yeses less those that are lies, among those asked about it.

        Source: Ding, Kulkarni, Yekhanin, section 3: as published.
        """
        users = self.users(counts, 0) if n is None else n
        if not users > 0:
            raise ValueError("there is no report to estimate from")
        table = np.asarray(counts, np.float64).reshape(-1, 2)
        return np.asarray((table[:, 1] - self.flip * table.sum(axis=1)) / (users * self.contrast))

    def variance(self, frequency: ArrayLike, n: int) -> Floats:
        """(pq / (p - q)^2 + f) k / d - f, over n: coins, and who happens to be asked."""
        f = np.asarray(frequency, np.float64)
        coins = self.flip * (1 - self.flip) / self.slope**2
        return np.asarray(((coins + f) / self.share - f) / n)

    @property
    def extreme_reports(self) -> Floats:
        ends = np.array([-self.flip, 1 - self.flip]) / self.contrast
        return np.stack([ends, np.ones(2)], axis=1)

    # ---- liars, simulated --------------------------------------------------------------------

    def forged(self, targets: NDArray[np.int64], users: int, rng: SeededRandom) -> Counts:
        """As `FrequencyOracle.forged`: asked about as many targets as can be, and always yes."""
        counts = np.zeros((self.domain_size, 2), np.int64)
        hits = min(targets.size, self.questions)
        others = np.delete(np.arange(self.domain_size), targets)
        counts[targets, 1] = _spread(users * hits, targets.size)
        answers = _spread(users * (self.questions - hits), others.size)
        counts[others, 1] = rng.generator().binomial(answers, self.flip)
        counts[others, 0] = answers - counts[others, 1]
        return counts.reshape(-1)

    def scattered(self, users: int, rng: SeededRandom) -> Counts:
        cells = self._questions(users, rng).reshape(-1)
        coins = rng.bernoulli(_WORD // 2, cells.size)
        return np.bincount(2 * cells + coins, minlength=self.codes).astype(np.int64)


def _choices(places: int, taken: int) -> int:
    """In how many ways; none of fewer than 0."""
    return math.comb(places, taken) if taken >= 0 else 0


def _spread(total: int, places: int) -> Counts:
    """(places,) integers that add up to a total, as even as can be."""
    return np.asarray(total // max(places, 1) + (np.arange(places) < total % max(places, 1)))
