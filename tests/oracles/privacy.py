"""Slow and obvious: shuffled batches by enumeration, the blanket and the dummies by plain sums."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from mechanisms.channel import Counts, Floats, Guarantee, Mechanism, Messages
from mechanisms.heavy_hitters.levels import Levels
from mechanisms.privacy.blanket import epsilon_bounds
from mechanisms.privacy.pair_law import ShuffleLaws, clone_laws, linear_hash_laws
from mechanisms.randomness import RandomSource


@dataclass(frozen=True)
class Tabulated(Mechanism):
    """A channel given by its table of integer weights; it cannot be run, only audited."""

    table: tuple[tuple[int, ...], ...]

    @property
    def inputs(self) -> int:
        return len(self.table)

    @property
    def codes(self) -> int:
        return len(self.table[0])

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.none("a table for tests")

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        return np.array(self.table[cell], np.uint64), sum(self.table[cell])

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        raise NotImplementedError

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        raise NotImplementedError


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    """sum (first - e^epsilon second)_+."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@lru_cache(maxsize=64)
def _insertions(codes: int, size: int) -> tuple[NDArray[np.int64], int]:
    """(codes, multisets of size - 1) where each multiset goes when a code joins it."""
    bigger = {m: i for i, m in enumerate(combinations_with_replacement(range(codes), size))}
    smaller = list(combinations_with_replacement(range(codes), size - 1))
    where = [[bigger[tuple(sorted((*m, code)))] for m in smaller] for code in range(codes)]
    return np.array(where), len(bigger)


def _joined(law: Floats, report: Floats, size: int) -> Floats:
    """The law of the multiset after one more report."""
    where, length = _insertions(report.size, size)
    result = np.zeros(length)
    for code, chance in enumerate(report):
        result += np.bincount(where[code], law * chance, minlength=length)
    return result


def shuffled_batches(channel: Floats, n: int) -> Iterator[tuple[Floats, Floats]]:
    """Every two neighbouring batches: the laws of the multiset of their codes.

    Args:
        channel: (inputs, codes) probabilities.
        n: how many users; one of them changes its value, the others hold anything.
    """
    inputs = range(len(channel))
    laws: dict[tuple[int, ...], Floats] = {(): np.ones(1)}
    for size in range(1, n):
        laws = {
            held: _joined(laws[held[:-1]], channel[held[-1]], size)
            for held in combinations_with_replacement(inputs, size)
        }
    for others in laws.values():
        batches = [_joined(others, channel[value], n) for value in inputs]
        for one, other in permutations(inputs, 2):
            yield batches[one], batches[other]


def exact_shuffled_delta(mechanism: Mechanism, n: int, epsilon: float) -> float:
    """The largest hockey-stick divergence over all neighbouring shuffled batches."""
    channel = np.array([mechanism.channel(cell) for cell in range(mechanism.inputs)])
    return max(hockey_stick(p, q, epsilon) for p, q in shuffled_batches(channel, n))


def exact_pair_delta(
    first: Floats, second: Floats, others: Floats, n: int, epsilon: float
) -> float:
    """The divergence of one report among n - 1 others, by enumeration of the multisets."""
    rest = np.ones(1)
    for size in range(1, n):
        rest = _joined(rest, others, size)
    return hockey_stick(_joined(rest, first, n), _joined(rest, second, n), epsilon)


def k_ary_blanket_delta(epsilon_local: float, k: int, n: int, epsilon: float) -> float:
    """The privacy blanket of k-ary response: plain sums over N1 and N2, two cdfs for N3."""
    odds, e = math.exp(epsilon_local), math.exp(epsilon)
    miss = 1 / (odds + k - 1)
    reach = min(n, math.ceil(n * miss + 14 * math.sqrt(n * miss) + 60))
    one = np.arange(reach + 1)
    total = 0.0
    for n1 in one:
        n2 = one[one <= n - n1]
        chance = binom.pmf(n1, n, miss) * binom.pmf(n2, n - n1, miss / (1 - miss))
        gain = n1 * (odds - e) - n2 * (odds * e - 1)
        rest, share = n - n1 - n2, (k - 2) * miss / (1 - 2 * miss)
        if e == 1:
            inner = np.maximum(gain, 0)
        else:
            most = np.floor(gain / (e - 1))
            mean = rest * share * binom.cdf(most - 1, np.maximum(rest - 1, 0), share)
            inner = gain * binom.cdf(most, rest, share) - (e - 1) * mean
        total += float(chance @ np.where(gain > 0, inner, 0))
    return total / n


def poisson_dummies_delta(mean: str, epsilon: str) -> Decimal:
    """E[(1 - e^epsilon Y / (X + 1))_+] for Poisson X and Y, in 40 digits."""
    with localcontext() as context:
        context.prec = 40
        c, e = Decimal(mean), Decimal(epsilon).exp()
        pmf = [(-c).exp()]
        for k in range(1, int(c + 16 * c.sqrt()) + 60):
            pmf.append(pmf[-1] * c / k)
        cdf = [Decimal(0)]
        for chance in pmf:
            cdf.append(cdf[-1] + chance)
        total = Decimal(0)
        for x, chance in enumerate(pmf[:-1]):
            most = min(int((x + 1) / e), len(pmf) - 2)
            total += chance * (cdf[most + 1] - e * c * cdf[most] / (x + 1))
        return total


def response_laws(epsilon: float, hash_range: int, collision: float = 0.0) -> ShuffleLaws:
    """Ideal randomised response, for any real collision probability: to check published numbers.

    Args:
        epsilon: the loss of one report, in (0, 700), in nats.
        hash_range: k or g, the number of symbols, at least 2.
        collision: P(two values share a symbol): 0 for k-ary response, 1/g for a pairwise
            independent hash (whose triples are taken to be independent too).

    Returns:
        The laws, for a domain of at least 3 values where that is possible.
    """
    # Rationals, so that the five cases add up to 1 however small some of them are.
    odds, pair = Fraction(math.exp(epsilon)), Fraction(collision)
    miss = 1 / (odds + hash_range - 1)
    # Of three values, two at least share one of two symbols.
    triple = max((3 * pair - 1) / 2, Fraction(0)) if hash_range == 2 else pair**2
    size = 2 if collision == 0 and hash_range == 2 else 3
    return linear_hash_laws(epsilon, odds * miss, miss, hash_range, (pair, triple), size)


def clones_epsilon(epsilon_local: float, n: int, delta: float) -> float:
    """The epsilon of n shuffled reports of any epsilon_local-LDP randomiser, an upper bound."""
    return epsilon_bounds(clone_laws(epsilon_local), n, delta)[1]


def value_weights(levels: Levels, buckets: Sequence[int]) -> tuple[NDArray[Any], int]:
    """The exact law of the report of one value, its group not yet drawn.

    Args:
        levels: of groups.
        buckets: (groups,) where each group's hash puts the value.

    Returns:
        As `Levels.weights`: the mixture of the laws of its cells, in proportion to the shares.
    """
    laws = [levels.oracle.weights(bucket) for bucket in buckets]
    rows = [share * law.astype(object) for share, (law, _) in zip(levels.shares, laws, strict=True)]
    return np.concatenate(rows), sum(levels.shares) * laws[0][1]
