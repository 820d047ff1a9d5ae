"""The central model's systems behind one face: unbiased, as wide as stated, private as claimed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from mechanisms.papers.central_histogram import LaplaceHistogram
from mechanisms.papers.histograms import BoostHistogram, NoiseFirstHistogram, SumOfLaplace
from mechanisms.postprocess.intervals import intervals, largest_error_bound
from mechanisms.randomness import SeededRandom

FAMILIES = [LaplaceHistogram, BoostHistogram, NoiseFirstHistogram]
COUNTS = np.array([400, 410, 390, 5, 5, 6, 1000, 0, 0, 0])
RUNS = 4000


@pytest.mark.parametrize("family", FAMILIES)
def test_unbiased_with_the_variance_it_states(family):
    """The mean of 4,000 runs lies within six standard errors; their variance within 20 %."""
    mechanism, n = family(0.5, COUNTS.size), int(COUNTS.sum())
    rng = SeededRandom(11)
    found = np.array([mechanism.release(COUNTS, rng)[0] for _ in range(RUNS)])
    error = np.sqrt(mechanism.variance(COUNTS / n, n) / RUNS)
    assert (np.abs(found.mean(axis=0) - COUNTS / n) < 6.5 * error).all()
    measured = ((found - COUNTS / n) ** 2).mean()
    assert 0.8 < measured / mechanism.average_variance(n) < 1.2


@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_cover(family):
    """95 % intervals of 400 releases of ten values: at least 93 % cover, by a wide margin."""
    mechanism, n, rng = family(0.5, COUNTS.size), int(COUNTS.sum()), SeededRandom(12)
    covered, largest = [], []
    for _ in range(400):
        unbiased, _ = mechanism.release(COUNTS, rng)
        lower, upper = intervals(mechanism, unbiased, n, 0.95)
        covered.append((lower <= COUNTS / n) & (COUNTS / n <= upper))
        largest.append(np.abs(unbiased - COUNTS / n).max())
    assert 0.93 < np.mean(covered) <= 1
    assert np.mean(np.array(largest) <= largest_error_bound(mechanism, n, 0.95)) > 0.9


@pytest.mark.parametrize("family", FAMILIES)
def test_promises_the_release_and_nothing_of_the_raw_values(family):
    mechanism = family(1.0, 8)
    assert mechanism.guarantee.model == "central"
    assert mechanism.guarantee.epsilon == 1.0
    assert mechanism.guarantee.delta < 1e-15
    assert mechanism.local.model == "none"
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert mechanism.constants()["epsilon"] == 1.0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [1, 0, 2.5])
def test_a_domain_that_is_none_is_refused(family, size):
    with pytest.raises(ValueError, match="domain_size"):
        family(1.0, size)


def test_noisefirst_refuses_what_it_would_not_finish():
    with pytest.raises(ValueError, match="at most 65536, not 1000000"):
        NoiseFirstHistogram(1.0, 10**6)


def test_runs_of_equal_values_gain_from_merging():
    flat, rng = np.full(64, 1000), SeededRandom(4)
    mechanism = NoiseFirstHistogram(0.2, 64)
    gains = []
    for _ in range(30):
        unbiased, estimate = mechanism.release(flat, rng)
        gains.append(((unbiased - 1 / 64) ** 2).sum() / ((estimate - 1 / 64) ** 2).sum())
    assert np.median(gains) > 1.4  # the paper price of a bucket leaves too many of them


@pytest.mark.parametrize("terms", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("tail", [0.4, 0.1, 0.025, 1e-3, 1e-6])
def test_a_sum_of_laplace_noise_stays_within_its_quantiles(terms, tail):
    """Its variance, given, is a mean of exponentials: a gamma law, integrated by quadrature."""
    points, weights = np.polynomial.legendre.leggauss(400)
    variance = stats.gamma.ppf((points + 1) / 2, terms, scale=1 / terms)
    beyond = stats.norm.sf(SumOfLaplace(1.0).isf(tail) / np.sqrt(variance))
    assert float(weights / 2 @ beyond) < tail * (1 + 1e-4)
