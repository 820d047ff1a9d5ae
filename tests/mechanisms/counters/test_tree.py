"""Trees: least squares against its definition, and constants of ranges."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.counters.tree import Tree
from mechanisms.privacy.search import gaussian_mu


def system(tree: Tree) -> np.ndarray:
    """Which leaves each node holds, level by level."""
    rows = [
        np.repeat(np.eye(level.counters), tree.leaves // level.counters, 1) for level in tree.levels
    ]
    return np.concatenate(rows)


@pytest.mark.parametrize("tree", [Tree(7, (2, 2, 2)), Tree(12, (3, 2, 2)), Tree(5, (5,))], ids=str)
@pytest.mark.parametrize("known", [False, True])
def test_least_squares_by_its_definition(tree: Tree, known: bool) -> None:
    rng = np.random.default_rng(3)
    design = system(tree)
    variances = [2.0 + i for i in range(len(tree.levels))]
    weights = np.repeat(1 / np.array(variances), [level.counters for level in tree.levels])
    counts, total = rng.normal(50, 9, len(design)), 321.0
    normal = design.T @ (design * weights[:, None])
    answer = np.linalg.solve(normal, design.T @ (weights * counts))
    covariance = np.linalg.inv(normal)
    if known:  # the same under one constraint
        ones = np.ones(tree.leaves)
        pull = covariance @ ones / (ones @ covariance @ ones)
        answer = answer + pull * (total - answer.sum())
        covariance = covariance - np.outer(pull, ones @ covariance)
    rows = np.split(counts, np.cumsum([level.counters for level in tree.levels])[:-1])
    estimate = tree.estimate(rows, variances, total if known else None)
    assert estimate == pytest.approx(answer[: tree.cells])
    for _ in range(5):
        function = rng.normal(size=tree.cells)
        exact = function @ covariance[: tree.cells, : tree.cells] @ function
        assert tree.variance(function, variances, known) == pytest.approx(exact)
    exact = covariance[1:4, 1:4].sum()
    assert tree.range_variance(1, 3, variances, known) == pytest.approx(exact, abs=1e-9)


def test_estimates_are_exact_without_noise() -> None:
    tree = Tree.uniform(40, 3)
    cells = np.random.default_rng(1).integers(0, 40, 500)
    sets = tree.encode(np.append(cells, -1))
    counts = [
        np.bincount(row[row >= 0], minlength=level.counters).astype(float)
        for row, level in zip(sets, tree.levels, strict=True)
    ]
    truth = np.bincount(cells, minlength=40)
    assert tree.estimate(counts, [1.0, 2.0, 3.0, 4.0]) == pytest.approx(truth)
    assert sets[0][-1] == [-1]


def averages(tree: Tree, known: bool) -> tuple[float, float]:
    """Mean variance of all ranges, and of the distribution function, at epsilon 1, delta 1e-6."""
    shape = np.array([1 / level.weight for level in tree.levels])
    variances = (shape * (2 / shape).sum() / gaussian_mu(1.0, 1e-6) ** 2).tolist()
    m = tree.cells
    scales = tree._scales(variances, known)
    units = (tree._parts(np.eye(1, tree.leaves, i)[0]) for i in range(m))
    rows = (sum(s * p for s, p in zip(scales, parts, strict=True)) for parts in units)
    covariance = np.stack([row[:m] for row in rows])
    sums = np.zeros((m + 1, m + 1))
    sums[1:, 1:] = covariance.cumsum(0).cumsum(1)
    prefix = np.diag(sums)
    ranges = (prefix[:, None] + prefix - 2 * sums)[np.triu_indices(m + 1, 1)]
    return float(ranges.mean()), float(prefix[1:].mean())


def test_constants_of_ranges_over_512_cells() -> None:
    equal, growing = Tree.uniform(512, 2), Tree.uniform(512, 2, growth=1.15)
    assert averages(equal, False) == pytest.approx((606, 420), rel=0.01)
    assert averages(equal, True)[0] == pytest.approx(552, rel=0.01)
    assert averages(growing, False)[0] == pytest.approx(553, rel=0.01)
    assert averages(growing, True)[0] == pytest.approx(467, rel=0.01)
    assert averages(Tree.uniform(512, 3), False) == pytest.approx((606, 420), rel=0.01)
    flat = Tree(512, (512,))
    assert averages(flat, False)[0] == pytest.approx(6116, rel=0.01)
    assert averages(flat, True)[0] == pytest.approx(3052, rel=0.01)


def test_bad_trees_are_refused() -> None:
    with pytest.raises(ValueError, match="cells must lie in"):
        Tree(9, (2, 2, 2))
    with pytest.raises(ValueError, match="at least two children"):
        Tree(2, (2, 1))
    with pytest.raises(ValueError, match="as many weights"):
        Tree(4, (2, 2), (1.0,))
    with pytest.raises(ValueError, match="fan-out must be"):
        Tree.uniform(4, 1)
    for cell in (-2, 4):
        with pytest.raises(ValueError, match="a cell lies outside"):
            Tree(4, (2, 2)).encode([cell])
