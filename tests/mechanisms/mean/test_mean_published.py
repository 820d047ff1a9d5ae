"""What two papers published, measured: the claims that do not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.papers.published import dct_published, im_published
from mechanisms.privacy.audit import audit
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from tests.oracles import mean as oracle

FINE = 65536


@pytest.mark.parametrize("entry", oracle.vectors("im_published"), ids=lambda e: str(e["params"]))
def test_improved_as_published_spends_another_delta_than_it_claims(entry):
    epsilon, delta = entry["params"]["eps"], entry["params"]["delta"]
    mechanism = im_published(epsilon, delta, FINE)
    np.testing.assert_allclose(tight_delta(mechanism, epsilon), entry["tight"]["delta"], rtol=1e-6)
    assert mechanism.claimed.delta == delta
    for value, variance in entry["variance"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-3)


@pytest.mark.parametrize("entry", oracle.vectors("dct_published"), ids=lambda e: str(e["params"]))
def test_dct_as_published_has_the_variance_of_a_uniform_range(entry):
    mechanism = dct_published(entry["params"]["eps"], FINE)
    for value, variance in entry["variance"].items():
        np.testing.assert_allclose(mechanism.variance(float(value)), variance, rtol=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.01, 0.05), (0.05, 0.25), (0.1, 0.5), (0.15, 0.75), (0.2, 1), (0.5, 1), (4, 1)],
)
def test_dct_as_published_tells_values_apart_whatever_epsilon_is(epsilon, delta):
    mechanism = dct_published(epsilon)
    assert mechanism.claimed.epsilon == epsilon
    assert mechanism.claimed.delta == 0
    for at in (0, epsilon, 10 * epsilon, 30):
        assert tight_delta(mechanism, at) == pytest.approx(delta, rel=1e-3)
    assert tight_epsilon(mechanism) == np.inf


def test_a_report_stays_within_reach_of_its_value():
    mechanism = dct_published(1.0, 100)  # d = 0.2: ten cells on either side
    for cell in (0, 37, 100):
        reached = mechanism.decoded[mechanism.channel(cell) > 0]
        assert np.abs(reached - mechanism.grid[cell]).max() <= 0.2


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.02), (0.07, 0.01)])
def test_improved_keeps_its_papers_range(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon must exceed 2 ln\(1 \+ 4 delta\)"):
        im_published(epsilon, delta)


def test_an_audit_names_what_is_claimed_and_not_what_is_known():
    """At the paper's own epsilon: without it, an infinite claim would be called false."""
    found = audit(dct_published(1.0))
    assert (found.claim.epsilon, found.claim.delta, found.holds) == (1.0, 0.0, False)
    assert found.delta > 0.1
    assert found.epsilon == math.inf
