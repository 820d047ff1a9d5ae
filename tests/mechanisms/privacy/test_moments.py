"""Accountants of the subsampled Gaussian: published values, quadrature, order, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from mechanisms.privacy.sampled_gaussian import SubsampledGaussian
from tests.oracles import composition as known

PUBLISHED = SubsampledGaussian(rate=0.01, sigma=4.0, steps=10_000)


def test_the_three_accountants_give_the_known_values():
    # Abadi et al. report 1.26.
    assert known.moments_epsilon(PUBLISHED, 1e-5) == pytest.approx(1.2585747390945856, rel=1e-8)
    assert known.renyi_epsilon(PUBLISHED, 1e-5) == pytest.approx(1.035, abs=5e-4)
    assert known.tight_epsilon(PUBLISHED, 1e-5) == pytest.approx(0.947, abs=5e-4)
    shorter = SubsampledGaussian(rate=0.01, sigma=4.0, steps=1000)
    assert known.moments_epsilon(shorter, 1e-5) == pytest.approx(0.46840529082703797, rel=1e-8)


@pytest.mark.parametrize(
    ("order", "alpha"),
    [
        (1, 6.4494204883591515e-06),
        (2, 1.9360880164991852e-05),
        (8, 0.0002332452072759405),
        (16, 0.0008858122669103735),
        (32, 0.003476043841494986),
    ],
)
def test_log_moments_agree_with_reference_quadrature(order, alpha):
    assert PUBLISHED.log_moment(order) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 4.0), (0.2, 1.0), (0.5, 3.0), (1.0, 2.0)])
@pytest.mark.parametrize("order", [1, 2, 5, 20])
def test_the_closed_form_is_the_larger_of_both_moments(rate, sigma, order):
    """By quadrature of both definitions; the moment left out is never the larger one."""
    x = np.linspace(-40 * sigma, 40 * sigma + order + 1, 400_001)
    log_base = -(x**2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
    log_base += math.log(x[1] - x[0])
    log_ratio = math.log(rate) + (2 * x - 1) / (2 * sigma**2)
    if rate < 1:
        log_ratio = np.logaddexp(math.log1p(-rate), log_ratio)
    alpha = SubsampledGaussian(rate, sigma, 1).log_moment(order)
    forward = special.logsumexp(log_base + (order + 1) * log_ratio)
    assert alpha == pytest.approx(forward, rel=1e-6, abs=1e-9)
    assert special.logsumexp(log_base - order * log_ratio) <= alpha + 1e-9


def test_without_sampling_it_is_the_gaussian_mechanism():
    for order in (1, 3, 30):
        alpha = SubsampledGaussian(1.0, 5.0, 1).log_moment(order)
        assert alpha == pytest.approx(order * (order + 1) / (2 * 25))


@given(st.floats(0.001, 0.2), st.floats(0.7, 8), st.integers(1, 5000))
@settings(max_examples=10, deadline=None)
def test_noise_helps_and_sampling_and_steps_cost(rate, sigma, steps):
    base = SubsampledGaussian(rate, sigma, steps)
    for epsilon in (known.moments_epsilon, known.renyi_epsilon):
        here = epsilon(base, 1e-6)
        assert epsilon(SubsampledGaussian(rate, sigma * 1.1, steps), 1e-6) <= here
        assert epsilon(SubsampledGaussian(rate * 1.1, sigma, steps), 1e-6) >= here
        assert epsilon(SubsampledGaussian(rate, sigma, steps + 1), 1e-6) >= here
    assert known.renyi_epsilon(base, 1e-6) <= known.moments_epsilon(base, 1e-6)


@pytest.mark.verify
@pytest.mark.parametrize(("rate", "sigma", "steps"), [(0.05, 1.0, 100), (0.001, 0.8, 2000)])
def test_each_accountant_is_tighter_than_the_one_before(rate, sigma, steps):
    training = SubsampledGaussian(rate, sigma, steps)
    tight, renyi = (
        known.tight_epsilon(training, 1e-6),
        known.renyi_epsilon(training, 1e-6),
    )
    assert tight < renyi < known.moments_epsilon(training, 1e-6)


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "named"),
    [(bad, 1.0, 1, "rate") for bad in (math.nan, 0.0, -0.1, 1.1, math.inf)]
    + [(0.1, bad, 1, "sigma") for bad in (math.nan, 0.0, -1.0, math.inf)]
    + [(0.1, 1.0, bad, "steps") for bad in (math.nan, 0, -1, 1.5, math.inf)],
)
def test_bad_parameters_are_refused(rate, sigma, steps, named):
    with pytest.raises(ValueError, match=named):
        SubsampledGaussian(rate, sigma, steps)


@pytest.mark.parametrize("delta", [math.nan, 0.0, 1.0, -1.0, math.inf])
@pytest.mark.parametrize("accountant", ["moments_epsilon", "renyi_epsilon", "tight_epsilon"])
def test_bad_deltas_are_refused(accountant, delta):
    with pytest.raises(ValueError, match="delta"):
        getattr(known, accountant)(PUBLISHED, delta)


@pytest.mark.parametrize("order", [0, -1, 1.5, math.nan, math.inf])
def test_bad_orders_are_refused(order):
    with pytest.raises(ValueError, match="order"):
        PUBLISHED.log_moment(order)
