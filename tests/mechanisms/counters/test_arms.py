"""An experiment's counters: what they say, and that no unit moves them by more than is paid for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mechanisms.counters.arms import ArmCounters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Layout
from mechanisms.counters.tree import Tree
from mechanisms.randomness import SeededRandom
from tests.pipelines.test_job_sensitivity import spent

COUNTERS = ArmCounters(
    arms=3, bins=2, rates=2, numbers=2, steps=7, columns=2, tree=Tree.uniform(9, 3)
)
VARIANCES = [2.0] * len(COUNTERS.levels)
CASES = [
    COUNTERS, ArmCounters(2, rates=1), ArmCounters(2, numbers=1, steps=5),
    ArmCounters(2, 4, 0, 9, 900), ArmCounters(5, 1, 12, 0), ArmCounters(2, columns=1),
]  # fmt: skip


def totals(
    counters: ArmCounters, cells: np.ndarray, rates: np.ndarray, numbers: np.ndarray,
    leaves: np.ndarray,
):  # fmt: skip
    """(counters,) what units add."""
    places, added = counters.encode(cells, rates, numbers, leaves, SeededRandom(1))
    added += [np.ones_like(of_level) for of_level in places[len(added) :]]
    layout = Layout(counters.levels)
    counts = np.zeros(layout.starts[-1])
    for start, of_level, own in zip(layout.starts, places, added, strict=False):
        kept = of_level >= 0
        np.add.at(counts, start + of_level[kept], own[kept])
    return counts


def test_totals_are_those_of_the_units() -> None:
    draw, n = np.random.default_rng(1), 500
    cells, rates = draw.integers(-1, COUNTERS.cells, n), draw.random((n, 2)) < 0.3
    numbers = draw.choice([-1.0, 1.0, 1 / 7, 3 / 7], (n, 2))  # on the grid: nothing is rounded
    leaves = draw.integers(-1, 9, (n, 2))
    counts = totals(COUNTERS, cells, rates, numbers, leaves)
    known = COUNTERS.totals(Layout(COUNTERS.levels).split(counts), VARIANCES)
    assert known.several == np.sum(cells < 0)
    for arm in range(3):
        of_arm = leaves[(cells >= 0) & (cells // 2 == arm)]
        for column in range(2):
            below = [np.sum((0 <= of_arm[:, column]) & (of_arm[:, column] < k)) for k in range(10)]
            assert known.below[column, arm] == pytest.approx(below)
        for place in range(2):
            own = cells == 2 * arm + place
            assert known.units[arm, place] == own.sum()
            assert known.totals[:2, arm, place].tolist() == rates[own].sum(axis=0).tolist()
            assert known.totals[2:, arm, place] == pytest.approx(numbers[own].sum(axis=0))
            # Squares are rounded: each by a seventh at the most.
            exact = (numbers[own] ** 2).sum(axis=0)
            assert known.squares[:, arm, place] == pytest.approx(exact, abs=own.sum() / 7)


@pytest.mark.parametrize("counters", CASES)
@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize("law", ["geometric", "gaussian"])
def test_no_unit_moves_more_than_is_paid_for(counters, neighbours, law) -> None:
    """Of every cell, every outcome and the ends of numbers; and some unit moves nearly all of it.

    Replaced by a unit of another arm it moves other sums, and of the same arm these by twice.
    """
    delta = 1e-6 if law == "gaussian" else 0.0
    design = JobTotals.meeting(
        counters.levels, neighbours, 1.0, delta, parts=counters.parts, law=law
    )
    draw, most, before = np.random.default_rng(2), 0.0, np.zeros(design.layout.starts[-1])
    for trial in range(300):
        cell = draw.integers(-1, counters.cells, 1)
        if trial % 2:
            cell = np.array([trial // 2 % counters.cells])
        rates = np.ones((1, counters.rates), bool) if trial % 2 else draw.random((1, 1)) < 0.5
        ends = draw.choice([-1.0, 1.0], (1, counters.numbers))
        leaves = draw.integers(-(trial % 2 == 0), counters.tree.cells, (1, counters.columns))
        own = totals(counters, cell, np.broadcast_to(rates, (1, counters.rates)), ends, leaves)
        moved = own - (before if neighbours == "replace" else 0)
        most, before = max(most, spent(design, moved)), own
    assert (0.8 if neighbours == "replace" else 0.99) < most <= 1 + 1e-9
    assert design.guarantee.epsilon == 1.0


def test_arms_share_one_price() -> None:
    """A hundred arms of as many bins cost as much noise as two."""
    few, many = (
        JobTotals.meeting(one.levels, "add or remove", 1.0, 0.0, parts=one.parts)
        for one in (ArmCounters(2, rates=3), ArmCounters(100, 100, rates=3))
    )
    assert few.variances == many.variances


def test_levels_are_laid_out_one_after_the_other() -> None:
    ends = [0, *np.cumsum([level.counters for level in COUNTERS.levels])]
    assert [end - start for start, end in pairwise(ends)] == [7, 12, 12, 12, 18, 54]
