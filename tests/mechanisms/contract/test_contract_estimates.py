"""Estimates from the channel, not from samples: unbiased, with the closed-form variance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from mechanisms.channel import Floats
from mechanisms.randomness import SeededRandom
from tests.mechanisms.contract.cases import ALONE, LISTED, TOGETHER, Case, first, over
from tests.oracles.mean import rounding
from tests.oracles.statistics import population, zipf

Moments = Callable[..., Iterator[tuple[Floats, Floats, Floats]]]


def frequencies(mechanism) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Each value: its law, what is expected of the estimate, and its variance."""
    lone, other = mechanism.variance(1.0, 1), mechanism.variance(0.0, 1)
    for cell in range(mechanism.inputs):
        holder = np.arange(mechanism.inputs) == cell
        yield mechanism.channel(cell), holder, np.where(holder, lone, other)


def groups(mechanism) -> Iterator[tuple[Floats, Floats, None]]:
    """Each pair of group and value: its law, and the group that it belongs to."""
    for cell in range(mechanism.inputs):
        yield mechanism.channel(cell), np.arange(mechanism.groups) == cell // mechanism.points, None


def means(mechanism) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Numbers at the ends of the grid, on it and between its points."""
    for value in (-1, 1, 0, Fraction(1, 3), Fraction(-7, 9), Fraction(99, 100)):
        chances = rounding(mechanism.cells, Fraction(value))
        law = sum(float(chance) * mechanism.channel(cell) for cell, chance in chances.items())
        yield law, np.array(float(value)), mechanism.variance(float(value))


def rows(mechanism) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Rows of such numbers; every coordinate is rounded by itself."""
    d = mechanism.dimension
    for row in (
        [Fraction(1)] * d,
        [Fraction((-1) ** j, j + 1) for j in range(d)],
        [Fraction(3 * j + 1, 7) - 1 for j in range(d)],
    ):
        law = np.zeros(mechanism.outcomes)
        for cells in product(*(rounding(mechanism.cells, value).items() for value in row)):
            chance = float(np.prod([float(chance) for _, chance in cells]))
            law += chance * mechanism.channel(mechanism.number([cell for cell, _ in cells]))
        yield law, np.array(row, float), mechanism.variance(np.array(row, float))


MOMENTS: Mapping[str, Moments] = {
    "frequency": frequencies,
    "mean": means,
    "sum": means,
    "vector": rows,
    "group means": groups,
}
"""Task -> what is expected of one report; of tasks that are not named, their own tests say it."""

LINEAR = [case for case in LISTED if case.facts.task in MOMENTS]
UNBIASED = [case for case in LINEAR if not case.facts.seeded and not case.facts.biased]
HISTOGRAMS = [case for case in ALONE + TOGETHER if case.facts.task == "frequency"]
NUMBERS = [case for case in ALONE if case.facts.task in ("mean", "vector")]
SMALLEST = [case.at(cells=1) for case in first(UNBIASED) if "cells" in case.parameters]
LARGER = [
    case.at(epsilon=2.0, domain_size=600)
    for case in first(HISTOGRAMS)
    if not (case.facts.batch or case.facts.seeded)
]


def decoded(mechanism) -> Floats:
    """(reports, estimates) the estimate from each report alone."""
    counts = [mechanism.count(np.array(report, np.uint64)) for report in mechanism.reports]
    return np.array([mechanism.estimate(row, 1) for row in counts])


@over(UNBIASED + SMALLEST)
def test_one_report_is_unbiased_with_the_closed_form_variance(case):
    estimates = decoded(case.mechanism)
    scale = np.abs(estimates).max()
    for law, truth, variance in MOMENTS[case.facts.task](case.mechanism):
        mean = law @ estimates
        np.testing.assert_allclose(mean, truth, atol=1e-12 * scale)
        if variance is not None:
            spread = law @ (estimates - mean) ** 2
            np.testing.assert_allclose(spread, variance, rtol=1e-9, atol=1e-12 * scale**2)


@over(LINEAR)
def test_a_batch_is_estimated_by_the_mean_of_its_reports(case):
    mechanism, size = case.mechanism, 200
    times = mechanism.tally(0, size, SeededRandom(3))
    sent = zip(times.tolist(), mechanism.reports, strict=True)
    counts = mechanism.count([code for often, report in sent for code in report * often])
    expected = times @ decoded(mechanism) / size
    np.testing.assert_allclose(mechanism.estimate(counts, size), expected, rtol=1e-9, atol=1e-9)


@over(LARGER)
def test_measured_error_over_many_values_is_the_predicted_one(case):
    """4 runs over 600 values: the ratio's standard deviation is about 3 %, so 20 % is 7 of them."""
    mechanism, n = case.mechanism, 600_000
    histogram = np.bincount(population(zipf(600), n), minlength=600)
    runs = [mechanism.simulate(histogram, SeededRandom(run)) for run in range(4)]
    errors = [mechanism.estimate(counts, n) - histogram / n for counts in runs]
    expected = mechanism.variance(histogram / n, n).mean()
    assert 0.8 < np.mean(np.square(errors)) / expected < 1.2


# ---- over public seeds ---------------------------------------------------------------------------

SEEDS = 400
SIGMAS = 6.2  # which chance exceeds once in 10^9


@pytest.mark.verify
@over([case for case in LINEAR if case.facts.seeded and case.parameters.get("domain_size") == 10])
def test_over_seeds_estimates_are_unbiased_with_the_closed_form_variance(case: Case):
    """Given a seed all is exact; so the seeds' collisions are the only noise of this test."""
    users = 400
    held = np.rint(zipf(case.mechanism.inputs, 1.5) * users)
    shares = held / held.sum()
    means, spreads = [], []
    for seed in range(SEEDS):
        mechanism = case.facts.build(**case.parameters, seed=seed)
        laws = np.array([mechanism.channel(cell) for cell in range(mechanism.inputs)])
        estimates = decoded(mechanism)
        mean = laws @ estimates
        means.append(shares @ mean)
        spreads.append(shares @ (laws @ estimates**2 - mean**2) / held.sum())
    errors = np.array(means) - shares
    assert np.all(np.abs(errors.mean(axis=0)) <= deviation(errors))
    squares = errors**2 + np.array(spreads)
    predicted = case.mechanism.variance(shares, int(held.sum()))
    assert np.all(np.abs(squares.mean(axis=0) - predicted) <= deviation(squares))
    assert np.any(np.abs(squares.mean(axis=0) - 1.3 * predicted) > deviation(squares))


def deviation(samples: Floats) -> Floats:
    """How far off means of samples may be; a hair for rounding where they do not vary."""
    return SIGMAS * samples.std(axis=0) / np.sqrt(len(samples)) + 1e-12


# ---- what planners go by -------------------------------------------------------------------------


@over(HISTOGRAMS)
def test_the_average_variance_is_that_of_the_worst_histogram(case):
    mechanism = case.mechanism
    average = mechanism.variance(zipf(mechanism.inputs), 1000).mean()
    if case.facts.seeded:  # collisions cost the more, the fewer values are held
        assert average < mechanism.average_variance(1000)
        average = mechanism.variance(np.eye(mechanism.inputs)[0], 1000).mean()
    np.testing.assert_allclose(mechanism.average_variance(1000), average, rtol=1e-12)


@over(NUMBERS)
def test_the_worst_variance_is_attained_and_never_exceeded(case):
    most = case.parameters.get("radius", 1)
    seen = case.mechanism.variance(np.linspace(-most, most, 20_001)).max()
    worst = case.mechanism.worst_variance
    assert worst * (1 - 1e-3) < seen <= worst * (1 + 1e-12)
