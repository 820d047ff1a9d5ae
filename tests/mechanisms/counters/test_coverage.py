"""Intervals hold what they say: 10,000 releases by sums, single intervals and joint ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters
from mechanisms.counters.tree import Tree
from mechanisms.randomness import SeededRandom

RUNS = 10_000
pytestmark = pytest.mark.verify


def require_covered(errors: np.ndarray, single: tuple, joint: tuple) -> None:
    """Of (runs, statistics): each interval 93 to 97 %, all of them together at least 94 %."""
    low, high = (np.broadcast_to(end, errors.shape[1:]) for end in single)
    covered = ((errors >= low) & (errors <= high)).mean(axis=0)
    assert ((covered >= 0.93) & (covered <= 0.97)).all()
    # Power: intervals that are a sixth too short would not have passed.
    short = ((errors >= low * 5 / 6) & (errors <= high * 5 / 6)).mean(axis=0)
    assert (short < 0.93).all()
    assert ((errors >= joint[0]) & (errors <= joint[1])).all(axis=1).mean() >= 0.94


def test_a_histogram_with_several_values_a_user() -> None:
    design = Counters.meeting(Amounts(60, 10).levels, "add or remove", 1.0, 1e-6)
    drawn = design.dummies.draw([0], 60 * RUNS, SeededRandom(1)).reshape(RUNS, 60)
    noise = design.dummies.error_law([1])
    ends = [(noise.ppf(tail), noise.isf(tail)) for tail in (0.025, 0.025 / 60)]
    require_covered(drawn - design.dummies.means[0], ends[0], ends[1])


def test_sums_by_group_of_correlated_digits() -> None:
    encoder = Amounts(6, 1, 255)
    design = Counters.meeting(encoder.levels, "replace", 1.0, 1e-6, correlated=True)
    assert len(design.dummies.groups) == 1
    weights = [int(level.weight) for level in encoder.levels]
    drawn = design.dummies.draw(range(len(weights)), 6 * RUNS, SeededRandom(2))
    errors = np.array(weights) @ (drawn - np.array(design.dummies.means)[:, None])
    noise = design.dummies.error_law(weights)
    ends = [(noise.ppf(tail), noise.isf(tail)) for tail in (0.025, 0.025 / 6)]
    require_covered(errors.reshape(RUNS, 6), ends[0], ends[1])


def cumulated(tree: Tree, design: Counters, seed: int) -> np.ndarray:
    """(runs, cells) errors of the distribution function."""
    rng, variances = SeededRandom(seed), design.variances
    rows = [
        design.dummies.draw([i], level.counters * RUNS, rng).reshape(RUNS, -1) - mean
        for i, (level, mean) in enumerate(zip(tree.levels, design.dummies.means, strict=True))
    ]
    cells = [tree.estimate(counts, variances) for counts in zip(*rows, strict=True)]
    return np.cumsum(cells, axis=1)


def test_the_distribution_function_of_a_tree() -> None:
    tree = Tree.uniform(60, 4)
    design = Counters.meeting(tree.levels, "add or remove", 1.0, 1e-6)
    spread = np.sqrt(tree.range_variances(np.zeros(60), np.arange(1, 61), design.variances))
    single = spread * -special.ndtri(0.025)
    # Few levels have Laplace noise, whose tails are heavier than a normal law's: a normal quantile
    # for each of 60 cells holds in 93.2 % of runs only. The noise is known, so the largest error
    # can be had from draws of its own.
    largest = np.abs(cumulated(tree, design, 4) / spread).max(axis=1)
    joint = spread * np.quantile(largest, 0.95)
    errors = cumulated(tree, design, 3)
    require_covered(errors, (-single, single), (-joint, joint))
