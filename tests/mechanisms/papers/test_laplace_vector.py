"""The Laplace baseline: its variance, its three integers a coordinate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.papers.laplace import Laplace
from mechanisms.papers.laplace_vector import LaplaceVector, laplace_vector
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom


@pytest.mark.parametrize("dimension", [1, 10, 400, 20_000])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_variance_is_the_papers(epsilon, dimension):
    mechanism = laplace_vector(epsilon, dimension)
    worst = 8 * dimension**2 / epsilon**2
    np.testing.assert_allclose(mechanism.worst_variance, worst, rtol=1e-3)
    np.testing.assert_allclose(mechanism.variance(0.3), worst, rtol=1e-3)


def test_the_shares_of_the_coordinates_add_up_to_epsilon():
    mechanism = laplace_vector(0.7, 30, cells=2)
    each = Fraction(tight_epsilon(mechanism.mechanism))
    assert 0.7 * (1 - 1e-6) < each * 30 <= Fraction(0.7)


def test_sums_are_those_of_the_decoded_messages():
    """The ends included, which stand for the mean of all that lies beyond."""
    mechanism = LaplaceVector(1.0, 4, 4, Laplace(0.25, cells=2))
    codes, rng = mechanism.mechanism.codes, SeededRandom(6)
    messages = rng.integers(mechanism.codes, 5000)
    messages[:50] = 0
    messages[50:80] = 2 * codes - 1
    counts = mechanism.count(messages)
    decoded = mechanism.mechanism.decode(messages % np.uint64(codes))
    expected = np.bincount((messages // np.uint64(codes)).astype(int), decoded, minlength=4)
    np.testing.assert_allclose(mechanism.sums(counts), expected, rtol=1e-9)
    assert counts[0].sum() == 5000


def test_long_rows_keep_a_small_state():
    mechanism = laplace_vector(1.0, 5000)
    messages = mechanism.report(np.full((20, 5000), 0.5), SeededRandom(1))
    counts = mechanism.count(messages)
    assert counts.shape == (3, 5000)
    estimate = mechanism.estimate(counts)
    assert abs(estimate.mean() - 0.5) < 6.5 * np.sqrt(mechanism.worst_variance / 20 / 5000)


def test_what_is_not_the_baseline_is_refused():
    with pytest.raises(ValueError, match="sampled must be dimension"):
        LaplaceVector(1.0, 4, 2, Laplace(0.25, cells=2))
    mechanism = laplace_vector(1.0, 2)
    with pytest.raises(ValueError, match="nothing is kept"):
        mechanism.sums(mechanism.count([]), power=2)
