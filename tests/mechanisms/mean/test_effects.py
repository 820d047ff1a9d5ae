"""Effects against the truth: means, standard errors, false alarms, and the arms' shares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mechanisms.counters.arms import ArmCounters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.mean.effects import ArmMeans, arm_means, arm_quantiles, sample_ratio
from mechanisms.mean.looks import Looks
from mechanisms.randomness import SeededRandom

SPREAD = 0.4  # of a number, in halves of its range: a fifth of the range


def noisy(counters: ArmCounters, epsilon: float, runs: int) -> tuple[tuple[float, ...], list[Any]]:
    """The variances of noises, and for each level (runs, arms, bins) that is added."""
    design = JobTotals.meeting(
        counters.levels, "add or remove", epsilon, 1e-6, parts=counters.parts
    )
    rng, shape = SeededRandom(1), (runs, counters.arms, counters.bins)
    scale = [1.0] * (1 + bool(counters.rates)) + [counters.steps] * 2
    drawn = [
        design.noise(place, int(np.prod(shape)), rng).reshape(shape) / scale[place]
        for place in range(len(counters.levels))
    ]
    return counters.noises(design.variances), drawn


def rates(
    n: int, rate: float, epsilon: float, runs: int, lift: float = 1.0
) -> tuple[Any, Any, Any]:
    """(runs,) differences, and what chance and noise are said to give them."""
    noises, (of_units, of_rates) = noisy(ArmCounters(2, rates=1), epsilon, runs)
    draw = np.random.default_rng(n)
    first = draw.binomial(n, 0.5, runs)
    units = np.stack([first, n - first], 1)[:, :, None]
    totals = draw.binomial(units, rate * np.array([1, lift])[None, :, None])
    return measured(units + of_units, totals + of_rates, None, noises)


def numbers(n: int, epsilon: float, runs: int) -> tuple[Any, Any, Any]:
    """The same of numbers of a beta law; of so many their sums are normal."""
    counters = ArmCounters.fine(2, 1, 0, 1, n, epsilon, 1e-6)
    noises, (of_units, of_sums, of_squares) = noisy(counters, epsilon, runs)
    draw, half = np.random.default_rng(n), SPREAD / 2
    shape = 0.3 * 0.7 / half**2 - 1
    values = 2 * draw.beta(0.3 * shape, 0.7 * shape, 1_000_000) - 1
    pair = np.stack([values, values**2])
    first = draw.binomial(n, 0.5, runs)
    units = np.stack([first, n - first], 1)[:, :, None]
    off = draw.multivariate_normal([0, 0], np.cov(pair), units.shape)
    sums, squares = np.moveaxis(off * np.sqrt(units)[..., None], -1, 0)
    sums, squares = (x + y * units for x, y in zip((sums, squares), pair.mean(axis=1), strict=True))
    return measured(units + of_units, sums + of_sums, squares + of_squares, noises)


def measured(units: Any, totals: Any, squares: Any, noises: Any) -> tuple[Any, Any, Any]:
    """All runs at once: without bins, no arm's mean hangs on another's."""
    rows = (None if x is None else x.reshape(-1, 1).astype(float) for x in (units, totals, squares))
    mean, sampling, noise = (part.reshape(-1, 2) for part in arm_means(*rows, noises)[:3])
    return mean[:, 1] - mean[:, 0], sampling.sum(axis=1), noise.sum(axis=1)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("n", "rate", "epsilon"),
    [(100_000, 0.02, 1.0), (100_000, 0.5, 1.0), (10_000, 0.02, 1.0), (2_000, 0.1, 1.0),
     (500, 0.5, 0.5)],
)  # fmt: skip
def test_equal_rates_alarm_once_in_twenty(n: int, rate: float, epsilon: float) -> None:
    """5 % within half of one: of 80,000 runs 6.1 standard errors, beyond once in 10^9, are 0.47."""
    difference, sampling, noise = rates(n, rate, epsilon, 80_000)
    half = np.array([Looks().half(0.05, *both) for both in zip(sampling, noise, strict=True)])
    assert np.mean(np.abs(difference) > half) == pytest.approx(0.05, abs=0.0055)
    # Standard errors are what differences scatter by: within 1.6 %, 6.1 of its standard errors.
    assert np.sqrt(np.mean(sampling + noise)) == pytest.approx(difference.std(), rel=0.025)


@pytest.mark.verify
@pytest.mark.parametrize("n", [100_000, 2_000])
def test_equal_means_alarm_once_in_twenty(n: int) -> None:
    difference, sampling, noise = numbers(n, 1.0, 80_000)
    half = np.array([Looks().half(0.05, *both) for both in zip(sampling, noise, strict=True)])
    assert np.mean(np.abs(difference) > half) == pytest.approx(0.05, abs=0.0055)
    assert np.sqrt(np.mean(sampling + noise)) == pytest.approx(difference.std(), rel=0.025)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_noise_costs_at_most_three_percent(rate: float) -> None:
    """100,000 units, epsilon 1, one outcome."""
    _, sampling, noise = rates(100_000, rate, 1.0, 20)
    bare = 2 * rate * (1 - rate) / 50_000
    assert np.sqrt(np.mean(sampling + noise) / bare) < 1.03
    _, sampling, noise = numbers(100_000, 1.0, 20)
    assert np.sqrt(np.mean(sampling + noise) / (2 * SPREAD**2 / 50_000)) < 1.03


@pytest.mark.verify
def test_28_looks_alarm_once_in_twenty() -> None:
    """Each look is over all units so far, with noise of its own; 5 % within half of one."""
    runs, planned, n, rate = 80_000, 28, 100_000, 0.02
    noises, (of_units, of_rates) = noisy(ArmCounters(2, rates=1), 1.0, runs * planned)
    draw, alarms = np.random.default_rng(28), np.zeros(runs, bool)
    units, totals = np.zeros((runs, 2, 1)), np.zeros((runs, 2, 1))
    for look in range(1, planned + 1):
        more = np.full((runs, 2, 1), n // planned // 2)
        units, totals = units + more, totals + draw.binomial(more, rate)
        part = slice((look - 1) * runs, look * runs)
        known = measured(units + of_units[part], totals + of_rates[part], None, noises)
        half = [Looks(planned, look).half(0.05, *both) for both in zip(*known[1:], strict=True)]
        alarms |= np.abs(known[0]) > half
    assert alarms.mean() == pytest.approx(0.05, abs=0.0055)


def test_bins_take_out_what_they_explain() -> None:
    """Arms that differ by 0.05 in every bin: of 400 logs the mean is right, and so is the error."""
    draw, runs, n, bins = np.random.default_rng(4), 400, 20_000, 5
    noises = (8.0, 8.0, 30.0)
    levels, plain, fine, said = np.linspace(-0.6, 0.6, bins), [], [], []
    for _ in range(runs):
        arm, place = draw.integers(0, 2, n), draw.integers(0, bins, n)
        value = np.clip(levels[place] + 0.05 * arm + draw.normal(0, 0.1, n), -1, 1)
        cells = [
            np.bincount(arm * bins + place, weights, 2 * bins).reshape(2, bins)
            + draw.normal(0, np.sqrt(noise), (2, bins))
            for weights, noise in zip((np.ones(n), value, value**2), noises, strict=True)
        ]
        one = arm_means(*(x.sum(axis=1, keepdims=True) for x in cells), [bins * x for x in noises])
        means = arm_means(*cells, noises)
        plain.append(one.mean[1] - one.mean[0])
        fine.append(means.mean[1] - means.mean[0])
        said.append(means.sampling.sum() + means.noise.sum())
    error = np.sqrt(np.mean(said))
    assert np.mean(fine) == pytest.approx(0.05, abs=7 * error / np.sqrt(runs))
    assert np.std(fine) == pytest.approx(error, rel=0.25)  # 7 standard errors of 400
    assert np.std(fine) < 0.45 * np.std(plain)


def quantile_runs(
    n: int, p: float, runs: int, laws: np.ndarray
) -> Iterator[tuple[float, float, float]]:
    """Of logs of n units with (2, leaves) laws: an estimate, and how far it may lie off."""
    counters = ArmCounters(2, columns=1)
    design = JobTotals.meeting(counters.levels, "add or remove", 1.0, 1e-6, parts=counters.parts)
    tree, rng, draw = counters.tree, SeededRandom(1), np.random.default_rng(n)
    edges, noise = np.linspace(0, 1, tree.cells + 1), counters.below_variances(p, design.variances)
    off = [
        design.noise(place, runs * level.counters, rng).reshape(runs, -1)
        for place, level in enumerate(counters.levels)
    ]
    for run in range(runs):
        first = draw.binomial(n, 0.5)
        leaves = np.stack(
            [draw.multinomial(m, law) for m, law in zip((first, n - first), laws, strict=True)]
        )
        levels = [np.zeros(3), *(leaves.reshape(-1, size).sum(axis=1) for size in tree.sizes[1:])]
        noisy = [level + own[run] for level, own in zip(levels, off, strict=True)]
        below = counters.totals(noisy, design.variances).below[0]
        means = arm_quantiles(below, p, edges, noise)
        error = math.sqrt(means.sampling.sum() + means.noise.sum())
        reach = means.reach(1, Looks().half(0.05, error**2, 0.0) / error)
        yield means.mean[1] - means.mean[0], *reach


def exponential(mean: float) -> np.ndarray:
    below = 1 - np.exp(-np.linspace(0, 1, 1025) / mean)
    below[-1] = 1
    return np.diff(below)


@pytest.mark.verify
@pytest.mark.parametrize("lift", [0.0, 0.1])
@pytest.mark.parametrize(
    ("n", "p"), [(100_000, 0.5), (100_000, 0.95), (10_000, 0.95), (2_000, 0.5)]
)
def test_quantiles_are_covered_nineteen_times_in_twenty(n: int, p: float, lift: float) -> None:
    """Equal ones alarm as seldom; of 2,000 runs 3 % more is 6.1 standard errors, beyond 1e-9.

    Without the noise in its error, the 95th of 10,000 would miss 15 %. Where few lie above it,
    intervals are too long.
    """
    laws = np.stack([exponential(0.1), exponential(0.1 * (1 + lift))])
    curves = [np.concatenate([[0], np.cumsum(law)]) for law in laws]
    first, other = (np.interp(p, curve, np.linspace(0, 1, 1025)) for curve in curves)
    runs = np.array([*quantile_runs(n, p, 2_000, laws)])
    off = runs[:, 0] - (other - first)
    missed = np.mean((off > runs[:, 1]) | (-off > runs[:, 2]))
    assert 0.01 < missed < 0.08
    # Beside what the true density says of chance alone.
    bare = 1.96 * math.sqrt(4 * p * (1 - p) / n) / ((1 - p) / 0.1)
    assert runs[:, 1:].mean() < bare * (1 + lift) * (1.1 if n == 100_000 else 1.6)


def test_equal_quantiles_know_of_the_noise() -> None:
    """Two thirds of the error; without it 20 % of these would alarm, and 11.7 % do once in 1e9."""
    runs = np.array([*quantile_runs(2_000, 0.9, 400, np.stack([exponential(0.1)] * 2))])
    assert np.mean((runs[:, 0] > runs[:, 1]) | (-runs[:, 0] > runs[:, 2])) < 0.117


@pytest.mark.verify
def test_equal_quantiles_between_two_numbers_alarm_seldom() -> None:
    """Half have one number and half another: a median is either, as chance will have it."""
    law = np.zeros(1024)
    law[[100, 300]] = 0.5
    runs = np.array([*quantile_runs(10_000, 0.5, 2_000, np.stack([law, law]))])
    assert np.mean((runs[:, 0] > runs[:, 1]) | (-runs[:, 0] > runs[:, 2])) < 0.08


def test_a_quantile_of_one_number_is_known_to_a_bin() -> None:
    below = np.zeros((2, 1025))
    below[:, 500:] = [[4000.0], [4100.0]]
    means = arm_quantiles(below, 0.9, np.linspace(0, 1, 1025), np.full(1025, 50.0))
    assert means.mean == pytest.approx([0.4878] * 2, abs=1 / 1024)
    assert 0 < means.reach(1, 1.96)[0] < 1 / 1024
    few = below * [[0.002], [1.0]]
    assert np.isnan(arm_quantiles(few, 0.9, np.linspace(0, 1, 1025), np.full(1025, 50.0)).mean[0])


def test_a_lift_of_unequal_ends_is_the_farthest_that_both_allow() -> None:
    """Where either side alone would have been both, it is Fieller's of that side."""
    mean, zero = np.array([10.0, 12.0]), np.zeros(2)
    ends = mean - np.array([1.0, 0.5]), mean + np.array([2.0, 1.0])
    _, least, most = ArmMeans(mean, zero, zero, lambda far: ends).lift(1, 1.0)
    plain = ArmMeans(mean, np.array([2.0, 0.5]) ** 2, np.zeros(2)).lift(1, 1.0)
    assert least == pytest.approx(plain[1])
    plain = ArmMeans(mean, np.array([1.0, 1.0]) ** 2, np.zeros(2)).lift(1, 1.0)
    assert most == pytest.approx(plain[2])


def test_too_few_units_are_unknown() -> None:
    few = arm_means(np.array([[5.0], [900.0]]), np.array([[2.0], [400.0]]), None, (8.0, 8.0))
    assert np.isnan(few.mean[0])
    assert few.mean[1] == pytest.approx(4 / 9)
    merged = arm_means(  # a bin without units goes with its neighbour
        np.array([[500.0, -2, 400], [510, 1, 390]]), np.array([[50.0, 3, 80], [51, 0, 78]]),
        None, (8.0, 8.0),
    )  # fmt: skip
    assert np.isfinite(merged.mean).all()


def test_lifts_are_fiellers() -> None:
    """Every lift whose difference is not refuted, and none else, by the definition."""
    means = arm_means(
        np.array([[4000.0], [4100.0]]), np.array([[400.0], [500.0]]), None, (8.0, 8.0)
    )
    lift, low, high = means.lift(1, 1.96)
    assert lift == pytest.approx(means.mean[1] / means.mean[0] - 1)
    own, first = (means.sampling + means.noise)[[1, 0]]
    for end in (low, high):
        off = means.mean[1] - (1 + end) * means.mean[0]
        assert abs(off) == pytest.approx(1.96 * np.sqrt(own + (1 + end) ** 2 * first))
    assert np.isnan(means.lift(1, 1000.0)).all()


@pytest.mark.verify
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.5, 0.25, 0.25)])
def test_shares_alarm_as_often_as_they_say(shares: tuple[float, ...]) -> None:
    """Of 40,000 fair logs, once in twenty; a tenth of the second arm gone is seen every time."""
    draw, runs, n = np.random.default_rng(2), 40_000, 20_000
    units = draw.multinomial(n, shares, runs) + draw.laplace(0, 2, (runs, len(shares)))
    alarms = np.mean([sample_ratio(one, shares, 8.0) < 0.05 for one in units])
    assert alarms == pytest.approx(0.05, abs=6.1 * np.sqrt(0.0475 / runs))
    lost = units[:50] * np.array([1, 0.8, 1][: len(shares)])
    assert all(sample_ratio(one, shares, 8.0) < 0.001 for one in lost)
