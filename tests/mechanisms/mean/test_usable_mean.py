"""The mean of those who have a number: without bias, and intervals that cover it."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.catalog import of_task
from mechanisms.mean.usable_mean import unusable_share, usable_mean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.randomness import SeededRandom
from tests.fakes.few import ends

RUNS = 300


@pytest.mark.parametrize(
    ("name", "epsilon", "n", "present"),
    ends([
        ("optimal", 4.0, 5_000, 0.61), ("optimal", 1.0, 20_000, 0.61), ("duchi", 1.0, 20_000, 0.3),
        ("dct", 1.0, 20_000, 0.9), ("hm", 1.0, 5_000, 1.0),
    ]),
)  # fmt: skip
def test_intervals_cover_the_mean_and_the_share(name, epsilon, n, present):
    """Of 300 runs 285 on average and 261 or fewer with probability 4e-10 for exact intervals.

    The mean of all runs is off by more than 6.5 of its standard errors with probability 1e-10.
    """
    mechanism = WithUnusable(of_task("mean")[name].build(epsilon=epsilon, cells=128))
    made, rng = np.random.default_rng(1), SeededRandom(7)
    values, has = np.clip(made.normal(0.3, 0.3, n), -1, 1), made.random(n) < present
    truth, covered, estimates = values[has].mean(), np.zeros(2), []
    for _ in range(RUNS):
        cells = np.where(has, mechanism.rounding.encode(values, rng), mechanism.unusable)
        counts = mechanism.count(mechanism.perturb(cells, rng))
        mean, share = usable_mean(mechanism, counts, 0.95), unusable_share(mechanism, counts, 0.95)
        inside = mean.lower <= truth <= mean.upper, share.lower <= 1 - has.mean() <= share.upper
        covered += inside
        estimates.append((mean.unbiased, mean.standard_error))
    assert np.all(covered > 261)
    unbiased, error = np.transpose(estimates)
    # A quotient is off by about the square of the relative error of what it is divided by.
    slack = 2 * np.mean(error) ** 2
    assert abs(unbiased.mean() - truth) < 6.5 * unbiased.std() / np.sqrt(RUNS) + slack
    assert np.sqrt(np.mean((unbiased - truth) ** 2)) < 1.3 * error.mean()


@pytest.mark.parametrize("epsilon", [10.0, 15.0, 20.0, 30.0])
@pytest.mark.parametrize("n", [50, 1000, 100_000])
def test_intervals_at_a_great_epsilon_are_no_wider_than_bernstein_s(epsilon, n):
    """Nearly no report is off, so that limits for any number of reports lie far from the estimate
    in standard errors, and yet near it: what a report can be off by, log(40) / 3 times over n."""
    mechanism = WithUnusable(of_task("mean")["hybrid_optimal"].build(epsilon=epsilon, cells=512))
    rng = SeededRandom(3)
    cells = mechanism.rounding.encode(np.full(n, 0.25), rng)
    counts = mechanism.count(mechanism.perturb(cells, rng))
    mean = usable_mean(mechanism, counts, 0.95)
    reach = np.abs(mechanism.sums).max() + np.abs(mechanism.presence).max() + 2
    _, largest = mechanism.between(np.array([1.0, -1.0]))
    linear = reach * np.log(40) / (3 * n)
    half = linear + np.sqrt(linear**2 + 2 * largest.max() * np.log(40) / n)
    assert mean.lower <= 0.25 <= mean.upper
    assert mean.upper - mean.lower <= 2.1 * half


def test_where_nobody_has_a_number_every_mean_is_possible():
    mechanism = WithUnusable(of_task("mean")["optimal"].build(epsilon=1.0, cells=16))
    reports = mechanism.perturb(np.full(10_000, mechanism.unusable), SeededRandom(2))
    counts = mechanism.count(reports)
    mean, share = usable_mean(mechanism, counts, 0.95), unusable_share(mechanism, counts, 0.95)
    assert (mean.lower, mean.upper) == (-1.0, 1.0)
    assert share.lower < 1.0 == share.upper


def test_the_worst_case_is_no_narrower():
    mechanism = WithUnusable(of_task("mean")["optimal"].build(epsilon=2.0, cells=16))
    counts = mechanism.count(mechanism.perturb(np.full(5_000, 12), SeededRandom(3)))
    usual, worst = (usable_mean(mechanism, counts, 0.95, sure) for sure in (False, True))
    assert worst.lower <= usual.lower < usual.upper <= worst.upper
    assert usual.unbiased == worst.unbiased


def test_few_reports_have_wide_intervals():
    mechanism = WithUnusable(of_task("mean")["optimal"].build(epsilon=1.0, cells=16))
    mean = usable_mean(mechanism, mechanism.count(np.array([3])), 0.95)
    assert (mean.n, mean.lower, mean.upper) == (1, -1.0, 1.0)
