"""Bloom filters whose bits are flipped by independent coins: the law of RAPPOR's reports."""

import itertools
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Kinds, Report
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.papers.bloom_filters import BloomFilters
from mechanisms.papers.public_seed import PublicSeed
from mechanisms.privacy.pair_law import ShuffleLaws, clone_laws
from mechanisms.randomness import SeededRandom

_WORD = 1 << 64
_MOST_REPORTS = 1 << 14  # that `report_law` lists
_BLOCK = 1 << 15  # values decoded at a time
_COMPARED = 64  # values of which every two filters are compared


class NoisyFilters(PublicSeed, SeveralMessages):
    """The filter of the value in a uniform random cohort, each bit flipped with one chance.

    The code of bit j of cohort c is c bits + j; of a user's header, cohorts bits + c. A report
    supports a value as often as it sets bits of that value's filter.

    Attributes:
        domain_size: d, the number of values.
        bits: b, the length of a filter.
        hashes: h, how many bits a value sets, less than b.
        cohorts: how many families of hash functions there are.
        seed: the public randomness of the hash functions.
    """

    epsilon: float
    domain_size: int
    bits: int
    hashes: int
    cohorts: int
    seed: int

    accounting: ClassVar[str] = (
        "numerical accountant: the clones bound (Feldman, McMillan, Talwar 2021) of one report's "
        "exact epsilon"
    )

    @property
    @abstractmethod
    def flip_weight(self) -> int:
        """P(a report's bit differs from the filter's), in units of 2^-64; below 1/2."""

    @cached_property
    def filters(self) -> BloomFilters:
        """The encoding that clients and the collector share."""
        return BloomFilters(self.seed, self.domain_size, self.bits, self.hashes, self.cohorts)

    @property
    def codes(self) -> int:
        return self.cohorts * (self.bits + 1)

    @property
    def headers(self) -> int:
        """The code of the first cohort's header; all codes below it are bits."""
        return self.cohorts * self.bits

    @property
    def differing(self) -> int:
        """In how many bits two filters of a cohort differ at most: 2h, if so many exist."""
        return 2 * min(self.hashes, self.bits - self.hashes)

    @property
    def flip(self) -> float:
        """P(a report's bit differs from the filter's)."""
        return self.flip_weight / _WORD

    # ---- what a report supports --------------------------------------------------------------

    @property
    def density(self) -> float:
        """h/b, the share of a filter's bits that another value's filter sets on average."""
        return self.hashes / self.bits

    @property
    def slope(self) -> float:
        """1 - 2 flip, without cancellation."""
        return (_WORD - 2 * self.flip_weight) / _WORD

    @property
    def keep(self) -> float:
        """How many of the h bits of its own value's filter a report sets on average."""
        return self.hashes * (1 - self.flip)

    @property
    def other(self) -> float:
        """How many of another value's, over the public seed."""
        return self.hashes * (self.flip + self.density * self.slope)

    @property
    def contrast(self) -> float:
        return self.hashes * (1 - self.density) * self.slope

    @property
    def lifts(self) -> tuple[int, int]:
        return 0, self.hashes

    @property
    def messages(self) -> float:
        return 1 + self.keep + (self.bits - self.hashes) * self.flip

    @property
    def collision(self) -> float:
        """1 / (cohorts (b - 1)): filters share a hypergeometric number of bits in each cohort."""
        return 1 / (self.cohorts * (self.bits - 1))

    def report_variance(self, frequency: ArrayLike) -> Floats:
        # The coins of the h bits; and which other users' filters the value's own filter happens to
        # meet.
        coins = self.flip * (1 - self.flip) / (self.slope * (1 - self.density)) ** 2 / self.hashes
        return coins + (1 - np.asarray(frequency, np.float64)) / (self.bits - 1)

    # ---- collector ---------------------------------------------------------------------------

    def users(self, counts: Counts, reported: int) -> int:
        """The headers: every user sends one, so nobody need be asked."""
        return int(counts[self.headers :].sum())

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        return super().estimate(counts, self.users(counts, 0) if n is None else n)

    def support(self, counts: Counts) -> Counts:
        """How many set bits lie on each value's filter, over all cohorts."""
        table = counts[: self.headers].reshape(self.cohorts, self.bits)
        total = np.zeros(self.domain_size, np.int64)
        for values in self._value_blocks():
            for cohort in range(self.cohorts):
                total[values] += table[cohort, self.filters.positions(cohort, values)].sum(axis=1)
        return total

    def _value_blocks(self) -> Iterator[NDArray[np.int64]]:
        """The domain in pieces."""
        for start in range(0, self.domain_size, _BLOCK):
            yield np.arange(start, min(start + _BLOCK, self.domain_size))

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        holders = np.asarray(histogram, np.int64)
        generator, fair = rng.generator(), np.full(self.cohorts, 1 / self.cohorts)
        on = np.zeros((self.cohorts, self.bits), np.int64)  # users whose filter sets the bit
        reported = np.zeros(self.cohorts, np.int64)
        for values in self._value_blocks():
            split = generator.multinomial(holders[values], fair)
            reported += split.sum(axis=0)
            for cohort, users in enumerate(split.T):
                np.add.at(on[cohort], self.filters.positions(cohort, values), users[:, None])
        off = reported[:, None] - on
        bits = generator.binomial(on, 1 - self.flip) + generator.binomial(off, self.flip)
        return np.concatenate([bits.ravel(), reported])

    def forged(self, targets: NDArray[np.int64], users: int, rng: SeededRandom) -> Counts:
        """As `FrequencyOracle.forged`: all bits of all targets, and others up to the usual number.

        Cohorts are drawn evenly, as honest users draw them.
        """
        source, fair = rng.generator(), np.full(self.cohorts, 1 / self.cohorts)
        reported = source.multinomial(users, fair)
        bits = np.zeros((self.cohorts, self.bits), np.int64)
        for cohort, some in enumerate(reported.tolist()):
            own = np.unique(self.filters.positions(cohort, targets))
            padding = max(round(self.messages) - 1 - own.size, 0)
            chance = min(padding / max(self.bits - own.size, 1), 1.0)
            bits[cohort] = source.binomial(some, chance, self.bits)
            bits[cohort, own] = some
        return np.concatenate([bits.ravel(), reported])

    def scattered(self, users: int, rng: SeededRandom) -> Counts:
        source, fair = rng.generator(), np.full(self.cohorts, 1 / self.cohorts)
        reported = source.multinomial(users, fair)
        bits = source.binomial(reported[:, None], 0.5, (self.cohorts, self.bits))
        return np.concatenate([bits.ravel(), reported])

    # ---- the exact channel -------------------------------------------------------------------

    def report_law(self, cell: int) -> Mapping[Report, Fraction]:
        value = self._checked([cell])
        if not self.cohorts << self.bits <= _MOST_REPORTS:
            raise ValueError(
                f"at most {_MOST_REPORTS} reports can be listed, not {self.cohorts} x "
                f"2^{self.bits}; `kinds` states their law for any size"
            )
        flip, size, law = Fraction(self.flip_weight, _WORD), self.bits, {}
        chances = [flip**k * (1 - flip) ** (size - k) / self.cohorts for k in range(size + 1)]
        for cohort in range(self.cohorts):
            own = set(self.filters.positions(cohort, value)[0].tolist())
            for chosen in self._subsets():
                codes = [cohort * size + bit for bit in sorted(chosen)]
                law[(*codes, self.headers + cohort)] = chances[len(chosen ^ own)]
        return law

    def _subsets(self) -> list[set[int]]:
        """All that a report may say of a cohort's bits."""
        bits = range(self.bits)
        return [set(s) for k in range(self.bits + 1) for s in itertools.combinations(bits, k)]

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """In closed form: a report is a cohort, and how many differing bits agree with `one`.

        All other bits have the same law under both, whatever the rest says, and are left out.
        """
        self._checked([one, other])
        shared = self.filters.overlaps([one, other])[:, 0, 1]
        flip, stay, most = self.flip_weight, _WORD - self.flip_weight, 2 * self.hashes
        kinds: Counter[tuple[int, int]] = Counter()
        for overlap, cohorts in Counter(shared.tolist()).items():
            differ = most - 2 * overlap
            unit = _WORD ** (most - differ)  # one denominator for all cohorts
            for agree in range(differ + 1):
                a = unit * stay**agree * flip ** (differ - agree)
                b = unit * flip**agree * stay ** (differ - agree)
                kinds[a, b] += cohorts * math.comb(differ, agree)
        denominator = self.cohorts * _WORD**most
        return kinds, (denominator, denominator)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Pairs that stand for all: only how many bits differ in how many cohorts matters.

        Of up to 64 values every two are compared. In a larger domain the one pair of the first 64
        is taken whose filters have nothing in common in most cohorts. If that is all of them, no
        other pair is told apart better: its reports can be made from reports of this one by
        leaving bits out. If it is one cohort at least, the loss at delta 0 is that of any pair.
        """
        cells = range(min(self.domain_size, _COMPARED))
        shared = self.filters.overlaps(cells)
        representatives = {
            tuple(np.bincount(shared[:, one, other], minlength=self.hashes + 1).tolist()): (
                one,
                other,
            )
            for one, other in itertools.combinations(cells, 2)
        }
        # Of two profiles, that with more cohorts that share nothing comes first.
        ranked = [representatives[profile] for profile in sorted(representatives, reverse=True)]
        return ranked if self.domain_size <= _COMPARED else ranked[:1]

    def shuffle_laws(self) -> ShuffleLaws:
        """That every report is private, and that it is hidden among others: the clones bound."""
        return clone_laws(self.epsilon)
