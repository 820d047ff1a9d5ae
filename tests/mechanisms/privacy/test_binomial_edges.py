"""Sums of coins at edges: against each of their counts, and where there are too many of these."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.channel import Floats
from mechanisms.privacy import binomial_edges as binomial_edges_module
from mechanisms.privacy.binomial_edges import LEAST_VARIANCE, binomial_edges
from mechanisms.privacy.dummy_laws import binomial
from tests.oracles.binomial import ONE, binomial_chance, gain_of_one, relative_run

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
    at = edges.first - first + edges.step * np.arange(edges.below.size)
    assert at[0] > 0
    cells = np.add.reduceat(total, np.append(at, at[-1] + edges.step))[:-1]
    for ours, truth in ((edges.below, total[at - 1]), (edges.cell, cells)):
        np.testing.assert_allclose(ours, truth, rtol=edges.relative)
    drop = total[at - 1] / total[at] - 1
    np.testing.assert_allclose(edges.drop, drop, rtol=0, atol=edges.drop_error)
    outside = total[: at[0]].sum() + total[at[-1] + edges.step :].sum()
    assert outside <= edges.missing < 1e-40


@pytest.mark.parametrize(
    ("n", "chance"),
    [
        (20_000, 0.5),
        (50_000, 0.11),
        (4 * 10**7, 0.5),
        (10**10, 0.27),
        (1 << 40, 0.5),
        (10**13, 0.1),
        (10**16, 0.01),
    ],
)
def test_no_digit_is_lost_that_is_promised(n: int, chance: float) -> None:
    """Of variances from 5 10^3 to 10^14; drops at every edge, they say what a user's bit shows."""
    edges = binomial_edges((n, chance))
    deviation = math.sqrt(n * chance * (1 - chance))
    counts = range(edges.first, edges.first + edges.step * edges.below.size, edges.step)
    assert len(counts) < 5000
    gaps = [
        float(gain_of_one(n, chance, count) - 1 - Fraction(drop))
        for count, drop in zip(counts, edges.drop, strict=True)
    ]
    assert max(map(abs, gaps)) <= edges.drop_error < 1e-8 / deviation
    assert edges.relative < (2e-11 if deviation > 1000 else 1e-9)
    for i in range(0, len(counts), 500):
        at, below = (binomial_chance(n, chance, counts[i] - j) for j in (0, 1))
        cell = at * sum(relative_run(n, chance, counts[i], edges.step)) / ONE
        for ours, truth in ((edges.below, below), (edges.cell, cell)):
            assert abs(Decimal(ours[i]) / truth - 1) <= edges.relative


def test_rounding_that_hides_the_law_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binomial_edges_module, "_UNIT", 2.0**-24)
    with pytest.raises(ValueError, match="rounding hides"):
        binomial_edges((10**6, 0.5))


@pytest.mark.parametrize(
    "parts", [((LEAST_VARIANCE, 0.5),), ((1 << 70, 0.5),), (), ((10**6, math.nan),)]
)
def test_too_few_and_too_many_coins_are_refused(parts: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="variance must be"):
        binomial_edges(*parts)
