"""Gaussian noise from a table: reference sigmas, the exact delta, and where claims end."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.mean.gaussian import Gaussian, gaussian_analytic
from mechanisms.papers.classical_gaussian import gaussian
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.privacy.search import least_integer
from tests.fakes.few import few
from tests.oracles import mean as oracle

BUILDERS = {"gaussian_classical": gaussian, "gaussian_analytic": gaussian_analytic}
CASES = [(name, entry) for name in BUILDERS for entry in oracle.vectors(name)]


def named(case) -> str:
    return "-".join([case[0], *map(str, case[1]["params"].values())])


@pytest.fixture(params=few([(case,) for case in CASES], lambda one: one[0][0]), ids=named)
def case(request):
    name, entry = request.param
    mechanism = BUILDERS[name](entry["params"]["eps"], entry["params"]["delta"], 1024)
    return name, entry, mechanism


def test_reference_sigma_and_variance(case):
    name, entry, mechanism = case
    exact = 1e-9 if name == "gaussian_classical" else 4e-5  # a part in 2^15 is searched
    np.testing.assert_allclose(mechanism.sigma, entry["constants"]["sigma"], rtol=exact)
    for value, variance in entry["variance"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-4)


def test_delta_is_that_of_the_table_and_nearly_the_continuous_one(case):
    _, entry, mechanism = case
    claim = mechanism.guarantee
    assert claim.delta <= entry["params"]["delta"]
    np.testing.assert_allclose(claim.delta, entry["tight"]["delta"], rtol=2e-3)
    exact = tight_delta(mechanism, claim.epsilon)
    assert exact <= claim.delta <= exact * (1 + 1e-10)


def test_the_table_is_a_gaussian_cut_below_one_word():
    mechanism = Gaussian(1.0, 0.1, 8, 3.0)
    half = mechanism.half_table.tolist()
    assert half[0] + 2 * sum(half[1:]) == 1 << 64
    assert half == sorted(half, reverse=True)
    sigma = 12  # in cells
    norm = sum(math.exp(-(k**2) / 2 / sigma**2) for k in range(-200, 201))
    ideal = [math.exp(-(k**2) / 2 / sigma**2) / norm * 2.0**64 for k in range(len(half))]
    np.testing.assert_allclose(half[:70], ideal[:70], rtol=1e-6)
    assert half[-1] <= 1
    assert half[-4] >= 1
    assert tight_epsilon(mechanism) == math.inf


@pytest.mark.parametrize(
    "case", [(1.0, 1e-6, 1024), (0.3, 0.05, 16), (50.0, 1e-3, 2), (8, 1e-9, 64)]
)
def test_the_calibrated_sigma_is_the_least(case):
    epsilon, delta, cells = case
    mechanism = gaussian_analytic(*case)
    assert mechanism.spent <= delta
    with pytest.raises(ValueError, match=r"sigma .* is too small"):
        Gaussian(epsilon, delta, cells, mechanism.sigma * (1 - 2.0**-14))


@pytest.mark.parametrize(
    ("delta", "limit"), [(1e-8, 9.374), (1e-6, 8.782), (1e-4, 7.991), (1e-2, 6.772)]
)
def test_the_classical_formula_is_refused_where_its_claim_fails(delta, limit):
    assert gaussian(limit - 0.01, delta).spent <= delta
    with pytest.raises(ValueError, match=f"epsilon must be below {limit} at delta {delta}"):
        gaussian(limit + 0.01, delta)
    assert gaussian_analytic(limit + 0.01, delta).spent <= delta


@pytest.mark.parametrize("delta", [0, 1e-13, 1.0, -0.1, math.nan])
def test_delta_below_what_64_bits_hold_is_refused(delta):
    for build in (gaussian, gaussian_analytic):
        with pytest.raises(ValueError, match="delta must be at least 1e-12"):
            build(1.0, delta)


def test_noise_too_wide_for_the_grid_is_refused_with_the_largest_grid():
    for build, most in ((gaussian_analytic, 18241), (gaussian, 13726)):
        with pytest.raises(ValueError, match=f"use at most {most}"):
            build(0.1, 1e-8, 65536)
    assert gaussian(0.1, 1e-8, 13726).codes <= 1 << 24
    with pytest.raises(ValueError, match="use a larger epsilon"):
        gaussian_analytic(1e-9, 1e-9, 1)
    for sigma in (0, math.nan, math.inf):
        with pytest.raises(ValueError, match="sigma must be"):
            Gaussian(1.0, 0.01, 8, sigma)


@pytest.mark.parametrize(
    ("least", "guess"),
    [(1, -3), (1, 1), (2, 1), (2, 7), (7, 6), (7, 7), (7, 8), (100, 0), (100, 50_000), (12345, 99)],
)
def test_least_integer_is_found_from_any_guess(least, guess):
    asked = []

    def holds(k: int) -> bool:
        asked.append(k)
        return k >= least

    assert least_integer(holds, guess) == least
    assert min(asked) >= 1
    assert len(asked) <= 40
