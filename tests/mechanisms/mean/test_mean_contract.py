"""What every mechanism for means must show, whatever it is."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from mechanisms.channel import Mechanism
from mechanisms.mean.additive import laplace
from mechanisms.mean.gaussian import gaussian, gaussian_analytic
from mechanisms.mean.hybrid import hm, hybrid_optimal
from mechanisms.mean.published import dct_published, im_published
from mechanisms.mean.two_point import duchi, ndm
from mechanisms.mean.widths import dct, improved, noise, piecewise, window_optimal
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.rounding import exponential_bounds
from tests.oracles import mean as oracle

PURE = [piecewise, noise, improved, window_optimal, dct, laplace, duchi, hm, hybrid_optimal]
WITH_DELTA = [noise, improved, window_optimal, ndm, hybrid_optimal, gaussian, gaussian_analytic]
BROKEN = [im_published, dct_published]
GAUSSIAN = [gaussian, gaussian_analytic]

PURE_CASES = [
    (build, {"epsilon": epsilon, "cells": cells})
    for build in PURE
    for epsilon, cells in [(0.5, 5), (1.0, 8), (2.5, 7), (6.0, 4)]
]
DELTA_CASES = [
    (build, {"epsilon": epsilon, "delta": delta, "cells": cells})
    for build in WITH_DELTA
    for epsilon, delta, cells in [(0.5, 0.01, 5), (1.0, 1e-6, 8), (2.5, 0.05, 7)]
]
BROKEN_CASES = [
    (im_published, {"epsilon": 1.0, "delta": 0.05, "cells": 7}),
    (im_published, {"epsilon": 0.5, "delta": 0.01, "cells": 12}),
    (dct_published, {"epsilon": 0.05, "cells": 7}),
    (dct_published, {"epsilon": 1.0, "cells": 12}),
]


def named(case) -> str:
    build, parameters = case
    return "-".join([build.__name__, *map(str, parameters.values())])


def fixture(cases):
    return pytest.fixture(params=cases, ids=named)(lambda request: request.param)


case = fixture(PURE_CASES + DELTA_CASES + BROKEN_CASES)
sound_case = fixture(PURE_CASES + DELTA_CASES)


def made(case):
    build, parameters = case
    return build(**parameters)


# ---- the channel ---------------------------------------------------------------------------------


def test_channel_is_a_distribution(case):
    mechanism = made(case)
    denominators = set()
    for cell in range(mechanism.inputs):
        numerators, denominator = mechanism.weights(cell)
        denominators.add(denominator)
        assert len(numerators) == mechanism.codes
        assert sum(int(x) for x in numerators) == denominator
        np.testing.assert_allclose(mechanism.channel(cell).sum(), 1, rtol=1e-12)
    assert len(denominators) == 1


def test_privacy_holds_exactly_for_every_pair_of_inputs(sound_case):
    mechanism = made(sound_case)
    claim = mechanism.guarantee
    assert claim.model == "local"
    assert claim.epsilon == sound_case[1]["epsilon"]
    assert claim.delta <= sound_case[1].get("delta", 0.0)
    multiplier, _ = exponential_bounds(claim.epsilon)  # a rational below e^epsilon
    assert oracle.worst_divergence(mechanism, multiplier) <= Fraction(claim.delta)


def test_privacy_is_not_wasted(sound_case):
    build, parameters = sound_case
    mechanism = made(sound_case)
    spent = tight_delta(mechanism, parameters["epsilon"])
    if "delta" not in parameters:
        assert math.log(oracle.largest_ratio(mechanism)) > parameters["epsilon"] * (1 - 1e-6)
    elif build is not gaussian:  # whose formula wastes most of its delta
        assert spent > parameters["delta"] * (1 - 1e-3)
    assert mechanism.guarantee.delta * (1 - 1e-9) <= max(spent, parameters.get("delta", 0.0))


def test_declared_pairs_dominate_all_pairs(case):
    """At every epsilon, not only the claimed one: no pair is told apart better."""
    mechanism, epsilon = made(case), case[1]["epsilon"]
    for share in (0, 0.1, 0.45, 0.8, 0.9, 0.97, 0.999):
        multiplier, _ = exponential_bounds(epsilon * share)
        declared = oracle.declared_divergence(mechanism, multiplier)
        assert oracle.worst_divergence(mechanism, multiplier) == declared


@pytest.mark.parametrize(
    "build", [window_optimal, dct, laplace, duchi, hybrid_optimal], ids=lambda build: build.__name__
)
def test_declared_pairs_dominate_in_the_shuffled_batch_too(build):
    mechanism = build(2.0, cells=4)
    everything = oracle.with_all_pairs(mechanism)
    for n, epsilon in ((2, 1.0), (20, 0.5)):
        lower, upper = shuffled_delta(mechanism, n, epsilon)
        true_lower, true_upper = shuffled_delta(everything, n, epsilon)
        assert upper >= true_upper * (1 - 1e-9)
        assert lower <= true_upper
        assert true_lower <= upper


@pytest.mark.parametrize(
    "mechanism",
    [piecewise(1.0, 9), improved(0.5, 0.03, 6), dct(0.5, 6), hm(2.0, 9), dct_published(0.5, 7)],
    ids=["window", "wide window", "window with margins", "hybrid", "published dct"],
)
def test_kinds_in_closed_form_are_those_of_the_table(mechanism):
    for one, other in permutations(range(mechanism.inputs), 2):
        kinds, denominators = mechanism.kinds(one, other)
        expected, expected_denominators = Mechanism.kinds(mechanism, one, other)
        assert dict(kinds) == dict(expected)
        assert tuple(denominators) == expected_denominators


def test_every_code_can_come_from_every_input(case):
    """Save for Gaussian noise, whose ends are part of delta, and for what is broken."""
    mechanism = made(case)
    reached = [frozenset(np.flatnonzero(mechanism.weights(j)[0])) for j in range(mechanism.inputs)]
    if case[0] in GAUSSIAN or case[0] is dct_published:
        assert len(set(reached)) > 1
    else:
        assert set(reached) == {frozenset(range(mechanism.codes))}


# ---- the estimate --------------------------------------------------------------------------------


def test_one_report_is_unbiased_with_the_closed_form_variance(case):
    """From the channel, not from samples: on the grid and between its points."""
    mechanism = made(case)
    scale = float(np.abs(mechanism.decoded).max())
    for value in [-1, 1, 0, Fraction(1, 3), Fraction(-7, 9), Fraction(99, 100), mechanism.grid[2]]:
        mean, variance = oracle.moments(mechanism, Fraction(value))
        np.testing.assert_allclose(mean, float(value), atol=1e-12 * scale)
        expected = mechanism.variance(float(value))
        np.testing.assert_allclose(variance, expected, rtol=1e-9, atol=1e-12)


def test_worst_variance_is_attained_and_never_exceeded(case):
    mechanism = made(case)
    values = np.linspace(-1, 1, 20_001)
    seen = mechanism.variance(values).max()
    assert seen <= mechanism.worst_variance * (1 + 1e-12)
    assert seen > mechanism.worst_variance * (1 - 1e-3)


def test_estimate_is_the_mean_of_the_decoded_reports(case):
    mechanism = made(case)
    rng = SeededRandom(2)
    codes = mechanism.perturb(rng.integers(mechanism.inputs, 500), rng)
    estimate = mechanism.estimate(mechanism.count(codes))
    assert estimate.shape == ()
    assert estimate.dtype == np.float64
    np.testing.assert_allclose(estimate, mechanism.decode(codes).mean(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mechanism.estimate(mechanism.count(codes), 250), 2 * estimate)


def test_sampler_follows_its_channel_and_no_other(case):
    mechanism = made(case)
    for cell in (0, 1, mechanism.cells):
        rng = SeededRandom(1000 + cell)

        def draw(size, cell=cell, rng=rng):
            return mechanism.perturb(np.full(size, cell), rng).astype(np.int64)

        oracle.sampler_follows(draw, mechanism.channel(cell))


def test_a_value_between_grid_points_is_reported_by_their_mixture(case):
    mechanism = made(case)
    value = Fraction(3, 7)
    chances = oracle.rounding(mechanism.cells, value)
    mixture = sum(float(chance) * mechanism.channel(cell) for cell, chance in chances.items())
    rng = SeededRandom(77)

    def draw(size):
        cells = mechanism.encode(np.full(size, float(value)), rng)
        return mechanism.perturb(cells, rng).astype(np.int64)

    oracle.sampler_follows(draw, mixture)


@pytest.mark.parametrize("build", [*PURE, *GAUSSIAN, *BROKEN], ids=lambda build: build.__name__)
def test_measured_error_is_the_predicted_one(build):
    """400 batches: the ratio's standard deviation is 7 %, and 45 % is more than 6 of them."""
    needs = [gaussian, gaussian_analytic, im_published]
    mechanism = build(2.0, 0.01) if build in needs else build(2.0)
    values = np.linspace(-0.9, 1, 1000)
    predicted = mechanism.variance(values).sum() / values.size**2
    rng = SeededRandom(9)
    reports = mechanism.perturb(mechanism.encode(np.tile(values, 400), rng), rng)
    errors = mechanism.decode(reports).reshape(400, -1).mean(axis=1) - values.mean()
    assert abs(errors.mean()) < 6.5 * math.sqrt(predicted / 400)
    assert 0.55 < np.mean(errors**2) / predicted < 1.45


# ---- how it behaves ------------------------------------------------------------------------------


def test_any_split_counts_alike(case):
    mechanism = made(case)
    rng = SeededRandom(5)
    messages = mechanism.perturb(rng.integers(mechanism.inputs, 3000), rng)
    whole = mechanism.count(messages)
    assert messages.dtype == np.uint64
    assert whole.dtype == np.int64
    for pieces in (2, 7, 3000):
        parts = [mechanism.count(piece) for piece in np.array_split(messages, pieces)]
        np.testing.assert_array_equal(sum(parts), whole)
    assert mechanism.count([]).sum() == 0


def test_travels_as_its_fields(case):
    mechanism = made(case)
    assert mechanism.worst_variance > 0  # fills caches
    mechanism.perturb([0, 1], SeededRandom(1))
    parcel = pickle.dumps(mechanism)
    again = pickle.loads(parcel)
    assert len(parcel) < 500
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    np.testing.assert_array_equal(again.decoded, mechanism.decoded)
    assert all(isinstance(number, int | float) for number in mechanism.constants().values())


@pytest.mark.parametrize(
    "cells",
    [[-1], [10**9], np.array([0.5]), np.array(["a"]), np.array([[0]]), np.array([np.nan])],
    ids=["negative", "too large", "float", "text", "matrix", "nan"],
)
def test_cells_out_of_range_are_refused_without_being_quoted(cells):
    for mechanism in (piecewise(1.0, 8), laplace(1.0, 8), duchi(1.0, 8), hm(1.0, 8)):
        for act in (lambda m, c: m.perturb(c, SeededRandom(1)), lambda m, c: m.weights(c[0])):
            with pytest.raises(ValueError, match="cells") as caught:
                act(mechanism, cells)
            assert "1000000000" not in str(caught.value)


def test_impossible_messages_are_refused_and_told_apart(case):
    mechanism = made(case)
    forged = np.array([0, mechanism.codes, 2**64 - 1], np.uint64)
    assert mechanism.valid(forged).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="2 of 3 messages"):
        mechanism.count(forged)
    with pytest.raises(ValueError, match="2 of 3 codes"):
        mechanism.decode(forged)
    with pytest.raises(ValueError, match="codes must be integers"):
        mechanism.decode([0.5])
    with pytest.raises(ValueError, match="no report"):
        mechanism.estimate(mechanism.count([]))
    with pytest.raises(ValueError, match="counts must be of shape"):
        mechanism.estimate(np.ones(mechanism.codes + 1, np.int64))


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf, 1e-30, "1", None])
@pytest.mark.parametrize("build", [*PURE, *GAUSSIAN, *BROKEN], ids=lambda build: build.__name__)
def test_epsilon_that_means_nothing_is_refused(build, epsilon):
    more = {"delta": 1e-6} if build in [*GAUSSIAN, im_published] else {}
    with pytest.raises(ValueError, match="epsilon"):
        build(epsilon=epsilon, **more)


@pytest.mark.parametrize("delta", [-1e-9, 1, 2.0, math.nan, math.inf, "0.1", None])
@pytest.mark.parametrize("build", [*WITH_DELTA, im_published], ids=lambda build: build.__name__)
def test_delta_that_means_nothing_is_refused(build, delta):
    with pytest.raises(ValueError, match="delta"):
        build(epsilon=1.0, delta=delta)


@pytest.mark.parametrize("cells", [0, -4, 10.5, 10.0, "10", None, (1 << 20) + 1])
@pytest.mark.parametrize("build", [*PURE, *GAUSSIAN, *BROKEN], ids=lambda build: build.__name__)
def test_a_grid_that_is_none_is_refused(build, cells):
    more = {"delta": 1e-6} if build in [*GAUSSIAN, im_published] else {}
    with pytest.raises(ValueError, match="cells"):
        build(epsilon=1.0, cells=cells, **more)


@pytest.mark.parametrize("build", PURE, ids=lambda build: build.__name__)
def test_an_epsilon_beyond_64_bits_is_still_met(build):
    mechanism = build(700.0, cells=5)
    multiplier, _ = exponential_bounds(700.0)
    assert oracle.worst_divergence(mechanism, multiplier) == 0
    assert min(int(x) for x in mechanism.weights(0)[0]) >= 1
    mean, _ = oracle.moments(mechanism, Fraction(1, 3))
    np.testing.assert_allclose(mean, 1 / 3, rtol=1e-12)


@pytest.mark.parametrize("build", PURE, ids=lambda build: build.__name__)
def test_the_smallest_grid_will_do(build):
    mechanism = build(1.0, cells=1)
    assert mechanism.inputs == 2
    assert tight_epsilon(mechanism) <= 1.0
    mean, variance = oracle.moments(mechanism, Fraction(1, 5))
    np.testing.assert_allclose([mean, variance], [0.2, mechanism.variance(0.2)], rtol=1e-9)


@pytest.mark.parametrize("build", [b for b in PURE if b is not laplace], ids=lambda b: b.__name__)
@pytest.mark.parametrize("cells", [1024, 65536])
def test_a_fine_grid_is_audited_in_closed_form(build, cells):
    mechanism = build(1.0, cells=cells)
    assert 1 - 1e-6 < tight_epsilon(mechanism) <= 1.0
    kinds, _ = mechanism.kinds(*next(iter(mechanism.pairs())))
    assert len(kinds) <= 6
