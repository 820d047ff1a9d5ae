"""EM and EMS: the published vectors, the optimum's certificate, and products in linear time."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushbeam.studies.systems.bins import UniformBins, bin_centres, mean_of_bins
from mechanisms.frequency.hashed_responses import hadamard, k_ary
from mechanisms.mean.window import Window
from mechanisms.postprocess.channel_products import Dense, SlidingWindow
from mechanisms.postprocess.expectation_maximisation import (
    bins_for,
    fit,
    smoothed,
)
from mechanisms.randomness import SeededRandom

VECTORS = json.loads(Path(__file__).parents[2].joinpath("data/vectors.json").read_text())["nm_em"]


def wave(epsilon: float, delta: float, inputs: int, codes: int) -> Dense:
    """NM's channel with the constants that its paper prints, for values and reports in bins.

    A value x of [0, 1] becomes y of [-b, 1 + b] with density p where |y - x| <= b, and q elsewhere.
    """
    e = math.exp(epsilon)
    b = (epsilon * (e + delta) - e + 1) / (2 * (e * (e - 1 - epsilon) - delta * epsilon))
    mass = 1 + 2 * b * e
    p, q = (e + delta) / mass, (1 - 2 * b * delta) / mass
    values, reports = np.linspace(0, 1, inputs + 1), np.linspace(-b, 1 + b, codes + 1)[:, None]

    def nearer(u: float) -> np.ndarray:
        """The area of each pair of bins where y - x <= u."""
        corners = np.square(np.maximum(u + values - reports, 0)) / 2
        return -np.diff(np.diff(corners, axis=0), axis=1)

    covered = (nearer(b) - nearer(-b)) * inputs
    return Dense(q * (1 + 2 * b) / codes + (p - q) * covered)


def window(epsilon: float, cells: int, width: int, margin: int = 0) -> SlidingWindow:
    mass = width * math.exp(epsilon) + cells + 2 * margin
    return SlidingWindow(cells, width, math.exp(epsilon) / mass, 1 / mass, margin)


def table(products) -> np.ndarray:
    """The dense channel, from its products with unit vectors."""
    return np.stack([products.apply(unit) for unit in np.eye(products.inputs)], axis=1)


def slow_steps(counts, matrix, steps: int, smooth: bool) -> np.ndarray:
    """Algorithm 3 as it is written, with loops."""
    d = matrix.shape[1]
    f = np.full(d, 1 / d)
    for _ in range(steps):
        law = matrix @ f
        f = np.array([f[i] * sum(counts * matrix[:, i] / law) for i in range(d)])
        f /= f.sum()
        if smooth:
            inner = [f[i - 1] / 4 + f[i] / 2 + f[i + 1] / 4 for i in range(1, d - 1)]
            f = np.array([2 * f[0] / 3 + f[1] / 3, *inner, f[-2] / 3 + 2 * f[-1] / 3])
            f /= f.sum()
    return f


def drawn(law, n: int, seed: int) -> np.ndarray:
    """Counts of n draws from a law."""
    dice = SeededRandom(seed).words(n) * 2.0**-64
    return np.bincount(np.searchsorted(np.cumsum(law)[:-1], dice), minlength=len(law))


def beta(bins: int) -> np.ndarray:
    """The beta(2, 5) law on equal bins of [0, 1]."""
    x = np.linspace(0, 1, bins + 1)
    return np.diff(1 - (1 - x) ** 6 - 6 * x * (1 - x) ** 5)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: f"epsilon {case['params']['eps']}")
def test_vectors(case):
    params = case["params"]
    products = wave(params["eps"], params["delta"], params["dx"], params["dy"])
    np.testing.assert_allclose(products.matrix, case["M"], atol=1e-13)
    for name, expected in case["em"].items():
        kind, steps = name.split("_")
        for channel in (products, products.matrix):
            ours = fit(params["counts"], channel, kind == "EMS", tolerance=0, iterations=int(steps))
            assert ours.iterations == int(steps)
            np.testing.assert_allclose(ours.distribution, expected["f"], rtol=1e-6, atol=1e-12)
            assert ours.log_likelihood == pytest.approx(expected["loglik"], abs=1e-6)
            assert mean_of_bins(ours.distribution) == pytest.approx(expected["mean"], abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 60), st.integers(0, 9), st.floats(0, 8),
    st.integers(0, 2**31),
)  # fmt: skip
def test_a_window_by_running_sums_is_the_window(cells, width, margin, epsilon, seed):
    products = window(epsilon, cells, width, margin)
    k, j = np.ogrid[-margin : products.codes - margin, : products.inputs]
    dense = np.where((j <= k) & (k < j + width), products.inside, products.outside)
    agree(products, dense, seed)


@pytest.mark.parametrize("margin", [0, 3])
def test_a_window_mechanism_has_these_products(margin):
    mechanism = Window(epsilon=1.0, cells=24, width=11, delta=1e-3, margin=margin)
    agree(mechanism.law.products, Dense.of(mechanism).matrix, seed=6)


@pytest.mark.parametrize(("cells", "bins"), [(1, 1), (12, 3), (12, 12), (64, 16)])
def test_bins_are_the_average_of_their_values(cells, bins):
    """Against many values in each bin, each rounded stochastically to the grid."""
    products = UniformBins(window(1.0, cells, 5), bins)
    values = (np.arange(1200 * bins) + 0.5) / (1200 * bins) * cells
    rounding = np.maximum(0, 1 - np.abs(np.arange(cells + 1)[:, None] - values))
    by_bin = rounding.reshape(cells + 1, bins, 1200).mean(axis=2)
    agree(products, table(window(1.0, cells, 5)) @ by_bin, seed=1)


def agree(products, dense, seed: int) -> None:
    """The products are those of the table, from both sides."""
    assert dense.shape == (products.codes, products.inputs)
    np.testing.assert_allclose(dense.sum(axis=0), 1, rtol=1e-9)
    f = SeededRandom(seed).words(products.inputs) * 2.0**-64
    w = SeededRandom(seed + 1).words(products.codes) * 2.0**-64
    np.testing.assert_allclose(products.apply(f), dense @ f, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(products.adjoint(w), dense.T @ w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("smooth", [False, True])
def test_equals_the_loops(smooth):
    products = window(1.0, 15, 7)
    counts = drawn(products.apply(beta(16)), 5000, seed=3)
    for steps in (1, 2, 17):
        ours = fit(counts, products, smooth, tolerance=0, iterations=steps).distribution
        np.testing.assert_allclose(
            ours, slow_steps(counts, table(products), steps, smooth), rtol=1e-9
        )


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_likelihood_never_falls(epsilon, accelerate):
    products = UniformBins(window(epsilon, 64, 40), 32)
    counts = drawn(products.apply(beta(32)), 10_000, seed=5)
    f, last = None, -math.inf
    for _ in range(150):
        step = fit(counts, products, iterations=1, start=f, accelerate=accelerate)
        assert step.log_likelihood >= last - 1e-12 * abs(step.log_likelihood)
        f, last = step.distribution, step.log_likelihood


@pytest.mark.parametrize("accelerate", [False, True])
def test_the_limit_is_the_maximum(accelerate):
    """Its certificate: sum_j n_j M_ji / (M f)_j <= n for all i bounds the likelihood left over.

    The likelihood is concave, so no distribution is better by more than n times the excess.
    """
    products = window(2.0, 15, 6)
    counts = drawn(products.apply(beta(16)), 20_000, seed=9)
    best = fit(counts, products, tolerance=1e-10, iterations=100_000, accelerate=accelerate)
    assert best.converged
    gradient = products.adjoint(counts / products.apply(best.distribution))
    assert gradient.max() - counts.sum() < 0.01
    assert (gradient * best.distribution).sum() == pytest.approx(counts.sum(), rel=1e-9)


def test_acceleration_needs_fewer_steps_for_the_same_likelihood():
    products = UniformBins(window(1.0, 128, 99), 64)
    counts = drawn(products.apply(beta(64)), 100_000, seed=2)
    plain = fit(counts, products, tolerance=0, iterations=3000)
    fast = fit(counts, products, tolerance=0, iterations=300, accelerate=True)  # 900 steps
    assert fast.log_likelihood > plain.log_likelihood


def test_inside_the_simplex_it_is_the_unbiased_estimate():
    """k-ary response has as many codes as values: the likelihood's maximum inverts the channel."""
    for mechanism in (k_ary(2.0, 6), hadamard(3.0, 4)):
        truth = np.linspace(1, 2, mechanism.inputs)
        cells = drawn(truth / truth.sum(), 50_000, seed=4)
        messages = mechanism.perturb(np.repeat(np.arange(mechanism.inputs), cells), SeededRandom(8))
        counts = mechanism.count(messages)
        ours = fit(counts, Dense.of(mechanism), tolerance=1e-11, iterations=100_000).distribution
        if mechanism.codes == mechanism.inputs:
            np.testing.assert_allclose(ours, mechanism.estimate(counts), atol=1e-5)
        sigma = np.sqrt(mechanism.variance(1.0, 50_000))
        np.testing.assert_allclose(ours, cells / 50_000, atol=7 * sigma)


def test_smoothing_and_bin_centres_reach_the_corrected_error():
    """Mean square error of the mean at n = 10^4, epsilon = 1, on beta(2, 5) data: 2.4e-4.

    As printed it is 0.11, and 1.6e-3 with the misplaced centres alone. Over 100 runs the mean
    square varies by about 15 %, so a factor of 2 is far outside chance.
    """
    products = wave(1.0, 1e-6, bins_for(10_000), bins_for(10_000))
    data = beta(products.inputs)
    law, truth = products.apply(data), mean_of_bins(data)
    errors = [
        mean_of_bins(fit(drawn(law, 10_000, seed), products, smooth=True).distribution) - truth
        for seed in range(100)
    ]
    square = np.mean(np.square(errors))
    assert 1.2e-4 < square < 4.8e-4
    misplaced = np.mean(np.square(np.array(errors) + 2 / products.inputs))
    assert misplaced > 4 * square


def test_smoothing_keeps_mass_and_a_flat_interior():
    for d in (1, 2, 3, 50):
        f = smoothed(np.full(d, 1 / d))
        np.testing.assert_allclose(f, 1 / d, rtol=1e-12)
        spike = smoothed(np.arange(d) == d - 1)
        assert spike.sum() == pytest.approx(1)
        assert spike.size == d
    np.testing.assert_allclose(smoothed([0, 0, 0, 1]), [0, 0, 3 / 11, 8 / 11])
    np.testing.assert_allclose(smoothed([0, 1, 0, 0]), [4 / 13, 6 / 13, 3 / 13, 0])
    np.testing.assert_allclose(bin_centres(2), [-0.5, 0.5])


def test_stops_by_its_rule_and_says_so():
    products = window(1.0, 15, 7)
    counts = drawn(products.apply(beta(16)), 5000, seed=3)
    done = fit(counts, products)
    before = fit(counts, products, iterations=done.iterations - 1)
    earlier = fit(counts, products, iterations=done.iterations - 2)
    assert done.converged
    assert not before.converged
    assert abs(done.log_likelihood - before.log_likelihood) <= 1e-3
    assert abs(before.log_likelihood - earlier.log_likelihood) > 1e-3
    at_the_end = fit(counts, products, start=done.distribution)
    assert at_the_end.iterations == 1


def test_one_input_or_one_report_is_enough():
    assert fit([3, 0], [[0.5], [0.5]], smooth=True).distribution.tolist() == [1.0]
    spiked = fit([0, 1], [[0.9, 0.1], [0.1, 0.9]], tolerance=0).distribution
    np.testing.assert_allclose(spiked, [0, 1], atol=1e-9)
    assert fit([1, 0], np.eye(2), accelerate=True).distribution.tolist() == [1.0, 0.0]


def test_what_start_rules_out_stays_ruled_out():
    f = fit([5, 9, 6], np.full((3, 3), 1 / 3), start=[0, 1, 1]).distribution
    assert f[0] == 0
    with pytest.raises(ValueError, match="cannot come from"):
        fit([1, 1], np.eye(2), start=[0, 1])


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"counts": [1, 2, 3]}, "counts"), ({"counts": [0, 0]}, "counts"),
        ({"counts": [-1, 2]}, "counts"), ({"counts": [math.nan, 2]}, "counts"),
        ({"start": [1, 1, 1]}, "start"), ({"start": [math.nan, 1]}, "start"),
        ({"start": [0, 0]}, "start"), ({"tolerance": math.nan}, "tolerance"),
        ({"tolerance": -1e-3}, "tolerance"), ({"iterations": 0}, "iterations"),
        ({"smooth": True, "accelerate": True}, "accelerate"),
        ({"channel": [[0.5, 0.5], [0.4, 0.5]]}, "add up to 1"), ({"channel": [0.5]}, "table"),
        ({"channel": [[1.5, 0.5], [-0.5, 0.5]]}, "at least 0"),
        ({"channel": [[math.nan, 0.5], [0.5, 0.5]]}, "at least 0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(change, names):
    arguments = {"counts": [1, 2], "channel": [[0.6, 0.4], [0.4, 0.6]]} | change
    with pytest.raises(ValueError, match=names):
        fit(**arguments)


def test_channels_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="probability 1 together"):
        SlidingWindow(10, 5, 0.1, 0.1)
    with pytest.raises(ValueError, match="margin"):
        SlidingWindow(2, 1, 0.5, 0.25, -1)
    with pytest.raises(ValueError, match="at least 1"):
        SlidingWindow(0, 1, 1.0, 0.0)
    with pytest.raises(ValueError, match="at least 0"):
        SlidingWindow(2, 1, 1.5, -0.25)
    with pytest.raises(ValueError, match="divisor of the grid's 10 steps"):
        UniformBins(window(1.0, 10, 3), 4)
    with pytest.raises(ValueError, match="probabilities are more than"):
        Dense.of(k_ary(1.0, 10_000))
    with pytest.raises(ValueError, match="n must"):
        bins_for(0)
