"""Two independent bins of any laws: plain sums over all outcomes, and errors on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.privacy.binomial_edges import binomial_sum, seldom_below
from mechanisms.privacy.dummy_laws import binomial, negative_binomial, poisson
from mechanisms.privacy.two_bins import BinLaw, two_bins_delta, two_bins_epsilon

weights = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


def law(occupied: list[int], free: list[int]) -> BinLaw:
    return BinLaw(np.array(occupied) / sum(occupied), np.array(free) / sum(free))


def plain(one: BinLaw, other: BinLaw, epsilon: float) -> float:
    first, second = np.outer(one.occupied, other.free), np.outer(one.free, other.occupied)
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@given(weights, weights, weights, weights, st.floats(0, 3))
def test_any_two_laws(a: list[int], b: list[int], c: list[int], d: list[int], x: float) -> None:
    one, other = law(a, b), law(c, d)
    truth = plain(one, other, x)
    lower, upper = two_bins_delta(one, other, x)
    assert lower <= truth + 1e-14
    assert truth - 1e-14 <= upper <= truth + 1e-9
    assert upper - lower <= 1e-9


def test_stated_errors_widen_the_bracket() -> None:
    occupied, free = np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.4, 0.2])
    sharp = two_bins_delta(BinLaw(occupied, free), BinLaw(occupied, free), 0.2)
    for errors in ({"missing": 1e-3}, {"relative": 1e-3}, {"distance": 1e-3}, {"hidden": 1e-3}):
        blurred = BinLaw(occupied, free, **errors)
        lower, upper = two_bins_delta(blurred, blurred, 0.2)
        assert lower <= sharp[0]
        assert sharp[1] < upper < sharp[1] + 0.02


@settings(max_examples=30)
@given(st.floats(0.5, 60), st.floats(1e-4, 0.3), st.floats(0, 1.5))
def test_merged_outcomes_bracket_all_of_them(mean: float, step: float, epsilon: float) -> None:
    fine = poisson(mean).bin_law
    coarse = fine.merged(step)
    assert coarse.occupied.size <= fine.occupied.size
    lower, upper = two_bins_delta(coarse, coarse, epsilon)
    exact = two_bins_delta(fine, fine, epsilon)
    assert lower <= exact[1]
    assert exact[0] <= upper
    assert upper <= two_bins_delta(coarse, coarse, max(epsilon - 2 * step, 0))[1] + (
        2 * step if epsilon < 2 * step else 0
    )


def test_epsilon_is_delta_backwards() -> None:
    bin_law = poisson(40.0).bin_law
    lower, upper = two_bins_epsilon(bin_law, 1e-5)
    assert two_bins_delta(bin_law, bin_law, upper)[1] <= 1e-5
    assert two_bins_delta(bin_law, bin_law, lower)[0] >= 1e-5 * (1 - 1e-6)
    assert upper == pytest.approx(lower, rel=1e-8)
    assert two_bins_epsilon(bin_law, 0.9) == (0.0, pytest.approx(0, abs=1e-9))


def test_what_nothing_hides_has_no_epsilon() -> None:
    bare = BinLaw(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert two_bins_epsilon(bare, 1e-6) == (512.0, math.inf)
    assert two_bins_delta(bare, bare, 900.0) == (0.0, 1.0)


def test_negative_binomial_window() -> None:
    """Against rationals: P(k) = C(k + 2, 2) (1 - p)^3 p^k at p = 3/4."""
    found = negative_binomial(3, 0.75)
    assert found.mean == pytest.approx(9)
    for k in (0, 1, 7, 60):
        truth = Fraction(math.comb(k + 2, 2)) * Fraction(1, 64) * Fraction(3, 4) ** k
        assert found.pmf[k - found.first] == pytest.approx(float(truth), rel=1e-12)
    small = negative_binomial(0.05, 0.9)
    assert (small.first, small.mean) == (0, pytest.approx(0.45))


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0, 1), st.floats(0, 1))
def test_sums_of_binomials(n: int, m: int, p: float, q: float) -> None:
    found = binomial_sum((n, p), (m, q), (3, 1.0), (5, 0.0))
    plain_law = np.ones(1)
    for size, chance in ((n, p), (m, q)):
        for _ in range(size):
            plain_law = np.convolve(plain_law, [1 - chance, chance])
    truth = np.zeros(found.first + found.pmf.size + 90)
    truth[3 : 3 + plain_law.size] = plain_law
    window = truth[found.first : found.first + found.pmf.size]
    assert np.abs(found.pmf - window).sum() / 2 <= found.distance + found.missing + 1e-13
    assert truth.sum() - window.sum() <= found.distance + found.missing + 1e-13


@given(st.integers(0, 3000), st.floats(0, 1), st.floats(1e-20, 0.4))
def test_numbers_that_are_seldom_missed(n: int, chance: float, tail: float) -> None:
    least = seldom_below(n, chance, tail)
    assert 0 <= least <= n
    if 0 < chance < 1 and n:
        found = binomial(n, chance)
        counts = found.first + np.arange(found.pmf.size)
        assert found.pmf[counts < least].sum() <= tail
        assert found.pmf[counts <= least].sum() + 1e-11 >= min(tail, 1 - 1e-9)


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("vectors", lambda: BinLaw(np.array([0.5, 0.5]), np.array([1.0]))),
    ("vectors", lambda: BinLaw(np.array([0.5, math.nan]), np.array([0.5, 0.5]))),
    ("more than 1", lambda: BinLaw(np.array([0.9, 0.9]), np.array([0.5, 0.5]))),
    ("missing", lambda: BinLaw(np.ones(1), np.ones(1), missing=math.nan)),
    ("hidden", lambda: BinLaw(np.ones(1), np.ones(1), hidden=-1.0)),
    ("epsilon must", lambda: two_bins_delta(law([1], [1]), law([1], [1]), math.nan)),
    ("delta must", lambda: two_bins_epsilon(law([1], [1]), math.nan)),
    ("shape must", lambda: negative_binomial(0.0, 0.5)),
    ("ratio must", lambda: negative_binomial(1.0, 1.0)),
    ("ratio must", lambda: negative_binomial(1.0, math.nan)),
    ("mean must", lambda: negative_binomial(1e9, 0.999)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()
