"""Slow and obvious: whole batches of several messages a user, by enumeration and convolution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations_with_replacement, permutations

import numpy as np

from mechanisms.channel import Floats, Report
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.papers.uniform_crowd import UniformCrowd


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    """sum (first - e^epsilon second)_+."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def neighbours(domain_size: int, n: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every two data sets of n values, in any order, that differ in one user's value."""
    for others in combinations_with_replacement(range(domain_size), n - 1):
        for one, other in permutations(range(domain_size), 2):
            yield (one, *others), (other, *others)


def bit_sums(values: tuple[int, ...], domain_size: int, keep: float, other: float) -> Floats:
    """The joint law of the bins' sums of independently flipped one-hot vectors."""
    joint = np.ones(())
    for j in range(domain_size):
        law = np.ones(1)
        for value in values:
            chance = keep if value == j else other
            law = np.convolve(law, [1 - chance, chance])
        joint = np.multiply.outer(joint, law)
    return joint


def exact_unary_delta(
    n: int, keep: float, other: float, epsilon: float, domain_size: int = 3
) -> float:
    """The largest divergence over all neighbouring batches of flipped one-hot vectors."""
    laws = {
        tuple(sorted(values)): bit_sums(values, domain_size, keep, other)
        for values in combinations_with_replacement(range(domain_size), n)
    }
    return max(
        hockey_stick(laws[tuple(sorted(a))], laws[tuple(sorted(b))], epsilon)
        for a, b in neighbours(domain_size, n)
    )


def crowd_delta(crowd: UniformCrowd, epsilon: float, others: list[int] | None) -> float:
    """The divergence of batches of k-ary responses among uniform dummies, by enumeration.

    Args:
        crowd: who sends what.
        epsilon: at least 0.
        others: the other users' values; None for the worst there are.
    """
    d, n = crowd.bins, crowd.users
    response = [np.full(d, crowd.miss) for _ in range(d)]
    for value, law in enumerate(response):
        law[value] = crowd.keep
    flat = np.full(d, 1 / d)
    number = np.ones(1)  # of dummies
    for _ in range(n):
        number = np.convolve(number, [0.0] * crowd.whole + [1 - crowd.chance, crowd.chance])

    def batch(values: tuple[int, ...], dummies: int) -> dict[tuple[int, ...], float]:
        law = {(0,) * d: 1.0}
        for message in [response[value] for value in values] + [flat] * dummies:
            grown: dict[tuple[int, ...], float] = {}
            for bag, weight in law.items():
                for code in np.flatnonzero(message):
                    more = (*bag[:code], bag[code] + 1, *bag[code + 1 :])
                    grown[more] = grown.get(more, 0.0) + weight * float(message[code])
            law = grown
        return law

    def divergence(rest: tuple[int, ...]) -> float:
        total = 0.0
        for dummies, likely in enumerate(number):  # seen by all: the number of messages
            first, second = batch((0, *rest), dummies), batch((1, *rest), dummies)
            bags = first.keys() | second.keys()
            gap = [first.get(b, 0.0) - math.exp(epsilon) * second.get(b, 0.0) for b in bags]
            total += float(likely) * sum(max(x, 0.0) for x in gap)
        return total

    if others is not None:
        return divergence(tuple(others))
    return max(divergence(rest) for rest in combinations_with_replacement(range(min(d, 3)), n - 1))


def bag_table(law: Mapping[Report, float], codes: int) -> Floats:
    """A report's law as an array over how often each code occurs in it."""
    bags = {tuple(report.count(code) for code in range(codes)): p for report, p in law.items()}
    table = np.zeros([max(bag[code] for bag in bags) + 1 for code in range(codes)])
    for bag, chance in bags.items():
        table[bag] = chance
    return table


@lru_cache(maxsize=16)
def report_tables(mechanism: SeveralMessages) -> list[Floats]:
    """The law of each value's report, as arrays."""
    channels = map(mechanism.channel, range(mechanism.inputs))
    laws = [dict(zip(mechanism.reports, one, strict=True)) for one in channels]
    return [bag_table(law, mechanism.codes) for law in laws]


def exact_batch_delta(
    mechanism: SeveralMessages, honest: int, epsilon: float, others: tuple[int, ...] | None = None
) -> float:
    """The largest divergence over all neighbouring batches of so many users, by convolution.

    Args:
        mechanism: whose reports can be listed.
        honest: how many users follow it. What others send, who do not, shifts both batches.
        epsilon: at least 0.
        others: the values of the other honest users, where they make no difference; None for all.
    """
    tables = report_tables(mechanism)
    size = [honest * length for length in np.max([t.shape for t in tables], axis=0)]
    axes = range(mechanism.codes)
    spectra = [np.fft.rfftn(table, size, axes) for table in tables]

    @lru_cache(maxsize=64)
    def batch(values: tuple[int, ...]) -> Floats:
        product = math.prod(spectra[value] for value in values)
        return np.maximum(np.fft.irfftn(product, size, axes), 0)

    if others is not None:
        return hockey_stick(batch((0, *others)), batch((1, *others)), epsilon)
    pairs = (map(tuple, map(sorted, pair)) for pair in neighbours(mechanism.inputs, honest))
    return max(hockey_stick(batch(a), batch(b), epsilon) for a, b in pairs)
