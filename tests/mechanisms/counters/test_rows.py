"""Rows as counters: what they say, and the error of 400 numbers of a million people."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Layout
from mechanisms.counters.rows import RowCounters, digits_for
from mechanisms.randomness import SeededRandom


def exact(rows: RowCounters, numbers: np.ndarray, categories: np.ndarray, seed: int = 1):
    """What the counters say without dummies."""
    layout = Layout(rows.levels)
    reports = layout.reports(rows.encode(numbers, categories, SeededRandom(seed)))
    counts = layout.count(reports.ravel(), np.tile(layout.types, len(numbers)))
    return rows.sums(layout.split(counts))


@pytest.mark.parametrize("steps", [1, 3, 4, 15])
def test_sums_and_counts_are_those_of_the_rows(steps: int) -> None:
    """Numbers on the grid are told exactly, of both signs, and those that are missing by none."""
    rows = RowCounters(3, steps, (2, 1))
    numbers = np.array([[-1, 1, np.nan], [1, 1, -1], [-1, np.nan, 1], [-1, 1, np.nan]])
    if steps != 1:
        numbers[3] = 1 - 2 / steps, -1 + 2 / steps, np.nan
    found = exact(rows, numbers, np.array([[0, 1], [2, 0], [1, 0], [0, 0]]))
    assert found.sums == pytest.approx(np.nansum(numbers, axis=0))
    assert found.counts == pytest.approx([4, 3, 2])
    assert [own.tolist() for own in found.values] == [[2, 1, 1], [3, 1]]
    assert found.rows == 4


def test_rounding_keeps_the_mean_and_stays_below_its_bound() -> None:
    rows, n = RowCounters(2, 3), 20_000
    found = exact(rows, np.tile([0.3, -0.9], (n, 1)), np.empty((n, 0), np.int64))
    # Six standard errors of the largest variance that a coin may have.
    assert (np.abs(found.sums - n * np.array([0.3, -0.9])) < 6 * np.sqrt(rows.rounding(n))).all()


def test_what_lies_out_of_range_is_refused() -> None:
    rows, none = RowCounters(1, 3, (2,)), np.zeros((1, 1), np.int64)
    with pytest.raises(ValueError, match="lie outside"):
        rows.encode(np.array([[1.01]]), none, SeededRandom(1))
    for place in (-1, 3):
        with pytest.raises(ValueError, match="no value of that place"):
            rows.encode(np.array([[0.5]]), none + place, SeededRandom(1))


def test_400_numbers_of_a_million_are_off_by_what_is_said() -> None:
    """By sums in place of reports: the law of counts is the same.

    Of 4,000 squared errors the mean is off by 2.2 % (one standard error); by seven it is not.
    """
    d, n, seen = 400, 1_000_000, SeededRandom(7)
    assert digits_for(d, 0, n, 1.0, 1e-6) == 4
    rows = RowCounters(d, 15)
    design = Counters.meeting(rows.levels, "add or remove", epsilon=1.0, delta=1e-6)
    generator = np.random.default_rng(3)
    kept = np.clip(generator.normal(generator.uniform(-0.7, 0.7, d), 0.3, (500, d)), -1, 1)
    noise, mean, squares = rows.noise(design.variances), kept.mean(axis=0), []
    cells = (kept + 1) / 2 * rows.steps
    low = np.minimum(np.floor(cells), rows.steps - 1).astype(np.int64)
    bits = np.arange(rows.steps + 1)[:, None] >> np.arange(4) & 1
    for _ in range(10):
        up = generator.binomial(n // 500, cells - low)
        ones = np.einsum("nd,ndk->kd", up, bits[low + 1])
        ones += np.einsum("nd,ndk->kd", n // 500 - up, bits[low])
        raised = np.concatenate([np.hstack([ones, n - ones]).ravel(), [n], [0] * 5])
        found = rows.sums(design.centred(design.simulate(raised, seen)))
        squares.append((found.sums / found.counts - mean) ** 2)
    error = float(np.mean(squares))
    coins = float(((cells - low) * (1 - cells + low)).mean()) * 4 / rows.steps**2 * n
    wanted = (noise.sum**2 * (1 + np.mean(mean**2)) + coins) / n**2
    assert error == pytest.approx(wanted, rel=0.16)
    assert error < 3.1e-8
