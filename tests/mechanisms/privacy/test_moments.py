"""Accountants of the subsampled Gaussian: published values, quadrature, order, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from mechanisms.privacy.sampled_gaussian import SubsampledGaussian

PUBLISHED = SubsampledGaussian(rate=0.01, sigma=4.0, steps=10_000)


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


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "named"),
    [(bad, 1.0, 1, "rate") for bad in (math.nan, 0.0, -0.1, 1.1, math.inf)]
    + [(0.1, bad, 1, "sigma") for bad in (math.nan, 0.0, -1.0, math.inf)]
    + [(0.1, 1.0, bad, "steps") for bad in (math.nan, 0, -1, 1.5, math.inf)],
)
def test_bad_parameters_are_refused(rate, sigma, steps, named):
    with pytest.raises(ValueError, match=named):
        SubsampledGaussian(rate, sigma, steps)


@pytest.mark.parametrize("order", [0, -1, 1.5, math.nan, math.inf])
def test_bad_orders_are_refused(order):
    with pytest.raises(ValueError, match="order"):
        PUBLISHED.log_moment(order)
