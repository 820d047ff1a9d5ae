"""Bounds from a first look: where numbers go, and which powers of two hold nearly all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.mean.magnitudes import BoundsRule, bin_of, bins, edges
from mechanisms.randomness import SeededRandom


@given(st.floats(-(2.0**48), 2.0**48))
def test_a_number_lies_within_its_bin(number):
    at = int(bin_of(np.array([number]))[0])
    assert edges()[at] <= number <= edges()[at + 1]


def test_edges_belong_inwards_and_what_is_beyond_to_the_outermost_bin():
    limits = edges()
    for power in (1.0, 4.0, 2.0**-16):
        up, down = (int(bin_of(np.array([x]))[0]) for x in (power, -power))
        assert limits[up + 1] == power
        assert limits[down] == -power
    far = bin_of(np.array([-math.inf, -1e300, 1e300, math.inf]))
    assert far.tolist() == [0, 0, bins() - 1, bins() - 1]
    assert 0.0 in limits[[bin_of(np.array([0.0]))[0], bin_of(np.array([0.0]))[0] + 1]]


def exactly(*numbers: float) -> np.ndarray:
    return np.bincount(bin_of(np.array(numbers)), minlength=bins()) / len(numbers)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((3.0, 3.5), (2.0, 4.0)),
        ((-3.0, 3.0), (-4.0, 4.0)),
        ((100.0, 900.0), (64.0, 1024.0)),
        ((-900.0, -2.0), (-1024.0, -1.0)),
        ((1.0,), (0.5, 1.0)),
        ((-0.25,) * 9, (-0.25, -0.125)),
    ],
)
def test_without_noise_bounds_are_the_powers_around_all(numbers, expected):
    low, high = BoundsRule(1e-6)(exactly(*numbers), np.full(bins(), 1e-18))
    assert (low, high) == expected
    assert all(low <= number <= high for number in numbers)


def test_a_share_as_small_as_was_declared_is_left_out():
    shares = 0.9996 * exactly(5.0) + 0.0004 * exactly(1e9)
    tiny = np.full(bins(), 1e-18)
    assert BoundsRule(0.001)(shares, tiny) == (4.0, 8.0)
    assert BoundsRule(0.0001)(shares, tiny) == (4.0, 2.0**30)


def chosen(epsilon: float, held: np.ndarray, seed: int) -> tuple[float, float]:
    oracle, rng = k_ary(epsilon, bins()), SeededRandom(seed)
    shares = oracle.estimate(oracle.count(oracle.perturb(bin_of(held), rng)))
    variances = oracle.variance(np.clip(shares, 0, 1), held.size)
    return BoundsRule(0.001)(shares, variances)


@pytest.mark.parametrize("epsilon", [3.0, 5.0])
def test_noise_widens_bounds_hardly_ever(epsilon):
    """200 first rounds: at a risk of 1 % more than 12 wrong ones have a chance below 1e-6."""
    held = np.repeat([3.0, 30.0], 2000)
    found = [chosen(epsilon, held, seed) for seed in range(200)]
    assert sum(each != (2.0, 32.0) for each in found) <= 12


def test_where_nothing_stands_out_there_are_bounds_all_the_same():
    low, high = BoundsRule(0.001)(exactly(5.0) * 0.01, np.full(bins(), 1.0))
    assert (low, high) == (4.0, 8.0)
    assert BoundsRule(0.001).hidden(1.0) > 1


@pytest.mark.parametrize("outside", [0, 1, -1, math.nan])
def test_a_share_that_is_none_is_refused(outside):
    with pytest.raises(ValueError, match="outside must lie between"):
        BoundsRule(outside)
