"""Quantiles and their limits, against the slowest way to find them."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.distribution.quantiles import USUAL, quantile_limits, quantiles
from mechanisms.randomness import SeededRandom

POINTS = np.linspace(-1, 1, 9)


def exact_quantile(values: np.ndarray, p: float) -> float:
    """The least x with F(x) >= p."""
    return float(min(x for x in values if np.mean(values <= x) >= p - 1e-12))


def test_quantiles_invert_the_cumulative_shares() -> None:
    rng = SeededRandom(1).generator()
    edges = np.linspace(-1, 1, 9)
    for _ in range(20):
        shares = rng.dirichlet(np.ones(8))
        found = quantiles(USUAL, shares, edges)
        back = np.interp(found, edges, np.concatenate([[0], np.cumsum(shares)]))
        assert back == pytest.approx(USUAL, abs=1e-12)


def test_empty_bins_and_the_ends_are_no_trouble() -> None:
    edges = np.arange(5.0)
    assert quantiles([0.001, 0.5, 0.999], np.array([0, 1.0, 0, 0]), edges).tolist() == [
        pytest.approx(1.001), 1.5, pytest.approx(1.999),
    ]  # fmt: skip
    short = np.array([0.5, 0.5 - 1e-15, 0, 0])  # adds up to a little less than 1
    assert quantiles([1 - 1e-16], short, edges)[0] <= 4


def test_limits_need_only_those_of_f_at_two_points() -> None:
    """Whatever the limits of F are elsewhere, if they hold on either side, the quantile is held."""
    rng = SeededRandom(2).generator()
    held, elsewhere = 0, 0
    for _ in range(800):
        values = rng.choice(np.concatenate([rng.uniform(-1, 1, 3), POINTS]), 40)
        truth = np.array([np.mean(values <= x) for x in POINTS])
        lower = np.clip(truth + rng.normal(-0.15, 0.2, 9), 0, 1)
        upper = np.clip(truth + rng.normal(0.15, 0.2, 9), 0, 1)
        lower[-1] = upper[-1] = 1.0
        for p in (0.1, 0.5, 0.8):
            after = int(np.argmax(truth >= p))
            before = after - 1
            if upper[after] < truth[after] or (before >= 0 and lower[before] > truth[before]):
                continue
            elsewhere += np.any((lower > truth) | (upper < truth))
            low, high = quantile_limits([p], lower, upper, POINTS)
            assert low[0] <= exact_quantile(values, p) <= high[0]
            held += 1
    assert held > 1000
    assert elsewhere > 500


def test_limits_of_nothing_known_are_the_bounds() -> None:
    lower = np.array([0.0, 0.0, 1.0])
    upper = np.ones(3)
    low, high = quantile_limits([0.01, 0.99], lower, upper, np.array([-1.0, 0.0, 1.0]))
    assert low.tolist() == [-1, -1]
    assert high.tolist() == [1, 1]


def test_all_values_at_the_lower_bound() -> None:
    low, high = quantile_limits([0.5], np.ones(3), np.ones(3), np.array([-1.0, 0.0, 1.0]))
    assert (low[0], high[0]) == (-1, -1)
