"""Schedules: how steps and time go with users, noise and rows, and what is refused."""

from __future__ import annotations

import math

import pytest

from mechanisms.learning.objectives import Logistic, SquaredError
from mechanisms.learning.schedule import CLIP, Schedule, plan, plan_steps, typical_variance
from mechanisms.vector.multi import multi_hm, multi_optimal


def test_a_group_grows_with_dimension_and_with_less_epsilon():
    for epsilon, dimension in [(0.5, 10), (0.25, 10), (0.25, 40)]:
        mechanism = multi_optimal(epsilon, dimension)
        n = int(20.5 * 4 * typical_variance(mechanism))
        assert plan_steps(n, mechanism) == 20
    small, large = (typical_variance(multi_optimal(e, d)) for e, d in [(0.5, 10), (0.25, 40)])
    assert large / small == pytest.approx(16, rel=0.02)  # d / epsilon^2


def test_there_is_always_a_step_and_never_more_than_are_of_use():
    mechanism = multi_optimal(0.1, 100)
    assert plan_steps(1, mechanism) == 1
    assert plan_steps(10**9, mechanism) == 50
    assert plan(SquaredError(100), mechanism, 3, steps=3).steps == 3


def test_time_grows_with_the_root_of_users_until_the_rate_is_all_that_is_stable():
    objective, mechanism = SquaredError(20), multi_optimal(1.0, 20)
    few, more, many = (plan(objective, mechanism, n) for n in (100_000, 400_000, 10**9))
    assert few.steps == more.steps == many.steps == 50
    assert more.rate == pytest.approx(2 * few.rate)
    stable = 2 * (1 + many.momentum) / (1 - many.momentum) / (2.0 * 20)
    assert more.rate < many.rate < stable


def test_noise_costs_the_loss_what_it_may():
    """By the formula that the module states, whatever the mechanism, the rows and the clip."""
    for mechanism, longest, clip in [
        (multi_optimal(1.0, 20), 8.0, CLIP),
        (multi_hm(0.5, 20), 20.0, 1.0),
    ]:
        objective, n = Logistic(20), 20_000
        found = plan(objective, mechanism, n, longest=longest, clip=clip)
        time = found.steps * found.rate
        noise = 0.25 * longest * clip**2 * typical_variance(mechanism) / n * time**2
        assert noise == pytest.approx(2 * 0.35 * math.log(2))


def test_what_is_told_is_kept():
    found = plan(SquaredError(4), multi_hm(1.0, 4), 1000, steps=7, rate=0.2)
    assert (found.steps, found.rate, found.momentum) == (7, 0.2, 0.0)
    assert plan(SquaredError(4), multi_hm(1.0, 4), 1000, steps=16, rate=0.2).momentum == 0.5


@pytest.mark.parametrize(
    ("steps", "averaged", "begin"), [(1, 0.5, 0), (10, 0.0, 9), (10, 1.0, 0), (10, 0.25, 8)]
)
def test_at_least_one_step_is_averaged(steps, averaged, begin):
    assert Schedule(steps, 0.1, averaged=averaged).begin_average == begin


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Schedule(0, 0.1), "steps must be at least 1"),
        (lambda: Schedule(1.5, 0.1), "steps must be an integer"),
        (lambda: Schedule(1, math.nan), "rate must be a positive"),
        (lambda: Schedule(1, 0.1, momentum=1.0), r"momentum must lie in \[0, 1\)"),
        (lambda: Schedule(1, 0.1, averaged=-0.1), "averaged must lie in"),
        (lambda: plan_steps(0, multi_hm(1.0, 2)), "n must be at least 1"),
        (lambda: plan(SquaredError(2), multi_hm(1.0, 2), 5, steps=6), "each needs a user"),
    ],
)
def test_what_is_no_schedule_is_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()
