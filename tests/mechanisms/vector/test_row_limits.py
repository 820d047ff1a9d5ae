"""Errors of estimated rows: intervals cover as often as they say, of every mechanism."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mechanisms import catalog
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.mean.two_point import duchi
from mechanisms.randomness import SeededRandom
from mechanisms.vector.limits import JUDGED_FROM, estimate_mixed, estimate_row, half_widths
from mechanisms.vector.mixed_choice import mixed_rows
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.multi import multi_hm, multi_optimal

RISK = 1e-9  # of a false alarm

NAMES = {name: {} for name in catalog.of_task("vector")} | {"multi_rphm": {"projected": 4}}


def built(name: str):
    more = NAMES[name] | ({"codebooks": 256} if name == "privunit" else {})
    return catalog.build(name, epsilon=3.0, dimension=4, **more)


def rows(n: int) -> np.ndarray:
    """(n, 4) numbers whose means differ."""
    rng = np.random.default_rng(7)
    return np.clip(rng.normal([0.0, 0.4, -0.3, 0.9], 0.2, (n, 4)), -1, 1)


@pytest.mark.parametrize("name", list(NAMES))
def test_intervals_cover_as_often_as_they_say(name):
    """50 batches of 4 coordinates: fewer hits than a binomial of 80 % allows are a failure."""
    mechanism, batches, confidence = built(name), 50, 0.8
    n = 300 if name == "privunit" else 1500  # its clients are slow
    values = rows(n)
    hits = both = 0
    for seed in range(batches):
        counts = mechanism.count(mechanism.report(values, SeededRandom(100 + seed)))
        found = estimate_row(mechanism, counts, n, confidence)
        off = np.abs(found.unbiased - values.mean(axis=0))
        hits += int((off <= found.alone).sum())
        both += int((off <= found.together).all())
        assert (found.alone <= found.together).all()
        assert (found.standard_error > 0).all()
    # Coordinates of one batch may go together: as if they were one.
    assert hits / 4 >= stats.binom.ppf(RISK, batches, confidence)
    assert both >= stats.binom.ppf(RISK, batches, confidence)


def test_few_reports_have_the_error_of_the_worst_case():
    mechanism = multi_optimal(1.0, 50)
    n = 600
    counts = mechanism.count(mechanism.report(np.zeros((n, 50)), SeededRandom(1)))
    found = estimate_row(mechanism, counts, n, 0.95)
    assert found.reports.sum() == n
    assert (found.reports < JUDGED_FROM).all()
    worst = mechanism.worst_variance / n
    np.testing.assert_allclose(found.standard_error, np.sqrt(worst))
    linear = float(mechanism.reach[0]) / n * np.log(2 / 0.05) / 3
    np.testing.assert_allclose(
        found.alone, linear + np.sqrt(linear**2 + 2 * worst * np.log(2 / 0.05))
    )


def test_normal_intervals_need_the_more_reports_the_farther_out_they_reach():
    variance, far = np.array([1.0]), np.array([0.2])
    plain = half_widths(variance, variance, far, 0.95, 1)
    assert plain == pytest.approx(1.959964)
    shared = half_widths(variance, variance, far, 0.95, 10_000)
    assert shared > stats.norm.ppf(1 - 0.025 / 10_000)


@pytest.mark.parametrize("name", list(NAMES))
def test_no_report_is_farther_off_than_the_reach(name):
    mechanism = built(name)
    values = np.sign(rows(400)) * (0.5 if name == "privunit" else 1.0)
    far = np.zeros(4)
    for row in range(100):
        counts = mechanism.count(mechanism.report(values[row : row + 1], SeededRandom(row)))
        far = np.maximum(far, np.abs(mechanism.estimate(counts, 1)))
    assert (far + 1 <= np.broadcast_to(mechanism.reach, 4) + 1e-9).all()


def test_reports_of_each_coordinate():
    mechanism = multi_hm(1.0, 3)
    messages = mechanism.report(np.zeros((100, 3)), SeededRandom(2))
    coordinates = messages.astype(np.int64) // mechanism.mechanism.codes
    found = mechanism.reporters(mechanism.count(messages), 100)
    np.testing.assert_array_equal(found, np.bincount(coordinates, minlength=3))
    meanest = built("meanest")
    assert meanest.reporters(np.empty(0), 7).tolist() == [7] * 4


def test_one_report_is_not_enough():
    with pytest.raises(ValueError, match="at least two reports"):
        estimate_row(multi_hm(1.0, 3), np.zeros(1), 1, 0.9)


# ---- numbers and categories together -------------------------------------------------------------


def inside(ends: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Which intervals cover."""
    return (ends[0] <= truth) & (truth <= ends[1])


def test_intervals_of_mixed_rows_cover_as_often_as_they_say():
    """The truth is that of all users, of whom each attribute hears a third."""
    mechanism, n, batches, confidence = mixed_rows(3.0, [None, 2, 12], sampled=1), 1800, 50, 0.8
    rng = np.random.default_rng(3)
    numbers = np.clip(rng.normal(0.3, 0.4, (n, 1)), -1, 1)
    categories = np.stack([rng.integers(0, 2, n), rng.integers(0, 12, n) // 3 * 3], axis=1)
    shares = [np.bincount(categories[:, i], minlength=k) / n for i, k in enumerate((2, 12))]
    truth = np.concatenate(shares)
    number = both = 0
    hits = np.zeros(14)
    for seed in range(batches):
        messages = mechanism.report(numbers, categories, SeededRandom(seed))
        row, others = estimate_mixed(mechanism, mechanism.count(messages), n, confidence)
        off = abs(row.unbiased[0] - numbers.mean())
        number += off <= row.alone[0]
        hits += inside(np.concatenate([x.alone for x in others], axis=1), truth)
        everything = inside(np.concatenate([x.together for x in others], axis=1), truth)
        both += bool(off <= row.together[0] and everything.all())
        for each in others:
            assert each.estimate.sum() == pytest.approx(1)
            assert (each.alone[0] >= each.together[0]).all()
        assert row.reports[0] + sum(each.reports for each in others) == n
    least = stats.binom.ppf(RISK / 16, batches, confidence)
    assert number >= least
    assert (hits >= least).all()
    assert both >= least


def test_attributes_that_hardly_anybody_reported_say_nothing():
    mechanism = MixedRows(1.0, 1, (duchi(1.0), duchi(1.0), k_ary(1.0, 3)))
    counts = np.array([200, 300, 0, 0, 1, 0, 2])
    row, (shares,) = estimate_mixed(mechanism, counts, 503, 0.95)
    assert row.reports.tolist() == [500, 0]
    assert np.isnan(row.unbiased[1])
    assert row.standard_error[1] == row.alone[1] == np.inf
    assert shares.reports == 3
    assert shares.alone[0].tolist() == [0, 0, 0]
    assert shares.alone[1].tolist() == [1, 1, 1]
    assert np.isnan(shares.standard_error).all()
    _, (nothing,) = estimate_mixed(mechanism, np.array([200, 300, 0, 0, 0, 0, 0]), 500, 0.95)
    assert nothing.estimate.tolist() == pytest.approx([1 / 3] * 3)
