"""Intervals of variances cover: by the law of the noise itself, of few people and of many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.moments import WholeMoments
from mechanisms.randomness import SeededRandom
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.statistics.evidence import Accuracy, MomentEvidence

DRAWS, STEPS = 20_000, 1023

POPULATIONS = {
    "even": lambda n: np.linspace(-1, 1, n),
    "all alike": lambda n: np.full(n, 0.3),
    "all at an end": lambda n: np.full(n, 1.0),
    "half at either end": lambda n: np.where(np.arange(n) % 2, 1.0, -1.0),
    "few far off": lambda n: np.where(np.arange(n) % 10 == 0, 1.0, -0.8),
    "narrow": lambda n: 0.5 + 0.02 * np.linspace(-1, 1, n),
}


def evidence(values: Any, delta: float, smaller: float = 1.0) -> MomentEvidence:
    """What is known of these numbers, at epsilon 1, so many times.

    Args:
        values: (n,) in [-1, 1].
        delta: of Gaussian noise; 0 of geometric.
        smaller: by what noise is said to be smaller than it is.
    """
    told, rng = WholeMoments(DRAWS, 1, STEPS), SeededRandom(7)
    law: Any = "gaussian" if delta else "geometric"
    design = JobTotals.meeting(told.levels, "add or remove", 1.0, delta, parts=told.parts, law=law)
    v, v2, n = values.sum(), np.square(values).sum(), len(values)
    exact = STEPS * np.array([v2 + v, v2 - v, n - v2]) / 2
    counts = [one + design.noise(i, DRAWS, rng) for i, one in enumerate(exact)]
    people, sums, squares = told.moments(counts)
    moments = np.array(told.covariance) * design.column_variance * (smaller / STEPS) ** 2
    total = FigureError.of(design, 1, unit=math.sqrt(2) * smaller / STEPS)
    others = FigureError(None, math.sqrt(moments[0, 0]) * STEPS, 1 / STEPS)
    known = Accuracy(total, others, coin=0.0, moments=moments)
    return MomentEvidence(sums, people, known, lambda *_: None, squares=squares)


def coverage(values: Any, delta: float, smaller: float = 1.0) -> float:
    found, true = evidence(values, delta, smaller).variances(0.95), float(np.var(values))
    assert (found.lower >= 0).all()
    assert (found.lower <= found.upper).all()
    assert (found.upper <= 1).all()
    covered = (found.lower <= true + 1e-12) & (true - 1e-12 <= found.upper)
    return float(covered.mean())


@pytest.mark.parametrize("n", [40, 20_000])
@pytest.mark.parametrize("population", ["even", "all alike"])
def test_intervals_cover(population: str, n: int) -> None:
    """At least 94 %: by chance once in 10^9 where 95.1 % do, and at least 95.6 % do."""
    assert coverage(POPULATIONS[population](n), 0.0) >= 0.94


@pytest.mark.verify
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("population", POPULATIONS)
def test_intervals_cover_of_few_and_of_many(population: str, delta: float) -> None:
    for n in (2, 10, 40, 400, 20_000):
        assert coverage(POPULATIONS[population](n), delta) >= 0.94


def test_noise_that_is_said_to_be_smaller_is_noticed() -> None:
    assert coverage(POPULATIONS["even"](400), 0.0, smaller=0.8) < 0.94


@pytest.mark.parametrize("population", POPULATIONS)
def test_errors_are_those_that_are_stated(population: str) -> None:
    """False alarms below 1e-9: a deviation of heavy tails errs by 1.2 / sqrt(n) of it; 7 of those.

    The variance of an estimate is little more than the delta method says where many take part.
    """
    values = POPULATIONS[population](20_000)
    found = evidence(values, 0.0).variances(0.95)
    off = found.ratio - np.var(values)
    assert abs(off.mean()) <= 7 * off.std() / math.sqrt(DRAWS)
    assert off.std() == pytest.approx(np.median(found.error), rel=7 * 1.2 / math.sqrt(DRAWS))


def test_intervals_become_short_and_are_whole_where_nobody_may_have_a_number() -> None:
    wide = evidence(np.zeros(0), 0.0).variances(0.95)
    everything = (wide.lower == 0) & (wide.upper == 1)
    assert everything.mean() > 0.9
    short = evidence(POPULATIONS["even"](20_000), 0.0).variances(0.95)
    assert np.median(short.upper - short.lower) < 4.5 * np.median(short.error)
