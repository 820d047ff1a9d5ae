"""Bounds from a first look: where numbers go, and which powers of two hold nearly all of them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.mean.magnitudes import bin_of, bins, chosen_bounds, edges


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
    return np.bincount(bin_of(np.array(numbers)), minlength=bins()).astype(float)


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
    low, high = chosen_bounds(exactly(*numbers), 1e-9)
    assert (low, high) == expected
    assert all(low <= number <= high for number in numbers)


def test_a_share_as_small_as_was_declared_is_left_out():
    for few, high in ((40, 8.0), (60, 2.0**30)):  # of 100,000, of whom 50 may be clipped there
        counts = (100_000 - few) * exactly(5.0) + few * exactly(1e9)
        assert chosen_bounds(counts, 1e-9) == (4.0, high)


def rounds(held: np.ndarray, epsilon: float, times: int) -> Counter[tuple[float, float]]:
    """Bounds of so many first rounds, whose noise is two-sided geometric."""
    rng, falls = np.random.default_rng(3), math.exp(-epsilon)
    error = math.sqrt(2 * falls) / (1 - falls)
    noisy = held - np.diff(rng.geometric(1 - falls, (times, bins(), 2)))[:, :, 0]
    return Counter(chosen_bounds(counts, error) for counts in noisy)


def test_noise_widens_bounds_by_one_power_at_the_most():
    """A few of 2,000 rounds, next to what is there; of those far off one would spoil an answer."""
    made = rounds(2000 * exactly(3.0, 30.0), 0.1, 2000)
    near = {(low, high) for low in (1.0, 2.0) for high in (32.0, 64.0)}
    assert sum(times for bounds, times in made.items() if bounds not in near) <= 2
    assert made[2.0, 32.0] > 0.95 * 2000


def test_a_bin_beside_what_is_sure_counts_for_less_than_noise_could_be_far_off():
    beside = rounds(2000 * exactly(3.0, 30.0) + 70 * exactly(50.0), 0.1, 500)
    assert sum(times for (_, high), times in beside.items() if high == 64.0) > 0.95 * 500
    far = rounds(2000 * exactly(3.0, 30.0) + 70 * exactly(5000.0), 0.1, 500)
    assert sum(times for (_, high), times in far.items() if high == 8192.0) < 0.05 * 500


def test_where_nothing_stands_out_there_are_bounds_all_the_same():
    assert chosen_bounds(exactly(5.0), 100.0) == (4.0, 8.0)
