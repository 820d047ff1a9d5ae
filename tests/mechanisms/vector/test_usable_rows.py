"""Rows whose values may each be missing: exact privacy, and intervals that cover."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from mechanisms.planner.search import search
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from mechanisms.vector.limits import estimate_mixed, estimate_row
from mechanisms.vector.mixed_choice import mixed_rows
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.task import AttributeTask, VectorTask
from tests.oracles.statistics import FALSE_ALARM

RUNS = 200


@pytest.mark.parametrize(
    "mechanism",
    [
        multi_optimal(1.0, 2, cells=2, hides=True),
        multi_optimal(2.0, 2, cells=1, sampled=2, hides=True),
        multi_hm(1.5, 2, cells=2, hides=True),
        mixed_rows(1.0, [None, 2], cells=2, hides=True),
        mixed_rows(2.0, [None, 3], cells=1, sampled=2, hides=True),
    ],
)
def test_no_two_rows_differ_by_more_whatever_they_lack(mechanism) -> None:
    """Every pair of inputs, by the exact channel: not by the mechanism's own list of pairs."""
    laws = [mechanism.channel(cell) for cell in range(mechanism.inputs)]
    largest = max(
        float(np.log(one[one > 0] / other[one > 0]).max()) for one, other in product(laws, laws)
    )
    assert 0.9 * mechanism.epsilon < largest <= mechanism.epsilon * (1 + 1e-9)
    assert tight_epsilon(mechanism) == pytest.approx(largest, abs=1e-9)


@pytest.mark.parametrize("task", [VectorTask(20, hides=True), AttributeTask((None, 3), hides=True)])
def test_a_batch_keeps_the_promise(task) -> None:
    found = search(Target("shuffle", 0.5, 1e-6, 2000, task))
    assert found.release.epsilon <= 0.5
    assert shuffled_delta(found.mechanism, 2000, 0.5)[1] <= 1e-6


def test_the_sampler_follows_the_channel() -> None:
    mechanism = multi_optimal(1.0, 2, cells=2, hides=True)
    row = np.array([mechanism.unusable, 1])
    cell, size = mechanism.number(row), 200_000
    counts = mechanism.tally(cell, size, SeededRandom(1))
    law = mechanism.channel(cell)
    assert np.all(np.abs(counts - size * law) < 6.5 * np.sqrt(size * law * (1 - law)) + 1)


def population(n: int, presence: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rows with NaN where there is no number, and the mean of each coordinate's numbers."""
    made = np.random.default_rng(3)
    rows = np.clip(made.normal(0.3, 0.4, (n, len(presence))), -1, 1)
    rows[made.random(rows.shape) >= np.array(presence)] = np.nan
    return rows, np.nanmean(rows, axis=0)


@pytest.mark.verify
@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 40_000), (6.0, 8_000)])
def test_intervals_of_coordinates_cover(epsilon: float, n: int) -> None:
    """In 200 runs limits that err in 6 % fail once in 1e9 tests; those of 75 % would be seen."""
    presence = (1.0, 0.6, 0.2)
    rows, truth = population(n, presence)
    mechanism = multi_optimal(epsilon, 3, cells=64, hides=True)
    lacking, rng = np.isnan(rows).mean(axis=0), SeededRandom(5)
    missed, together, missed_shares, off = np.zeros(3), 0, np.zeros(3), []
    for _ in range(RUNS):
        found = estimate_row(mechanism, mechanism.count(mechanism.report(rows, rng)), n, 0.95)
        away = np.abs(found.unbiased - truth)
        missed += away > found.alone
        together += bool((away > found.together).any())
        missed_shares += (found.unusable.lower > lacking) | (found.unusable.upper < lacking)
        off.append((found.unbiased - truth) / found.standard_error)
    allowed = stats.binom.isf(FALSE_ALARM, RUNS, 0.06)
    assert np.all(missed <= allowed)
    assert together <= allowed
    assert np.all(missed_shares <= allowed)
    # Without bias, and errors as they are said to be: each off by 6.5 of its own at most.
    assert np.all(np.abs(np.mean(off, axis=0)[:2]) < 6.5 / np.sqrt(RUNS) + 0.1)
    assert np.all(np.abs(np.std(off, axis=0)[:2] - 1) < 6.5 / np.sqrt(2 * RUNS))


@pytest.mark.verify
def test_intervals_of_mixed_rows_cover() -> None:
    n, presence = 20_000, (1.0, 0.5)
    rows, truth = population(n, presence)
    made = np.random.default_rng(9)
    kinds = made.choice(4, n, p=[0.5, 0.2, 0.1, 0.2])  # the last one stands for none
    shares = np.bincount(kinds, minlength=4) / n
    mechanism = mixed_rows(3.0, [None, None, 3], cells=64, hides=True)
    missed, missed_shares, rng = np.zeros(2), np.zeros(4), SeededRandom(7)
    for _ in range(RUNS):
        messages = mechanism.report(rows, kinds[:, None].astype(np.int32), rng)
        row, (others,) = estimate_mixed(mechanism, mechanism.count(messages), n, 0.95)
        missed += np.abs(row.unbiased - truth) > row.alone
        missed_shares += (others.alone[0] > shares) | (others.alone[1] < shares)
    allowed = stats.binom.isf(FALSE_ALARM, RUNS, 0.06)
    assert np.all(missed <= allowed)
    assert np.all(missed_shares <= allowed)


def test_where_nobody_has_a_number_nothing_is_known() -> None:
    mechanism = multi_optimal(1.0, 2, cells=16, hides=True)
    rows = np.full((20_000, 2), np.nan)
    rows[:, 0] = 0.5
    counts = mechanism.count(mechanism.report(rows, SeededRandom(2)))
    found = estimate_row(mechanism, counts, 20_000, 0.95)
    assert found.alone[0] < 0.3
    assert found.alone[1] > 1 or np.isnan(found.unbiased[1])
    assert found.unusable.lower[1] < 1 == found.unusable.upper[1]
    assert found.unusable.lower[0] == 0 < found.unusable.upper[0]
