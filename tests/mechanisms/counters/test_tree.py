"""Trees: least squares against its definition, and constants of ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from mechanisms.counters.tree import Tree
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import SeededRandom


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
    assert tree.range_variances([1], [4], variances, known) == pytest.approx(exact, abs=1e-9)


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


@pytest.mark.parametrize("tree", [Tree(7, (2, 2, 2)), Tree(11, (3, 2, 2)), Tree.uniform(50, 4)])
def test_shares_below_all_ends_at_once(tree: Tree) -> None:
    shares = np.random.default_rng(2).uniform(0, 1, tree.cells + 1)
    variances = [2.0 + i for i in range(len(tree.levels))]
    index = np.arange(tree.cells)
    one_by_one = [
        tree.variance((index < end) - share, variances) for end, share in enumerate(shares.tolist())
    ]
    assert tree.below_variances(shares, variances) == pytest.approx(one_by_one)


def test_a_root_has_no_more_children_than_cells_need() -> None:
    """Nodes that stand for no cell have dummies, too."""
    assert Tree.uniform(42_178, 16).branching == (11, 16, 16, 16)
    assert Tree.uniform(1024, 4).branching == (4,) * 5
    assert Tree.uniform(2, 16).branching == (2,)


RUNS, FAR = 40, 6.2  # standard errors: a false alarm has a chance below 10^-9


@pytest.mark.verify
@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
def test_ranges_of_very_many_cells(neighbours: str) -> None:
    """1,000 random ranges of 42,178 cells, by sums; a hundredth of epsilon is told beside them.

    Where users are replaced their number is public, and there are as many dummies as it takes.
    """
    known = neighbours == "replace"
    tree = Tree.uniform(42_178, 3, 1.0 if known else 1.15)
    more: dict[str, Any] = {"most_dummies": 1 << 40} if known else {"beside": (Level(1, 1),)}
    design = Counters.meeting(tree.levels, neighbours, 1.0, 1e-6, **more)
    rng = np.random.default_rng(3)
    values = np.sort(rng.beta(2, 5, 1_000_000))
    truth = np.bincount((values * tree.cells).astype(int), minlength=tree.cells)
    ends = np.sort(rng.integers(0, tree.cells + 1, (1000, 2)), axis=1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    layout, raised = design.layout, np.zeros(design.layout.codes, np.int64)
    for start, size in zip(layout.starts, tree.sizes[1:], strict=False):
        nodes = np.bincount(np.arange(tree.cells) // size, weights=truth)
        raised[start : start + nodes.size] = nodes
    own = design.variances[: len(tree.levels)]
    exact = tree.range_variances(*ends[:200].T, own, known)
    errors = []
    for seed in range(RUNS):
        rows = design.centred(design.simulate(raised, SeededRandom(seed)))[: len(tree.levels)]
        found = tree.estimate(rows, own, float(truth.sum()) if known else None)
        below = np.append(0.0, np.cumsum(found - truth))
        errors.append(float(np.mean(np.diff(below[ends]) ** 2)))
    mean, spread = np.mean(errors), np.std(errors) / np.sqrt(RUNS)
    assert FAR * spread < 0.3 * mean  # so a variance that is 30 % off is seen
    assert mean == pytest.approx(np.mean(exact), abs=FAR * spread + 0.1 * mean)
    assert mean <= 1600


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
