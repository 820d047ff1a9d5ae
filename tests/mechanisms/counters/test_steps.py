"""When users reached steps: as all beginnings tried one by one say, whatever the rows' order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.counters.steps import moments
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
        reached = moments(users, times, masks, N + 1, steps, within)
        rows: list[list[funnels.Row]] = [[] for _ in range(N + 1)]
        for user, time, row in zip(users.tolist(), times.tolist(), bits, strict=True):
            rows[user].append((time, {int(k) + 1 for k in np.flatnonzero(row)}, 0))
        expected = [funnels.moments(own, steps, within) for own in rows]
        assert [own[~np.isnan(own)].tolist() for own in reached] == expected
        assert expected[N] == []  # who has no row


def far(*rows: tuple[float, int], within: float = math.inf) -> list[float]:
    """The moments of one user's steps."""
    times, masks = (np.array(part) for part in zip(*rows, strict=True))
    (own,) = moments(np.zeros(len(rows), np.int64), times.astype(float), masks, 1, 3, within)
    assert not np.isnan(own[: (~np.isnan(own)).sum()]).any()  # no step is left out
    return own[~np.isnan(own)].tolist()


def test_a_later_beginning_saves_who_was_too_slow() -> None:
    """From the first row step 3 is too late, from the second step 2 is the next row."""
    rows = (0, 0b001), (4, 0b001), (5, 0b010), (9, 0b100)
    assert far(*rows, within=5) == [4, 5, 9]
    assert far(*rows, within=4) == [4, 5]
    assert far(*rows, within=0.5) == [0]
    assert far(*rows) == [0, 5, 9]  # and of several the first


def test_rows_of_one_moment_are_one_step() -> None:
    assert far((1, 0b01), (1, 0b10)) == [1]
    assert far((1, 0b11), (2, 0b11)) == [1, 2]


def test_the_order_of_rows_says_nothing() -> None:
    rng = np.random.default_rng(7)
    users, times = rng.integers(0, N, 4000), rng.integers(0, 50, 4000).astype(float)
    masks, order = rng.integers(0, 16, 4000), rng.permutation(4000)
    first = moments(users, times, masks, N, 4, 9.0)
    again = moments(users[order], times[order], masks[order], N, 4, 9.0)
    assert np.array_equal(first, again, equal_nan=True)


def test_nobody_has_no_step() -> None:
    none = np.empty(0, np.int64)
    assert np.isnan(moments(none, none.astype(float), none, 3, 2)).sum() == 6
