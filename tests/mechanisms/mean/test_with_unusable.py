"""One more input for no number: exact privacy, exact decoding, and what stands for all numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.catalog import find, of_task
from mechanisms.mean.optimal import Optimal
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.two_point import duchi
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.randomness import SeededRandom
from tests.mechanisms.contract.cases import ALONE, over
from tests.oracles.privacy import exact_shuffled_delta

MEANS = [
    case
    for case in ALONE
    if case.facts.task == "mean" and case.facts.claims_hold and not case.name.startswith("gaussian")
]


def laws(mechanism: WithUnusable) -> np.ndarray:
    """(inputs, codes) the channel, as rationals."""
    rows = (mechanism.weights(cell) for cell in range(mechanism.inputs))
    return np.array([[Fraction(int(w), total) for w in row] for row, total in rows], object)


def excess(first: np.ndarray, second: np.ndarray, epsilon: float) -> Fraction:
    """The hockey-stick divergence, from above by rounding alone."""
    lower, _ = exponential_bounds(epsilon)
    return sum((max(a - lower * b, Fraction(0)) for a, b in zip(first, second, strict=True)))


@over(MEANS)
def test_no_number_is_as_private_as_any(case):
    inner = case.mechanism
    mechanism = WithUnusable(inner)
    table = laws(mechanism)
    assert all(row.sum() == 1 for row in table)
    none, delta = table[-1], Fraction(case.parameters.get("delta", 0))
    for number in table[:-1]:
        assert excess(none, number, inner.epsilon) <= delta
        assert excess(number, none, inner.epsilon) <= delta
    ends = excess(table[0], table[-2], inner.epsilon)
    assert ends <= delta * Fraction(1 + 1e-9)


@over(MEANS)
def test_representatives_stand_for_all_numbers(case):
    mechanism = WithUnusable(case.mechanism)
    table = laws(mechanism)
    none, numbers = table[-1], table[:-1]
    for epsilon in (0.0, case.parameters["epsilon"] / 2, case.parameters["epsilon"] * 0.9):
        for swap in (False, True):

            def between(number, swap=swap, epsilon=epsilon):
                pair = (none, number) if swap else (number, none)
                return excess(*pair, epsilon)

            worst = max(between(numbers[cell]) for cell in mechanism.mechanism.representatives)
            # Integers that are rounded up differ in their last digits between mirror images.
            assert max(map(between, numbers)) <= worst + Fraction(1, 1 << 50)


@over(MEANS)
def test_extremes_are_none_too_narrow(case):
    inner = case.mechanism
    most, least, total = inner.extremes
    for cell in range(inner.inputs):
        weights, denominator = inner.weights(cell)
        for weight, high, low in zip(weights, most, least, strict=True):
            assert (
                Fraction(low, total) <= Fraction(int(weight), denominator) <= Fraction(high, total)
            )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("name", ["duchi", "pm", "hm", "hybrid_optimal"])
def test_extremes_are_those_of_all_cells(name, epsilon):
    inner = find(name, of_task("mean")).build(epsilon=epsilon, cells=30)
    most, least, total = inner.extremes
    assert (most, least, total) == ScalarMean.extremes.fget(inner)


@over(MEANS)
def test_codes_stand_for_numbers_and_for_none(case):
    mechanism = WithUnusable(case.mechanism)
    table = laws(mechanism).astype(float)
    assert table @ mechanism.sums == pytest.approx(np.append(mechanism.mechanism.grid, 0), abs=1e-9)
    present = np.append(np.ones(mechanism.mechanism.inputs), 0)
    assert table @ mechanism.presence == pytest.approx(present, abs=1e-9)
    assert table @ mechanism.sums**2 == pytest.approx(mechanism.moments)
    for mean in (-1.0, -0.2, 0.7):
        weights = mechanism.sums - mean * mechanism.presence
        varies = table @ weights**2 - (table @ weights) ** 2
        assert mechanism.deviations(np.array([mean]))[:, 0] == pytest.approx(varies)
        least, largest = mechanism.between(np.array([mean]))
        assert least <= varies.min() + 1e-9
        assert varies.max() <= largest[0] + 1e-9


def test_what_users_send_follows_the_channel():
    """Each code's count within 7 standard deviations: a false alarm below 1e-10 in all."""
    mechanism, size = WithUnusable(duchi(1.0, cells=4)), 1 << 18
    for cell in range(mechanism.inputs):
        share = mechanism.tally(cell, size, SeededRandom(cell)) / size
        expected = mechanism.channel(cell)
        assert np.all(np.abs(share - expected) < 7 * np.sqrt(expected * (1 - expected) / size))


def test_what_it_costs():
    """Of everybody's number the variance: a third more at epsilon 1, next to nothing at 6."""
    for epsilon, most in ((0.5, 1.61), (1.0, 1.37), (2.0, 1.14), (4.0, 1.02), (6.0, 1.003)):
        plain = Optimal(epsilon)
        assert 1 < WithUnusable(plain).worst_variance / plain.worst_variance < most


def test_noise_that_makes_codes_too_rare_is_refused():
    gaussian = of_task("mean")["gaussian"].build(epsilon=0.5, delta=0.01, cells=5)
    with pytest.raises(ValueError, match="cannot hide whether there is a number"):
        WithUnusable(gaussian)


def test_nobody_with_a_number_has_no_mean():
    mechanism = WithUnusable(duchi(2.0, cells=4))
    assert math.isnan(mechanism.estimate(np.array([0, 0, 50])))
    with pytest.raises(ValueError, match="no report"):
        mechanism.estimate(np.zeros(3, np.int64))


@pytest.mark.parametrize("epsilon", [0.2, 0.6])
@pytest.mark.parametrize("name", ["duchi", "pm", "hm", "dct"])
def test_shuffled_batches_lose_what_their_bracket_says(name, epsilon):
    """All neighbouring batches of three, of numbers and of none, are enumerated."""
    mechanism = WithUnusable(of_task("mean")[name].build(epsilon=1.0, cells=2))
    exact = exact_shuffled_delta(mechanism, 3, epsilon)
    lower, upper = shuffled_delta(mechanism, 3, epsilon)
    assert lower <= exact * (1 + 1e-9)
    assert exact <= upper * (1 + 1e-10)
