"""Alarms over windows: what all outcomes together reveal, by enumeration, and their sampler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import chi2

from mechanisms.central.window_alarm import WindowAlarm
from mechanisms.randomness import SeededRandom

Outcome = tuple[int, ...]


def law(alarm: WindowAlarm, counts: Sequence[int]) -> dict[Outcome, float]:
    """Each outcome of a horizon, up to the last alarm, by the exact law of each threshold."""
    if not counts or not alarm.firings:
        return {(): 1.0}
    found: dict[Outcome, float] = {}
    *places, never = alarm.vector.probabilities(counts, alarm.above + 1)
    for place, chance in enumerate(places):
        again = WindowAlarm(alarm.epsilon, alarm.above, alarm.horizon, alarm.firings, alarm.most)
        object.__setattr__(again, "firings", alarm.firings - 1)
        object.__setattr__(again, "vector", alarm.vector)
        for rest, more in law(again, counts[place + 1 :]).items():
            found[(*(0,) * place, 1, *rest)] = chance * more
    return found | {(0,) * len(counts): never}


@pytest.mark.parametrize(("firings", "most", "epsilon"), [(1, 1, 1.0), (2, 1, 1.0), (2, 2, 1.5)])
def test_a_unit_in_every_window_costs_epsilon_at_most(
    firings: int, most: int, epsilon: float
) -> None:
    alarm, reached = WindowAlarm(epsilon, 20, 4, firings, most), 0.0
    far = round(25 * firings * most / epsilon)
    for counts in ((20,) * 4, (20 - far, 20 + far, 20 - far, 20 + far), (18, 21, 19, 22)):
        fewer = law(alarm, counts)
        assert math.isclose(sum(fewer.values()), 1)
        for step in itertools.product((0, most), repeat=4):
            more = law(alarm, np.add(counts, step).tolist())
            losses = [abs(math.log(more[key] / p)) for key, p in fewer.items()]
            reached = max(reached, *losses)
    # Windows are too few to bring two alarms to their worst: each has a half of epsilon.
    assert 0.7 * epsilon / firings < reached <= epsilon
    noises = alarm.vector.threshold_noise, alarm.vector.query_noise
    assert 0.99 * epsilon < firings * sum(noise.epsilon for noise in noises) <= epsilon
    assert alarm.delta < 1e-9


def test_the_guarantee_counts_alarms() -> None:
    for firings, said in ((1, "for the one alarm;"), (1200, "for each of 1,200 alarms;")):
        assert said in WindowAlarm(1.0, 20, 2000, firings, 1).guarantee(1.0, "user").how


def statistic(alarm: WindowAlarm, expected: dict[Outcome, float]) -> float:
    """Chi squared of 4,000 horizons; of 7 degrees of freedom, or fewer."""
    rng, seen = SeededRandom(7), dict.fromkeys(expected, 0)
    for _ in range(4000):
        state, said = alarm.begin(), list[int]()
        for count in (18, 21, 23):
            if alarm.over(state):
                break
            fired, state = alarm.added(state, [count], rng)
            said += fired
        seen[tuple(said)] += 1
    return sum((seen[key] - 4000 * p) ** 2 / (4000 * p) for key, p in expected.items())


def test_outcomes_follow_the_law_and_no_other() -> None:
    alarm = WindowAlarm(1.0, 20, 3, 2)
    right = law(alarm, (18, 21, 23))
    assert statistic(alarm, right) < chi2.isf(1e-9, len(right) - 1)
    other = law(WindowAlarm(1.3, 20, 3, 2), (16, 19, 21))  # two less
    wrong = {key: other[key] for key in right}
    assert statistic(alarm, wrong) > chi2.isf(1e-9, len(right) - 1)


def test_what_is_said_of_false_alarms_is_the_exact_law() -> None:
    alarm = WindowAlarm(1.0, 500, 30)
    quiet, sure = alarm.clear(0.05)

    def fires(counts: Sequence[int]) -> float:
        return float(1 - alarm.vector.probabilities(counts, 501)[-1])

    assert fires([500 - quiet] * 30) <= 0.05 < fires([501 - quiet] * 30)
    assert fires([500 + sure]) >= 0.95 > fires([499 + sure])
    assert 5 < sure < quiet < 30


def test_nothing_is_looked_at_after_the_last_alarm_or_window() -> None:
    alarm, rng = WindowAlarm(40.0, 100, 2), SeededRandom(1)
    fired, state = alarm.added(alarm.begin(), [1000], rng)
    assert (fired, state.buffers, alarm.over(state)) == ([1], (), "all alarms (1)")
    with pytest.raises(ValueError, match="all alarms"):
        alarm.added(state, [0], rng)
    _, state = alarm.added(alarm.begin(), [0], rng)
    _, state = alarm.added(state, [0], rng)
    with pytest.raises(ValueError, match="all 2 windows"):
        alarm.added(state, [0], rng)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-30)])
def test_noise_that_is_not_paid_for_is_refused(epsilon: float, delta: float) -> None:
    alarm = WindowAlarm(1.0, 10, 5)
    alarm.require_priced(1.0, 1e-6)
    with pytest.raises(ArithmeticError, match="not what it is paid for"):
        alarm.require_priced(epsilon, delta)
