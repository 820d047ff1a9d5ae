"""Subset selection: the true value in a random set of k, likelier than not.

A user sends k distinct values. Sets that hold the user's value are e^epsilon times as likely as
sets that do not, and there is no other difference between sets, which makes the error the least
that local privacy allows (Ye and Barg). The price is k, about d / (e^epsilon + 1) messages.

How often each value occurs in a population's random subsets, without drawing the subsets.

The counts depend on each other, since every subset has its fixed size, but not on who drew what:
taking the values one after the other, it is enough to know how many users have how many members
yet to place. Of users who have r to place among L remaining values, each places one on the next
value with probability r / L. Users differ in the value that is their own, which the uniform part
of their subset leaves out; until that value's turn comes, nothing tells them apart, so its
holders are a random choice from all who still wait for theirs.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.channel import Counts, Report, require_epsilon, require_integer
from mechanisms.frequency.oracle import SMALL
from mechanisms.frequency.set_reports import LARGEST_BATCH, Memberships, SetReports, merged
from mechanisms.privacy.pair_law import PairLaw, ShuffleLaws
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.registry import register
from mechanisms.sampling.sparse_bits import Indices, distinct

_WORD = 1 << 64
_LARGEST_DOMAIN = 1 << 28  # values; the collector's table takes 8 bytes for each
_LARGEST_SUBSET = 1 << 21  # messages of one user, who draws them all at once
_LARGEST_LISTED = 1 << 14  # subsets listed


def subset_counts(histogram: Counts, size: int, keep: float, rng: SeededRandom) -> Counts:
    """The counts of subset selection reports of a simulated population.

    Time grows as domain_size sqrt(size), whatever the number of users.

    Args:
        histogram: (d,) int64, how many users hold each value; fewer than 10^9 in all.
        size: members of each user's subset, in 1 .. d - 1.
        keep: the probability that a subset holds its user's own value.
        rng: repeatable randomness.

    Returns:
        (d,) int64, the number of subsets that hold each value: their joint law, exact up to the
        rounding of numpy's binomial and hypergeometric generators.

    Raises:
        ValueError: a number of users is negative, or there are too many.
    """
    d, source = histogram.size, rng.generator()
    n = int(histogram.sum())
    truthful = int(source.binomial(n, keep))
    # Users by how many others they have yet to place (`least` + position) in three rows: own value
    # to come and not in the subset; to come and in it; past.
    least, pool = size - 1, np.array([[0, n - truthful], [truthful, 0], [0, 0]])
    counts = np.zeros(d, np.int64)
    for value, holders in enumerate(histogram.tolist()):
        chosen = source.multivariate_hypergeometric(pool[:2].ravel(), holders).reshape(2, -1)
        pool[:2] -= chosen
        # Users whose own value is yet to come have one value fewer to place others on.
        others_left = np.array([[d - 1 - value], [d - 1 - value], [d - value]])
        chance = (least + np.arange(pool.shape[1])) / np.maximum(others_left, 1)
        placed = source.binomial(pool, np.minimum(chance, 1.0))
        counts[value] = chosen[1].sum() + placed.sum()
        pool -= placed
        pool[2] += chosen.sum(axis=0)
        least, pool = _trimmed(least - 1, _one_fewer(pool, placed))
    return counts


def _one_fewer(stay: NDArray[np.int64], placed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those who placed a member move one position down, to a column put in front."""
    none = np.zeros((3, 1), np.int64)
    return np.hstack([none, stay]) + np.hstack([placed, none])


def _trimmed(least: int, pool: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """Without the empty columns at either end."""
    occupied = np.flatnonzero(pool.any(axis=0))
    if not occupied.size:
        return 0, pool[:, :1]
    first, last = int(occupied[0]), int(occupied[-1])
    return least + first, pool[:, first : last + 1]


@register(
    "subset",
    task="frequency",
    sends="a set of fixed size",
    source="Ye, Barg, IEEE Trans. Information Theory 2018",
    searched=True,
    several=True,
    largest_batch=LARGEST_BATCH,
    postprocess="auto",
    small=SMALL,
)
@dataclass(frozen=True)
class SubsetSelection(SetReports):
    """A random subset of fixed size that holds the user's value more often than not.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.

    Source: Ye, Barg, "Optimal schemes for discrete distribution estimation under locally
        differential privacy", IEEE Trans. Information Theory 2018; found independently by Wang,
        Huang, Wang, Nie, Xu, Yang, Li, Qiao, "Mutual information optimally local private discrete
        distribution estimation", arXiv 1607.08025, 2016.

    >>> mechanism = SubsetSelection(epsilon=1.0, domain_size=100)
    >>> mechanism.subset_size, round(mechanism.keep, 3), round(mechanism.other, 3)
    (27, 0.501, 0.268)
    >>> round(float(mechanism.variance(0.0, n=1)), 2)
    3.59
    """

    epsilon: float
    domain_size: int
    portion: ClassVar[int] = 1 << 19  # messages drawn at a time

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        d = self.domain_size
        require_integer("domain_size", d, 2, _LARGEST_DOMAIN)
        if not self.subset_size <= _LARGEST_SUBSET:
            raise ValueError(
                f"a domain_size of {d} makes each user send {self.subset_size} messages at epsilon "
                f"{self.epsilon}, more than {_LARGEST_SUBSET}; up to "
                f"{math.floor(_LARGEST_SUBSET * (math.exp(self.epsilon) + 1)) - 1} values do not"
            )
        if not self.keep_weight * d > self.subset_size * _WORD:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    @property
    def supportable(self) -> int:
        """All values: subsets are equally large."""
        return self.domain_size

    # ---- the law of a report -----------------------------------------------------------------

    @cached_property
    def subset_size(self) -> int:
        """k, the number of a user's messages: the one that minimises the average variance.

        The continuous optimum is d / (e^epsilon + 1); the sizes on either side are compared.
        """
        d = self.domain_size
        target = d / (math.exp(min(self.epsilon, 700.0)) + 1)
        near = {max(1, math.floor(target)), min(math.ceil(target), d - 1)}
        return max(sorted(near), key=self._precision)

    def _precision(self, size: int) -> Fraction:
        """1 / (the average variance of one report), were this the size of subsets."""
        d, keep = self.domain_size, Fraction(self._keep_weight(size), _WORD)
        other = (size - keep) / (d - 1)
        spread = keep * (1 - keep) + (d - 1) * other * (1 - other)
        return d * (keep - other) ** 2 / spread

    def _keep_weight(self, size: int) -> int:
        """P(a subset of this size holds the user's value) in units of 2^-64, rounded down.

        Such subsets have e^epsilon times the weight of the others, and there are k of them for
        every d - k others.
        """
        lower, _ = exponential_bounds(self.epsilon)
        # From a lower bound of e^epsilon, rounded down: the truth may only be rarer than asked for.
        return math.floor(_WORD * lower * size / (lower * size + self.domain_size - size))

    @cached_property
    def keep_weight(self) -> int:
        """P(the subset holds the user's value) in units of 2^-64."""
        return self._keep_weight(self.subset_size)

    @property
    def keep(self) -> float:
        return self.keep_weight / _WORD

    @property
    def other(self) -> float:
        numerator = self.subset_size * _WORD - self.keep_weight
        return numerator / ((self.domain_size - 1) * _WORD)

    @property
    def contrast(self) -> float:
        numerator = self.keep_weight * self.domain_size - self.subset_size * _WORD
        return numerator / ((self.domain_size - 1) * _WORD)

    @property
    def messages(self) -> float:
        return float(self.subset_size)

    @property
    def largest_set(self) -> int:
        return self.subset_size

    derivation = (
        "closed form: a subset that holds the value is at most e^epsilon times as likely as "
        "one that does not; the 64-bit threshold is rounded to the private side"
    )

    def memberships(self) -> tuple[Memberships, int]:
        d, k, keep = self.domain_size, self.subset_size, self.keep_weight
        law = {
            (True, True): keep * (k - 1),
            (True, False): keep * (d - k),
            (False, True): (_WORD - keep) * k,
            (False, False): (_WORD - keep) * (d - 1 - k),
        }
        return law, _WORD * (d - 1)

    def report_law(self, cell: int) -> Mapping[Report, Fraction]:
        (value,) = self._checked([cell]).tolist()
        d, k, keep = self.domain_size, self.subset_size, self.keep_weight
        if not math.comb(d, k) <= _LARGEST_LISTED:
            raise ValueError(
                f"{d} values have too many subsets of {k} to list them all: at most "
                f"{_LARGEST_LISTED} are listed"
            )
        holding = Fraction(keep, _WORD * math.comb(d - 1, k - 1))
        lacking = Fraction(_WORD - keep, _WORD * math.comb(d - 1, k))
        return {
            subset: holding if value in subset else lacking for subset in combinations(range(d), k)
        }

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals at most: subsets shuffled whole, their messages together.

        Every subset is as likely as one that lacks the value, or likelier, so the blanket is a
        uniform subset. Shuffling each message on its own reveals no more than that. From below
        nothing is stated: sums of subsets, unlike batches of them, have no law of this form.

        Source: Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO
            2019, Lemma 5.3.
        """
        d, k = self.domain_size, self.subset_size
        law, denominator = self.memberships()
        blanket = Fraction(_WORD - self.keep_weight, _WORD) * Fraction(d, d - k)
        inside = {
            (True, True): k * (k - 1),
            (True, False): k * (d - k),
            (False, True): k * (d - k),
            (False, False): (d - k) * (d - k - 1),
        }
        rows = [
            (Fraction(weight, denominator), Fraction(law[b, a], denominator),
             blanket * Fraction(inside[a, b], d * (d - 1)))
            for (a, b), weight in law.items() if inside[a, b]
        ]  # fmt: skip
        rows.append((Fraction(0), Fraction(0), 1 - blanket))
        first, second, others = np.array([[float(x) for x in row] for row in rows]).T
        return ShuffleLaws((PairLaw(first, second, others),), (), self.epsilon)

    # ---- client and collector ----------------------------------------------------------------

    def _pieces(self, cells: Indices, rng: RandomSource) -> Iterator[Indices]:
        d, step = self.domain_size, max(1, self.portion // self.subset_size)
        for start in range(0, cells.size, step):
            own = cells[start : start + step]
            kept = rng.bernoulli(self.keep_weight, own.size)
            # Drawn among the d - 1 other values, each report has k distinct members without
            # rejection.
            others = distinct(self.subset_size - kept.astype(np.int64), d - 1, rng)
            senders = others // (d - 1)
            others += senders  # a place among d values, the last of which is not used
            others += others - senders * d >= own[senders]  # nor, from here on, is one's own
            mine = np.flatnonzero(kept)
            yield merged(others, mine * d + own[mine]) + start * d

    def simulate(self, histogram: ArrayLike, rng: SeededRandom) -> Counts:
        """The collector's state after a simulated population, drawn value by value."""
        holders = np.asarray(histogram, np.int64)
        return subset_counts(holders, self.subset_size, self.keep, rng)
