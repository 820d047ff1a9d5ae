"""Squares beside numbers: what a unit moves by enumeration, roundings, and what totals tell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from mechanisms.channel import Neighbours
from mechanisms.counters.choose import least_error
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Layout
from mechanisms.counters.moments import MomentDigits, WholeMoments
from mechanisms.privacy.search import gaussian_delta
from mechanisms.randomness import SeededRandom

TOLD = [WholeMoments(1, 1, 1), WholeMoments(1, 1, 9), WholeMoments(3, 1, 4), WholeMoments(2, 2, 5)]
NEIGHBOURS: tuple[Neighbours, ...] = ("add or remove", "replace")


def roundings(most: int) -> Iterator[tuple[int, int]]:
    """All that a number may be rounded to: cells from the lower end, and what the square lacks."""
    for cells in range(most + 1):
        least = 2 * cells * (most - cells) / most
        for rest in range(math.floor(least), math.ceil(least + 1 / most) + 1):
            # A number lies less than a cell away, and none lies beyond an end.
            yield cells, rest


def contributions(told: WholeMoments) -> np.ndarray:
    """(units, counters) what each unit there may be adds, whatever it has and is rounded to."""
    units = []
    for k in range(told.most_groups + 1):
        for groups in combinations(range(told.groups), k):
            for numbers in product(roundings(told.most), repeat=k):
                rows = np.zeros((3, told.groups), np.int64)
                if k:
                    amounts = np.array([numbers], np.int64)
                    sets = told.encode(np.array([groups], np.int64), amounts)
                    for row, place, added in zip(rows, sets, told.added(amounts), strict=True):
                        np.add.at(row, place[0], added[0])
                units.append(rows.ravel())
    return np.unique(units, axis=0)


def designed(told: WholeMoments, neighbours: Neighbours, delta: float) -> JobTotals:
    law: Any = "gaussian" if delta else "geometric"
    return JobTotals.meeting(told.levels, neighbours, 1.3, delta, parts=told.parts, law=law)


def apart(told: WholeMoments, neighbours: Neighbours) -> np.ndarray:
    """(pairs, counters) by how much totals of neighbours may differ."""
    units = contributions(told)
    others = np.zeros((1, units.shape[1]), int) if neighbours == "add or remove" else units
    return np.unique((units[:, None] - others[None]).reshape(-1, units.shape[1]), axis=0)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("told", TOLD)
def test_the_price_is_that_of_enumeration(told: WholeMoments, neighbours: Neighbours) -> None:
    moves = apart(told, neighbours)
    design = designed(told, neighbours, 0.0)
    decay = float(design.laws[0].decay)  # type: ignore[union-attr]
    most = decay * np.abs(moves).sum(axis=1).max()
    assert most <= 1.3
    if neighbours == "add or remove":  # little is paid that nobody can lose
        assert most > 1.3 * told.most / (told.most + 1) * (1 - 1e-5)
    sigma = designed(told, neighbours, 0.01).laws[0].sigma  # type: ignore[union-attr]
    assert gaussian_delta(math.sqrt(np.square(moves).sum(axis=1).max()) / sigma, 1.3) <= 0.01


@pytest.mark.parametrize("told", TOLD)
def test_one_total_moves_no_farther_than_the_profile_counts(told: WholeMoments) -> None:
    """Under replace a total goes from below 0 to its end, and that shows in one noise."""
    (moves,) = designed(told, "replace", 0.0).moves
    assert np.abs(apart(told, "replace")).max() <= moves.step


def test_what_reaches_too_far_is_refused() -> None:
    told = WholeMoments(1, 1, 10)
    group = np.zeros((1, 1), np.int64)
    assert len(told.encode(group, np.array([[[0, 1]]]))) == 3
    for cells, rest in ((0, 2), (10, 2), (11, 0), (5, 8)):
        with pytest.raises(ValueError, match="reach farther than 11") as refused:
            told.encode(group, np.array([[[cells, rest]]]))
        assert str(cells) not in str(refused.value).replace("11", "")


VALUES = np.array([0.0, 0.31, 2.0, 3.5, 4.77, 6.9, 7.0])  # of 7, on the grid and between
DRAWS = 40_000


@pytest.mark.parametrize("kind", [WholeMoments, MomentDigits])
def test_roundings_keep_numbers_and_squares(kind: Any) -> None:
    """False alarms below 1e-9: 7 standard errors. A cell's own square would be 30 of them off."""
    told, rng = kind(1, 1, 7), SeededRandom(1)
    rounded = told.rounded(np.tile(VALUES, (DRAWS, 1)), 7.0, 7, rng)
    v = 2 * VALUES / 7 - 1
    first, second = np.moveaxis(rounded, -1, 0)
    sums = 2 * first / 7 - 1
    squares = 1 - 2 * second / 7 if kind is WholeMoments else second / 7
    for rounding, true in ((sums, v), (squares, v**2)):
        error = rounding.std(axis=0) / math.sqrt(DRAWS)
        assert (np.abs(rounding.mean(axis=0) - true) <= 7 * error + 1e-9).all()


def test_squared_distances_scatter_by_five_coins_at_the_most() -> None:
    """On average over numbers around their own mean: 4 (v - m)^2 + 1, or 4 m^2 + 1 / 4."""
    most, coin = 255, 1 / 255**2
    for mean, far in ((0.0, 1.0), (0.6, 0.4), (-0.2, 0.3)):
        values = np.repeat([mean - far, mean + far], DRAWS // 2) * (1 - 1 / most)
        numbers = ((values + 1) / 2 * most)[:, None]
        for kind in (WholeMoments, MomentDigits):
            rounded = kind(1, 1, most).rounded(numbers, float(most), most, SeededRandom(4))
            first, second = rounded[:, 0].T
            squares = 1 - 2 * second / most if kind is WholeMoments else second / most
            off = squares - 2 * mean * (2 * first / most - 1) - values**2 + 2 * mean * values
            assert off.var() <= 5 * coin


@pytest.mark.parametrize("kind", [WholeMoments, MomentDigits])
def test_totals_are_those_of_the_numbers(kind: Any) -> None:
    """Of several groups, some of which a unit lacks; on the grid numbers have no coins."""
    told, rng, n = kind(3, 2, 9), SeededRandom(2), 60
    groups = np.stack([np.arange(n) % 3, np.where(np.arange(n) % 2, (np.arange(n) + 1) % 3, -1)], 1)
    numbers = rng.words(2 * n).reshape(n, 2) % np.uint64(10)
    amounts = told.rounded(numbers.astype(float), 9.0, 9, rng)
    layout, sets = Layout(told.levels), told.encode(groups, amounts)
    added = told.added(amounts) if kind is WholeMoments else [np.ones_like(x) for x in sets]
    counts = [np.zeros(level.counters) for level in layout.levels]
    for count, places, amount in zip(counts, sets, added, strict=True):
        np.add.at(count, places[places >= 0], amount[places >= 0])
    v, rest = 2 * numbers / 9 - 1, amounts[..., 1]
    squares = 1 - 2 * rest / 9 if kind is WholeMoments else rest / 9
    for told_totals, true in zip(told.moments(counts), (v**0, v, squares), strict=True):
        totals = [true[groups == group].sum() for group in range(3)]
        assert told_totals == pytest.approx(totals)


@pytest.mark.parametrize("kind", [WholeMoments, MomentDigits])
def test_covariances_are_those_of_independent_counters(kind: Any) -> None:
    """By the noise of each: a covariance of n draws errs by 4 / sqrt(n) at the most; 7 of those."""
    told, rng, n = kind(1, 1, 7), SeededRandom(3), 40_000
    drawn = [
        rng.words(level.counters * n).reshape(level.counters, n) / np.float64(1 << 64) - 0.5
        for level in told.levels
    ]
    column = sum(level.weight**2 for level in told.levels) / (12 if kind is MomentDigits else 36)
    known = np.array([told.moments([x[:, i] for x in drawn]) for i in range(n)])[..., 0]
    covariance = np.cov(known.T) / (column / told.most**2)
    assert covariance == pytest.approx(np.array(told.covariance), abs=7 * 4 / math.sqrt(n))


def test_a_variance_costs_what_a_mean_does_and_far_less_than_an_equal_split() -> None:
    told = WholeMoments(1, 1, 4095)
    design = least_error(
        told.levels, "add or remove", 1.0, 1e-6, drawers=("job",), parts=told.parts
    )
    noise = design.column_variance / told.most**2
    assert noise == pytest.approx(2.0, rel=0.01)  # of one number in [0, 1] at epsilon 1
    weights = np.array([-1 / 3, 0, 1])  # of numbers that are spread evenly
    own = noise * weights @ np.array(told.covariance) @ weights
    split = 2 * 3**2 * (1 + 1 / 9)
    assert own / split == pytest.approx(0.133, rel=0.02)
