"""What every mechanism for the means of vectors must show, whatever it is."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from mechanisms.channel import Mechanism
from mechanisms.mean.two_point import duchi, ndm
from mechanisms.privacy.audit import audit
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.rounding import exponential_bounds
from mechanisms.vector.laplace_vector import laplace_vector
from mechanisms.vector.meanest import Meanest, MeanestPublished
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.privunit import PrivUnit, privunit
from mechanisms.vector.random_projection import MultiRphm, multi_rphm
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles import mean as oracles_mean
from tests.oracles import vector as oracle

SAMPLED = {
    "hm-1-of-3": multi_hm(1.0, 3, cells=2),
    "hm-2-of-3": multi_hm(5.0, 3, cells=1),
    "hm-2-of-2": multi_hm(1.5, 2, cells=2, sampled=2),
    "optimal": multi_optimal(2.0, 2, cells=3),
    "duchi-3-of-4": SampledCoordinates(1.0, 4, 3, duchi(0.33, cells=1)),
    "laplace": laplace_vector(2.0, 2, cells=1),
}
CORNERS = {f"meanest-{d}": Meanest(e, d) for d, e in [(1, 2.0), (2, 1.0), (3, 0.5), (4, 2.0)]}
PUBLISHED = {f"published-{d}": MeanestPublished(1.0, d) for d in (2, 3, 4)}
OTHERS = {
    "rphm": MultiRphm(1.0, 4, projected=2, cells=2),
    "privunit-1": PrivUnit(1.0, 3, radius=2.0, lines=3, codebooks=2),
    "privunit-2": PrivUnit(4.0, 2, radius=0.5, lines=4, codebooks=3),
}
DELTA = {"ndm": SampledCoordinates(1.0, 2, 2, ndm(0.5, 0.01, cells=2))}
SOUND = SAMPLED | CORNERS | OTHERS | DELTA
ALL = SOUND | PUBLISHED
UNEVEN = {"duchi-3-of-4"}  # whose coordinates spend less than a third of epsilon each

BUILDERS = [multi_hm, multi_optimal, laplace_vector, multi_rphm, privunit, Meanest]


def among(cases):
    return pytest.mark.parametrize("mechanism", cases.values(), ids=cases)


# ---- the exact law of a report -------------------------------------------------------------------


@among(ALL)
def test_channel_is_a_distribution(mechanism):
    for cell in range(mechanism.inputs):
        numerators, denominator = mechanism.weights(cell)
        assert len(numerators) == mechanism.outcomes
        assert sum(int(x) for x in numerators) == denominator


@among(SOUND)
def test_privacy_holds_exactly_for_every_pair_of_inputs(mechanism):
    claim = mechanism.guarantee
    assert (claim.model, claim.epsilon) == ("local", mechanism.epsilon)
    multiplier, _ = exponential_bounds(claim.epsilon)  # a rational below e^epsilon
    assert oracles_mean.worst_divergence(mechanism, multiplier) <= Fraction(claim.delta)
    assert audit(mechanism).holds


@pytest.mark.parametrize(
    "name", [name for name in SAMPLED | CORNERS | OTHERS if name not in UNEVEN]
)
def test_privacy_is_not_wasted(name):
    mechanism = SOUND[name]
    assert mechanism.epsilon * (1 - 1e-6) < tight_epsilon(mechanism) <= mechanism.epsilon


@among(ALL)
def test_declared_pairs_dominate_all_pairs(mechanism):
    for share in (0, 0.1, 0.45, 0.8, 0.97, 1, 1.2):
        multiplier, _ = exponential_bounds(mechanism.epsilon * share)
        declared = oracles_mean.declared_divergence(mechanism, multiplier)
        assert oracles_mean.worst_divergence(mechanism, multiplier) == declared


@among(ALL)
def test_kinds_in_closed_form_are_those_of_the_table(mechanism):
    for one, other in list(permutations(range(mechanism.inputs), 2))[::7]:
        kinds, denominators = mechanism.kinds(one, other)
        expected, expected_denominators = Mechanism.kinds(mechanism, one, other)
        assert dict(kinds) == dict(expected)
        assert tuple(denominators) == expected_denominators


@among(ALL)
def test_sampler_follows_its_channel_and_no_other(mechanism):
    for cell in {0, mechanism.inputs // 2, mechanism.inputs - 1}:
        oracle.tally_follows(mechanism, cell, SeededRandom(1000 + cell))


# ---- the estimate --------------------------------------------------------------------------------


def listed(mechanism) -> np.ndarray:
    """What every report stands for, in the order of the channel."""
    sampled = isinstance(mechanism, SampledCoordinates)
    reports = (oracle.sampled_reports if sampled else oracle.corner_reports)(mechanism)
    return oracle.decoded(mechanism, reports)


@among(SAMPLED | CORNERS | PUBLISHED | DELTA)
def test_one_report_is_unbiased_with_the_closed_form_variance(mechanism):
    """From the channel, not from samples: at the ends of the grid and between its points."""
    reports, d = listed(mechanism), mechanism.dimension
    scale = np.abs(reports).max()
    for row in (
        [Fraction(1)] * d,
        [Fraction((-1) ** j, j + 1) for j in range(d)],
        [Fraction(3 * j + 1, 7) - 1 for j in range(d)],
    ):
        law, values = oracle.mixture(mechanism, row), np.array(row, float)
        mean = law @ reports
        np.testing.assert_allclose(mean, values, atol=1e-12 * scale)
        variance = law @ (reports - mean) ** 2
        np.testing.assert_allclose(variance, mechanism.variance(values), rtol=1e-9)


@among(ALL)
def test_worst_variance_is_attained_and_never_exceeded(mechanism):
    most = mechanism.radius if isinstance(mechanism, PrivUnit) else 1
    seen = mechanism.variance(np.linspace(-most, most, 20_001)).max()
    assert mechanism.worst_variance * (1 - 1e-3) < seen <= mechanism.worst_variance * (1 + 1e-12)


LARGER = {
    "hm": multi_hm(1.0, 20),
    "hm-3": multi_hm(8.0, 20),
    "optimal": multi_optimal(4.0, 20),
    "laplace": laplace_vector(5.0, 20),
    "meanest": Meanest(1.0, 20),
    "published": MeanestPublished(1.0, 20),
}


@among(LARGER)
def test_measured_error_is_the_predicted_one(mechanism):
    """200 batches of 20 coordinates: the ratio's standard deviation is 2.3 %, 15 % are 6 of them.

    The batch's own estimate of it, on average over the coordinates, is as good.
    """
    rng, runs, n = SeededRandom(9), 200, 100
    rows = oracle.source_rows(n, 20, SeededRandom(1))
    rows[:, :5] = 1  # the largest variance there is, or the least
    errors, judged = [], []
    for _ in range(runs):
        counts = mechanism.count(mechanism.report(rows, rng))
        errors.append(mechanism.estimate(counts) - rows.mean(axis=0))
        judged.append(mechanism.estimated_variance(counts).mean())
    predicted = (mechanism.variance(rows).sum(axis=0) / n**2).mean()
    assert np.abs(np.mean(errors, axis=0)).max() < 7 * math.sqrt(2 * predicted / runs)
    assert 0.85 < np.mean(np.square(errors)) / predicted < 1.15
    assert 0.93 < np.mean(judged) / predicted < 1.07


# ---- how it behaves ------------------------------------------------------------------------------


def reports(mechanism, n: int, rng):
    """Messages of n users with some rows that every mechanism admits."""
    rows = oracle.source_rows(n, mechanism.dimension, rng) * 0.1
    return mechanism.report(rows, rng)


@among(ALL)
def test_any_split_counts_alike(mechanism):
    messages = reports(mechanism, 500, SeededRandom(5))
    whole = mechanism.count(messages)
    assert messages.dtype == np.uint64
    assert messages.size == 500 * mechanism.messages
    assert whole.dtype == np.int64
    for pieces in (2, 7, 50):
        parts = [mechanism.count(piece) for piece in np.array_split(messages, pieces)]
        np.testing.assert_array_equal(sum(parts), whole)
    assert mechanism.count([]).sum() == 0


@among(ALL | LARGER)
def test_travels_as_its_fields(mechanism):
    mechanism.estimate(mechanism.count(reports(mechanism, 3, SeededRandom(1))))  # fills caches
    parcel = pickle.dumps(mechanism)
    again = pickle.loads(parcel)
    assert len(parcel) < 500
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again.constants() == mechanism.constants()
    assert all(isinstance(number, int | float) for number in mechanism.constants().values())


@among(ALL)
def test_impossible_messages_are_refused_and_told_apart(mechanism):
    forged = np.array([0, mechanism.codes, 2**64 - 1], np.uint64)
    assert mechanism.valid(forged).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="2 of 3 messages"):
        mechanism.count(forged)
    with pytest.raises(ValueError, match="messages must be unsigned"):
        mechanism.count([-1])
    with pytest.raises(ValueError, match="no report"):
        mechanism.estimate(mechanism.count([]))
    with pytest.raises(ValueError, match="report"):
        mechanism.estimated_variance(mechanism.count([]))
    with pytest.raises(ValueError, match="counts must be of shape"):
        mechanism.estimate(np.ones(mechanism.codes + 1, np.int64))


SECRET = 1234567.0
BAD = {
    "unequal": lambda d: [[0.1] * d, [0.1] * (d + 1)],
    "short": lambda d: [[SECRET] * (d - 1)] * 2,
    "flat": lambda d: [SECRET] * d,
    "nan": lambda d: [[0.1] * d, [0.1] * (d - 1) + [math.nan]],
    "infinite": lambda d: [[0.1] * d, [0.1] * (d - 1) + [-math.inf]],
    "large": lambda d: [[0.1] * d, [0.1] * (d - 1) + [SECRET]],
    "text": lambda d: [["x"] * d],
    "complex": lambda d: [[1j] * d],
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@among(ALL)
def test_rows_that_are_none_are_refused_without_being_quoted(mechanism, bad):
    with pytest.raises(ValueError, match="rows") as caught:
        mechanism.report(bad(mechanism.dimension), SeededRandom(1))
    assert "1234567" not in str(caught.value)
    assert "nan" not in str(caught.value)


@among(SAMPLED | CORNERS)
def test_cells_that_are_none_are_refused_without_being_quoted(mechanism):
    d, rng = mechanism.dimension, SeededRandom(1)
    for bad in (
        [[10**9] * d],
        [[-1] * d],
        [[0.5] * d],
        [[0] * (d + 1)],
        [0] * d,
        [[0] * d, [0] * (d + 1)],
    ):
        with pytest.raises(ValueError, match="cells") as caught:
            mechanism.perturb(bad, rng)
        assert "1000000000" not in str(caught.value)


@among(ALL)
def test_inputs_out_of_range_are_refused(mechanism):
    for bad in (-1, mechanism.inputs):
        with pytest.raises(ValueError, match="cells"):
            mechanism.weights(bad)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-30, "1", None])
@pytest.mark.parametrize("build", [*BUILDERS, MeanestPublished])
def test_epsilon_that_means_nothing_is_refused(build, epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        build(epsilon=epsilon, dimension=5)


@pytest.mark.parametrize("dimension", [0, -3, 2.5, 2.0, "4", None, math.nan, (1 << 20) + 1])
@pytest.mark.parametrize("build", [*BUILDERS, MeanestPublished])
def test_a_dimension_that_is_none_is_refused(build, dimension):
    with pytest.raises(ValueError, match="dimension"):
        build(epsilon=1.0, dimension=dimension)


@pytest.mark.parametrize("build", [multi_hm, laplace_vector, multi_rphm, privunit, Meanest])
def test_an_epsilon_beyond_64_bits_is_still_met(build):
    small = {"lines": 2, "codebooks": 1} if build is privunit else {}
    small |= {"cells": 1} if build in (multi_hm, laplace_vector, multi_rphm) else {}
    mechanism = build(epsilon=300.0, dimension=2, **small)
    multiplier, _ = exponential_bounds(300.0)
    assert oracles_mean.worst_divergence(mechanism, multiplier) == 0


@among(SAMPLED | CORNERS)
def test_inputs_are_numbered_by_their_digits(mechanism):
    base = mechanism.cells + 1
    for number in range(mechanism.inputs):
        row = mechanism.row(number)
        assert number == sum(int(cell) * base**j for j, cell in enumerate(row))
        assert mechanism.number(row) == number
    assert (
        mechanism.row(mechanism.uniform(mechanism.cells)).tolist()
        == [mechanism.cells] * mechanism.dimension
    )


@among({"empty-" + name: case for name, case in ALL.items()})
def test_nobody_reports_nothing(mechanism):
    assert mechanism.report(np.empty((0, mechanism.dimension)), SeededRandom(1)).size == 0
