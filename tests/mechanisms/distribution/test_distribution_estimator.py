"""From reports to everything that is published, by the code that publishes it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mechanisms.catalog import build
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.distribution.quantiles import USUAL
from mechanisms.distribution.ramps import best_ramps
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.mean.widths import noise
from mechanisms.randomness import SeededRandom
from tests.oracles.distribution import (
    POPULATIONS,
    coarse,
    constant,
    lopsided,
    many_counts,
    rounded_shares,
    smooth,
    spiky,
)
from tests.oracles.statistics import FALSE_ALARM

BINS, N = 16, 2000


def of(name: str, epsilon: float = 1.0, bins: int = BINS, n: int = N) -> DistributionEstimator:
    size = {"domain_size": bins} if name == "grr" else {"cells": bins - 1}
    mechanism = build(name, epsilon=epsilon, **size)
    return DistributionEstimator(mechanism, best_ramps(Reconstruction.of(mechanism), n).span)


def reported(estimator: DistributionEstimator, values: np.ndarray, seed: int) -> np.ndarray:
    """Counts of one collection, by the clients' own code."""
    rounding = noise(1.0, cells=estimator.mechanism.inputs - 1)
    cells = rounding.encode(values, SeededRandom(seed))
    return estimator.mechanism.count(estimator.mechanism.perturb(cells, SeededRandom(-seed)))


@pytest.mark.parametrize("name", ["nm", "pm", "laplace", "hybrid_optimal", "grr"])
def test_the_mean_is_unbiased(name: str) -> None:
    """The weights' mean is the grid point under every input; rounding keeps means."""
    estimator = of(name)
    means = estimator.mean_weights @ estimator.reconstruction.table
    assert np.abs(means - estimator.points).max() < 1e-12


@pytest.mark.parametrize("smooth_", [False, True])
@pytest.mark.parametrize("name", ["nm", "grr"])
def test_what_is_published_is_consistent(name: str, smooth_: bool) -> None:
    found = of(name)
    estimator = DistributionEstimator(found.mechanism, found.span, smooth_)
    summary = estimator.summarise(reported(estimator, spiky(N), 1), 0.9, USUAL)
    assert summary.n == N
    assert summary.converged
    assert summary.edges[[0, -1]].tolist() == [-1, 1]
    assert np.all(np.diff(summary.edges) > 0)
    assert np.all(summary.estimate >= 0)
    assert summary.estimate.sum() == pytest.approx(1)
    assert summary.unbiased.sum() == pytest.approx(1)
    assert summary.cumulative == pytest.approx(np.cumsum(summary.estimate))
    assert summary.cumulative[-1] == summary.cumulative_lower[-1] == 1
    estimate, lower, upper = summary.quantiles.T
    pairs = [
        (summary.estimate, summary.lower, summary.upper),
        (summary.cumulative, summary.cumulative_lower, summary.cumulative_upper),
        (summary.cumulative, summary.sure_lower, summary.sure_upper),
        (estimate, lower, upper),
    ]
    for middle, low, high in pairs:
        assert np.all((low <= middle) & (middle <= high))
    for rising in (estimate, lower, upper):
        assert np.all(np.diff(rising) >= 0)
    for within in (summary.lower, summary.upper, summary.cumulative_upper):
        assert np.all((within >= 0) & (within <= 1))
    assert -1 <= summary.mean.lower <= summary.mean.upper <= 1
    assert summary.mean_of_estimate == pytest.approx(summary.estimate @ estimator.points)


def test_almost_noiseless_reports_give_the_histogram() -> None:
    """Hardly a report lies: shares, quantiles and the mean are those of the values."""
    estimator = of("grr", 30.0)
    values = np.repeat(estimator.points, np.arange(1, BINS + 1) * 10)
    summary = estimator.summarise(reported(estimator, values, 1), 0.95, (0.25, 0.5))
    truth = rounded_shares(values, estimator.points)
    assert summary.estimate == pytest.approx(truth, abs=1e-9)
    assert summary.unbiased == pytest.approx(truth, abs=1e-9)
    assert summary.mean.estimate == pytest.approx(values.mean(), abs=1e-9)
    step = 2 / (BINS - 1)
    assert np.abs(summary.quantiles[:, 0] - np.quantile(values, [0.25, 0.5])).max() <= step / 2


def test_estimates_come_close_on_smooth_and_on_spiky_data() -> None:
    """EM is far nearer to the truth than the unbiased shares that it starts from."""
    estimator = of("nm", 1.0, 64, 40_000)
    for values in (smooth(40_000), spiky(40_000), constant(40_000)):
        summary = estimator.summarise(reported(estimator, values, 3))
        truth = np.cumsum(rounded_shares(values, estimator.points))
        error = np.abs(summary.cumulative - truth).mean()
        assert error < 0.02
        assert error < np.abs(np.cumsum(summary.unbiased) - truth).mean() / 2


def test_smoothing_helps_smooth_data_and_harms_spikes() -> None:
    plain = of("nm", 1.0, 64, 40_000)
    smoothing = DistributionEstimator(plain.mechanism, plain.span, smooth=True)
    errors = {}
    for values in (smooth, constant):
        counts = reported(plain, values(40_000), 5)
        truth = rounded_shares(values(40_000), plain.points)
        for estimator in (plain, smoothing):
            found = estimator.summarise(counts).estimate
            errors[values, estimator.smooth] = float(((found - truth) ** 2).sum())
    assert errors[smooth, True] < errors[smooth, False]
    assert errors[constant, True] > errors[constant, False]


@pytest.mark.verify
@pytest.mark.parametrize("name", ["nm", "grr"])
@pytest.mark.parametrize("population", POPULATIONS)
def test_intervals_of_quantiles_shares_and_mean_cover(name: str, population: str) -> None:
    estimator, runs = of(name), 400
    values = coarse(POPULATIONS[population](N), 200)
    shares = rounded_shares(values, estimator.points)
    ordered, ps = np.sort(values), (0.05, 0.25, 0.5, 0.75, 0.95)
    quantile = ordered[[int(np.ceil(p * N - 1e-9)) - 1 for p in ps]]
    missed_shares, missed_quantiles, missed_mean = np.zeros(BINS), np.zeros(len(ps)), 0
    for counts in many_counts(estimator.reconstruction, values, runs, seed=11):
        found = estimator.summarise(counts, 0.95, ps)
        missed_shares += (found.lower > shares + 1e-9) | (found.upper < shares - 1e-9)
        low, high = found.quantiles[:, 1], found.quantiles[:, 2]
        missed_quantiles += (low > quantile + 1e-9) | (high < quantile - 1e-9)
        missed_mean += not found.mean.lower <= values.mean() <= found.mean.upper
    allowed = stats.binom.isf(FALSE_ALARM, runs, 0.06)
    assert np.all(missed_shares <= allowed)
    assert np.all(missed_quantiles <= allowed)
    assert missed_mean <= allowed


def test_intervals_cover_a_population_of_which_users_are_a_sample() -> None:
    """The values are drawn anew each time: their own spread is accounted for, too."""
    estimator, runs, n = of("grr", 7.0, 8, 200), 3000, 200
    rng = SeededRandom(13).generator()
    law = np.array([0.3, 0.05, 0.05, 0.1, 0.2, 0.1, 0.1, 0.1])
    mixed = estimator.reconstruction.table @ law
    missed = np.zeros(8)
    for counts in rng.multinomial(n, mixed / mixed.sum(), size=runs):
        lower, upper = estimator.ramps.distribution_limits(counts, n, 0.95)
        missed += (lower > np.cumsum(law) + 1e-9) | (upper < np.cumsum(law) - 1e-9)
    assert np.all(missed <= stats.binom.isf(FALSE_ALARM, runs, 0.06))


def test_standard_errors_are_those_of_the_unbiased_shares() -> None:
    """Never too small, and right for a share that nobody or everybody holds."""
    estimator, runs = of("grr"), 3000
    values = np.full(N, estimator.points[5])
    counts = many_counts(estimator.reconstruction, values, runs, seed=17)
    spread = (counts @ estimator.reconstruction.shares.T / N).std(axis=0)
    told = estimator.summarise(counts[0]).standard_error
    # A standard deviation of 3,000 runs is 1.3 % off; seven times that is a false alarm.
    assert np.all(spread < told * 1.1)
    assert spread == pytest.approx(told, rel=0.12)


@pytest.mark.verify
@pytest.mark.parametrize("name", ["nm", "pm", "grr"])
@pytest.mark.parametrize("values", [smooth, spiky])
def test_standard_errors_are_those_of_who_reported(name: str, values) -> None:
    """A bound over all that may be reported would be up to 2.5 times as much."""
    estimator, runs = of(name), 3000
    counts = many_counts(estimator.reconstruction, values(N), runs, seed=19)
    spread = (counts @ estimator.reconstruction.shares.T / N).std(axis=0)
    told = np.mean([estimator.summarise(each).standard_error for each in counts[:3]], axis=0)
    # A standard deviation of 3,000 runs is 1.3 % off; seven times that is a false alarm.
    assert spread == pytest.approx(told, rel=0.1)


@pytest.mark.parametrize("name", ["nm", "grr"])
def test_one_report_says_next_to_nothing(name: str) -> None:
    summary = of(name).summarise(reported(of(name), np.array([0.5]), 1), 0.95, (0.5,))
    assert summary.n == 1
    assert summary.quantiles[0, 1:].tolist() == [-1, 1]
    assert (summary.mean.lower, summary.mean.upper) == (-1, 1)
    assert summary.mean.standard_error > 1


def test_a_few_at_the_far_bound_are_not_lost() -> None:
    estimator = of("grr", 6.0)
    summary = estimator.summarise(reported(estimator, lopsided(N), 19), 0.95, (0.5, 0.999))
    assert summary.upper[-1] >= 0.01 >= summary.lower[-1]
    assert summary.quantiles[0].tolist() == pytest.approx([-1, -1, -1], abs=2 / (BINS - 1))


@pytest.mark.parametrize(
    ("counts", "told"), [(np.zeros(30), "no report"), (np.ones(7), "shape"), (np.ones(31), "shape")]
)
def test_counts_that_cannot_be_are_refused(counts: np.ndarray, told: str) -> None:
    estimator = DistributionEstimator(noise(0.5, cells=15), 1)
    counts = counts if told == "shape" else np.zeros(estimator.mechanism.codes)
    with pytest.raises(ValueError, match=told):
        estimator.summarise(counts)


@pytest.mark.parametrize(("span", "told"), [(0, "at least 1"), (1.5, "integer")])
def test_spans_that_mean_nothing_are_refused(span: int, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        DistributionEstimator(noise(1.0, cells=15), span)
