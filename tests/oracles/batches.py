"""Slow and obvious: shuffled batches of a few users, every multiset of their messages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, permutations

import numpy as np

from mechanisms.channel import Floats, Mechanism
from mechanisms.randomness import SeededRandom

_MOST = 1 << 23  # multisets of messages, over all pairs of batches, that are compared


def users_within_reach(mechanism: Mechanism) -> list[int]:
    """Two, and the most, up to ten, whose batches are compared in a second."""
    inputs, reports = mechanism.inputs, mechanism.outcomes

    def steps(n: int) -> int:
        batches = math.comb(inputs + n - 2, n - 1) * inputs**2
        return batches * math.comb(reports + n - 1, n)

    most = max([2, *(n for n in range(3, 11) if steps(n) <= _MOST)])
    return sorted({2, most})


def worst_deltas(mechanism: Mechanism, n: int, epsilons: Sequence[float]) -> list[float]:
    """The largest divergence of neighbouring batches of n users, at each of some epsilons.

    All messages are shuffled: those of one user do not stay together.
    """
    channel = np.array([mechanism.channel(cell) for cell in range(mechanism.inputs)])
    worst = np.zeros(len(epsilons))
    for first, second in neighbours(_labels(mechanism), channel, n):
        gaps = [np.maximum(first - math.exp(e) * second, 0).sum() for e in epsilons]
        worst = np.maximum(worst, gaps)
    return worst.tolist()


def _labels(mechanism: Mechanism) -> np.ndarray:
    """(reports,) a number for each; those of multisets add up, and differ if the multisets do."""
    words = SeededRandom(1).words(mechanism.codes)  # two sums are equal with probability 2^-64
    sums = [words[list(report)].sum(dtype=np.uint64) for report in mechanism.reports]
    return np.array(sums, np.uint64)


def neighbours(labels: np.ndarray, channel: Floats, n: int) -> Iterator[tuple[Floats, Floats]]:
    """Every two batches of n users of whom one changes the value: the laws of what is seen.

    Args:
        labels: (reports,) what each adds to what is seen, modulo 2^64.
        channel: (inputs, reports) probabilities.
        n: how many users; the others hold anything.
    """
    inputs = range(len(channel))
    seen, laws = np.zeros(1, np.uint64), {(): np.ones(1)}
    for size in range(1, n + 1):
        seen, place = np.unique((seen[:, None] + labels).ravel(), return_inverse=True)
        laws = {
            held: np.bincount(place, np.outer(laws[held[:-1]], channel[held[-1]]).ravel())
            for held in combinations_with_replacement(inputs, size)
        }
    for others in combinations_with_replacement(inputs, n - 1):
        batches = [laws[tuple(sorted((*others, value)))] for value in inputs]
        for one, other in permutations(inputs, 2):
            yield batches[one], batches[other]
