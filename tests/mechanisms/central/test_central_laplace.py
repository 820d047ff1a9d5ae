"""The discrete Laplace mechanism: exact privacy of its table, the law of its noise, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.papers.central_histogram import histogram
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted

SETTINGS = [(1.0, 1), (0.5, 2), (0.05, 3), (5.0, 1), (30.0, 7), (60.0, 400), (2.0, 100)]


def exact_delta(mechanism: DiscreteLaplace, shift: int) -> Fraction:
    """The hockey-stick divergence between counts that differ by a shift, from exact integers."""
    table, total = mechanism.weights
    here = [int(w) for w in table] + [0] * shift
    there = [0] * shift + [int(w) for w in table]
    multiplier = exponential_bounds(mechanism.epsilon)[0]
    excess = (a - multiplier * b for a, b in zip(here, there, strict=True) if a)
    return sum((x for x in excess if x > 0), Fraction(0)) / total


@pytest.mark.parametrize(("epsilon", "sensitivity"), SETTINGS)
def test_the_table_keeps_the_claim(epsilon, sensitivity):
    mechanism = DiscreteLaplace(epsilon, sensitivity)
    for shift in {1, sensitivity}:
        assert exact_delta(mechanism, shift) <= Fraction(mechanism.guarantee.delta)
    # What is claimed is what the ends of the table hold, not a loose bound on it.
    assert float(exact_delta(mechanism, sensitivity)) == pytest.approx(
        mechanism.guarantee.delta, rel=1e-12
    )
    assert mechanism.guarantee.model == "central"
    assert mechanism.guarantee.epsilon == epsilon


def test_a_table_for_a_larger_epsilon_would_be_caught():
    honest, loose = DiscreteLaplace(1.0), DiscreteLaplace(1.001)
    object.__setattr__(loose, "epsilon", 1.0) if loose.weights else None
    assert exact_delta(loose, 1) > 1e12 * exact_delta(honest, 1)


@given(st.floats(0.01, 40), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_neighbouring_weights_never_differ_by_more(epsilon, sensitivity):
    mechanism = DiscreteLaplace(epsilon, sensitivity)
    # `decay` is a double at most epsilon / sensitivity, so this proves the claim itself.
    assert Fraction(mechanism.decay) * sensitivity <= Fraction(epsilon)
    largest = exponential_bounds(mechanism.decay)[1]
    weights = mechanism.half_table
    assert all(b <= a <= largest * b for a, b in itertools.pairwise(weights))


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.5, 2), (0.05, 1), (5.0, 1)])
def test_variance_is_the_closed_form(epsilon, sensitivity):
    mechanism = DiscreteLaplace(epsilon, sensitivity)
    table, total = mechanism.weights
    z = np.arange(-mechanism.bound, mechanism.bound + 1)
    assert mechanism.variance() == pytest.approx(float((table * z**2.0).sum() / total), rel=1e-9)


def grouped(mechanism: DiscreteLaplace) -> tuple[int, np.ndarray]:
    """The exact noise law with everything beyond a few standard deviations in the end cells."""
    table, total = mechanism.weights
    reach = min(mechanism.bound, math.ceil(3 * mechanism.variance() ** 0.5))
    cell = np.clip(np.arange(table.size) - mechanism.bound, -reach, reach) + reach
    return reach, np.bincount(cell, table / total)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.5, 2), (2.0, 3)])
def test_noise_follows_the_table(epsilon, sensitivity):
    mechanism = DiscreteLaplace(epsilon, sensitivity)
    reach, law = grouped(mechanism)
    n = sample_size(law, tilted(law))
    noise = mechanism.perturb(np.full(n, 1000), SeededRandom(21)) - 1000
    counts = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=2 * reach + 1)
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


def test_a_histogram_pays_for_replacement():
    assert histogram(0.5) == DiscreteLaplace(0.5, 2)
    assert histogram(0.5).variance() == pytest.approx(31.8, abs=0.05)
    assert histogram(0.01).variance() == pytest.approx(8 / 0.01**2, rel=1e-4)


def test_counts_keep_their_shape_and_may_become_negative():
    noisy = DiscreteLaplace(0.1).perturb(np.zeros((30, 40), np.uint64), SeededRandom(2))
    assert noisy.shape == (30, 40)
    assert noisy.dtype == np.int64
    assert noisy.min() < 0 < noisy.max()


@given(st.floats(0.02, 20), st.floats(1.01, 3))
@settings(max_examples=30, deadline=None)
def test_less_privacy_costs_less(epsilon, factor):
    assert DiscreteLaplace(epsilon * factor).variance() < DiscreteLaplace(epsilon).variance()


@pytest.mark.parametrize("epsilon", [math.nan, 0.0, -1.0, math.inf, 1e-9])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        DiscreteLaplace(epsilon)


@pytest.mark.parametrize("sensitivity", [math.nan, 0, -1, math.inf, 1.5])
def test_bad_sensitivities_are_refused(sensitivity):
    with pytest.raises(ValueError, match="sensitivity"):
        DiscreteLaplace(1.0, sensitivity)


@pytest.mark.parametrize("counts", [[0.5], [math.nan], [1 << 63], ["a"]])
def test_bad_counts_are_refused(counts):
    with pytest.raises(ValueError, match="counts must"):
        DiscreteLaplace(1.0).perturb(counts, SeededRandom(1))
