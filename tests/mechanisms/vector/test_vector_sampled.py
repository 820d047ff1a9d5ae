"""Coordinate sampling: reference variances, which coordinates are drawn, how far it reaches."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.mean.hybrid import hm
from mechanisms.mean.two_point import duchi
from mechanisms.papers.meanest import Meanest
from mechanisms.papers.published import dct_published
from mechanisms.papers.two_points import ndm
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.rows import equal_share
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles import mean as oracles_mean
from tests.oracles.statistics import follows, sample_size, tilted


@pytest.mark.parametrize("entry", oracles_mean.vectors("multi_hm"), ids=lambda e: str(e["params"]))
def test_reference_constants(entry):
    epsilon, d = entry["params"]["eps"], entry["params"]["d"]
    mechanism = multi_hm(epsilon, d, cells=65536)
    assert mechanism.sampled == entry["constants"]["k"]
    assert mechanism.scale == entry["constants"]["scale"]
    each = entry["constants"]["eps_per_attribute"]
    np.testing.assert_allclose(mechanism.mechanism.guarantee.epsilon, each, rtol=1e-12)
    for value, variance in entry["variance_per_coordinate"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-5)
    assert entry["tight"]["eps"] * (1 - 1e-6) < tight_epsilon(mechanism) <= entry["tight"]["eps"]


def test_the_default_grid_costs_next_to_nothing():
    for entry in oracles_mean.vectors("multi_hm"):
        mechanism = multi_hm(entry["params"]["eps"], entry["params"]["d"])
        for value, variance in entry["variance_per_coordinate"].items():
            np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=3e-3)


@pytest.mark.parametrize(("dimension", "sampled"), [(5, 1), (5, 2), (4, 3), (3, 3)])
def test_every_set_of_coordinates_is_equally_likely(dimension, sampled):
    mechanism = SampledCoordinates(sampled, dimension, sampled, duchi(1.0, cells=1))
    subsets = list(combinations(range(dimension), sampled))
    law = np.full(len(subsets), 1 / len(subsets))
    n = sample_size(law, tilted(law)) if len(law) > 1 else 10
    chosen = mechanism.choose(n, SeededRandom(3))
    assert chosen.shape == (n, sampled)
    places = {subset: i for i, subset in enumerate(subsets)}
    counts = np.bincount([places[tuple(row)] for row in chosen.tolist()], minlength=len(subsets))
    assert follows(counts, law)
    assert len(law) == 1 or not follows(counts, tilted(law))


def test_a_client_may_look_up_what_it_sends():
    """Of rows as of the coordinates alone the same words make the same messages."""
    mechanism = multi_hm(6.0, 7)
    rows = np.linspace(-1, 1, 7 * 40).reshape(40, 7)
    rng = SeededRandom(4)
    coordinates = mechanism.choose(40, rng)
    sent = mechanism.send(coordinates, np.take_along_axis(rows, coordinates, axis=1), rng)
    np.testing.assert_array_equal(sent, mechanism.report(rows, SeededRandom(4)))
    np.testing.assert_array_equal(
        sent // np.uint64(mechanism.mechanism.codes), coordinates.reshape(-1)
    )
    with pytest.raises(ValueError, match="shape of coordinates"):
        mechanism.send(coordinates, rows, rng)
    with pytest.raises(ValueError, match=r"values lie outside \[-1, 1\]"):
        mechanism.send(coordinates, np.full(coordinates.shape, math.nan), rng)


def test_a_broken_number_is_noticed_wherever_it_is():
    """Also where nobody would have looked: a refusal by chance would be a coin about the row."""
    rows = np.zeros((1, 1000))
    rows[0, 999] = math.nan
    for seed in range(20):
        with pytest.raises(ValueError, match="1 of 1 rows"):
            multi_hm(1.0, 1000).report(rows, SeededRandom(seed))


def test_more_coordinates_are_sampled_where_epsilon_pays_for_them():
    best = multi_optimal(4.0, 50)
    others = [multi_optimal(4.0, 50, sampled=k).worst_variance for k in (1, 2, 3, 4)]
    assert best.worst_variance == min(others)
    assert multi_optimal(1.0, 50).sampled == 1
    assert multi_optimal(30.0, 4).sampled == 4
    assert multi_optimal(1.0, 50).worst_variance < multi_hm(1.0, 50).worst_variance
    with pytest.raises(ValueError, match="epsilon must lie in"):
        multi_optimal(40.0, 4)


@pytest.mark.parametrize("dimension", [400, 100_000])
@pytest.mark.parametrize("build", [multi_hm, multi_optimal])
def test_long_rows_fit_and_are_audited_in_closed_form(build, dimension):
    mechanism = build(1.0, dimension)
    assert mechanism.codes <= 1 << 24
    assert 1 - 1e-6 < tight_epsilon(mechanism) <= 1.0
    assert mechanism.worst_variance < 5.4 * dimension
    several = build(6.0, dimension)
    assert several.sampled > 1
    assert 6 * (1 - 1e-6) < tight_epsilon(several) <= 6.0


def test_delta_adds_up_over_coordinates():
    mechanism = SampledCoordinates(1.0, 10, 2, ndm(0.5, 0.01, cells=4))
    assert Fraction(0.01) * 2 <= Fraction(mechanism.guarantee.delta) < 0.0200001
    assert 0.005 < tight_delta(mechanism, 1.0) <= mechanism.guarantee.delta


def test_coordinates_may_spend_less_than_their_share():
    mechanism = SampledCoordinates(1.0, 4, 3, duchi(0.33, cells=1))
    largest, _ = exponential_bounds(mechanism.guarantee.epsilon)
    assert oracles_mean.worst_divergence(mechanism, largest) == 0
    assert tight_epsilon(mechanism) < 1


@pytest.mark.parametrize("mechanism", [multi_hm(1.5, 2, cells=2, sampled=2), Meanest(2.0, 4)])
def test_inputs_are_numbered_by_their_digits(mechanism):
    base = mechanism.cells + 1
    for number in range(mechanism.inputs):
        row = mechanism.row(number)
        assert number == sum(int(cell) * base**j for j, cell in enumerate(row))
        assert mechanism.number(row) == number
    highest = mechanism.row(mechanism.uniform(mechanism.cells))
    assert highest.tolist() == [mechanism.cells] * mechanism.dimension


def test_equal_shares_never_exceed_the_whole():
    for parts in (1, 3, 7, 49, 1000):
        for epsilon in (0.1, 1.0, 2 / 3, 5.3):
            share = Fraction(equal_share(epsilon, parts)) * parts
            assert Fraction(epsilon) * (1 - Fraction(1, 1 << 51)) <= share <= Fraction(epsilon)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"sampled": 0}, "sampled must lie in 1 .. 5, not 0"),
        ({"sampled": 6}, "sampled must lie in"),
        ({"sampled": 1.0}, "sampled must be an integer"),
        ({"mechanism": hm(1.1)}, "may spend an epsilon of 1.0, not"),
        ({"sampled": 2}, "may spend an epsilon of 0.5"),
        ({"mechanism": dct_published(1.0)}, "not inf"),
        ({"mechanism": duchi(1.0), "dimension": 1 << 20, "epsilon": math.nan}, "epsilon"),
        ({"mechanism": hm(1.0), "dimension": 100_000}, "use fewer cells"),
    ],
)
def test_what_means_nothing_is_refused(parameters, match):
    given = {"epsilon": 1.0, "dimension": 5, "sampled": 1, "mechanism": hm(1.0)} | parameters
    with pytest.raises(ValueError, match=match):
        SampledCoordinates(**given)
    for build in (multi_hm, multi_optimal):
        with pytest.raises(ValueError, match="sampled"):
            build(1.0, 5, sampled=7)


def test_too_many_reports_to_list_are_counted_in_kinds_all_the_same():
    mechanism = multi_hm(10.0, 300)
    with pytest.raises(ValueError, match="too many to list"):
        mechanism.weights(0)
    kinds, (one, other) = mechanism.kinds(0, mechanism.inputs - 1)
    assert one == other == sum(a * n for (a, _), n in kinds.items())
    assert sum(kinds.values()) == mechanism.outcomes
