"""The furthest steps of users: as all beginnings tried one by one say, whatever the rows' order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.counters.steps import furthest
from tests.oracles import funnels

N = 400


@pytest.mark.parametrize("within", [0.0, 1.0, 3.0, 7.0, math.inf])
@pytest.mark.parametrize("steps", [1, 2, 5, 16])
def test_the_best_beginning_counts(steps: int, within: float) -> None:
    """Rows at few moments, so that some are of one, and hold none, one or several steps."""
    rng = np.random.default_rng(steps)
    for held in (0.1, 0.3, 0.6):
        size = N * 14
        users, times = rng.integers(0, N, size), rng.integers(0, 24, size).astype(float)
        bits = rng.random((size, steps)) < held
        masks = bits @ (1 << np.arange(steps))
        far = furthest(users, times, masks, N + 1, within)
        rows: list[list[funnels.Row]] = [[] for _ in range(N + 1)]
        for user, time, row in zip(users.tolist(), times.tolist(), bits, strict=True):
            rows[user].append((time, {int(k) + 1 for k in np.flatnonzero(row)}, 0))
        assert far.tolist() == [funnels.furthest(own, steps, within) for own in rows]
        assert far[N] == 0  # who has no row


def test_a_later_beginning_saves_who_was_too_slow() -> None:
    """From the first row step 3 is too late, from the second step 2 is the next row."""
    times, masks = np.array([0.0, 4.0, 5.0, 9.0]), np.array([0b001, 0b001, 0b010, 0b100])
    users = np.zeros(4, np.int64)
    assert [int(furthest(users, times, masks, 1, within)[0]) for within in (5, 4, 0.5)] == [3, 2, 1]


def test_rows_of_one_moment_are_one_step() -> None:
    users = np.zeros(2, np.int64)
    assert furthest(users, np.array([1.0, 1.0]), np.array([0b01, 0b10]), 1).tolist() == [1]
    assert furthest(users, np.array([1.0, 2.0]), np.array([0b11, 0b11]), 1).tolist() == [2]


def test_the_order_of_rows_says_nothing() -> None:
    rng = np.random.default_rng(7)
    users, times = rng.integers(0, N, 4000), rng.integers(0, 50, 4000).astype(float)
    masks, order = rng.integers(0, 16, 4000), rng.permutation(4000)
    first = furthest(users, times, masks, N, 9.0)
    assert np.array_equal(first, furthest(users[order], times[order], masks[order], N, 9.0))


def test_nobody_has_no_step() -> None:
    none = np.empty(0, np.int64)
    assert furthest(none, none.astype(float), none, 3).tolist() == [0, 0, 0]
