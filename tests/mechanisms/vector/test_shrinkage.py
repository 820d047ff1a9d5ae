"""James-Stein: what it is, that it never serves worse, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.postprocess.shrinkage import to_mean, to_prior
from mechanisms.randomness import SeededRandom
from tests.oracles import vector as oracle


def noisy(truth: np.ndarray, variance: float, runs: int, seed: int = 1) -> np.ndarray:
    return truth + SeededRandom(seed).generator().normal(0, math.sqrt(variance), (runs, truth.size))


def test_it_is_the_formula():
    row = np.array([0.9, -0.2, 0.4, 0.3, 0.1])
    for variance in (0.001, 0.05, 0.1, 10.0):
        np.testing.assert_allclose(
            to_prior(row, variance).estimate, oracle.james_stein(row, variance, np.zeros(5), 2)
        )
        prior = np.linspace(0, 1, 5)
        np.testing.assert_allclose(
            to_prior(row, variance, prior).estimate, oracle.james_stein(row, variance, prior, 2)
        )
        np.testing.assert_allclose(
            to_mean(row, variance).estimate,
            oracle.james_stein(row, variance, np.full(5, row.mean()), 3),
        )


TRUTHS = {
    "zero": np.zeros(10),
    "alike": np.full(10, 0.5),
    "spread": np.linspace(-1, 1, 10),
    "one": np.eye(10)[0] * 5,
    "far": np.linspace(-30, 20, 10),
}


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_no_truth_is_served_worse(truth):
    """20,000 runs: the unbiased error is 1 within 1.5 %."""
    rows = noisy(truth, 1.0, 20_000)
    plain = np.mean((rows - truth) ** 2)
    for shrink in (to_prior, to_mean):
        error = np.mean([(shrink(row, 1.0).estimate - truth) ** 2 for row in rows[:4000]])
        assert error < np.mean((rows[:4000] - truth) ** 2) * 1.001
    assert 0.98 < plain < 1.02


def test_where_the_target_is_right_hardly_any_error_is_left():
    rows = noisy(np.full(100, 0.5), 1.0, 300)
    for shrink in (to_mean, lambda row, v: to_prior(row, v, 0.5)):
        assert np.mean([(shrink(row, 1.0).estimate - 0.5) ** 2 for row in rows]) < 0.05


def test_few_coordinates_are_left_alone():
    assert to_prior([0.5, 0.1], 5.0).factor == 1
    assert to_mean([0.5, 0.1, 0.3], 5.0).estimate.tolist() == [0.5, 0.1, 0.3]
    assert to_prior([0.0, 0.0, 0.0], 1.0).estimate.tolist() == [0, 0, 0]


def test_unequal_variances_count_as_their_mean():
    row = np.array([0.9, -0.2, 0.4, 0.3])
    uneven = to_prior(row, [0.1, 0.2, 0.05, 0.05])
    np.testing.assert_allclose(uneven.estimate, to_prior(row, 0.1).estimate)


def test_extreme_sizes_neither_overflow_nor_vanish():
    for scale in (1e-200, 1e200):
        row = np.array([0.9, -0.2, 0.4, 0.3]) * scale
        found = to_prior(row, 0.1 * scale * scale if scale < 1 else 1.0)
        assert np.isfinite(found.estimate).all()
    assert to_prior(np.full(5, 1e-200), 1.0).factor == 0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([0.1, math.nan, 0.2], 0.1), "unbiased must hold finite"),
        (([0.1, math.inf, 0.2], 0.1), "unbiased must hold finite"),
        (([], 0.1), "unbiased must be a row"),
        (([[0.1, 0.2]], 0.1), "unbiased must be a row"),
        (([0.1, 0.2, 0.3], -0.1), "variance must be at least 0"),
        (([0.1, 0.2, 0.3], math.nan), "variance must hold finite"),
        (([0.1, 0.2, 0.3], [0.1, 0.2]), "variance must be a number or 3"),
    ],
)
def test_what_means_nothing_is_refused(arguments, match):
    for shrink in (to_prior, to_mean):
        with pytest.raises(ValueError, match=match):
            shrink(*arguments)
    with pytest.raises(ValueError, match="prior"):
        to_prior([0.1, 0.2, 0.3], 0.1, math.nan)
