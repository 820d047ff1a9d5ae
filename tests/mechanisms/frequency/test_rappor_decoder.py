"""RAPPOR's decoder: it finds who is there, says how sure it is, and invents nobody."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mechanisms.papers.rappor import Rappor
from mechanisms.papers.rappor_decoder import decode
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import FALSE_ALARM, population, zipf

N = 1_000_000
CANDIDATES = 1000


def held() -> np.ndarray:
    """Zipf over every second candidate; nobody holds the others."""
    histogram = np.zeros(CANDIDATES, int)
    histogram[::2] = np.bincount(population(zipf(CANDIDATES // 2), N), minlength=CANDIDATES // 2)
    return histogram


def collected(seed: int):
    mechanism = Rappor(2.0, CANDIDATES, cohorts=16, seed=seed)
    return mechanism, mechanism.simulate(held(), SeededRandom(seed))


@pytest.fixture(scope="module")
def tables():
    """30 collections, each with its own seed, at a significance that gives the test power."""
    return [decode(*collected(seed), np.arange(CANDIDATES), 0.5) for seed in range(30)]


def test_false_positives_stay_within_the_stated_rate(tables):
    """500 of 1,000 candidates are absent and a test of each may err with chance 0.5/1000.

    7.5 errors are expected in 30 runs. Standard errors 20 % too small would make it 50 and more.
    """
    absent = np.arange(CANDIDATES) % 2 == 1
    errors = sum(int((table.significant & absent[table.candidates]).sum()) for table in tables)
    assert errors <= stats.poisson.isf(FALSE_ALARM, 30 * 500 * 0.5 / CANDIDATES)
    assert stats.poisson.isf(FALSE_ALARM, 7.5) < 30 * 500 * stats.norm.sf(
        0.8 * stats.norm.isf(0.5 / CANDIDATES)
    )


def test_the_head_is_found(tables):
    """Those whose share is beyond the threshold by six standard errors and more."""
    truth = held() / N
    for table in tables:
        error = table.standard_error.max()
        sure = np.flatnonzero(truth > (stats.norm.isf(0.5 / CANDIDATES) + 6) * error)
        assert sure.size >= 8
        assert np.isin(sure, table.candidates[table.significant]).all()
        assert np.all(np.diff(table.frequency) <= 0)


def test_frequencies_agree_within_their_standard_errors(tables):
    """The squared deviations of the eight most frequent add up to a chi-square, from both sides."""
    truth = held() / N
    scores = []
    for table in tables:
        place = {int(value): index for index, value in enumerate(table.candidates)}
        at = [place[value] for value in range(0, 16, 2)]
        scores.append((table.frequency[at] - truth[:16:2]) / table.standard_error[at])
    squares = float((np.array(scores) ** 2).sum())
    freedom = np.size(scores)
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], freedom)
    assert low < squares < high
    assert high < 2.25 * freedom  # so that errors half as large again would be caught


def test_standard_errors_hold_where_the_coins_are_not_what_is_noisy():
    """At epsilon 12 most of the error is in which users a cohort has; with one cohort, none is."""
    histogram = np.array([500_000, 300_000, 150_000, 50_000] + [0] * 6)
    for cohorts, runs in ((8, 40), (1, 40)):
        scores = []
        for seed in range(runs):
            mechanism = Rappor(12.0, 10, bits=64, hashes=3, cohorts=cohorts, seed=seed)
            counts = mechanism.simulate(histogram, SeededRandom(seed))
            table = decode(mechanism, counts, range(10))
            order = np.argsort(table.candidates)[:3]
            assert table.candidates[order].tolist() == [0, 1, 2]
            share = histogram[:3] / N
            scores.append((table.frequency[order] - share) / table.standard_error[order])
        squares = (np.array(scores) ** 2).sum(axis=1)  # three of one run depend on each other
        tolerance = stats.norm.isf(FALSE_ALARM / 2) * squares.std() / np.sqrt(runs)
        assert abs(squares.mean() - 3) < tolerance


def test_fitting_together_beats_estimating_one_by_one():
    """What a heavy value's filter shares with others is known, and so is no error any more."""
    truth, gained = held() / N, []
    for seed in range(2):
        mechanism = Rappor(6.0, CANDIDATES, cohorts=4, seed=seed)
        counts = mechanism.simulate(held(), SeededRandom(seed))
        table = decode(mechanism, counts, np.arange(CANDIDATES))
        alone = mechanism.estimate(counts)[table.candidates] - truth[table.candidates]
        together = table.frequency - truth[table.candidates]
        gained.append(np.mean(alone**2) / np.mean(together**2))
    assert min(gained) > 10


def test_rare_values_that_nobody_listed_cost_accuracy_only():
    """All but the ten most frequent are missing, a third of the users: 9.8 errors expected."""
    absent = np.arange(1, CANDIDATES, 2)
    listed = np.union1d(np.arange(0, 20, 2), absent)
    errors = 0
    for seed in range(20):
        table = decode(*collected(seed), listed, significance=0.5)
        errors += int((table.significant & (table.candidates % 2 == 1)).sum())
        assert table.dispersion < 2
    expected = 20 * 0.5 * absent.size / listed.size
    assert errors <= stats.poisson.isf(FALSE_ALARM, expected)


def test_frequent_values_that_nobody_listed_show_in_the_dispersion():
    mechanism, counts = collected(1)
    assert decode(mechanism, counts, np.arange(CANDIDATES)).dispersion < 1.2
    assert decode(mechanism, counts, np.arange(2, CANDIDATES)).dispersion > 5


def test_a_cohort_without_users_is_left_out():
    mechanism = Rappor(8.0, 50, cohorts=64)
    counts = mechanism.simulate([30, 20] + [0] * 48, SeededRandom(1))
    assert (counts[mechanism.headers :] == 0).any()
    table = decode(mechanism, counts, range(50))
    assert table.candidates[table.significant].tolist() == [0, 1]


def test_few_reports_give_an_empty_table():
    mechanism = Rappor(0.01, 100)
    counts = mechanism.simulate(np.eye(100, dtype=int)[3], SeededRandom(1))
    assert not decode(mechanism, counts, range(100)).significant.any()
    least = int(np.argmin(mechanism.estimate(counts)))  # far below 0: not selected
    assert [column.size for column in decode(mechanism, counts, [least])[:5]] == [0] * 5


@pytest.mark.parametrize(
    ("candidates", "significance", "message"),
    [
        ([1, 2], 0.0, "significance"),
        ([1, 2], float("nan"), "significance"),
        ([1, 1], 0.05, "distinct"),
        ([], 0.05, "one at the least"),
        ([100], 0.05, "1 of 1 cells"),
        ([0.5], 0.05, "integers"),
    ],
)
def test_impossible_questions_are_refused(candidates, significance, message):
    mechanism = Rappor(1.0, 100)
    counts = mechanism.simulate([10] * 100, SeededRandom(1))
    with pytest.raises(ValueError, match=message):
        decode(mechanism, counts, candidates, significance)


def test_no_report_is_nothing_to_decode():
    mechanism = Rappor(1.0, 100)
    with pytest.raises(ValueError, match="no report"):
        decode(mechanism, mechanism.count([]), [1])


def test_candidates_with_equal_filters_are_refused():
    mechanism = Rappor(4.0, 50, bits=8, hashes=1, cohorts=3)
    same = (mechanism.filters.overlaps(range(50)) == 1).all(axis=0)
    one, other = np.argwhere(np.triu(same, 1))[0].tolist()
    counts = mechanism.simulate(N * np.eye(50, dtype=int)[one], SeededRandom(1))
    apart = [value for value in range(50) if value != other]
    assert decode(mechanism, counts, apart).candidates[0] == one
    with pytest.raises(ValueError, match="same filters"):
        decode(mechanism, counts, range(50))
