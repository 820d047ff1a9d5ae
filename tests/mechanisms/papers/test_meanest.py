"""MeanEST: the tie that breaks the published form, and what the corrected one costs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.papers.meanest import Meanest, MeanestPublished
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from tests.oracles import mean as oracles_mean
from tests.oracles import vector as oracle

VECTORS = oracles_mean.vectors("duchi_multi")


@pytest.mark.parametrize("entry", VECTORS, ids=lambda e: str(e["params"]))
def test_reference_constants(entry):
    epsilon, d = entry["params"]["eps"], entry["params"]["d"]
    for mechanism, name in (
        (Meanest(epsilon, d), "tie_split"),
        (MeanestPublished(epsilon, d), "published"),
    ):
        np.testing.assert_allclose(mechanism.scale, entry["constants"][f"B_{name}"], rtol=1e-9)
        for value, variance in entry[f"variance_per_coordinate_{name}"].items():
            np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-9)
        if d < 50 or name == "tie_split":
            expected = entry["tight"][f"eps_{name}"]
            np.testing.assert_allclose(tight_epsilon(mechanism), expected, rtol=1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("kind", [Meanest, MeanestPublished])
def test_laws_are_those_of_the_definition(kind, dimension):
    mechanism = kind(1.5, dimension)
    keep = Fraction(mechanism.keep_weight, 1 << 64)
    assert abs(float(keep) - math.exp(1.5) / (math.exp(1.5) + 1)) < 1e-15
    for own in range(1 << dimension):
        expected = oracle.corner_law(dimension, own, keep, closed=kind is MeanestPublished)
        assert oracles_mean.law(mechanism, own) == expected


def test_long_rows():
    """Variance is about pi d / 2 times that of a sign; nothing overflows."""
    mechanism = Meanest(1.0, 20_000)
    limit = math.pi / 2 * 20_000 * ((math.e + 1) / (math.e - 1)) ** 2
    np.testing.assert_allclose(mechanism.worst_variance, limit, rtol=1e-4)
    assert tight_epsilon(Meanest(1.0, 1001)) <= 1.0


@pytest.mark.parametrize("dimension", [63, 64, 65, 130])
def test_every_bit_of_a_packed_corner_has_its_coordinate(dimension):
    """At a large epsilon reports are on the user's side: 4,000 of them show its very signs."""
    mechanism, rng = Meanest(40.0, dimension), SeededRandom(2)
    signs = np.where(rng.bernoulli(1 << 63, dimension), 1.0, -1.0)
    messages = mechanism.report(np.tile(signs, (4000, 1)), rng)
    assert (messages.reshape(4000, -1) >> np.uint64(1)).astype(int).tolist()[7] == list(
        range(dimension)
    )
    estimate = mechanism.estimate(mechanism.count(messages))
    assert np.abs(estimate - signs).max() < 6.5 * math.sqrt(mechanism.worst_variance / 4000)
    products = (2.0 * (messages.reshape(4000, -1) & np.uint64(1)) - 1) @ signs
    assert (products >= 0).all()


def test_lost_messages_cost_one_coordinate():
    mechanism = Meanest(1.0, 3)
    messages = mechanism.report(np.zeros((100, 3)), SeededRandom(1))
    kept = messages[messages // np.uint64(2) != 1]
    estimate = mechanism.estimate(mechanism.count(kept))
    assert np.isnan(estimate).tolist() == [False, True, False]


def test_inputs_too_many_to_compare_are_refused():
    mechanism = Meanest(1.0, 5000)
    with pytest.raises(ValueError, match="too many to count"):
        mechanism.kinds(0, (1 << 2500) - 1)
    with pytest.raises(ValueError, match="too many to list"):
        mechanism.weights(0)
