"""The grid: unbiased rounding, down to the last die, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.mean.hybrid import hm, hybrid_optimal
from mechanisms.mean.scalar import ScalarMean, rise
from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import noise, piecewise, window_optimal
from mechanisms.papers.laplace import laplace
from mechanisms.papers.windows import dct, improved
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from tests.oracles import mean as oracle
from tests.oracles.statistics import follows

HOSTILE = [-1.0, 1.0, 0.0, -0.0, 5e-324, math.nextafter(1, 0), math.nextafter(-1, 0), 1 / 3, -2e-17]


def rounded(mechanism, value: float, die: int) -> int:
    """The cell of a value when the 32-bit die falls on a given number."""
    return int(mechanism.encode([value], oracle.Dealt([die]))[0])


def lifting_dice(mechanism, value: float) -> int:
    """How many of the 2^32 dice round a value up: found by bisection, since they are the top."""
    below = rounded(mechanism, value, 0)
    low, high = 0, 1 << 32
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if rounded(mechanism, value, middle) > below else (middle + 1, high)
        )
    return (1 << 32) - low


@pytest.mark.parametrize("cells", [1, 3, 1024, 1 << 20])
def test_rounding_is_unbiased_over_all_dice(cells):
    """Counting the dice: the mean cell is the value's position to 2^-32 of a cell."""
    mechanism = duchi(1.0, cells)
    values = HOSTILE + [w / 2**63 - 1 for w in SeededRandom(cells).words(40).tolist()]
    for value in values:
        mean = rounded(mechanism, value, 0) + Fraction(lifting_dice(mechanism, value), 1 << 32)
        position = (Fraction(value) + 1) * cells / 2
        assert abs(mean - position) <= Fraction(1, 1 << 32)


def test_grid_points_are_kept_whatever_the_dice():
    mechanism = duchi(1.0, 64)
    for die in (0, 1, (1 << 32) - 1):
        cells = mechanism.encode(mechanism.grid, oracle.Dealt(np.full(65, die << 32 | die)))
        np.testing.assert_array_equal(cells, np.arange(65))


def test_every_value_gets_a_die_of_its_own():
    mechanism = duchi(1.0, 2)
    cells = mechanism.encode(np.zeros(100_001) + 0.5, SeededRandom(3)).astype(int)
    pairs = np.bincount(2 * cells[:-1:2] + cells[1::2] - 3, minlength=4)
    assert follows(pairs, np.full(4, 0.25))
    later = cells[70_000:] - 1  # another block than the first
    assert follows(np.bincount(2 * cells[: later.size] - 2 + later, minlength=4), np.full(4, 0.25))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, list])
def test_any_kind_of_number_will_do(kind):
    values = [-1, 0, 1, 1] if kind is list else np.array([-1, 0, 1, 1], kind)
    cells = duchi(1.0, 10).encode(values, SeededRandom(1))
    assert cells.dtype == np.uint32
    assert cells.tolist() == [0, 5, 10, 10]
    assert duchi(1.0, 10).encode([], SeededRandom(1)).size == 0


@pytest.mark.parametrize(
    ("values", "outside"),
    [
        ([1.0000001, 0, -2], "2 of 3"),
        ([math.nan, 0.25], "1 of 2"),
        ([math.inf, -math.inf, 0], "2 of 3"),
        ([12345.5], "1 of 1"),
    ],
)
def test_values_outside_the_range_are_counted_and_not_quoted(values, outside):
    with pytest.raises(ValueError, match=rf"{outside} values lie outside") as caught:
        duchi(1.0).encode(values, SeededRandom(1))
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("values", [["a"], [[0.5]], [None], [True], [1j], 0.5])
def test_what_is_no_vector_of_numbers_is_refused(values):
    with pytest.raises(ValueError, match="values must be"):
        duchi(1.0).encode(values, SeededRandom(1))


@pytest.mark.parametrize("value", [1.01, -7, math.nan, [0, 2]])
def test_variance_is_asked_for_values_of_the_range_only(value):
    with pytest.raises(ValueError, match="value must lie"):
        duchi(1.0).variance(value)


def test_worst_variance_finds_a_top_between_grid_points():
    """A mechanism without noise: all its variance is the rounding's, 1/N^2 between two points."""

    class Exact(ScalarMean):
        cells = 4
        codes = 5
        guarantee = local = decoded = property(lambda self: None)
        weights = _perturb_block = lambda self, *_: None

        def second_moment(self, cells):
            return self._value(cells) ** 2

    assert Exact().worst_variance == 1 / 16
    np.testing.assert_allclose(Exact().variance([0, 0.25, 0.125]), [0, 1 / 16, 3 / 64])


def test_growth_is_neither_zero_nor_infinite():
    assert 0 < rise(1e-320) < 1e-29
    assert rise(1.0) == math.expm1(1.0)
    assert math.isfinite(rise(1e5) ** 2)


def test_codes_are_decoded_one_by_one_or_refused():
    mechanism = hm(1.0, cells=8)
    codes = mechanism.perturb(SeededRandom(1).integers(9, 500), SeededRandom(2))
    estimate = mechanism.estimate(mechanism.count(codes))
    assert (estimate.shape, estimate.dtype) == ((), np.float64)
    np.testing.assert_allclose(estimate, mechanism.decode(codes).mean(), rtol=1e-9)
    with pytest.raises(ValueError, match="2 of 3 codes"):
        mechanism.decode(np.array([0, mechanism.codes, 2**64 - 1], np.uint64))
    with pytest.raises(ValueError, match="codes must be integers"):
        mechanism.decode([0.5])


@pytest.mark.parametrize(
    "build",
    [piecewise, noise, improved, window_optimal, dct, duchi, hm, hybrid_optimal],
    ids=lambda build: build.__name__,
)
@pytest.mark.parametrize("cells", [1024, 65536])
def test_a_fine_grid_is_audited_in_closed_form(build, cells):
    mechanism = build(1.0, cells=cells)
    assert 1 - 1e-6 < tight_epsilon(mechanism) <= 1.0
    kinds, _ = mechanism.kinds(*next(iter(mechanism.pairs())))
    assert len(kinds) <= 6


@pytest.mark.parametrize("build", [piecewise, laplace, hm], ids=lambda build: build.__name__)
def test_a_grid_finer_than_any_table_is_refused(build):
    with pytest.raises(ValueError, match="cells"):
        build(1.0, cells=(1 << 20) + 1)
