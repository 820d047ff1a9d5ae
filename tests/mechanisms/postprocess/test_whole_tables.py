"""Whole tables: margins to the unit, none below 0, and closer to the truth than estimates."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.postprocess.simplex import project
from mechanisms.postprocess.whole_tables import crossed, divided

SIGMA = 5.0


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (5, 7), (30, 4), (60, 80)])
@pytest.mark.parametrize("mean", [0.0, 0.2, 3.0, 400.0])
def test_margins_are_kept(shape: tuple[int, int], mean: float) -> None:
    rng = np.random.default_rng(4)
    truth = rng.poisson(mean * rng.exponential(size=shape))
    estimate = truth + rng.normal(0, SIGMA, shape)
    other = rng.permutation(truth.ravel()).reshape(shape)  # margins that estimates do not have
    for margins in (truth, other):
        rows, columns = margins.sum(axis=1), margins.sum(axis=0)
        table = crossed(estimate, rows, columns)
        assert table.dtype == np.int64
        assert (table >= 0).all()
        assert (table.sum(axis=1) == rows).all()
        assert (table.sum(axis=0) == columns).all()
        assert (crossed(estimate.T, columns, rows) == table.T).all() or shape[0] == shape[1]


def test_a_table_that_has_its_margins_stays() -> None:
    truth = np.random.default_rng(5).integers(0, 50, (20, 30))
    assert (crossed(truth.astype(float), truth.sum(axis=1), truth.sum(axis=0)) == truth).all()


def test_true_margins_bring_an_estimate_closer() -> None:
    """The set of such tables is convex and holds the truth: rounding adds a unit at the most."""
    rng = np.random.default_rng(6)
    truth = rng.poisson(2.0 * rng.exponential(size=(40, 50)))
    estimate = truth + rng.normal(0, SIGMA, truth.shape)
    table = crossed(estimate, truth.sum(axis=1), truth.sum(axis=0))
    # Over twenty seeds the ratio lies between 0.30 and 0.36.
    assert np.square(table - truth).mean() < 0.5 * np.square(estimate - truth).mean()


def test_a_number_is_divided_as_the_projection_says() -> None:
    rng = np.random.default_rng(7)
    for total in (0, 1, 12, 10**9):
        estimate = rng.normal(total / 9, 1 + total / 10, 9)
        parts = divided(total, estimate)
        assert parts.sum() == total
        assert (parts >= 0).all()
        if total:
            assert np.abs(parts - total * project(estimate / total)).max() < 1 + 1e-6


@pytest.mark.parametrize(("rows", "columns"), [([3, -1], [1, 1]), ([3, 1], [1, 1])])
def test_margins_that_cannot_be(rows: list[int], columns: list[int]) -> None:
    with pytest.raises(ValueError, match="margins"):
        crossed(np.ones((2, 2)), np.array(rows), np.array(columns))
