"""The hybrids: reference constants, a constant variance, and no better mixture."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.mean.hybrid import CROSSING, Hybrid, hm, hybrid_optimal
from mechanisms.mean.two_point import TwoPoint, duchi
from mechanisms.mean.widths import piecewise, window_optimal
from mechanisms.mean.window import Window
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from tests.oracles import mean as oracle

FINE = 65536
NAMES = {"hm": lambda p: hm(p["eps"], FINE), "hybrid_opt": lambda p: hybrid_optimal(**renamed(p))}
CASES = [(name, entry) for name in NAMES for entry in oracle.vectors(name)]


def renamed(parameters: dict) -> dict:
    return {"epsilon": parameters["eps"], "delta": parameters["delta"], "cells": FINE}


@pytest.mark.parametrize(("name", "entry"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_reference_constants(name, entry):
    mechanism, constants = NAMES[name](entry["params"]), entry["constants"]
    for value, variance in entry["variance"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-3)
    delta, epsilon = entry["tight"]["delta"], entry["params"]["eps"]
    assert mechanism.guarantee.delta == delta
    assert delta * (1 - 1e-6) <= tight_delta(mechanism, epsilon) <= delta
    share = constants.get("alpha_pm", constants.get("beta_window"))
    if share:
        assert isinstance(mechanism, Hybrid)
        np.testing.assert_allclose(mechanism.share, share, rtol=1e-4)
        np.testing.assert_allclose(
            mechanism.window.total / mechanism.total, mechanism.share, rtol=1e-9
        )
    else:
        assert isinstance(mechanism, TwoPoint)


def test_the_crossing_is_where_piecewise_and_duchi_agree_at_zero():
    np.testing.assert_allclose(CROSSING, 0.6093524930273093, rtol=1e-12)
    gap = piecewise(CROSSING, FINE).variance(0.0) / duchi(CROSSING, FINE).variance(0.0)
    np.testing.assert_allclose(gap, 1, rtol=1e-4)
    assert isinstance(hm(math.nextafter(CROSSING, 0)), TwoPoint)
    assert isinstance(hm(CROSSING + 1e-9), Hybrid)


@pytest.mark.parametrize(
    ("epsilon", "hm_worst", "best"),
    [(0.5, 16.671, 16.671), (1, 4.2890, 4.2671), (2, 1.0423, 0.9817), (3, 0.43217, 0.36151),
     (4, 0.21898, 0.15572), (5, 0.12148, 0.07189), (8, 0.02490, 0.00836)],
)  # fmt: skip
def test_worst_variances_are_the_tabulated_ones(epsilon, hm_worst, best):
    np.testing.assert_allclose(hm(epsilon, FINE).worst_variance, hm_worst, rtol=1e-3)
    np.testing.assert_allclose(hybrid_optimal(epsilon, cells=FINE).worst_variance, best, rtol=1e-3)
    others = [window_optimal(epsilon), duchi(epsilon), hm(epsilon)]
    found = hybrid_optimal(epsilon).worst_variance
    assert found <= min(other.worst_variance for other in others) * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (2.0, 0.01), (4.0, 0.0)])
def test_the_best_mixture_has_a_variance_that_hardly_depends_on_the_value(epsilon, delta):
    mechanism = hybrid_optimal(epsilon, delta)
    variances = mechanism.variance(mechanism.grid)
    np.testing.assert_allclose(variances, variances.mean(), rtol=1e-6)


def test_no_other_mixture_is_better():
    best = hybrid_optimal(2.0, cells=24).worst_variance
    for width in range(1, 25):
        for share in np.linspace(0.02, 0.98, 49):
            assert Hybrid(2.0, 24, width, share).worst_variance > best * (1 - 1e-4)


def test_either_side_of_the_coin_is_unbiased_and_private_by_itself():
    mechanism = Hybrid(1.0, 6, 4, 0.3, 0.01)
    split = mechanism.window.codes
    for cell in range(7):
        law = mechanism.channel(cell)
        for side, chance in ((slice(split), 0.3), (slice(split, None), 0.7)):
            np.testing.assert_allclose(law[side].sum(), chance, rtol=1e-9)
            mean = law[side] @ mechanism.decoded[side] / law[side].sum()
            np.testing.assert_allclose(mean, mechanism.grid[cell], atol=1e-12)
    for side in (mechanism.window, mechanism.points):
        ends = [side.weights(cell).astype(object) for cell in (0, 6)]
        surplus = np.maximum(ends[0] - ends[1] * math.e, 0).sum()
        np.testing.assert_allclose(surplus / side.total, 0.01, rtol=1e-6)


def test_draws_on_either_side_of_the_coins_boundary():
    mechanism = Hybrid(1.0, 6, 4, 0.3)
    window, points = mechanism.window, mechanism.points

    class Boundary:
        def integers(self, bound: int, size: int) -> np.ndarray:
            assert bound == window.total + points.total
            ends = [0, window.inside_mass, window.total - 1, window.total, bound - 1]
            return np.array(ends, np.uint64)

    for cell in (0, 2, 6):
        first_outside, last_outside = (0 if cell else 4), (9 if cell < 6 else 5)
        expected = [cell, first_outside, last_outside, window.codes + 1, window.codes]
        assert mechanism.perturb([cell] * 5, Boundary()).tolist() == expected


@pytest.mark.parametrize("epsilon", [36.0, 60.0, 700.0])
def test_where_too_few_words_are_left_for_the_points_the_window_stands_alone(epsilon):
    assert isinstance(hm(30.0), Hybrid)
    for mechanism in (hm(epsilon), hybrid_optimal(epsilon)):
        assert isinstance(mechanism, Window)
        assert tight_epsilon(mechanism) <= epsilon
        assert mechanism.worst_variance < 1e-6


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        ((1.0, 10, 11, 0.5), r"width must lie in 1 \.\. 10"),
        ((1.0, 10, 0, 0.5), "width must lie in"),
        ((1.0, 10, 2.5, 0.5), "width must be an integer"),
        ((1.0, 10, 5, 0.0), "share must be above 0"),
        ((1.0, 10, 5, 1.0), "share must be above 0"),
        ((1.0, 10, 5, math.nan), "share must be above 0"),
        ((1.0, 10, 5, 1e-19), "share 1e-19 too close"),
        ((1e-19, 10, 5, 0.5), "epsilon 1e-19 is too small"),
    ],
)
def test_what_cannot_be_is_refused(arguments, limit):
    with pytest.raises(ValueError, match=limit):
        Hybrid(*arguments)
