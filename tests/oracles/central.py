"""Slow and obvious: noise on several counts, fits by dense algebra, partitions one by one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy import linalg

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.channel import Floats


def exact_vector_delta(noise: DiscreteLaplace, shifts: list[int], epsilon: float) -> Fraction:
    """Hockey-stick divergence of independently noised counts that differ by `shifts`, rounded up.

    Outcomes are counted by their two weights, so nothing is approximated but e^epsilon.
    """
    table, total = noise.weights
    weight = {z: int(w) for z, w in enumerate(table.tolist(), start=-noise.bound)}
    outcomes: Counter[tuple[int, int]] = Counter({(1, 1): 1})
    for shift in shifts:
        one = Counter((w, weight.get(z - shift, 0)) for z, w in weight.items())
        joint: Counter[tuple[int, int]] = Counter()
        for (a, b), many in outcomes.items():
            for (c, d), times in one.items():
                joint[a * c, b * d] += many * times
        outcomes = joint
    multiplier, _ = exponential_bounds(epsilon)
    up, down = multiplier.numerator, multiplier.denominator
    excess = sum(many * max(a * down - b * up, 0) for (a, b), many in outcomes.items())
    return Fraction(excess, down * total ** len(shifts))


def levels_of_intervals(d: int, fanout: int) -> list[np.ndarray]:
    """Which leaves lie in which node: a (nodes, d) matrix of 0 and 1 for each level.

    Of F nodes, number i holds the values from floor(i d / F) on, so value x lies in the last i
    with i d < (x + 1) F.
    """
    levels, size = [np.ones((1, d))], 1
    while size < d:
        size = min(size * fanout, d)
        node = ((np.arange(d) + 1) * size - 1) // d
        levels.append((node == np.arange(size)[:, None]).astype(float))
    return levels


def dense_fit(levels: list[np.ndarray], n: float, measured: np.ndarray) -> tuple[Floats, Floats]:
    """Least squares for the leaves under a known sum, and their covariance."""
    design, d = np.concatenate(levels[1:]), levels[0].shape[1]
    free = linalg.null_space(np.ones((1, d)))
    centre = np.full(d, n / d)
    solution = np.linalg.lstsq(design @ free, measured - design @ centre, rcond=None)[0]
    covariance = free @ np.linalg.inv(free.T @ design.T @ design @ free) @ free.T
    return centre + free @ solution, covariance


def partitions(d: int) -> Iterator[list[int]]:
    """All partitions of d values in a row into buckets, by where the buckets begin."""
    for size in range(d):
        for cuts in itertools.combinations(range(1, d), size):
            yield [0, *cuts]
