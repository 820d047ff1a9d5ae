"""Sums of coins at edges: against each of their counts, and where there are too many of these."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from mechanisms.channel import Floats
from mechanisms.privacy.binomial_edges import LEAST_VARIANCE, Edges, binomial_edges
from mechanisms.privacy.dummy_laws import binomial

PARTS = [
    ((1 << 14, 0.5),),
    ((300_000, 0.02), (0, 0.7)),
    ((60_000, 0.9), (900, 0.3), (50, 1.0)),
    ((10_000, 0.73), (70_000, 0.27), (5_000, 0.5)),
    ((4_200_000, 0.001),),
    ((4_200_000, 0.999),),
]


def every_count(parts: tuple[tuple[int, float], ...]) -> tuple[int, Floats]:
    """First count and probabilities, by sums of positive terms, which keep their digits."""
    first, total = 0, np.ones(1)
    for n, chance in parts:
        if n and chance < 1:
            law = binomial(n, chance, tail=1e-60)
            first, total = first + law.first, np.convolve(total, law.pmf)
        else:
            first += n if chance == 1 else 0
    return first, total


@pytest.mark.parametrize("parts", PARTS)
def test_each_edge_keeps_its_digits(parts: tuple[tuple[int, float], ...]) -> None:
    """Fifteen standard deviations from the mean, where probabilities are 10^-50, as well."""
    edges, (first, total) = binomial_edges(*parts), every_count(parts)
    total = np.append(total, np.zeros(edges.step))
    at = edges.first - first + edges.step * np.arange(edges.at.size)
    assert at[0] > 0
    cells = np.add.reduceat(total, np.append(at, at[-1] + edges.step))[:-1]
    for ours, truth in ((edges.at, total[at]), (edges.below, total[at - 1]), (edges.cell, cells)):
        np.testing.assert_allclose(ours, truth, rtol=min(edges.relative, 1e-11))
    outside = total[: at[0]].sum() + total[at[-1] + edges.step :].sum()
    assert outside <= edges.missing < 1e-40


def likelihood(edges: Edges, n: int, chance: float) -> Floats:
    """P(count) / P(count - 1) at the edges, as a binomial law has it."""
    count = edges.first + edges.step * np.arange(edges.at.size)
    return (n - count + 1) / count * (chance / (1 - chance))


@pytest.mark.parametrize(("n", "chance"), [(10**10, 0.27), (1 << 40, 0.5), (10**12, 1e-6)])
def test_more_counts_than_can_be_listed(n: int, chance: float) -> None:
    edges = binomial_edges((n, chance))
    assert edges.at.size < 4000
    np.testing.assert_allclose(edges.at / edges.below, likelihood(edges, n, chance), rtol=1e-11)
    assert edges.cell.sum() == pytest.approx(1, abs=1e-12)
    deviation = math.sqrt(n * chance * (1 - chance))
    count = edges.first + edges.step * np.arange(edges.at.size)
    middle = np.abs(count - n * chance) < deviation
    normal = norm.pdf((count - n * chance) / deviation) / deviation
    np.testing.assert_allclose(edges.at[middle], normal[middle], rtol=2 / deviation)


@pytest.mark.parametrize("parts", [((LEAST_VARIANCE, 0.5),), (), ((10**6, math.nan),)])
def test_few_coins_are_refused(parts: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="variance must be"):
        binomial_edges(*parts)
