"""The filter holds against askers who choose prices by what they have seen, by integration."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr, ndtri

from mechanisms.privacy.gaussian_filter import (
    WHOLE,
    GaussianFilter,
    OverspentError,
    Spent,
    gaussian_of_range,
    range_of_gaussian,
)
from mechanisms.privacy.loss import PrivacyLoss
from tests.fakes.few import few

BUDGETS = [(0.1, 1e-6), (1.0, 1e-6), (3.0, 1e-3)]


def hockey_stick(mu: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """delta(epsilon) of Gaussian mechanisms, at any epsilon, below 0 too; mu may be 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gained = ndtr(mu / 2 - epsilon / mu)
        lost = np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    nothing = np.maximum(-np.expm1(epsilon), 0.0)
    return np.where(mu > 0, np.maximum(gained - lost, 0.0), nothing)


Next = Callable[[np.ndarray], np.ndarray]


def after_gaussian(budget: GaussianFilter, share: float, then: Next) -> float:
    """The exact delta of an asker: a share first, and after its loss whatever share it chooses."""
    mu = budget.mu_of(int(share * WHOLE))
    x = np.linspace(mu - 12, mu + 12, 200_001)
    loss = mu * x - mu * mu / 2
    density = np.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi)
    rest = budget.mu * np.sqrt(then(loss))
    stick = hockey_stick(rest, budget.epsilon - loss)
    return float(np.trapezoid(density * stick, x))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("share", few((0.5, 0.1, 0.9), bool))
def test_no_asker_who_stops_or_goes_on_by_what_it_saw_exceeds_the_budget(
    epsilon: float, delta: float, share: float
) -> None:
    budget = GaussianFilter(epsilon, delta)
    most = 1 - share
    whole = after_gaussian(budget, share, lambda loss: np.full_like(loss, most))
    assert 0.99 * delta < whole <= delta  # and nothing is given away
    for quantile in (-2, -1, 0, 1, 2, 3, 4):
        line = budget.mu * math.sqrt(share) * quantile
        for then in (
            lambda loss, line=line: np.where(loss > line, most, 0.0),
            lambda loss, line=line: np.where(loss < line, most, 0.0),
            lambda loss, line=line: np.where(loss > line, most, most / 3),
        ):
            assert after_gaussian(budget, share, then) <= delta


def test_a_rule_that_holds_on_average_is_no_filter() -> None:
    """The same integration convicts a rule by which the mean of what is spent fits."""
    budget = GaussianFilter(1.0, 1e-6)
    mu = budget.mu * math.sqrt(0.5)
    line = mu * mu / 2 + 2 * mu  # passed with probability 0.0228
    spent = 0.5 / float(ndtr(-2))
    assert after_gaussian(budget, 0.5, lambda loss: np.where(loss > line, spent, 0)) > 1e-3


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_answers_that_are_not_gaussian_pay_enough(
    epsilon: float, delta: float, share: float
) -> None:
    """Binary pairs of the span that a share buys, then all or nothing of the rest."""
    budget = GaussianFilter(epsilon, delta)
    span = range_of_gaussian(budget.mu_of(int(share * WHOLE)))
    for top in np.linspace(0.01, 0.99, 25) * span:
        losses = np.array([top, top - span])
        second = -np.expm1(losses[1]) / (math.exp(losses[0]) - math.exp(losses[1]))
        first = np.array([second * math.exp(top), 0.0])
        first[1] = 1 - first[0]
        for mask in ([1, 1], [1, 0], [0, 1], [0, 0]):
            rest = budget.mu * np.sqrt((1 - share) * np.array(mask))
            assert float(first @ hockey_stick(rest, epsilon - losses)) <= delta


def test_no_binary_pair_of_a_span_needs_more_than_the_symmetric_one() -> None:
    for span in (1e-3, 0.1, 1.0, 5.0, 20.0):
        claimed = gaussian_of_range(span)
        odds = np.linspace(-15, 15, 2_001) - span / 2
        needed = ndtri(1 / (1 + np.exp(-odds - span))) - ndtri(1 / (1 + np.exp(-odds)))
        assert needed.max() <= claimed <= needed.max() * (1 + 1e-5)
        assert range_of_gaussian(claimed) == pytest.approx(span, rel=1e-9)


def test_parts_add_up_exactly_in_any_order() -> None:
    budget = GaussianFilter(1.0, 1e-6)
    spent = [Spent(WHOLE // 10)] * 9
    budget.require(spent, Spent(WHOLE - 9 * (WHOLE // 10)))
    with pytest.raises(OverspentError, match="is left"):
        budget.require(spent, Spent(WHOLE - 9 * (WHOLE // 10) + 1))
    with pytest.raises(OverspentError, match=r"would take 2 of the budget, and 1 is left"):
        budget.require([], Spent(2 * WHOLE))
    for parts in (0, -1):
        with pytest.raises(ValueError, match="at least a part"):
            budget.require([], Spent(parts))


def test_samplers_that_are_off_by_more_than_the_reserve_are_refused() -> None:
    budget = GaussianFilter(1.0, 1e-12)
    budget.require([Spent(1, budget.farthest / 2)], Spent(1, budget.farthest / 2))
    for far in (budget.farthest, math.nan):
        with pytest.raises(OverspentError, match="samplers"):
            budget.require([Spent(1, budget.farthest / 2)], Spent(1, far))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_what_a_ledger_is_told_covers_the_budget(epsilon: float, delta: float) -> None:
    budget = GaussianFilter(epsilon, delta)
    profile: PrivacyLoss = budget.profile
    for x in (epsilon / 2, epsilon, 1.5 * epsilon):
        assert profile.delta(x) >= float(hockey_stick(np.array(budget.mu), np.array(x)))
    assert profile.delta(epsilon) == pytest.approx(delta, rel=0.05)
    for alone in (0.01 * epsilon, 0.5 * epsilon, epsilon):
        parts = budget.parts(alone)
        assert 0 < parts <= WHOLE
        assert budget.epsilon_of(parts) == pytest.approx(alone, rel=1e-6)


def test_what_cannot_be_is_refused() -> None:
    for epsilon, delta in ((0, 1e-6), (math.nan, 1e-6), (1, 0), (1, 1), (1, math.nan)):
        with pytest.raises(ValueError, match=r"epsilon|delta"):
            GaussianFilter(epsilon, delta)
    for wrong in (0.0, math.nan, math.inf, -1.0):
        with pytest.raises(ValueError, match="span"):
            gaussian_of_range(wrong)
        with pytest.raises(ValueError, match="mu"):
            range_of_gaussian(wrong)
