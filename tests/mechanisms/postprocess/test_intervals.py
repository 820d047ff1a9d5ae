"""Error bars cover as often as they say."""

from __future__ import annotations

import math
from functools import cache

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
from tests.oracles.statistics import FALSE_ALARM, population, zipf

N, D, RUNS = 50_000, 100, 400
# Each value that nobody holds gets about 0.8, 3.3 and 0.25 supporters: name, d, epsilon, n, runs.
SPARSE = [("grr", 5_000, 6.97, 5_000, 2_000), ("grr", 20_000, 9.24, 100_000, 100)]
SPARSE += [("grr", 1_000, 8.0, 1_000, 5_000)]
DENSE = [("olh", D, 1.0, N, RUNS), ("srr", 1_000, 3.0, 5_000, RUNS)]


def normal_intervals(mechanism, estimate, n, confidence, simultaneous=False):
    """The textbook's: as far to either side as the estimate's own standard error says."""
    comparisons = mechanism.domain_size if simultaneous else 1
    reach = normal_quantile(confidence, comparisons) * standard_errors(mechanism, estimate, n)
    return np.clip(estimate - reach, 0, 1), np.clip(estimate + reach, 0, 1)


def every_estimate(mechanism, n):
    """The estimate for each support count 0 .. n."""
    return (np.arange(n + 1) / n - mechanism.other) / mechanism.contrast


def miss(mechanism, n, holders, limits):
    """P(the truth lies below, above the interval), from the exact law of the support."""
    law, truth = np.ones(1), holders / n
    for size, p in ((holders, mechanism.keep), (n - holders, mechanism.other)):
        law = np.convolve(law, stats.binom.pmf(np.arange(size + 1), size, p))
    lower, upper = limits
    return law[truth < lower - 1e-15].sum(), law[truth > upper + 1e-15].sum()


@pytest.fixture(scope="module")
def runs():
    """(mechanism, estimates, truth) of many repetitions of one collection."""
    return repeat("olh", D, 1.0, N, RUNS)


@cache
def repeat(name, d, epsilon, n, repetitions):
    mechanism = build(name, epsilon=epsilon, domain_size=d)
    cells = population(zipf(d), n)
    rng = SeededRandom(11)
    estimates = np.array(
        [
            mechanism.estimate(mechanism.count(mechanism.perturb(cells, rng)))
            for _ in range(repetitions)
        ]
    )
    return mechanism, estimates, np.bincount(cells, minlength=d) / n


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_each_interval_covers(runs, confidence):
    """Coverage over runs and bins is nearly binomial, as bins are nearly independent; the band
    is 0.3 % wider, for what whole counts add."""
    mechanism, estimates, truth = runs
    lower, upper = intervals(mechanism, estimates, N, confidence)
    covered = np.mean((lower <= truth) & (truth <= upper))
    reach = stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(confidence * (1 - confidence) / (RUNS * D))
    assert abs(covered - confidence) < reach + 0.003


def together(make, case):
    """In how many runs 95 % intervals for all values cover them all."""
    mechanism, estimates, truth = repeat(*case)
    lower, upper = make(mechanism, estimates, case[3], 0.95, simultaneous=True)
    return int(((lower <= truth + 1e-15) & (truth <= upper + 1e-15)).all(axis=1).sum())


@pytest.mark.verify
@pytest.mark.parametrize("case", SPARSE + DENSE, ids=str)
def test_simultaneous_intervals_cover_together(case):
    """So few runs would be covered once in 10^9 or less, were the coverage 95 %."""
    assert stats.binom.cdf(together(intervals, case), case[-1], 0.95) > FALSE_ALARM


@pytest.mark.verify
@pytest.mark.parametrize("holders", [0, 1, 3])
@pytest.mark.parametrize("case", SPARSE, ids=str)
def test_values_that_few_hold_are_covered(case, holders):
    """Supports of different values are negatively associated, so a binomial bound is safe."""
    mechanism, estimates, truth = repeat(*case)
    few = np.rint(truth * case[3]) == holders
    lower, upper = intervals(mechanism, estimates[:, few], case[3], 0.95)
    covered = (lower <= truth[few] + 1e-15) & (truth[few] <= upper + 1e-15)
    assert covered.size
    assert stats.binom.cdf(covered.sum(), covered.size, 0.95) > FALSE_ALARM


# name, d, epsilon, n: sparse, at the switch between the methods, dense; noise that is rare on
# both sides; and a support that nearly everyone gives.
LAWS = [("grr", 5_000, 6.97, 5_000), ("grr", 1_000, 8.0, 1_000), ("grr", 100, 3.0, 10_000)]
LAWS += [("srr", 1_000, 3.0, 5_000), ("grr", 1_000, 12.0, 3_000), ("hadamard", 20, 3.0, 500)]


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_neither_end_misses_more_often_than_it_may(law, simultaneous):
    """By enumeration, without sampling: the risk of each end, at few holders and at many."""
    name, d, epsilon, n = law
    mechanism = build(name, epsilon=epsilon, domain_size=d)
    limits = intervals(mechanism, every_estimate(mechanism, n), n, 0.95, simultaneous)
    allowed = 0.025 / (d if simultaneous else 1)
    for holders in {0, 1, 3, 10, 30, 100, n // 20, n // 4, n // 2, n - 30, n - 1, n}:
        assert max(miss(mechanism, n, holders, limits)) <= allowed * (1 + 1e-5)


def test_enumeration_rejects_normal_intervals():
    name, d, epsilon, n = LAWS[0]
    mechanism = build(name, epsilon=epsilon, domain_size=d)
    limits = normal_intervals(mechanism, every_estimate(mechanism, n), n, 0.95, simultaneous=True)
    worst = max(max(miss(mechanism, n, holders, limits)) for holders in (1, 10, 30, 100))
    assert worst > 100 * 0.025 / d


def test_a_sparse_limit_is_the_last_number_of_holders_that_is_not_rejected():
    mechanism, n = build("grr", epsilon=8.0, domain_size=1_000), 1_000
    lower, upper = intervals(mechanism, every_estimate(mechanism, n)[:30], n, 0.95)
    for support in (0, 1, 7, 29):
        kept = []
        for h in range(80):
            a = np.arange(support + 1)
            held = stats.binom.pmf(a, h, mechanism.keep)
            at_most = held @ stats.binom.cdf(support - a, n - h, mechanism.other)
            below = held @ stats.binom.cdf(support - a - 1, n - h, mechanism.other)
            if at_most > 0.025 and 1 - below > 0.025:
                kept.append(h)
        unbiased = n * every_estimate(mechanism, n)[support]
        assert lower[support] * n == pytest.approx(min(kept[0], max(unbiased, 0)), abs=1e-9)
        assert upper[support] * n == pytest.approx(max(kept[-1], unbiased), abs=1e-9)


def test_the_bound_on_the_largest_error_holds_and_is_not_idle(runs):
    mechanism, estimates, truth = runs
    largest = np.abs(estimates - truth).max(axis=1)
    bound = largest_error_bound(mechanism, N, 0.95)
    assert (largest <= bound).all()
    assert bound < 2 * largest.mean()


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_limits_follow_the_estimate_inside_the_unit_interval(law):
    name, d, epsilon, n = law
    mechanism = build(name, epsilon=epsilon, domain_size=d)
    estimate = np.linspace(-0.5, 1.5, 10_001)
    for simultaneous in (False, True):
        lower, upper = intervals(mechanism, estimate, n, 0.95, simultaneous)
        assert lower.min() == 0
        assert upper.max() == 1
        assert (np.diff(lower) >= 0).all()
        assert (np.diff(upper) >= 0).all()
        assert (lower <= np.clip(estimate, 0, 1)).all()
        assert (np.clip(estimate, 0, 1) <= upper).all()


def test_what_is_no_estimate_is_refused(runs):
    with pytest.raises(ValueError, match="not a number"):
        intervals(runs[0], [0.1, math.nan], N, 0.95)
    with pytest.raises(ValueError, match="n must be"):
        intervals(runs[0], [0.1], 0, 0.95)


@pytest.mark.parametrize("confidence", [0, 1, -1, math.nan, math.inf])
def test_confidence_out_of_range_is_refused(runs, confidence):
    for call in (
        lambda: normal_quantile(confidence),
        lambda: intervals(runs[0], [0.1], N, confidence),
        lambda: largest_error_bound(runs[0], N, confidence),
    ):
        with pytest.raises(ValueError, match="confidence"):
            call()
    with pytest.raises(ValueError, match="comparisons"):
        normal_quantile(0.9, 0)
