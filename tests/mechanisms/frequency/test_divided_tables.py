"""Users divided among tables: unbiased, exact errors, best shares, and what a report reveals."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from mechanisms.counters.axes import Axis, Table, flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.subset_selection import SubsetSelection
from mechanisms.planner.search import search
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from mechanisms.vector.divided_tables import DividedTables, TablesTask, contrasts

UNEVEN = Axis((2, 3, 7), ((0, 1, 0), (2, 0, 1, 1, 0, 1, 1)))
GROUPED = CrossTabs(
    (UNEVEN, *flat([3, 2])), (((0, 1),), ((0, 3),), ((0, 2), (1, 1)), ((0, 3), (2, 1)))
)
FLAT = CrossTabs(flat([3, 4, 6]), pairs(3))
N = 3000


def population(tabs: CrossTabs) -> np.ndarray:
    """(n, columns) places of users, of whom some cells have many and some none."""
    rng = np.random.default_rng(4)
    sizes = [axis.sizes[-1] for axis in tabs.axes]
    shares = rng.dirichlet(np.full(math.prod(sizes), 0.3))
    return np.stack(np.unravel_index(rng.choice(shares.size, N, p=shares), sizes), axis=1)


def truth(tabs: CrossTabs, rows: np.ndarray) -> np.ndarray:
    """How many there are, and how many of each cell of each table."""
    found: list[np.ndarray] = [np.array([float(len(rows))])]
    for table in tabs.asked:
        array = np.zeros(tabs.shape(table))
        np.add.at(array, tuple(tabs.axes[c].places(level)[rows[:, c]] for c, level in table), 1)
        found.append(array.ravel())
    return np.concatenate(found)


def flattened(tables: dict[Table, np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in tables.values()])


@pytest.mark.verify
@pytest.mark.parametrize(
    ("tabs", "epsilon"), [(FLAT, 0.5), (GROUPED, 2.0), (GROUPED, 5.0)],
    ids=["flat", "grouped", "grouped, few lies"],
)  # fmt: skip
def test_estimates_are_unbiased_and_their_errors_exact(tabs: CrossTabs, epsilon: float) -> None:
    """Means of 150 releases lie within 7 standard errors of the truth, for any of 71 cells less
    than once in 10^9 runs. Squares of single cells have a relative deviation of sqrt(2 / 150);
    their quotients by what is said stay within 7 of those, and on average within a tenth."""
    mechanism, rows, runs = DividedTables(epsilon, tabs), population(tabs), 150
    rng, true = SeededRandom(11), truth(tabs, population(tabs))
    found, errors = [], []
    for _ in range(runs):
        counts = mechanism.count(mechanism.perturb(rows, rng))
        finest = mechanism.finest(counts)
        found.append(flattened(mechanism.plan.published(finest)))
        fitted = mechanism.plan.fitted(finest)
        errors.append(np.concatenate([e.ravel() for e in mechanism.errors(counts, fitted)]))
    off, error = np.array(found) - true, np.array(errors)
    assert (off[:, 0] == 0).all()
    assert (error[:, 0] == 0).all()
    deviation = off[:, 1:].std(axis=0)
    assert (np.abs(off[:, 1:].mean(axis=0)) < 7 * deviation / runs**0.5).all()
    quotients = np.mean(off[:, 1:] ** 2, axis=0) / np.mean(error[:, 1:] ** 2, axis=0)
    assert np.abs(quotients - 1).max() < 7 * (2 / runs) ** 0.5
    assert abs(quotients.mean() - 1) < 0.1


@pytest.mark.parametrize("oracle", [k_ary(1.0, 5), SubsetSelection(1.0, 5)], ids=["grr", "subset"])
def test_the_noise_of_contrasts_by_enumeration(oracle) -> None:
    """Of a contrast of all values, for a population in which one in two holds the first."""
    held = np.array([0.5, 0.3, 0.2, 0.0, 0.0])
    weights = np.array([3.0, -1.0, 0.5, 0.5, -3.0])
    supports = []
    for code in range(oracle.outcomes):
        counts = np.zeros(oracle.codes, np.int64)
        np.add.at(counts, list(oracle.reports[code]), 1)
        supports.append(oracle.support(counts))
    told = np.array(supports) @ weights / oracle.contrast
    laws = np.array([oracle.channel(cell) for cell in range(5)])
    own = laws @ told**2 - (laws @ told) ** 2
    base, slope = contrasts(oracle)
    assert held @ own == pytest.approx(weights**2 @ (base + slope * held), rel=1e-9)


def test_shares_of_tables_that_say_nothing_of_each_other() -> None:
    """The mean variances v (1 - 1 / cells) / share add up to the least at shares like roots."""
    mechanism = DividedTables(1.0, CrossTabs(flat([2, 50]), (((0, 1),), ((1, 1),))))
    costs = np.array(mechanism.plan.units) * (1 - 1 / np.array([2, 50]))
    best = np.sqrt(costs / costs.max())
    assert np.array(mechanism.shares) / max(mechanism.shares) == pytest.approx(best, abs=2e-3)


def test_no_other_division_errs_less() -> None:
    mechanism = DividedTables(1.0, FLAT)
    plan = mechanism.plan

    def error(shares: np.ndarray) -> float:
        unit = dict(zip(plan.candidates, plan.units, strict=True))
        each = [unit[t] / s for t, s in zip(plan.measured, shares / shares.sum(), strict=True)]
        return sum(plan.variances(table, each).mean() for table in plan.asked)

    best = error(np.array(plan.shares))
    rng = np.random.default_rng(2)
    for _ in range(20):
        assert best <= error(np.array(plan.shares) * rng.uniform(0.7, 1.4, len(plan.shares)))


@pytest.mark.parametrize("tabs", [CrossTabs(flat([2, 3]), pairs(2)), GROUPED], ids=["flat", "deep"])
def test_the_pairs_that_are_audited_are_the_worst(tabs: CrossTabs) -> None:
    mechanism = DividedTables(1.0, tabs)
    laws = [mechanism.channel(row) for row in range(mechanism.inputs)]
    worst = max(np.log(a / b)[a > 0].max() for a, b in permutations(laws, 2))
    assert tight_epsilon(mechanism) == pytest.approx(worst, rel=1e-12)
    assert worst <= mechanism.epsilon


def test_who_is_drawn_for_a_table_is_drawn_by_its_share() -> None:
    """Of 200,000 rows, within 7 standard deviations."""
    mechanism, n = DividedTables(1.0, FLAT), 200_000
    counts = mechanism.count(mechanism.perturb(np.zeros((n, 3), np.int64), SeededRandom(3)))
    drawn = np.array([part.sum() for part in mechanism.parts(counts)])
    share = np.array(mechanism.shares) / sum(mechanism.shares)
    assert (np.abs(drawn - n * share) < 7 * np.sqrt(n * share * (1 - share))).all()
    assert stats.chisquare(drawn, n * share).pvalue > 1e-9


def test_a_table_that_nobody_was_drawn_for_is_told_by_the_others() -> None:
    mechanism = DividedTables(1.0, FLAT)
    one = mechanism.count(mechanism.perturb([[0, 1, 2]], SeededRandom(1)))
    finest = mechanism.finest(one)
    errors = [*mechanism.errors(one, mechanism.plan.fitted(finest))]
    assert float(finest[()]) == 1.0
    assert all(np.isfinite(each).all() for each in errors)
    with pytest.raises(ValueError, match="no report"):
        mechanism.finest(np.zeros(mechanism.codes, np.int64))


def test_a_shuffled_batch_lets_reports_spend_more() -> None:
    alone, together = (
        search(Target(model, 1.0, delta, 100_000, TablesTask(FLAT)))
        for model, delta in (("local", 0.0), ("shuffle", 1e-7))
    )
    assert together.release.epsilon <= 1.0 < together.local.epsilon
    assert together.error < alone.error / 20


def test_tables_whose_cost_is_known_already_are_refused() -> None:
    with pytest.raises(ValueError, match="no units yet"):
        DividedTables(1.0, DividedTables(1.0, FLAT).plan)
    with pytest.raises(ValueError, match="name fewer tables"):
        DividedTables(1.0, CrossTabs(flat([3_000] * 6), pairs(6)))
