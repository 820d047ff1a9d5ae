"""Limits of a mean of numbers in [0, 1]: of every population, of few reports, at either end."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mechanisms.catalog import build
from mechanisms.distribution.limits import limits
from mechanisms.distribution.noise import NoiseBound, WeightNoise
from mechanisms.distribution.ramps import Ramps
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SeededRandom

EXACT = NoiseBound(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1))


@pytest.mark.parametrize("n", [1, 2, 5, 20, 100, 1000])
def test_without_noise_they_are_limits_of_a_binomial_that_always_cover(n: int) -> None:
    """Every outcome added up exactly, for every share: not by simulation."""
    estimates = np.arange(n + 1) / n
    bound = NoiseBound(*(np.repeat(each, n + 1) for each in EXACT))
    lower, upper = limits(estimates, bound, n, 0.95)
    for share in np.concatenate([np.geomspace(1e-4, 0.5, 300), 1 - np.geomspace(1e-4, 0.5, 300)]):
        law = stats.binom.pmf(np.arange(n + 1), n, share)
        assert law[lower > share].sum() <= 0.026, share
        assert law[upper < share].sum() <= 0.026, share


def test_the_bound_holds_for_every_population() -> None:
    reconstruction = Reconstruction.of(build("grr", epsilon=2.0, domain_size=12))
    ramps = Ramps(reconstruction, 2)
    noise = reconstruction.noise(ramps.weights)
    rng = SeededRandom(1).generator()
    for scale in (0.05, 1.0, 20.0):
        for _ in range(50):
            shares = rng.dirichlet(np.full(12, scale))
            allowed = ramps.noise.bound().variance(ramps.targets @ shares, 1)
            assert np.all(noise @ shares <= allowed * (1 + 1e-9) + 1e-12)


def test_the_bound_is_attained_where_one_value_is_held_by_all() -> None:
    """For a single share the bound is the variance itself at both ends."""
    reconstruction = Reconstruction.of(build("grr", epsilon=2.0, domain_size=12))
    noise = reconstruction.noise(reconstruction.shares)
    bound = WeightNoise(reconstruction, reconstruction.shares, np.eye(12)).bound()
    assert bound.variance(np.ones(12), 1) == pytest.approx(np.diag(noise))
    assert bound.level == pytest.approx((noise - np.diag(np.diag(noise))).max(axis=1))


def test_they_are_where_the_reports_begin_to_contradict() -> None:
    """Inside [0, 1], the limit itself is exactly z standard deviations away, skewness added."""
    bound = NoiseBound(np.array([3.0]), np.array([0.5]), np.array([7.0]), np.zeros(1))
    n, z = 2000, normal_quantile(0.9)
    skew = (z * z + 2) / 6 * 7.0 / n
    for estimate in (0.3, 0.5, 0.8):
        lower, upper = limits(np.array([estimate]), bound, n, 0.9)
        for end, away in ((lower, estimate - skew - lower), (upper, upper - estimate - skew)):
            deviation = np.sqrt((3.0 + 0.5 * end + end * (1 - end)) / n)
            assert away == pytest.approx(z * deviation)


def test_nothing_contradicts_an_end_that_the_estimate_has_passed() -> None:
    bound = NoiseBound(np.full(2, 1e-6), np.zeros(2), np.full(2, 1e-3), np.zeros(2))
    lower, upper = limits(np.array([-0.2, 1.2]), bound, 50, 0.95)
    assert lower[0] == 0
    assert upper[1] == 1
    assert np.all(lower <= upper)


@pytest.mark.parametrize(
    ("n", "confidence"), [(0, 0.95), (-1, 0.95), (10, 0.0), (10, 1.0), (10, float("nan"))]
)
def test_what_means_nothing_is_refused(n: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="must"):
        limits(np.array([0.5]), EXACT, n, confidence)
