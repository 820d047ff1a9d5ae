"""The optimal mean: that it is, exact privacy, exact unbiasedness, and the sampler's last bit."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.mean.optimal import Optimal
from mechanisms.mean.optimal_table import WORD, Table, best_table, optimal_values
from mechanisms.randomness import SeededRandom
from tests.oracles.optimal_mean import (
    hybrid_optimal,
    hybrid_worst,
    least_worst_variance,
    programme,
)

EPSILONS = [0.05, 0.5, 1.0, 2.0, 4.0, 8.0]


@pytest.fixture(params=EPSILONS, ids=str)
def mechanism(request):
    return Optimal(request.param)


# ---- the optimum -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "target"), [(0.5, 16.05), (1.0, 4.0), (2.0, 0.868), (4.0, 0.1285)]
)
def test_worst_variance_reaches_the_target(epsilon, target):
    assert Optimal(epsilon).worst_variance <= target


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_no_unbiased_channel_is_better_by_more_than_the_grid_costs(epsilon):
    mechanism = Optimal(epsilon)
    reach = mechanism.decoded[-1]
    least = programme(epsilon, 21, np.linspace(-reach, reach, 81))
    assert 0.998 * least <= mechanism.worst_variance <= 1.003 * least


@pytest.mark.parametrize("epsilon", np.geomspace(0.05, 8, 9).tolist())
def test_beats_what_mixes_a_window_with_two_points(epsilon):
    worst = Optimal(epsilon).worst_variance
    assert worst < hybrid_optimal(epsilon) <= hybrid_worst(epsilon, math.exp(-epsilon / 2))


def test_the_widths_that_are_known_are_the_best():
    """The least variance of a width has one minimum, so neighbours tell."""
    between = np.random.default_rng(3).uniform([0.05, 4.0], [4.0, 8.0], (8, 2)).ravel()
    for epsilon in (0.05, 0.79, 0.7899, 4.0, 4.0001, 7.84, *between):
        best = best_table(float(epsilon))
        for width in {best.width - 1, min(best.width + 1, best.steps)}:
            assert Table.of(float(epsilon), best.steps, width).variance >= best.variance, epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_other_values_have_a_lower_worst_variance(epsilon):
    """By more than the gap, for windows of this shape: weak duality proves it."""
    table = best_table(epsilon)
    q, p = table.outside / WORD, table.inside / WORD
    law = np.full((table.steps + 1, table.steps + table.width), q)
    for i in range(table.steps + 1):
        law[i, i : i + table.width] = p
    law = np.vstack([law, (law[:-1] + law[1:]) / 2])
    y, variance = optimal_values(q, p, table.steps, table.width)
    assert worst(law, y) == pytest.approx(variance, rel=1e-9)
    bound = least_worst_variance(law, y, end=law[table.steps])
    assert bound <= variance * (1 + 1e-9)
    assert variance <= bound * (1 + 1e-3)
    evenly = np.linspace(-1, 1, y.size)  # what a plain window decodes to
    assert worst(law, evenly / (law[table.steps] @ evenly)) > bound * 1.04


def worst(law, y) -> float:
    """The largest variance of any row."""
    return float((law @ y**2 - (law @ y) ** 2).max())


def test_machines_that_round_differently_agree_on_the_values():
    for epsilon in EPSILONS:
        table = best_table(epsilon)
        q, p = table.outside / WORD, table.inside / WORD
        one, _ = optimal_values(q, p, table.steps, table.width)
        other, _ = optimal_values(q * (1 + 2**-50), p * (1 - 2**-50), table.steps, table.width)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9 * one[-1])


# ---- exactness -------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "cells"), [(0.5, 3), (2.0, 5), (8.0, 4)])
def test_no_pair_of_cells_is_told_apart_more_easily_than_the_ends(epsilon, cells):
    """One report exactly, and against a blanket of one or two other users."""
    mechanism = Optimal(epsilon, cells)
    laws = [[Fraction(int(x), WORD**2) for x in mechanism.weights(c)[0]] for c in range(cells + 1)]
    multiplier = exponential_bounds(epsilon)[0]
    for p, q in permutations(laws, 2):
        assert all(a <= multiplier * b for a, b in zip(p, q, strict=True))
    table = np.array(laws, float)
    least = table.min(axis=0)
    assert list(mechanism.pairs()) == [(0, cells)]
    for scale, others in product((1.0, math.exp(epsilon / 2)), (0, 1, 2)):
        gaps = {
            (i, j): hidden((table[i] - scale * table[j]) / least, least / least.sum(), others)
            for i, j in permutations(range(cells + 1), 2)
        }
        assert gaps[0, cells] == pytest.approx(gaps[cells, 0], abs=1e-12)
        assert max(gaps.values()) <= gaps[0, cells] + 1e-12


def hidden(excess, law, others) -> float:
    """E (sum of the excess over 1 + others draws)_+."""
    values, chances = excess, law
    for _ in range(others):
        values = (values[:, None] + excess).ravel()
        chances = (chances[:, None] * law).ravel()
        values, place = np.unique(values.round(12), return_inverse=True)
        chances = np.bincount(place, chances)
    return float(np.maximum(values, 0) @ chances)


def test_worst_variance_is_that_of_the_worst_value(mechanism):
    fine = mechanism.variance(np.linspace(-1, 1, 200_001))
    assert fine.max() <= mechanism.worst_variance * (1 + 1e-12)
    assert fine.max() >= mechanism.worst_variance * (1 - 1e-6)


# ---- the sampler -----------------------------------------------------------------------------


def test_every_word_has_its_slot(mechanism):
    """Sixteen bits decide where they can, and agree with all 64; slots have exact widths."""
    table, steps = mechanism.table, mechanism.table.steps
    borders = [k * table.outside for k in range(steps + 1)]
    borders += [borders[-1] + k * table.inside for k in range(1, table.width + 1)]
    assert borders[-1] == WORD
    first, last = borders[:-1], [border - 1 for border in borders[1:]]
    for words in (first, last):
        slots = mechanism._slot(np.array(words, np.uint64))
        np.testing.assert_array_equal(slots, np.arange(mechanism.codes))
    words = SeededRandom(4).words(200_000)
    guessed, exact = mechanism._guide[words >> np.uint64(48)], mechanism._slot(words)
    undecided = guessed == mechanism.codes
    np.testing.assert_array_equal(guessed[~undecided], exact[~undecided])
    assert 0 < undecided.sum() < 1000


class Rigged:
    """A generator that returns what it is told to."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def words(self, size):
        answer = np.array(self.answers.pop(0), np.uint64)
        assert answer.size == size
        return answer


def test_a_slot_that_sixteen_bits_leave_open_is_decided_by_the_next_48():
    mechanism = Optimal(1.0)
    for border, below in ((mechanism.table.outside, 0), (5 * mechanism.table.outside, 4)):
        open_bits, rest = divmod(border, 1 << 48)
        for offset, slot in ((-1, below), (0, below + 1)):
            rng = Rigged([open_bits], [rest + offset << 16])
            assert mechanism._slots(1, rng).tolist() == [slot]


def test_a_position_that_sixteen_bits_leave_open_is_decided_by_the_next_48():
    mechanism = Optimal(1.0, cells=10)
    cells = np.array([3])
    chance, low = int(mechanism._chance[3]), int(mechanism._lower[3])
    bits, rest = divmod(chance, 1 << 48)
    assert rest > 0
    for word, start in ((rest - 1 << 16 | 65535, low + 1), (rest << 16, low)):
        assert mechanism._starts(cells, Rigged([bits], [word])).tolist() == [start]
    assert mechanism._starts(cells, Rigged([bits - 1], [])).tolist() == [low + 1]
    assert mechanism._starts(cells, Rigged([bits + 1], [])).tolist() == [low]


# ---- as a mechanism --------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0499, 8.001, 1e-30, 700.0])
def test_epsilon_outside_the_range_is_refused_with_the_nearest_inside(epsilon):
    nearest = "0.05" if epsilon < 1 else "8.0"
    with pytest.raises(ValueError, match=f"epsilon must lie in 0.05 .. 8.0.*works is {nearest}$"):
        Optimal(epsilon)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (lambda t: {"inside": t.inside + 1}, "add up"),
        (lambda t: {"inside": t.inside + t.steps, "outside": t.outside - t.width}, "ratio"),
        (lambda t: {"points": t.points * (1 + 1e-11)}, "span"),
        (lambda t: {"points": t.points[[0, 2, 1, *range(3, t.steps + 1)]]}, "span"),
        (lambda t: {"points": t.points * math.nan}, "span"),
    ],
)
def test_a_table_that_does_not_verify_is_not_shipped(change, claim):
    table = best_table(1.0)
    table.verify(1.0)
    with pytest.raises(ArithmeticError, match=claim):
        replace(table, **change(table)).verify(1.0)


_TABLES = """
import hashlib
from mechanisms.mean.optimal import Optimal
made = [Optimal(epsilon, 64) for epsilon in (0.3, 1.0, 2.7, 4.5, 6.0, 7.9)]
told = [(m.table.decoded, m.table.points, m._chance, m._lower) for m in made]
print(hashlib.sha256(b"".join(part.tobytes() for parts in told for part in parts)).hexdigest())
"""
_OTHER_PROCESSORS = [
    {"OPENBLAS_CORETYPE": "Prescott"},
    {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4"},
    {"OPENBLAS_NUM_THREADS": "2"},
]


def test_every_processor_makes_the_same_tables() -> None:
    """Sums in another order end in other digits, and reports would be those of other mechanisms."""
    told = {
        subprocess.run(
            [sys.executable, "-c", _TABLES], env=os.environ | other, capture_output=True, text=True,
            check=True,
        ).stdout
        for other in [{}, *_OTHER_PROCESSORS]
    }  # fmt: skip
    assert len(told) == 1
