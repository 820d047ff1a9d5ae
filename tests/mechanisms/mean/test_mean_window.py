"""The window channel against its definition, and the widths against the reference constants."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.mean import widths
from mechanisms.mean.window import Window, WindowLaw
from mechanisms.papers import windows
from mechanisms.papers.windows import improved_shape, improved_slack
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from tests.oracles import mean as oracle

FINE = 65536
BUILDERS = {
    "pm": lambda p: widths.piecewise(p["eps"], FINE),
    "window_opt": lambda p: widths.window_optimal(p["eps"], p["delta"], FINE),
    "im_corrected_tau": lambda p: windows.improved(p["eps"], p["delta"], FINE),
    "nm_corrected": lambda p: widths.noise(p["eps"], p["delta"], FINE),
    "dct_ldp_author_geometry": lambda p: windows.dct(p["eps"], FINE),
}
CASES = [(name, entry) for name in BUILDERS for entry in oracle.vectors(name)]


def named(case) -> str:
    return "-".join([case[0], *map(str, case[1]["params"].values())])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_fine_grid_has_the_variance_of_the_continuous_mechanism(case):
    name, entry = case
    mechanism = BUILDERS[name](entry["params"])
    for value, variance in entry["variance"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-3)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_privacy_is_spent_exactly(case):
    name, entry = case
    mechanism, epsilon = BUILDERS[name](entry["params"]), entry["params"]["eps"]
    delta = entry["tight"]["delta"]
    assert mechanism.guarantee.delta == delta
    assert delta * (1 - 1e-6) <= tight_delta(mechanism, epsilon) <= delta
    if not delta:
        assert epsilon * (1 - 1e-9) < tight_epsilon(mechanism) <= epsilon


@pytest.mark.parametrize("entry", oracle.vectors("pm"), ids=lambda entry: str(entry["params"]))
def test_piecewise_has_its_papers_constants(entry):
    mechanism, constants = widths.piecewise(entry["params"]["eps"], FINE), entry["constants"]
    law, reach = mechanism.law, float(mechanism.decoded[-1])
    density = law.codes / (2 * constants["C"] * law.total)
    np.testing.assert_allclose(reach, constants["C"], rtol=1e-4)
    np.testing.assert_allclose(law.inside * density, constants["p"], rtol=1e-4)
    np.testing.assert_allclose(law.outside * density, constants["q"], rtol=1e-4)
    np.testing.assert_allclose(mechanism.constants()["inside"], constants["P_in"], rtol=1e-4)


@pytest.mark.parametrize("entry", oracle.vectors("window_opt"), ids=lambda e: str(e["params"]))
def test_the_best_width_is_the_best(entry):
    constants = entry["constants"]
    epsilon, delta = entry["params"]["eps"], entry["params"]["delta"]
    fine = widths.window_optimal(epsilon, delta, FINE)
    assert abs(fine.width / FINE - constants["m"]) < 1e-3  # the optimum is flat
    np.testing.assert_allclose(float(fine.law.slope), constants["k"], rtol=1e-3)
    coarse = widths.window_optimal(epsilon, delta, 40)
    every = [Window(epsilon, 40, width, delta).variance(1.0) for width in range(1, 80)]
    np.testing.assert_allclose(coarse.variance(1.0), min(every), rtol=1e-12)


@pytest.mark.parametrize("name", ["im_published", "im_corrected_tau"])
def test_improved_mechanism_has_its_papers_constants(name):
    for entry in oracle.vectors(name):
        parameters, constants = entry["params"], entry["constants"]
        shape = improved_shape(parameters["eps"], constants.get("tau", parameters["delta"]))
        found = [shape.outer, shape.inner, shape.centre, shape.reach]
        np.testing.assert_allclose(found, [constants[k] for k in "qpaC"], rtol=1e-9)
        if "tau" in constants:
            slack = improved_slack(parameters["eps"], parameters["delta"])
            np.testing.assert_allclose(slack, constants["tau"], rtol=1e-9)


def test_square_wave_has_its_papers_width():
    for entry in oracle.vectors("nm_corrected"):
        b = widths.square_wave_width(entry["params"]["eps"])
        np.testing.assert_allclose(b, entry["constants"]["b"], rtol=1e-9)
    around = [widths.square_wave_width(e) for e in (9.9999e-6, 1.00001e-5)]
    np.testing.assert_allclose(*around, rtol=1e-9)  # where the series takes over
    assert 0.49999999 < widths.square_wave_width(1e-9) < 0.5
    assert 0 < widths.square_wave_width(1e5) < 1e-30


def test_improved_is_piecewise_without_delta():
    for epsilon in (1e-3, 0.5, 2.0, 40.0):
        assert windows.improved(epsilon) == widths.piecewise(epsilon)


@pytest.mark.parametrize(
    ("epsilon", "alpha", "variance"),
    [(0.5, 2.06, 65.6), (1.0, 1.07, 12.9), (2.0, 0.59, 2.09), (4.0, 0.43, 0.226)],
)
def test_dct_may_choose_its_own_spread(epsilon, alpha, variance):
    tuned = windows.dct(epsilon, alpha=None)
    np.testing.assert_allclose(1024 / tuned.width / epsilon / 2, alpha, rtol=0.02)
    np.testing.assert_allclose(tuned.worst_variance, variance, rtol=2e-3)
    nearby = [windows.dct(epsilon, alpha=alpha * change).worst_variance for change in (0.8, 1.25)]
    assert tuned.worst_variance < min(nearby)


@pytest.mark.parametrize(
    ("epsilon", "coarse"), [(0.5, 1e-4), (1.0, 1e-4), (2.0, 4e-4), (4.0, 3e-3)]
)
def test_the_default_grid_costs_next_to_nothing(epsilon, coarse):
    fine = widths.window_optimal(epsilon, cells=1 << 20)
    ratio = widths.window_optimal(epsilon).worst_variance / fine.worst_variance
    assert 1 - 1e-5 < ratio < 1 + coarse


@pytest.mark.parametrize(
    ("width", "margin", "delta"),
    [(3, 0, 0.0), (1, 0, 0.02), (9, 0, 0.01), (4, 2, 0.0), (7, 1, 0.1)],
)
def test_channel_is_the_definitions(width, margin, delta):
    mechanism = Window(0.8, 5, width, delta, margin)
    law = mechanism.law
    chance = Fraction(law.inside_mass, law.total)
    for cell in range(6):
        assert oracle.law(mechanism, cell) == oracle.window(5, width, margin, chance, cell)


@pytest.mark.parametrize("law", [WindowLaw(5, 3, 0, 7, 2), WindowLaw(4, 6, 2, 3, 1)], ids=repr)
def test_every_draw_leads_where_the_weights_say(law):
    """All draws there are: each code gets exactly its weight of them."""
    draws = np.arange(law.total, dtype=np.uint64)
    for cell in range(law.cells + 1):
        codes = law.pick(draws, np.full(law.total, cell, np.uint64))
        np.testing.assert_array_equal(np.bincount(codes.astype(int)), law.weights(cell))


def test_moments_in_doubles_are_those_of_the_integers():
    for epsilon, delta, cells, width, margin in [
        (1.0, 0.0, 100, 70, 0),
        (0.3, 0.02, 30, 50, 0),
        (3.0, 0.0, 64, 9, 5),
        (40.0, 0.0, 64, 9, 0),
    ]:
        law = Window(epsilon, cells, width, delta, margin).law
        found = widths.moments(epsilon, delta, cells, np.array([float(width)]), margin)
        np.testing.assert_allclose(
            np.ravel(found), [float(law.slope), float(law.spread)], rtol=1e-9
        )


@pytest.mark.parametrize(
    ("build", "arguments", "limit"),
    [
        (widths.noise, (0.04, 0.01), r"4 delta = 0\.04"),
        (widths.noise, (0.03, 0.01), r"4 delta = 0\.04"),
        (windows.improved, (0.07, 0.01), r"2 ln\(1 \+ 4 delta\) = 0\.0784414"),
        (windows.improved, (2 * math.log(2), 0.25), r"2 ln\(1 \+ 4 delta\) = 1\.38629"),
        (windows.dct, (1e-6,), r"epsilon must be at least 1\.2\d+e-05"),
        (windows.dct, (1.0, 1024, 0.0), "alpha must be"),
        (windows.dct, (1.0, 1024, math.nan), "alpha must be"),
        (Window, (1.0, 10, 0), "width must be at least 1"),
        (Window, (1.0, 10, 2.5), "width must be an integer"),
        (Window, (1.0, 10, 5, 0.0, -1), "margin must be at least 0"),
        (Window, (1.0, 10, 20, 0.5), r"delta must be below 0\.5"),
        (Window, (1.0, 1 << 20, 1 << 24), "16777216; use fewer cells or a narrower window"),
    ],
)
def test_what_cannot_be_is_refused_with_the_limit(build, arguments, limit):
    with pytest.raises(ValueError, match=limit):
        build(*arguments)


def test_just_inside_the_limits_it_works():
    assert widths.noise(0.0400001, 0.01).worst_variance > 0
    inside = windows.improved(0.0785, 0.01)
    assert 0.01 * (1 - 1e-9) < tight_delta(inside, 0.0785) <= 0.01
    assert windows.dct(1.3e-5).codes <= 1 << 24
    assert Window(1.0, 10, 20, 0.49).guarantee.delta == 0.49
