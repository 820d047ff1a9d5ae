"""Error bars cover as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mechanisms.catalog import build
from mechanisms.postprocess.intervals import (
    intervals,
    largest_error_bound,
    normal_quantile,
    standard_errors,
)
from mechanisms.randomness import SeededRandom
from tests.oracles import FALSE_ALARM, population, zipf

N, D, RUNS = 50_000, 100, 400


@pytest.fixture(scope="module")
def runs():
    """(estimates, standard errors, truth) of many repetitions of one collection."""
    mechanism = build("olh", epsilon=1.0, domain_size=D)
    cells = population(zipf(D), N)
    rng = SeededRandom(11)
    estimates = np.array(
        [mechanism.estimate(mechanism.count(mechanism.perturb(cells, rng))) for _ in range(RUNS)]
    )
    errors = np.array([standard_errors(mechanism, estimate, N) for estimate in estimates])
    return mechanism, estimates, errors, np.bincount(cells, minlength=D) / N


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_each_interval_covers(runs, confidence):
    """Bins are nearly independent, so coverage over runs and bins is nearly binomial; the band
    is widened by 0.3 % for the normal approximation."""
    _, estimates, errors, truth = runs
    lower, upper = intervals(estimates, errors, confidence)
    covered = np.mean((lower <= truth) & (truth <= upper))
    reach = stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(confidence * (1 - confidence) / (RUNS * D))
    assert abs(covered - confidence) < reach + 0.003


def test_simultaneous_intervals_cover_together(runs):
    _, estimates, errors, truth = runs
    together = 0
    for estimate, error in zip(estimates, errors, strict=True):
        lower, upper = intervals(estimate, error, 0.9, simultaneous=True)
        together += bool(((lower <= truth) & (truth <= upper)).all())
    # 90 % with at most 400 runs: fewer than 330 would happen by chance once in 10^9 or less.
    assert stats.binom.cdf(together, RUNS, 0.9) > FALSE_ALARM
    # One interval alone is far too narrow for that, and the same count shows it.
    lower, upper = intervals(estimates, errors, 0.9)
    alone = ((lower <= truth) & (truth <= upper)).all(axis=1).sum()
    assert stats.binom.cdf(alone, RUNS, 0.9) < FALSE_ALARM


def test_the_bound_on_the_largest_error_holds_and_is_not_idle(runs):
    mechanism, estimates, _, truth = runs
    largest = np.abs(estimates - truth).max(axis=1)
    bound = largest_error_bound(mechanism, N, 0.95)
    assert (largest <= bound).all()
    assert bound < 2 * largest.mean()


def test_intervals_stay_in_the_unit_interval():
    lower, upper = intervals([-0.5, 0.0, 1.2], [0.1, 0.2, 0.1], 0.95)
    assert lower.min() >= 0
    assert upper.max() <= 1
    assert (lower <= upper).all()


@pytest.mark.parametrize("confidence", [0, 1, -1, math.nan, math.inf])
def test_confidence_out_of_range_is_refused(runs, confidence):
    for call in (
        lambda: normal_quantile(confidence),
        lambda: largest_error_bound(runs[0], N, confidence),
    ):
        with pytest.raises(ValueError, match="confidence"):
            call()
    with pytest.raises(ValueError, match="comparisons"):
        normal_quantile(0.9, 0)
