"""Limits of cumulative shares that shrink with n: what they are of, how often they cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mechanisms.catalog import build
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.distribution.prefixes import PrefixSums
from mechanisms.distribution.ramps import best_ramps
from mechanisms.distribution.reconstruction import Reconstruction
from tests.fakes.few import few
from tests.oracles.distribution import POPULATIONS, coarse, many_counts, rounded_shares
from tests.oracles.statistics import FALSE_ALARM

BINS, N = 16, 3000
POINTS = np.linspace(-1, 1, BINS)


def of(epsilon: float, bins: int, n: int) -> DistributionEstimator:
    mechanism = build("nm", epsilon=epsilon, cells=bins - 1)
    return DistributionEstimator(mechanism, best_ramps(Reconstruction.of(mechanism), n).span)


def even(bins: int) -> np.ndarray:
    """What numbers that lie evenly are rounded to."""
    shares = np.full(bins, 1 / (bins - 1))
    shares[[0, -1]] /= 2
    return shares


def test_rows_are_cumulative_shares() -> None:
    sums = PrefixSums(Reconstruction.of(build("nm", epsilon=2.0, cells=BINS - 1)))
    means = sums.weights @ sums.reconstruction.table
    assert means == pytest.approx(np.tril(np.ones((BINS, BINS))), abs=1e-10)


@pytest.mark.parametrize("epsilon", few((2.0, 6.0), bool))
@pytest.mark.parametrize("population", POPULATIONS)
def test_they_cover_what_rounding_made_of_any_numbers(population: str, epsilon: float) -> None:
    """Of 95 %, in 1,500 collections; limits of 60 % would not do."""
    values, runs = coarse(POPULATIONS[population](N), 50), 1500
    sums = PrefixSums(Reconstruction.of(build("nm", epsilon=epsilon, cells=BINS - 1)))
    shares = rounded_shares(values, POINTS)
    truth = np.cumsum(shares)
    missed = {confidence: np.zeros(BINS) for confidence in (0.95, 0.6)}
    for counts in many_counts(sums.reconstruction, values, runs, seed=5):
        for confidence, count in missed.items():
            lower, upper = sums.limits(counts, shares, N, confidence)
            count += (lower > truth + 1e-9) | (upper < truth - 1e-9)
    allowed = stats.binom.isf(FALSE_ALARM, runs, 0.06)
    assert np.all(missed[0.95] <= allowed)
    assert np.any(missed[0.6] > allowed)


@pytest.mark.parametrize(
    ("epsilon", "bins", "n"), [(10.09, 512, 10**6), (4.0, 64, 10**5), (1.0, 64, 10**4)]
)
def test_the_length_that_is_foreseen_is_what_is_published(
    epsilon: float, bins: int, n: int
) -> None:
    """The first is what a shuffled epsilon of 1 comes to for a million; sure limits are 16 times
    as long, whatever n is, and where reports are noisy they are the shorter ones."""
    estimator, rng = of(epsilon, bins, n), np.random.default_rng(0)
    law = estimator.reconstruction.table @ even(bins)
    summary = estimator.summarise(rng.multinomial(n, law / law.sum()), 0.95)
    length = float(np.mean(summary.cumulative_upper - summary.cumulative_lower))
    sure = float(np.mean(summary.sure_upper - summary.sure_lower))
    assert length == pytest.approx(estimator.expected_length(n, 0.95), rel=0.1)
    if n == 10**6:
        assert length < 3.5e-4 < 0.005 < sure
    elif n == 10**4:
        assert length == sure
    assert np.all(summary.cumulative_lower <= summary.cumulative)
    assert np.all(summary.cumulative <= summary.cumulative_upper)


def test_they_cover_numbers_that_lie_evenly() -> None:
    """F at every upper edge, of numbers as they were: rounded anew in each collection."""
    estimator, n, runs = of(6.0, BINS, 3000), 3000, 1500
    values = np.linspace(-1, 1, n)
    truth = np.array([np.mean(values <= edge) for edge in estimator.edges[1:]])
    rng = np.random.default_rng(3)
    place = (values + 1) / 2 * (BINS - 1)
    missed, table = np.zeros(BINS), estimator.reconstruction.table
    for _ in range(runs):
        cells = np.minimum((place + rng.random(n)).astype(int), BINS - 1)
        held = np.bincount(cells, minlength=BINS)
        counts = sum(
            rng.multinomial(k, table[:, j] / table[:, j].sum()) for j, k in enumerate(held)
        )
        lower, upper = estimator.prefixes.limits(np.asarray(counts, float), even(BINS), n, 0.95)
        missed += (lower > truth + 1e-3) | (upper < truth - 1e-3)
    assert np.all(missed <= stats.binom.isf(FALSE_ALARM, runs, 0.06))
