"""Factors of the running sum: their product, their price, and how little has to be kept."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from mechanisms.running.factors import BITS, LONGEST, Factors, buffered, square_root
from pipelines.running import options


def matrix(series: np.ndarray) -> np.ndarray:
    """The lower triangular Toeplitz matrix of a power series."""
    return np.tril(toeplitz(series))


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 30, 365])
def test_factors_multiply_to_the_running_sum(horizon: int) -> None:
    factors = buffered(horizon)
    product = matrix(factors.noise) @ matrix(factors.strategy)
    assert product == pytest.approx(np.tri(horizon), abs=1e-11)
    inverse = np.linalg.inv(matrix(factors.noise))
    assert np.abs(inverse).sum(axis=1).max() == pytest.approx(factors.undone)
    assert np.linalg.norm(matrix(factors.strategy), axis=0).max() == pytest.approx(
        factors.sensitivity()
    )
    rows = np.linalg.norm(matrix(factors.noise), axis=1)
    assert [factors.window_norm(day) for day in range(horizon)] == pytest.approx(rows)


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 30, 90, 365, 1000, 3650, LONGEST - 1])
def test_a_few_buffers_err_by_a_hundredth_more_than_the_square_root(horizon: int) -> None:
    factors, best = buffered(horizon), square_root(horizon)
    assert factors.error <= 1.01 * (best @ best)
    # What is kept grows with the logarithm of the horizon.
    assert len(factors.decays) <= 1 + math.log2(horizon) / 2


def test_an_open_horizon_has_the_most_days_that_there_may_be() -> None:
    assert options._LONGEST == LONGEST  # said twice, for imports' sake


def test_an_open_horizon_spares_the_first_days() -> None:
    """From the 14th on at most 1.5 times the variance of a horizon that ends with the day."""
    factors = buffered(LONGEST)
    own = np.cumsum(factors.noise**2) * factors.sensitivity() ** 2
    ended = np.cumsum(square_root(LONGEST) ** 2) ** 2
    assert (own[13:] <= 1.5 * ended[13:]).all()
    assert (own[27:365] <= 1.42 * ended[27:365]).all()
    falling = factors.strategy
    assert falling.min() > 0
    assert (np.diff(falling) < 0).all()  # on which the sensitivity of several days rests


def test_the_square_root_is_one() -> None:
    best = matrix(square_root(50))
    assert best @ best == pytest.approx(np.tri(50))


def test_no_days_of_a_unit_are_worse_than_the_first_ones() -> None:
    """Every choice of days of nine, and of what is added or taken on each."""
    factors = buffered(9)
    columns = matrix(factors.strategy)
    for days in range(1, 5):
        worst = max(
            np.linalg.norm(columns[:, chosen] @ signs)
            for chosen in map(list, itertools.combinations(range(9), days))
            for signs in itertools.product((-1.0, 1.0), repeat=days)
        )
        assert worst == pytest.approx(factors.sensitivity(days))


def test_windows_err_by_the_rows_of_their_differences() -> None:
    factors = buffered(30)
    rows = matrix(factors.noise)
    assert factors.window_norm(20, 7) == pytest.approx(np.linalg.norm(rows[20] - rows[13]))
    assert factors.window_norm(5, 7) == pytest.approx(np.linalg.norm(rows[5]))
    # A week errs by less than two totals that know nothing of each other.
    assert factors.window_norm(20, 7) < np.hypot(*(np.linalg.norm(rows[k]) for k in (20, 13)))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: buffered(0), "horizon must be 1 .. 20,000 windows"),
        (lambda: buffered(LONGEST + 1), "horizon must be"),
        (lambda: Factors(3, (1,), ()), "has a decay and a weight"),
        (lambda: Factors(3, (1 << BITS,), (1,)), "decays must lie in"),
        (lambda: Factors(3, (1,), (0,)), "weights must lie in"),
        (lambda: buffered(3).sensitivity(4), "days must lie in 1 .. 3"),
        (lambda: buffered(3).sensitivity(0), "days must lie in 1 .. 3"),
        (lambda: buffered(3).window_norm(3), "day must lie in 0 .. 2"),
        # 1 + q / 2^40 + q^2 / 2^40 ...: what is hidden does not fall.
        (lambda: Factors(9, ((1 << BITS) - 1,), (1 << BITS,)).sensitivity(2), "must fall"),
    ],
)
def test_what_is_no_factorisation_is_refused(make, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()
