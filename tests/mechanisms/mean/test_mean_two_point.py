"""Duchi's mechanism and NDM: their scale, their variance, and a delta spent to the last word."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mechanisms.mean.two_point import TwoPoint, TwoPointLaw, duchi
from mechanisms.papers.two_points import ndm
from mechanisms.privacy.divergence import tight_delta
from tests.oracles import mean as oracle

FINE = 65536
ENTRIES = [(e["params"], e) for name in ("duchi", "ndm") for e in oracle.vectors(name)]


@pytest.mark.parametrize(("parameters", "entry"), ENTRIES, ids=str)
def test_reference_constants(parameters, entry):
    epsilon, delta = parameters["eps"], parameters.get("delta", 0.0)
    for cells in (10, 1024, FINE):
        mechanism = ndm(epsilon, delta, cells)
        np.testing.assert_allclose(mechanism.decoded[1], entry["constants"]["B"], rtol=1e-9)
        assert delta * (1 - 1e-6) <= tight_delta(mechanism, epsilon) <= delta
    for value, variance in entry["variance"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-8)


def test_duchi_is_ndm_without_delta():
    assert duchi(1.5, 33) == ndm(1.5, 0.0, 33) == TwoPoint(1.5, 33)


def test_the_chance_is_linear_in_the_cell():
    mechanism = ndm(1.0, 0.05, 6)
    chances = [oracle.law(mechanism, cell)[1] for cell in range(7)]
    steps = {after - before for before, after in pairwise(chances)}
    assert len(steps) == 1
    assert chances[3] * 2 == 1


def test_every_draw_leads_where_the_weights_say():
    law = TwoPointLaw(5, 3, 2)
    draws = np.arange(law.total, dtype=np.uint64)
    for cell in range(6):
        codes = law.pick(draws, np.full(law.total, cell, np.uint64))
        np.testing.assert_array_equal(np.bincount(codes.astype(int)), law.weights(cell))


def test_a_draw_at_the_threshold_is_the_lower_code():
    law = TwoPointLaw.within(1 << 64, 1.0, 0.0, 4)
    for cell in range(5):
        threshold = law.low + cell * law.step
        draws = np.array([0, threshold - 1, threshold, (1 << 64) - 1], np.uint64)
        assert law.pick(draws, np.full(4, cell, np.uint64)).tolist() == [1, 1, 0, 0]


def test_delta_alone_may_carry_the_privacy():
    """At an epsilon of next to nothing a report tells the value with probability delta."""
    mechanism = ndm(1e-30, 0.125, 8)
    np.testing.assert_allclose(mechanism.decoded[1], 8.0, rtol=1e-12)
    with pytest.raises(ValueError, match="too small to be told from 0"):
        ndm(1e-30, 0.0, 8)
