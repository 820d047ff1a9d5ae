"""Averages around F: their definition, the sandwich, and how often their limits cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mechanisms.catalog import build
from mechanisms.distribution.limits import limits
from mechanisms.distribution.noise import NoiseBound
from mechanisms.distribution.ramps import Ramps, best_ramps
from mechanisms.distribution.reconstruction import Reconstruction
from tests.oracles.distribution import (
    POPULATIONS,
    coarse,
    many_counts,
    rounded_shares,
    share_up_to,
)
from tests.oracles.statistics import FALSE_ALARM

BINS, N = 16, 3000
RUNS = 12_000  # tell 94 % from 92 %, but for a false alarm in a thousand million
POINTS = np.linspace(-1, 1, BINS)


def of(name: str, epsilon: float = 1.0) -> Reconstruction:
    if name == "grr":
        return Reconstruction.of(build(name, epsilon=epsilon, domain_size=BINS))
    return Reconstruction.of(build(name, epsilon=epsilon, cells=BINS - 1))


@pytest.mark.parametrize("span", [1, 2, 3, 7])
def test_rows_are_averages_of_cumulative_shares(span: int) -> None:
    ramps = Ramps(of("nm"), span)
    assert ramps.targets.shape == (BINS + span, BINS)
    for row, target in enumerate(ramps.targets):
        ks = [row - span + i for i in range(span)]
        sums = [[float(j <= k) for j in range(BINS)] for k in ks]
        assert target == pytest.approx(np.mean(sums, axis=0), abs=1e-12)
    means = ramps.weights @ ramps.reconstruction.table
    assert np.abs(means - ramps.targets).max() < 1e-12


@pytest.mark.parametrize("span", [1, 2, 5])
@pytest.mark.parametrize("name", POPULATIONS)
def test_f_lies_between_them_whatever_the_distribution(name: str, span: int) -> None:
    values = POPULATIONS[name](500)
    averages = Ramps(of("nm"), span).targets @ rounded_shares(values, POINTS)
    truth = share_up_to(values, POINTS)
    assert np.all(averages[:-span] <= truth + 1e-12)
    assert np.all(truth <= averages[span:] + 1e-12)


@pytest.mark.verify
@pytest.mark.parametrize("name", ["nm", "grr"])
@pytest.mark.parametrize("population", POPULATIONS)
def test_limits_cover(name: str, population: str) -> None:
    """Of 95 %, for values as they are, on smooth and on spiky data; of 80 %, they would not do."""
    values = coarse(POPULATIONS[population](N), 50)
    ramps = best_ramps(of(name), N)
    counts = many_counts(ramps.reconstruction, values, RUNS, seed=1)
    truth = ramps.targets @ rounded_shares(values, POINTS)
    allowed = stats.binom.isf(FALSE_ALARM, RUNS, 0.06)
    narrow = 0
    for average, exact, row in zip((ramps.weights @ counts.T) / N, truth, range(99), strict=False):
        bound = NoiseBound(*(np.full(RUNS, each[row]) for each in ramps.noise.bound()))
        lower, upper = limits(average, bound, N, 0.95)
        assert np.count_nonzero((lower > exact + 1e-9) | (upper < exact - 1e-9)) <= allowed
        lower, upper = limits(average, bound, N, 0.8)
        narrow += np.count_nonzero((lower > exact + 1e-9) | (upper < exact - 1e-9)) > allowed
    assert narrow > BINS / 4  # so the test would see it


@pytest.mark.parametrize("name", ["nm", "grr"])
@pytest.mark.parametrize("population", POPULATIONS)
def test_limits_of_f_cover_the_values_as_they_were(name: str, population: str) -> None:
    values = coarse(POPULATIONS[population](N), 50)
    ramps = best_ramps(of(name), N)
    truth = share_up_to(values, POINTS)
    missed, runs = np.zeros(BINS), 1500
    for counts in many_counts(ramps.reconstruction, values, runs, seed=2):
        lower, upper = ramps.distribution_limits(counts, N, 0.95)
        missed += (lower > truth + 1e-9) | (upper < truth - 1e-9)
    assert np.all(missed <= stats.binom.isf(FALSE_ALARM, runs, 0.06))


@pytest.mark.parametrize(("name", "epsilon"), [("nm", 0.5), ("nm", 4.0), ("grr", 1.0)])
def test_the_span_is_the_best_of_all_powers_of_two(name: str, epsilon: float) -> None:
    reconstruction = of(name, epsilon)
    lengths = {s: Ramps(reconstruction, s).expected_length(N, 0.95) for s in (1, 2, 4, 8)}
    assert best_ramps(reconstruction, N).span == min(lengths, key=lengths.__getitem__)


def test_the_expected_length_is_what_uniform_values_get() -> None:
    reconstruction = of("nm")
    ramps = best_ramps(reconstruction, N)
    values = np.linspace(-1, 1, 301).repeat(10)
    lengths = []
    for counts in many_counts(reconstruction, values, 30, seed=3):
        lower, upper = ramps.distribution_limits(counts, values.size, 0.95)
        lengths.append(np.mean(upper - lower))
    expected = ramps.expected_length(values.size, 0.95)
    # Limits are cut at 0 and at 1, which expectations do not know of.
    assert 0.75 * expected < np.mean(lengths) < 1.05 * expected
