"""The consistent tree against dense least squares, and its variances against the covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.papers.boost import IntervalTree
from tests.oracles.central import dense_fit, levels_of_intervals

trees = st.builds(IntervalTree, st.integers(2, 70), st.integers(2, 12))


def measurements(tree: IntervalTree, seed: int) -> list[np.ndarray]:
    """Numbers for all nodes below the root that agree in nothing."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 10, variance.size) for variance in tree.pooled_variances]


@given(trees, st.integers(0, 1 << 30))
@settings(max_examples=100, deadline=None)
def test_the_tree_is_nested_intervals_of_even_size(tree, seed):
    levels = levels_of_intervals(tree.domain_size, tree.fanout)
    leaves = np.random.default_rng(seed).integers(0, 1000, tree.domain_size)
    totals = tree.totals(leaves)
    assert len(totals) == len(levels) == tree.height + 1
    for counts, inside in zip(totals, levels, strict=True):
        np.testing.assert_array_equal(counts, inside @ leaves)
        assert np.ptp(inside.sum(axis=1)) <= 1
        assert (inside.sum(axis=0) == 1).all()  # every leaf lies below exactly one node per level
    for starts, below in zip(tree.children, levels[1:], strict=True):
        siblings = np.diff(starts, append=len(below))
        assert 1 <= siblings.min() <= siblings.max() <= tree.fanout


@given(trees, st.integers(0, 1 << 30))
@settings(max_examples=100, deadline=None)
def test_two_passes_are_the_dense_least_squares_fit(tree, seed):
    levels, measured = levels_of_intervals(tree.domain_size, tree.fanout), measurements(tree, seed)
    leaves, _ = dense_fit(levels, 57, np.concatenate(measured))
    for fitted, inside in zip(tree.fit(57, measured), levels, strict=True):
        np.testing.assert_allclose(fitted, inside @ leaves, rtol=0, atol=1e-9)


@given(trees, st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_variances_are_those_of_the_covariance(tree, seed):
    d, levels = tree.domain_size, levels_of_intervals(tree.domain_size, tree.fanout)
    _, covariance = dense_fit(levels, 0, np.concatenate(measurements(tree, seed)))
    weights = np.random.default_rng(seed).normal(size=d)
    assert tree.variance(weights) == pytest.approx(weights @ covariance @ weights, rel=1e-9)
    np.testing.assert_allclose(tree.leaf_variances(), np.diag(covariance), rtol=1e-9)
    prefixes = np.zeros((d + 1, d + 1))
    prefixes[1:, 1:] = covariance.cumsum(0).cumsum(1)
    own = np.diag(prefixes)
    ranges = (own[:, None] + own - 2 * prefixes)[np.triu_indices(d + 1, 1)]
    assert tree.mean_range_variance() == pytest.approx(ranges.mean(), rel=1e-9)


@pytest.mark.parametrize("fanout", [2, 3, 17, 600, 1000])
def test_variances_of_larger_trees(fanout):
    tree = IntervalTree(600, fanout)
    leaves = tree.leaf_variances()
    assert tree.variance(np.arange(600) == 599) == pytest.approx(leaves[-1], rel=1e-12)
    assert tree.variance(np.ones(600)) == pytest.approx(0, abs=1e-12)
    assert 0 < leaves.min() <= leaves.max() <= 1
    if fanout >= 600:  # independent errors made to add up to 0
        np.testing.assert_allclose(leaves, 1 - 1 / 600, rtol=1e-12)


@pytest.mark.parametrize("domain_size", [math.nan, math.inf, 1, 0, -3, 2.5, 1 << 32])
def test_bad_domains_are_refused(domain_size):
    with pytest.raises(ValueError, match="domain_size"):
        IntervalTree(domain_size)


@pytest.mark.parametrize("fanout", [math.nan, math.inf, 1, 0, -2, 2.5])
def test_bad_fanouts_are_refused(fanout):
    with pytest.raises(ValueError, match="fanout"):
        IntervalTree(10, fanout)
