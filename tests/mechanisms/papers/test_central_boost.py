"""The boosted tree: exact privacy of all its nodes together, its moments, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.papers.boost import Boost, for_ranges
from mechanisms.randomness import SeededRandom
from tests.oracles.central import exact_vector_delta


def change(mechanism: Boost, before: list[int], after: list[int]) -> list[int]:
    """By how much the nodes differ between two histograms; those that do, the root included."""
    pairs = zip(mechanism.tree.totals(before), mechanism.tree.totals(after), strict=True)
    moved = np.concatenate([b - a for b, a in pairs])
    return moved[moved != 0].tolist()


@given(st.integers(2, 40), st.integers(2, 45))
@settings(max_examples=60, deadline=None)
def test_sensitivity_is_exact(domain_size, fanout):
    mechanism, unit = Boost(1.0, domain_size, fanout), np.eye(domain_size, dtype=int)
    pairs = itertools.permutations(range(domain_size), 2)
    moved = (change(mechanism, unit[a], unit[b]) for a, b in pairs)
    assert max(sum(map(abs, nodes)) for nodes in moved) == mechanism.sensitivity


@pytest.mark.parametrize(
    ("epsilon", "domain_size", "fanout"),
    [(1.0, 2, 2), (8.0, 2, 2), (2.0, 3, 3), (16.0, 3, 2), (14.0, 4, 2)],
)
def test_all_nodes_together_keep_the_claim(epsilon, domain_size, fanout):
    """The law of the whole noise vector on neighbours; the fit cannot add to its divergence."""
    mechanism = Boost(epsilon, domain_size, fanout)
    claim, unit = mechanism.guarantee, np.eye(domain_size, dtype=int)
    changes = {
        tuple(sorted(change(mechanism, unit[a] + 3, unit[b] + 3)))
        for a, b in itertools.permutations(range(domain_size), 2)
    }
    deltas = {c: exact_vector_delta(mechanism.noise, list(c), epsilon) for c in changes}
    assert (claim.model, claim.epsilon, claim.unit) == ("central", epsilon, "record")
    assert 0 < max(deltas.values()) <= claim.delta < 1e-15
    # The largest loss is epsilon itself (less what the table's rounding keeps back) ...
    widest = max(changes, key=len)
    assert exact_vector_delta(mechanism.noise, list(widest), epsilon * 0.999) > 2 * claim.delta
    # ... and noise for one changed node less is caught.
    loose = DiscreteLaplace(epsilon, mechanism.sensitivity - 1)
    assert exact_vector_delta(loose, list(widest), epsilon) > 1e6 * claim.delta


def test_variances_agree_and_know_their_limits():
    mechanism = Boost(0.7, 29, 3)
    leaves = mechanism.leaf_variances()
    np.testing.assert_allclose(leaves, [mechanism.variance(i, i + 1) for i in range(29)])
    assert mechanism.variance(0, 29) == pytest.approx(0, abs=1e-9)
    assert mechanism.variance(4, 4) == 0
    every = [mechanism.variance(i, j) for i in range(29) for j in range(i + 1, 30)]
    assert mechanism.mean_range_variance() == pytest.approx(np.mean(every), rel=1e-9)
    # The known root: a range and what is left of it have the same variance.
    assert mechanism.variance(3, 29) == pytest.approx(mechanism.variance(0, 3), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "domain_size"), [(0.1, 16), (1.0, 600), (8.0, 600), (1.0, 2)])
def test_the_choice_for_ranges_is_the_best(epsilon, domain_size):
    chosen = for_ranges(epsilon, domain_size)
    fanouts = {*range(2, min(65, domain_size)), domain_size}
    best = min(Boost(epsilon, domain_size, k).mean_range_variance() for k in fanouts)
    assert chosen.mean_range_variance() == best
    flat = Boost(epsilon, domain_size, domain_size)
    assert best <= flat.mean_range_variance()
    if (epsilon, domain_size) == (1.0, 600):
        assert best < 0.5 * flat.mean_range_variance()


def test_a_wide_tree_is_the_plain_histogram_made_to_add_up():
    mechanism, counts = Boost(1.0, 50, 50), np.full(50, 20)
    noisy = DiscreteLaplace(1.0, 2).perturb(counts, SeededRandom(4))
    expected = noisy - (noisy.sum() - 1000) / 50
    np.testing.assert_allclose(mechanism.release(counts, SeededRandom(4)), expected, atol=1e-9)


@pytest.mark.parametrize("domain_size", [math.nan, math.inf, 1, 2.5])
def test_bad_domains_are_refused(domain_size):
    with pytest.raises(ValueError, match="domain_size"):
        Boost(1.0, domain_size)
    with pytest.raises(ValueError, match="domain_size"):
        for_ranges(1.0, domain_size)


@pytest.mark.parametrize("fanout", [math.nan, math.inf, 1, 2.5])
def test_bad_fanouts_are_refused(fanout):
    with pytest.raises(ValueError, match="fanout"):
        Boost(1.0, 10, fanout)


@pytest.mark.parametrize(
    "counts", [[1, 2], [[1, 2, 3]], [1.0, 2.0, 3.0], [1, -1, 3], [1 << 53, 1, 1], ["a", "b", "c"]]
)
def test_bad_counts_are_refused(counts):
    with pytest.raises(ValueError, match="counts must be"):
        Boost(1.0, 3).release(counts, SeededRandom(1))


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 1), (0, 11), (math.nan, 2)])
def test_bad_ranges_are_refused(start, stop):
    with pytest.raises(ValueError, match="range"):
        Boost(1.0, 10).variance(start, stop)
