"""Schedules: how steps and time go with users, noise and rows, and what is refused."""

from __future__ import annotations

import math

import pytest

from mechanisms.learning.objectives import Logistic, SquaredError
from mechanisms.papers.learning.schedule import (
    CLIP,
    StepSchedule,
    best_time,
    plan,
    plan_steps,
    typical_variance,
)
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


def test_time_grows_with_users_until_the_rate_is_all_that_is_stable():
    objective, mechanism = SquaredError(20), multi_optimal(1.0, 20)
    few, more, many = (plan(objective, mechanism, n) for n in (100_000, 400_000, 10**9))
    assert few.steps == more.steps == many.steps == 50
    assert 2 * few.rate < more.rate < 2.5 * few.rate  # between the root of users and their number
    stable = 2 * (1 + many.momentum) / (1 - many.momentum) / (2.0 * (19 + many.lead))
    assert more.rate < many.rate < stable


def test_noise_costs_the_loss_less_than_it_may_and_nothing_in_the_end():
    """By the formula that the module states, whatever the mechanism, the rows and the clip."""
    for mechanism, longest, clip in [
        (multi_optimal(1.0, 20), 8.0, CLIP),
        (multi_hm(0.5, 20), 20.0, 1.0),
    ]:
        objective, n = Logistic(20), 20_000
        found = plan(objective, mechanism, n, longest=longest, clip=clip)
        time = found.steps * found.rate
        cost = 0.125 * longest * clip**2 * typical_variance(mechanism) / n
        assert time == pytest.approx(best_time(cost, math.log(2), 0.25))
        assert 0.05 < cost * time**2 / math.log(2) < 0.4
    for cost, share in [(1e-9, 0.4), (1e3, 0.0)]:
        assert cost * best_time(cost, 0.06, 2.0) ** 2 / 0.06 == pytest.approx(share, abs=1e-3)


def test_weights_of_constants_go_further_unless_a_rate_is_told():
    objective, mechanism = SquaredError(4), multi_hm(1.0, 4)
    assert plan(objective, mechanism, 1000).lead == 4
    assert plan(objective, mechanism, 1000, rate=0.1).lead == 1


def test_what_is_told_is_kept():
    found = plan(SquaredError(4), multi_hm(1.0, 4), 1000, steps=7, rate=0.2)
    assert (found.steps, found.rate, found.momentum) == (7, 0.2, 0.0)
    assert plan(SquaredError(4), multi_hm(1.0, 4), 1000, steps=16, rate=0.2).momentum == 0.5


@pytest.mark.parametrize(
    ("steps", "averaged", "begin"), [(1, 0.5, 0), (10, 0.0, 9), (10, 1.0, 0), (10, 0.25, 8)]
)
def test_at_least_one_step_is_averaged(steps, averaged, begin):
    assert StepSchedule(steps, 0.1, averaged=averaged).begin_average == begin


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: StepSchedule(0, 0.1), "steps must be at least 1"),
        (lambda: StepSchedule(1.5, 0.1), "steps must be an integer"),
        (lambda: StepSchedule(1, math.nan), "rate must be a positive"),
        (lambda: StepSchedule(1, 0.1, momentum=1.0), r"momentum must lie in \[0, 1\)"),
        (lambda: StepSchedule(1, 0.1, averaged=-0.1), "averaged must lie in"),
        (lambda: StepSchedule(1, 0.1, lead=0.0), "lead must be a positive"),
        (lambda: plan_steps(0, multi_hm(1.0, 2)), "n must be at least 1"),
        (lambda: plan(SquaredError(2), multi_hm(1.0, 2), 5, steps=6), "each needs a user"),
    ],
)
def test_what_is_no_schedule_is_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()
