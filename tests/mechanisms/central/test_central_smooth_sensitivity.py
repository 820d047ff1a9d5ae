"""Smooth sensitivity of the median against brute force; exact privacy of the release."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.papers.smooth_sensitivity import SmoothMedian
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted

SAMPLE = [0.1, 0.15, 0.2, 0.3, 0.35, 0.42, 0.5, 0.55, 0.7, 0.8, 0.9]


@pytest.mark.parametrize(
    ("epsilon", "delta", "beta", "value"),
    [(1.0, 0.0, 1 / 6, 0.2520669609341054), (3.0, 0.0, 0.5, 0.10300624352800385)],
)
def test_reference_values(epsilon, delta, beta, value):
    mechanism = SmoothMedian(epsilon, 0.0, 1.0, delta)
    assert mechanism.beta == pytest.approx(beta, rel=1e-15)
    assert mechanism.smooth_sensitivity(SAMPLE) == pytest.approx(value, rel=1e-12)


def test_laplace_noise_has_its_own_beta_and_scale():
    mechanism = SmoothMedian(1.0, 0.0, 1.0, delta=1e-6)
    assert mechanism.beta == pytest.approx(1 / (2 * math.log(2e6)), rel=1e-15)
    smooth = mechanism.smooth_sensitivity(SAMPLE)
    assert mechanism.scale(SAMPLE) == pytest.approx(2 * smooth, rel=1e-8)
    cauchy = SmoothMedian(1.0, 0.0, 1.0)
    assert cauchy.scale(SAMPLE) == pytest.approx(6 * cauchy.smooth_sensitivity(SAMPLE), rel=1e-8)


def median(values) -> float:
    return sorted(values)[(len(values) + 1) // 2 - 1]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_smooth_sensitivity_equals_brute_force(n):
    """Over all data sets on a small grid, and all that can be reached by replacing values."""
    grid, mechanism = [0.0, 0.25, 0.5, 1.0], SmoothMedian(1.5, 0.0, 1.0)
    everything = list(itertools.product(grid, repeat=n))

    def distance(a, b) -> int:
        return sum(x != y for x, y in zip(a, b, strict=True))

    local = {
        x: max(abs(median(x) - median(y)) for y in everything if distance(x, y) <= 1)
        for x in everything
    }
    for x in everything:
        brute = max(math.exp(-mechanism.beta * distance(x, y)) * local[y] for y in everything)
        assert mechanism.local_sensitivity(x) == pytest.approx(local[x])
        assert mechanism.smooth_sensitivity(x) == pytest.approx(brute)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 1), st.floats(0.1, 20))
@settings(max_examples=60, deadline=None)
def test_it_is_smooth_and_above_the_local_one(values, replacement, epsilon):
    mechanism = SmoothMedian(epsilon, 0.0, 1.0)
    here = mechanism.smooth_sensitivity(values)
    there = mechanism.smooth_sensitivity([replacement, *values[1:]])
    assert mechanism.local_sensitivity(values) <= here <= mechanism.global_sensitivity
    assert math.exp(-mechanism.beta) * (1 - 1e-9) <= here / there
    assert here / there <= math.exp(mechanism.beta) * (1 + 1e-9)


def exact_delta(mechanism: SmoothMedian, values, others, claim: float | None = None) -> Fraction:
    """The hockey-stick divergence of the shipped weights at the claimed epsilon, exactly."""
    (p, total), (q, other_total) = mechanism.weights(values), mechanism.weights(others)
    assert total == other_total == sum(int(w) for w in p)
    multiplier = exponential_bounds(claim or mechanism.epsilon)[0]
    excess = (int(a) - multiplier * int(b) for a, b in zip(p, q, strict=True))
    return sum((x for x in excess if x > 0), Fraction(0)) / total


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=25),
    st.floats(0, 1),
    st.sampled_from([0.1, 1.0, 5.0]),
    st.sampled_from([0.0, 1e-6, 1e-2]),
)
@settings(max_examples=60, deadline=None)
def test_neighbours_keep_the_claim(values, replacement, epsilon, delta):
    mechanism = SmoothMedian(epsilon, 0.0, 1.0, delta, cells=64)
    neighbour = [replacement, *values[1:]]
    assert exact_delta(mechanism, values, neighbour) <= Fraction(delta)
    assert exact_delta(mechanism, neighbour, values) <= Fraction(delta)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_identical_values_keep_the_claim(delta):
    """The sensitivity is then tiny and the tail weights are nothing but their extra units."""
    mechanism = SmoothMedian(1.0, 0.0, 1.0, delta, cells=64)
    for n in (1, 3, 50, 99, 1001):
        values, neighbour = np.full(n, 0.5), np.full(n, 0.5)
        neighbour[0] = 1.0
        assert exact_delta(mechanism, values, neighbour) <= Fraction(delta)


def test_too_little_noise_would_be_caught():
    """The audit has power: noise for a larger epsilon fails it. Its theorems are loose."""
    values, neighbour = SAMPLE, [*SAMPLE[:5], 0.9, *SAMPLE[6:]]
    for delta, factor in ((0.0, 8), (1e-6, 16)):
        honest = SmoothMedian(1.0, 0.0, 1.0, delta, cells=64)
        loud = SmoothMedian(1.0 * factor, 0.0, 1.0, delta, cells=64)
        assert exact_delta(honest, values, neighbour) <= delta
        assert exact_delta(loud, values, neighbour, claim=1.0) > 2 * delta


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_releases_follow_the_weights(delta):
    mechanism = SmoothMedian(4.0, 0.0, 1.0, delta, cells=20)
    weights, total = mechanism.weights(SAMPLE)
    law = weights / total
    n = sample_size(law, tilted(law))
    released = mechanism.release(SAMPLE, SeededRandom(8), times=n)
    counts = np.bincount(np.rint(released * 20).astype(int), minlength=21)
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


def test_releases_lie_on_the_public_grid_and_values_outside_are_moved_in():
    mechanism = SmoothMedian(1.0, -10.0, 30.0, cells=40)
    released = mechanism.release([-1e9, 5.0, 1e9], SeededRandom(3), times=1000)
    assert set(released) <= set(mechanism.grid)
    np.testing.assert_array_equal(
        mechanism.weights([-1e9, 5.0, 1e9])[0], mechanism.weights([-10.0, 5.0, 30.0])[0]
    )


def test_more_values_make_it_accurate():
    values = np.linspace(0.2, 0.6, 2001)
    released = SmoothMedian(1.0, 0.0, 1.0, delta=1e-6).release(values, SeededRandom(4), times=99)
    assert abs(np.median(released) - 0.4) < 0.02


@pytest.mark.parametrize("epsilon", [math.nan, 0.0, -1.0, math.inf, 1e-12])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        SmoothMedian(epsilon, 0.0, 1.0)


@pytest.mark.parametrize("delta", [math.nan, -1e-9, 1.0, math.inf])
def test_bad_deltas_are_refused(delta):
    with pytest.raises(ValueError, match="delta"):
        SmoothMedian(1.0, 0.0, 1.0, delta)


@pytest.mark.parametrize(
    ("low", "high"),
    [(math.nan, 1), (0, math.nan), (1, 1), (1, 0), (-math.inf, 0), (0, math.inf), (-1e308, 1e308)],
)
def test_bad_bounds_are_refused(low, high):
    with pytest.raises(ValueError, match="low must be below high"):
        SmoothMedian(1.0, low, high)


@pytest.mark.parametrize("cells", [0, -1, 1.5, math.nan, math.inf])
def test_bad_grids_are_refused(cells):
    with pytest.raises(ValueError, match="cells"):
        SmoothMedian(1.0, 0.0, 1.0, cells=cells)


@pytest.mark.parametrize("values", [[], [math.nan], [0.1, math.inf], [[0.5]]])
def test_bad_values_are_refused_without_being_shown(values):
    with pytest.raises(ValueError, match="values must be a vector") as refusal:
        SmoothMedian(1.0, 0.0, 1.0).weights(values)
    assert "0.1" not in str(refusal.value)


def test_a_negative_distance_is_refused():
    with pytest.raises(ValueError, match="distance"):
        SmoothMedian(1.0, 0.0, 1.0).sensitivity_at([0.5], -1)
