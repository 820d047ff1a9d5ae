"""What runs of noisy steps claim: known values, a second opinion, the search for the noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from mechanisms.privacy.sampled_gaussian import SubsampledGaussian, epsilon_of, least_sigma, profile
from mechanisms.privacy.search import gaussian_delta
from tests.oracles import composition as known

PUBLISHED = SubsampledGaussian(rate=0.01, sigma=4.0, steps=10_000)


def one_step_delta(rate, sigma, epsilon):
    """delta of one step, in closed form: the larger of both directions.

    Source: Balle, Barthe, Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018.
    """

    def hockey_stick(q, ratio, adding):
        if not adding:  # mixture against base: where q (L - 1) > e^epsilon - 1
            level = math.log1p((ratio - 1) / q)
            x = sigma**2 * level + 0.5
            return q * ndtr((1 - x) / sigma) + (1 - q - ratio) * ndtr(-x / sigma)
        # base against mixture: where 1 > e^epsilon (1 - q + q L)
        inner = (1 / ratio - (1 - q)) / q
        if inner <= 0:
            return 0.0
        x = sigma**2 * math.log(inner) + 0.5
        return (1 - ratio * (1 - q)) * ndtr(x / sigma) - ratio * q * ndtr((x - 1) / sigma)

    return max(hockey_stick(rate, math.exp(epsilon), adding) for adding in (False, True))


def test_the_published_run_has_the_known_epsilons():
    assert epsilon_of(PUBLISHED, 1e-5, "moments") == pytest.approx(1.2585747390945856, rel=2e-6)
    assert epsilon_of(PUBLISHED, 1e-5, "rdp") == pytest.approx(1.035, abs=5e-4)
    assert epsilon_of(PUBLISHED, 1e-5, "pld") == pytest.approx(0.947, abs=5e-4)


@pytest.mark.verify
@pytest.mark.parametrize("delta", [1e-8, 1e-3])
def test_the_profiles_are_those_of_the_accountants_of_moments(delta):
    run = SubsampledGaussian(rate=0.03, sigma=1.3, steps=300)
    assert epsilon_of(run, delta, "moments") == pytest.approx(
        known.moments_epsilon(run, delta), rel=2e-6
    )
    assert epsilon_of(run, delta, "rdp") == pytest.approx(known.renyi_epsilon(run, delta), rel=2e-6)
    assert epsilon_of(run, delta, "pld") == pytest.approx(known.tight_epsilon(run, delta), rel=2e-3)


@pytest.mark.verify
@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 0.6), (0.1, 1.0), (0.5, 2.0), (1.0, 1.5)])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_one_step_is_bounded_from_above_and_closely(rate, sigma, epsilon):
    exact = one_step_delta(rate, sigma, epsilon)
    found = profile(SubsampledGaussian(rate, sigma, 1))(epsilon)
    assert exact - 1e-15 <= found <= exact * (1 + 1e-3) + 2e-13


@pytest.mark.parametrize("steps", [5, 50])
def test_without_sampling_steps_are_one_gaussian_with_less_noise(steps):
    run = SubsampledGaussian(1.0, 6.0, steps)
    for epsilon in (0.5, 2.0):
        exact = gaussian_delta(math.sqrt(steps) / 6.0, epsilon)
        assert exact - 1e-13 <= profile(run)(epsilon) <= exact * (1 + 1e-3) + 1e-12
        assert exact <= profile(run, "rdp")(epsilon) <= profile(run, "moments")(epsilon)


def test_replacing_a_record_is_bounded_by_removing_and_adding_one():
    """Against the exact loss of replacing where there is one: full lots, at distance 2."""
    run = SubsampledGaussian(1.0, 8.0, 10)
    for epsilon in (0.5, 1.0, 3.0):
        exact = gaussian_delta(2 * math.sqrt(10) / 8.0, epsilon)
        assert profile(run, "pld", "replace one")(epsilon) >= exact
    one = epsilon_of(PUBLISHED, 1e-5)
    assert 2 * one < epsilon_of(PUBLISHED, 1e-5, neighbours="replace one") < 2.5 * one


def test_replacing_a_record_is_bounded_for_small_lots_too():
    """One step, by quadrature of the mixtures with the record at +1 and at -1."""
    rate, sigma = 0.2, 0.9
    x = np.linspace(-12, 12, 200_001)
    step = x[1] - x[0]
    base, up, down = (np.exp(-((x - c) ** 2) / (2 * sigma**2)) for c in (0, 1, -1))
    scale = step / (sigma * math.sqrt(2 * math.pi))
    p, q = ((1 - rate) * base + rate * side for side in (up, down))
    for epsilon in (0.3, 1.0, 2.0):
        exact = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * scale)
        assert profile(SubsampledGaussian(rate, sigma, 1), "pld", "replace one")(epsilon) >= exact


@pytest.mark.verify
@pytest.mark.parametrize("accountant", ["pld", "rdp", "moments"])
@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(0.5, 0.05, 200), (8.0, 1.0, 30)])
def test_the_search_ends_on_the_private_side_and_next_to_the_other(
    accountant, epsilon, rate, steps
):
    sigma = least_sigma(epsilon, 1e-5, rate, steps, accountant)
    assert profile(SubsampledGaussian(rate, sigma, steps), accountant)(epsilon) <= 1e-5
    below = SubsampledGaussian(rate, sigma * (1 - 2e-4), steps)
    assert profile(below, accountant)(epsilon) > 1e-5


def test_tighter_accountants_and_weaker_neighbours_need_less_noise():
    noises = [least_sigma(1.0, 1e-6, 0.02, 500, name) for name in ("pld", "rdp", "moments")]
    assert noises == sorted(noises)
    assert least_sigma(1.0, 1e-6, 0.02, 500, "rdp", "replace one") > 1.5 * noises[1]


def test_noise_too_small_for_a_distribution_is_answered_by_the_divergences():
    run = SubsampledGaussian(0.1, 0.05, 100)
    assert epsilon_of(run, 1e-5, "pld") == epsilon_of(run, 1e-5, "rdp")
    assert least_sigma(1e6, 1e-5, 0.01, 1) == 0.2


def test_an_epsilon_that_an_accountant_never_claims_is_refused():
    with pytest.raises(ValueError, match="moments"):
        least_sigma(0.3, 1e-5, 0.05, 200, "moments")  # ln(1e5) / 32 = 0.36


def test_a_run_that_needs_no_epsilon_at_that_delta():
    assert epsilon_of(SubsampledGaussian(0.001, 50.0, 1), 0.1, "pld") == 0.0


def test_the_second_opinion_is_one():
    """The closed form above is the Gaussian mechanism's where everybody is taken."""
    mu, epsilon = 1 / 1.5, 1.0
    exact = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    assert one_step_delta(1.0, 1.5, epsilon) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("delta", [math.nan, 0.0, 1.0, -1.0, math.inf])
def test_a_delta_out_of_range_is_refused(delta):
    with pytest.raises(ValueError, match="delta"):
        epsilon_of(PUBLISHED, delta)
    with pytest.raises(ValueError, match="delta"):
        least_sigma(1.0, delta, 0.01, 100)


@pytest.mark.parametrize("epsilon", [math.nan, 0.0, -1.0, math.inf])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        least_sigma(epsilon, 1e-5, 0.01, 100)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="accountant"):
        profile(PUBLISHED, "guess")
    with pytest.raises(ValueError, match="neighbours"):
        profile(PUBLISHED, "rdp", "anyone")
    with pytest.raises(ValueError, match="rate"):
        least_sigma(1.0, 1e-5, 1.5, 100)
