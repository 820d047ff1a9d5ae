"""Composition: the rules, the tight accountant against exact sums, and how they compare."""

from __future__ import annotations

import builtins
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import log_ndtr

from mechanisms.channel import Guarantee
from mechanisms.frequency.hashed_responses import optimal_local
from mechanisms.papers.renyi import randomised_response_renyi, renyi, renyi_to_epsilon
from mechanisms.privacy.accountant import (
    compose,
    composed_delta,
    log_tail,
    normal_delta,
    profile_delta,
)
from mechanisms.privacy.composition import sequential
from mechanisms.privacy.loss import PrivacyLoss


def claim(epsilon: float, delta: float = 0.0, model="local", unit="user") -> Guarantee:
    return Guarantee(model, epsilon, delta, unit, "closed form")


# ---- rules over guarantees ---------------------------------------------------------------------


def test_sequential_adds_up_in_the_weakest_model():
    total = sequential([claim(0.1), claim(0.2, 1e-6, "central"), claim(0.3, 1e-7, "shuffle")])
    assert total.epsilon == pytest.approx(0.6)
    assert total.delta == pytest.approx(1.1e-6)
    assert total.model == "central"
    assert total.unit == "user"
    assert sequential([claim(0.1)] * 10).epsilon == 1.0


def test_delta_never_exceeds_one():
    assert sequential([claim(0.1, 0.7)] * 2).delta == 1.0


def test_a_release_that_protects_nobody_spoils_the_rest():
    broken = Guarantee("none", math.inf, 1.0, "user", "refuted")
    assert sequential([claim(1.0), broken]).model == "none"
    assert sequential([claim(1.0), broken]).epsilon == math.inf


def test_what_cannot_be_combined_is_refused():
    with pytest.raises(ValueError, match="nothing to compose"):
        sequential([])
    with pytest.raises(ValueError, match="units"):
        sequential([claim(1.0), claim(1.0, unit="report")])


@given(st.floats(0.001, 3), st.integers(1, 3000), st.floats(1e-10, 0.1))
@settings(max_examples=50, deadline=None)
def test_no_rule_is_worse_than_adding_up(epsilon, times, slack):
    assert renyi(claim(epsilon), times, slack).epsilon <= times * epsilon


@pytest.mark.parametrize(
    ("times", "slack"),
    [(0, 0.1), (-1, 0.1), (1.5, 0.1), (math.nan, 0.1), (math.inf, 0.1)]
    + [(2, bad) for bad in (0, 1, -1, math.nan, math.inf)],
)
def test_bad_repetitions_are_refused(times, slack):
    with pytest.raises(ValueError, match=r"times|slack"):
        renyi(claim(1.0), times, slack)


def test_renyi_of_randomised_response_is_the_definition():
    p = math.e / (1 + math.e)
    for order in (1.5, 2.0, 8.0, 100.0):
        moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
        assert randomised_response_renyi(order, 1.0) == pytest.approx(
            math.log(moment) / (order - 1)
        )
    assert randomised_response_renyi(512.0, 800.0) == pytest.approx(800.0, rel=0.01)
    assert renyi_to_epsilon(2.0, 0.0, 0.9) == 0.0


# ---- the tight accountant ----------------------------------------------------------------------


def response(epsilon: float) -> PrivacyLoss:
    keep, lie = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return PrivacyLoss.from_pair([keep, lie], [lie, keep])


def composed_response(epsilon: float, times: int, target: float) -> float:
    """delta(target) of repeated randomised response: a sum over the number of true answers."""
    k = np.arange(times + 1)
    loss = (2 * k - times) * epsilon
    mass = stats.binom.pmf(k, times, 1 / (1 + math.exp(-epsilon)))
    return math.fsum(mass[loss > target] * -np.expm1(target - loss[loss > target]))


@pytest.mark.verify
@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 30), (0.5, 30), (0.1, 1000), (0.003, 365)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_it_is_tight_and_on_the_private_side(epsilon, times, delta):
    found = compose({response(epsilon): times}).epsilon(delta)
    assert composed_response(epsilon, times, found) <= delta * (1 + 1e-9)
    assert composed_response(epsilon, times, found * (1 - 1e-3)) > delta


def test_different_releases_compose_exactly():
    """Three kinds, against all outcomes enumerated."""
    kinds = {0.3: 4, 0.7: 3, 1.1: 2}
    losses, mass = np.zeros(1), np.ones(1)
    for epsilon, times in kinds.items():
        keep = 1 / (1 + math.exp(-epsilon))
        for _ in range(times):
            losses = np.concatenate([losses + epsilon, losses - epsilon])
            mass = np.concatenate([mass * keep, mass * (1 - keep)])
    releases = {response(epsilon): times for epsilon, times in kinds.items()}
    found = compose(releases)
    for x in (0.0, 0.5, 1.0, 2.0, 4.0, 5.0):
        exact = float((mass * np.maximum(-np.expm1(x - losses), 0)).sum())
        at_once = composed_delta(releases, x)
        assert exact * (1 - 1e-9) <= at_once <= found.delta(x) * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= found.delta(x) <= exact * (1 + 1e-3)
    for x in np.linspace(0.0, 6.3, 40):
        lower, upper = profile_delta(releases, x)
        assert lower * (1 - 1e-9) <= found.delta(x) <= upper * (1 + 1e-9)
        assert upper <= lower * 1.02 or x > 5
    assert composed_delta(releases, 6.0) == 0.0
    with pytest.raises(ValueError, match="epsilon must be at least 0"):
        composed_delta(releases, math.nan)
    assert found.epsilon(0.0) == pytest.approx(0.3 * 4 + 0.7 * 3 + 1.1 * 2)


def test_unbounded_loss_adds_up():
    loss = PrivacyLoss.from_guarantee(claim(0.1, 1e-5))
    composed = compose({loss: 30})
    assert composed.epsilon(0.9 * 30e-5) == math.inf
    assert composed.delta(3.0) == pytest.approx(1 - (1 - 1e-5) ** 30, rel=1e-6)
    assert composed_delta({loss: 30}, 3.0) == composed.delta(3.0)
    assert composed_delta({loss: 30}, 0.5) == pytest.approx(composed.delta(0.5), rel=1e-6)
    assert composed_delta({loss: 1}, 0.1) == loss.delta(0.1)
    assert composed.epsilon(1e-3) < 3.0


def shuffled_response(epsilon: float, n: int) -> PrivacyLoss:
    """The exact pair of n shuffled binary responses when all other users hold 0."""
    keep, lie = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    others = stats.binom.pmf(np.arange(n), n - 1, lie)
    zero, one = np.append(others, 0), np.append(0, others)
    return PrivacyLoss.from_pair(keep * one + lie * zero, keep * zero + lie * one)


def test_thirty_days_cost_much_less_than_thirty_times_a_day():
    """At the same total delta, a local report by day and a shuffled batch by day."""
    local = PrivacyLoss.from_channel(optimal_local(0.2, 100))
    day, month = local.epsilon(0.0), compose({local: 30}).epsilon(1e-6)
    assert day == pytest.approx(0.2)
    assert month < 0.85 * 30 * day
    batch = shuffled_response(4.0, 20_000)
    day, month = batch.epsilon(1e-6 / 30), compose({batch: 30}).epsilon(1e-6)
    assert month < 0.25 * 30 * day
    # The whole profile is also worth more than the best that one epsilon and delta of it give.
    from_claim = PrivacyLoss.from_guarantee(claim(day, 5e-7 / 30))
    assert month < compose({from_claim: 30}).epsilon(1e-6)


def test_the_accountant_beats_the_rules():
    tight = compose({response(0.1): 365}).epsilon(1e-6)
    assert tight < renyi(claim(0.1), 365, 1e-6).epsilon


def test_thousands_of_releases_compose_beyond_what_e_to_their_epsilons_can_be() -> None:
    losses = {response(0.25): 16_385, PrivacyLoss.from_profile([0.1], [1e-8]): 3}
    joint = compose(losses)
    assert joint.epsilons[-1] > 4000
    for epsilon in (400.0, 500.0, 600.0, 650.0, 690.0):
        assert joint.delta(epsilon) == pytest.approx(composed_delta(losses, epsilon), rel=1e-3)
        lower, upper = profile_delta(losses, epsilon)
        assert lower <= joint.delta(epsilon) <= upper
    assert joint.delta(690.0) > joint.delta(705.0) > joint.delta(1e4) == pytest.approx(3e-8)


def test_hundreds_of_different_windows_compose():
    """Epsilons on a lattice, so that direct convolution of positive numbers is the truth."""
    steps, law = range(100, 400), np.ones(1)
    for step in steps:
        keep = 1 / (1 + math.exp(-step / 4000))
        shift = np.zeros(2 * step)
        law = keep * np.append(shift, law) + (1 - keep) * np.append(law, shift)
    losses = (np.arange(law.size) - sum(steps)) / 4000

    def exact(epsilon: float) -> float:
        return float(np.sum(law * np.maximum(-np.expm1(np.minimum(epsilon - losses, 0)), 0)))

    total = compose(Counter(response(step / 4000) for step in steps))
    for delta in (1e-3, 1e-6, 1e-9):
        found = total.epsilon(delta)
        assert exact(found) <= delta * (1 + 1e-9)
        assert exact(found * (1 - 1e-3)) > delta


def test_composition_may_be_done_in_stages():
    month = compose({response(0.1): 30})
    year = compose({month: 12}).epsilon(1e-6)
    assert composed_response(0.1, 360, year) <= 1e-6
    assert year == pytest.approx(compose({response(0.1): 360}).epsilon(1e-6), rel=1e-3)


@pytest.mark.verify
@given(st.floats(0.01, 2), st.integers(1, 60), st.sampled_from([1e-3, 1e-6, 1e-9]))
@settings(max_examples=12, deadline=None)
def test_more_releases_never_cost_less_nor_more_than_their_sum(epsilon, times, delta):
    loss = response(epsilon)
    fewer, more = (compose({loss: t}).epsilon(delta) for t in (times, times + 1))
    assert fewer <= more * (1 + 1e-6)
    assert more <= (times + 1) * loss.epsilon(0.0) * (1 + 1e-12)


def test_nothing_and_everything_revealed_are_handled():
    silent = PrivacyLoss.from_pair([0.5, 0.5], [0.5, 0.5])
    assert compose({silent: 10}).epsilon(1e-9) < 1e-6
    naked = PrivacyLoss.from_pair([1.0, 0.0], [0.0, 1.0])
    assert compose({naked: 2, response(1.0): 3}).epsilon(0.5) == math.inf
    assert compose({silent: 3, response(1.0): 1}).epsilon(1e-9) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("losses", [{}, {response(1.0): 0}, {response(1.0): 1.5}])
def test_bad_counts_are_refused(losses):
    with pytest.raises(ValueError, match="release"):
        compose(losses)


def test_a_missing_accountant_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install dp-accounting"):
        compose({response(1.0): 2})
    assert compose({response(1.0): 1}).epsilon(0.0) == pytest.approx(1.0)  # needs no accountant


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_many_losses_are_nearly_normal(epsilon: float) -> None:
    loss = PrivacyLoss.from_profile([epsilon], [0.0])
    times = round(4 / epsilon**2) + 200
    for delta in (0.1, 1e-2, 1e-3):
        at = compose({loss: times}).epsilon(delta)
        # A first guess alone: a sum of 200 losses leans by a third at 1e-3.
        assert normal_delta({loss: times}, at) == pytest.approx(delta, rel=0.5)


@pytest.mark.parametrize("x", [-40.0, -1.0, 0.0, 2.0, 29.9, 30.1, 100.0])
def test_tails_of_a_guess_are_those_of_the_normal_law(x: float) -> None:
    assert log_tail(x) == pytest.approx(log_ndtr(-x), rel=1e-5, abs=1e-12)


def test_where_nothing_is_lost_nothing_is_normal() -> None:
    nothing = PrivacyLoss((0.0,), (0.0,))
    assert normal_delta({nothing: 9}, 0.5) == 0.0
    assert normal_delta({PrivacyLoss((0.0,), (1e-3,)): 2}, 0.5) == pytest.approx(2e-3, rel=1e-2)
