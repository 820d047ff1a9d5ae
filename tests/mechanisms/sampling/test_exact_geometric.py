"""Noise without a table: its law, its tails, and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.sampling import exact_geometric
from mechanisms.sampling.exact_geometric import ExactGeometric
from tests.oracles.statistics import follows, sample_size

DECAYS = [Fraction(1), Fraction(2, 7), Fraction(7, 3), Fraction(11184810, 1 << 25)]


def law(decay: Fraction, reach: int) -> np.ndarray:
    """(2 reach + 1,) P(-reach or less), P(-reach + 1), .., P(reach or more)."""
    a = math.exp(-float(decay))
    side = (1 - a) / (1 + a) * a ** np.arange(float(reach + 1))
    side[-1] = a**reach / (1 + a)
    return np.concatenate([side[:0:-1], side])


@pytest.mark.parametrize("decay", DECAYS)
def test_draws_follow_the_law_and_not_one_that_falls_otherwise(decay: Fraction) -> None:
    reach = math.ceil(5 / float(decay))
    own, other = law(decay, reach), law(decay * Fraction(13, 10), reach)
    size = sample_size(own, other)
    drawn = ExactGeometric.falling(decay).draw(size, SeededRandom(7))
    counts = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=own.size)
    assert follows(counts, own)
    assert not follows(counts, other)


@pytest.mark.parametrize("bits", [64, 128])
def test_powers_are_those_of_e(bits: int) -> None:
    """Between two sums of the series of e^-1, which takes turns about it."""
    powers = exact_geometric._powers(bits)
    terms = [Fraction((-1) ** i, math.factorial(i)) for i in range(80)]
    ends = sorted((sum(terms), sum(terms[:-1])))
    for k, power in enumerate(powers, 1):
        below, above = (math.floor(end**k * (1 << bits)) for end in ends)
        assert below == power == above
    assert ends[1] ** (len(powers) + 1) < Fraction(1, 1 << bits)


class Words:
    """A source whose words are these."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, size: int) -> np.ndarray:
        drawn, self.left = self.left[:size], self.left[size:]
        return np.array(drawn, np.uint64)


def test_more_bits_are_drawn_where_the_first_leave_it_open() -> None:
    third, last = exact_geometric._powers(64)[2], (1 << 64) - 1
    finer = exact_geometric._powers(128)
    for words, times in (
        ([third - 1], 3), ([third + 1], 2), ([third, 0], 3), ([third, last], 2),
        ([third, finer[2] & last, 0], 3), ([third, finer[2] & last, last], 2),
        ([0, last], 44), ([0, finer[60] + 1], 60), ([0, 0, last], 88),
    ):  # fmt: skip
        source = Words(*words)
        assert exact_geometric._survived(1, source).tolist() == [times]  # type: ignore[arg-type]
        assert not source.left


@pytest.mark.parametrize("decay", DECAYS)
def test_figures_are_those_of_the_table(decay: Fraction) -> None:
    noise = ExactGeometric.falling(decay)
    numbers = noise.first + np.arange(noise.pmf.size)
    assert noise.var() == pytest.approx(float(noise.pmf @ numbers**2.0), rel=1e-9)
    for q in (0.3, 0.05, 0.025, 1e-4, 1e-9):
        k = noise.isf(q)
        assert float(noise.pmf[numbers > k].sum()) <= q * (1 + 1e-9)
        assert k == 0 or float(noise.pmf[numbers > k - 1].sum()) > q * (1 - 1e-9)
    for k in (-9, -1, 0, 3):
        assert noise.below(k) == pytest.approx(float(noise.pmf[numbers <= k].sum()), rel=1e-9)


def test_a_law_with_a_long_tail_is_drawn_and_not_tabulated() -> None:
    noise = ExactGeometric(1, 1 << 40)
    drawn = noise.draw(1000, SeededRandom(1))
    assert 0.5 < np.abs(drawn).mean() / (1 << 40) < 2
    with pytest.raises(ValueError, match="outcomes at the most"):
        _ = noise.pmf


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 0), (1, 1 << 57), (-1, 2)])
def test_what_is_no_law_is_refused(numerator: int, denominator: int) -> None:
    with pytest.raises(ValueError, match="quotient of positive integers"):
        ExactGeometric(numerator, denominator)
