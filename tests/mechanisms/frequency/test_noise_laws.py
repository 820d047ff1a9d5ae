"""The laws of noise against scipy's slower ones: tails, quantiles, both ends of the support."""

import math

import numpy as np
import pytest
from scipy import stats

from mechanisms.frequency.noise_laws import (
    Binomial,
    IntegerLaw,
    Poisson,
    binomial_cdf,
    binomial_sf,
)
from mechanisms.papers.central_histogram import TwoSidedGeometric
from mechanisms.papers.public_seed import Normal

LAWS = [
    (Poisson(0.3), stats.poisson(0.3)),
    (Poisson(1e5), stats.poisson(1e5)),
    (Binomial(1, 0.3), stats.binom(1, 0.3)),
    (Binomial(50, 0.02), stats.binom(50, 0.02)),
    (Binomial(10**6, 0.4), stats.binom(10**6, 0.4)),
    (TwoSidedGeometric(0.01), stats.dlaplace(0.01)),
    (TwoSidedGeometric(2.0), stats.dlaplace(2.0)),
]
RISKS = (1e-12, 1e-6, 0.025, 0.3, 0.5, 0.9)


@pytest.mark.parametrize(("law", "expected"), LAWS, ids=lambda law: repr(law)[:24])
def test_integers_follow_scipy(law: IntegerLaw, expected: stats.rv_discrete) -> None:
    assert law.mean() == pytest.approx(expected.mean())
    for risk in RISKS:
        k = int(law.ppf(risk))
        # On the wrong side of the quantile by rounding at most, and it is the least such integer.
        assert expected.cdf(k) >= risk * (1 - 1e-9)
        assert expected.cdf(k - 1) < risk * (1 + 1e-9)
        k = int(law.isf(risk))
        assert expected.sf(k) <= risk * (1 + 1e-9)
        assert expected.sf(k - 1) > risk * (1 - 1e-9)
        for near in (k - 1, k, k + 1):
            assert law.cdf(near) == pytest.approx(expected.cdf(near), rel=1e-9, abs=0)
            assert law.sf(near) == pytest.approx(expected.sf(near), rel=1e-9, abs=1e-15)


def test_binomials_take_arrays_and_both_ends() -> None:
    k = np.arange(-1, 8)
    chances = np.array([[0.0], [1e-9], [0.3], [1.0]])
    np.testing.assert_allclose(binomial_cdf(k, 7, chances), stats.binom.cdf(k, 7, chances), 1e-12)
    np.testing.assert_allclose(binomial_sf(k, 7, chances), stats.binom.sf(k, 7, chances), 1e-12)


def test_nothing_is_lost_far_out() -> None:
    """1 - cdf would be 0: a union bound over many values asks for such tails."""
    k = int(Poisson(10.0).isf(1e-30))
    assert Poisson(10.0).sf(k) <= 1e-30 < Poisson(10.0).sf(k - 1)
    assert Binomial(100, 0.1).sf(99) == pytest.approx(1e-100, rel=1e-9)
    assert TwoSidedGeometric(1.0).sf(99) == pytest.approx(math.exp(-100) / (1 + math.exp(-1)))


def test_the_normal_law() -> None:
    for risk in RISKS:
        assert Normal(3.0).ppf(risk) == pytest.approx(stats.norm.ppf(risk, scale=3.0))
        assert Normal(3.0).isf(risk) == pytest.approx(stats.norm.isf(risk, scale=3.0))
