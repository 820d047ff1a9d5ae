"""Laplace noise from a table: its ratios, its lumped ends, its reference variance."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.papers.laplace import laplace
from tests.oracles import mean as oracle


@pytest.mark.parametrize("entry", oracle.vectors("laplace_ldp"), ids=lambda e: str(e["params"]))
def test_variance_is_the_laplace_mechanisms(entry):
    mechanism = laplace(entry["params"]["eps"], 65536)
    for value, variance in entry["variance"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "cells"), [(0.1, 256), (1.0, 1024), (5.0, 1024), (20.0, 300), (0.3, 7), (30.0, 64)]
)
def test_the_table_keeps_to_epsilon_in_integers(epsilon, cells):
    """Any two cells, code by code and at the ends, from the half table alone."""
    mechanism = laplace(epsilon, cells)
    bound, _ = exponential_bounds(epsilon)
    half, reach = mechanism.half_table.tolist(), mechanism.reach
    assert len(half) == cells + reach + 1
    assert half[0] + 2 * sum(half[1:]) == 1 << 64
    falling = half[:-1]  # without what is lumped together
    assert falling == sorted(falling, reverse=True)
    ratios = zip(falling[:reach], falling[cells:], strict=True)
    assert all(Fraction(near) <= bound * far for near, far in ratios)
    assert sum(half[reach:]) <= bound * half[-1]


def test_noise_beyond_the_codes_is_counted_at_the_end_it_leaves_by():
    mechanism = laplace(3.0, 4)
    half, reach = mechanism.half_table.tolist(), mechanism.reach
    for cell in range(5):
        weights, total = mechanism.weights(cell)
        assert total == 1 << 64
        for code in range(1, mechanism.codes - 1):
            assert weights[code] == half[abs(code - reach - cell)]
        assert weights[0] == sum(half[reach + cell :])
        assert weights[-1] == sum(half[reach + 4 - cell :])


def test_the_ends_stand_for_the_mean_of_all_that_lies_beyond():
    """Against noise that is never cut: the decoded mean and mean square are computed from it."""
    mechanism = laplace(2.0, 10)
    a, reach = math.exp(-mechanism.decay), mechanism.reach
    beyond = np.arange(4000)
    tail = (1 - a) * a**beyond @ (reach + beyond)  # the mean of where it ends, in cells
    np.testing.assert_allclose(mechanism.decoded[-1], 2 * (10 + tail) / 10 - 1, rtol=1e-12)
    np.testing.assert_allclose(np.diff(mechanism.decoded[1:-1]), 0.2, rtol=1e-9)


def test_lumping_never_costs_variance():
    for epsilon, cells in ((1.0, 64), (8.0, 64), (0.2, 16)):
        a = math.exp(-epsilon / cells)
        whole = 2 * a / (1 - a) ** 2 * (2 / cells) ** 2
        saved = 1 - laplace(epsilon, cells).variance(np.linspace(-1, 1, cells + 1)) / whole
        assert np.all(saved > -1e-9)
        assert np.all(saved < 1e-5)


@pytest.mark.parametrize("cells", [1, 1024, 1 << 20])
def test_an_epsilon_that_needs_too_many_codes_is_refused_with_the_least_that_does_not(cells):
    least = 24 * cells / ((1 << 24) - cells - 3)
    with pytest.raises(ValueError, match=r"epsilon must be at least .* use fewer cells"):
        laplace(least * 0.999, cells)
    assert laplace(least * 1.001, cells).codes <= 1 << 24
