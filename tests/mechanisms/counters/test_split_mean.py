"""Means by split and mix: exact laws of total and count, their price by brute force, refusals."""

from __future__ import annotations

import doctest
import itertools
import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mechanisms.counters import split_mean
from mechanisms.counters.noise import Laplace
from mechanisms.counters.price import Neighbours
from mechanisms.counters.shares import total
from mechanisms.counters.split_mean import SplitMean
from mechanisms.counters.split_mix import SplitMix
from mechanisms.randomness import SeededRandom

SMALL = SplitMean(
    0, 3, 4, 3, 1 << 20, 8, Laplace(9, 0.3), None, "add or remove", 1.0, 0.9, sigma=0.9
)
Law = dict[int, float]


def noise_law(design: SplitMean) -> Law:
    """Of all that is added, by adding up every pair of draws."""
    law: Law = defaultdict(float)
    mu, units = design.noise.mu, design.high
    for (a, p), (b, q) in itertools.product(enumerate(design.noise.pmf, -mu), repeat=2):
        # Units are odd, so nothing lies in between.
        law[a + design.base * round((a + b) * design.grain / units)] += float(p * q)
    return law


def moved(law: Law, by: int) -> Law:
    return {z + by: chance for z, chance in law.items()}


def delta(one: Law, other: Law, epsilon: float) -> float:
    odds = math.exp(epsilon)
    return sum(max(chance - odds * other.get(z, 0.0), 0.0) for z, chance in one.items())


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
def test_no_number_shows_more_than_is_paid_for(neighbours: Neighbours) -> None:
    """All numbers, and none, against all others; and little more is paid than they show."""
    design = replace(SMALL, neighbours=neighbours)
    law = noise_law(design)
    users = [moved(law, 0), *(moved(law, design.grain * design.base + x) for x in range(4))]
    pairs = list(itertools.permutations(users, 2))
    if neighbours == "add or remove":
        pairs = [pair for pair in pairs if any(law is users[0] for law in pair)]
    for epsilon in (0.2, 0.6, 0.9, 1.2, 1.8):
        truth = max(delta(one, other, epsilon) for one, other in pairs)
        claimed = design.price.upper(epsilon)
        assert truth <= claimed + 1e-12
        # Little more is paid than is shown, though counts are rounded.
        assert claimed <= 1.6 * truth + 0.02 or neighbours == "replace"


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_noise_has_the_law_and_the_moments_that_are_stated(epsilon: float) -> None:
    design = replace(SMALL, epsilon=epsilon)
    assert design.grain == (1 if epsilon == 1 else 4)
    law = noise_law(design)
    told = np.array([design.parts(z) for z in law])
    chances = np.array(list(law.values()))
    assert chances @ told == pytest.approx(np.zeros(2), abs=1e-12)
    covariance = (told * chances[:, None]).T @ told
    moments = design.moments
    assert math.sqrt(covariance[0, 0]) == pytest.approx(moments.total)
    assert math.sqrt(covariance[1, 1]) == pytest.approx(moments.people)
    assert covariance[0, 1] == pytest.approx(moments.covariance)
    assert design.people_law.var() / design.grain**2 == pytest.approx(covariance[1, 1])
    assert max(abs(z) for z in law) == design.farthest
    size, rng = 4000, SeededRandom(3)
    drawn = np.array([design.parts(int(design.draw(rng)[0])) for _ in range(size)])
    # Six standard errors: of means, and of variances, for Laplace noise has a kurtosis of 6.
    sigmas = np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(axis=0)) < 6 * sigmas / math.sqrt(size)).all()
    assert (np.abs(drawn.var(axis=0) / sigmas**2 - 1) < 6 * math.sqrt(5 / size)).all()


def test_totals_and_counts_are_exact_but_for_the_noise() -> None:
    design = SplitMean.meeting(0, 255, 400, 300, "add or remove", 1.0, 1e-6, everybody=True)
    assert design.zeros is None
    rng = SeededRandom(5)
    units, present = np.arange(350) % 256, np.arange(350) % 5 > 0
    told = design.summands(units, present)
    reports = design.reports(np.append(told, np.zeros(50, np.int64)), rng)
    added = total(reports, design.modulus)
    sums, people = design.parts(added)
    assert people == present.sum()
    assert sums == pytest.approx((2 * units[present] / 255 - 1).sum())
    errors = []
    for _ in range(40):
        words, number = design.mix(reports, rng)
        assert number == 401
        errors.append(np.subtract(design.parts(design.estimate(words, number)), (sums, people)))
    sigmas = design.moments[:2]
    assert (np.abs(np.mean(errors, axis=0)) < 6 * np.array(sigmas) / math.sqrt(40)).all()
    # Whoever is not there sends what adds to neither; the ends are told, too.
    full = design.reports(design.summands(np.full(400, 255), np.ones(400, np.bool_)), rng)
    assert design.parts(total(full, design.modulus)) == (400.0, 400.0)


def test_a_mean_has_the_error_of_one_noise_for_total_and_count() -> None:
    design = SplitMean.meeting(0, 4095, 10**6, 9 * 10**5, "add or remove", 1.0, 1e-6,
                               everybody=True)  # fmt: skip
    assert (design.shares, design.grain) == (9, 1)
    total_error, people, _ = design.moments
    assert (
        math.hypot(total_error, 0.5 * people) / 2 < 1.14
    )  # ranges, a quarter of it off the middle
    assert design.guarantee.epsilon == 1.0
    profile = design.profile()
    assert profile.delta(1.0) <= 1e-6
    assert profile.apart is not None
    assert profile.apart.delta(2.0) < 1e-5


def test_one_sum_of_both_signs_errs_by_the_larger_bound() -> None:
    """Where all who are enrolled send, one who has no rows adds nothing, and not the lower end."""
    design = SplitMix.meeting(-200, 300, 10**4, 9000, "add or remove", 1.0, 1e-6, everybody=True)
    assert math.sqrt(design.variance) / 300 == pytest.approx(math.sqrt(2), rel=0.05)
    assert design.zeros is None
    apart = design.profile().apart
    assert apart is not None
    assert design.price.upper(1.0) < 1e-6 < apart.delta(1.0)  # to replace is to move by 500


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"high": 4094}, "0 to an odd number"),
        ({"low": -1}, "0 to an odd number"),
        ({"most": 10**9}, "62 bits"),
        ({"high": (1 << 30) - 1}, "fewer units"),
    ],
)
def test_what_cannot_hold_is_refused_in_one_line(change: dict[str, Any], told: str) -> None:
    asked: dict[str, Any] = {
        "low": 0, "high": 4095, "most": 10**6, "honest": 10**5, "neighbours": "add or remove",
        "epsilon": 1.0, "delta": 1e-6, "everybody": True,
    }  # fmt: skip
    with pytest.raises(ValueError, match=told) as error:
        SplitMean.meeting(**asked | change)
    assert "\n" not in str(error.value)


def test_examples() -> None:
    assert doctest.testmod(split_mean).failed == 0
