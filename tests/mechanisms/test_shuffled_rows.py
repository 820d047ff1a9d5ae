"""What users may spend on rows in a shuffled batch: cheap to find, and private all the same."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mechanisms.planner.search import search
from mechanisms.privacy import budget
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.targets.rules import Target, most_shuffled
from mechanisms.vector import multi
from mechanisms.vector.multi import multi_hm
from mechanisms.vector.task import VectorTask, grid

BATCH = Target("shuffle", 1.0, 1e-6, 900_000, VectorTask(100))


def solved(target: Target, name: str, sampled: int) -> float:
    """The error of a given number of coordinates, by the search without any foreknowledge."""
    cap = 8.0 * sampled if name == "multi_optimal" else math.inf

    d = target.task.dimension

    def family(epsilon):
        return getattr(multi, name)(epsilon, d, cells=grid("shuffle", d), sampled=sampled)

    spent = budget.largest_shuffled(*target.batch, family, cap)
    return target.task.error(family(spent), target.n)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("multi_hm", BATCH),
        ("multi_hm", replace(BATCH, n=2_000)),
        ("multi_hm", replace(BATCH, n=60_000, task=VectorTask(100, radius=2.0))),
        ("multi_hm", replace(BATCH, n=10**8, task=VectorTask(3))),
        ("multi_optimal", replace(BATCH, n=100_000)),
    ],
)
def test_no_other_number_of_coordinates_is_better(name, target):
    found = search(target, name).mechanism
    assert shuffled_delta(found, target.n, target.epsilon)[1] <= target.delta
    error = target.task.error(found, target.n)
    k = round(found.messages)
    tried = {1, k - 1, k, k + 1} & set(range(1, target.task.dimension + 1))
    # Nearly equal ones may change places: the choice is made on an epsilon known to 0.1 %.
    assert error <= min(solved(target, name, each) for each in tried) * 1.003


def test_few_mechanisms_are_built(monkeypatch):
    """Each of them has to compute what its codes stand for, which takes most of the time."""
    built, build = [], multi.multi_optimal

    def counting(*arguments, **more):
        built.append(arguments)
        return build(*arguments, **more)

    monkeypatch.setattr(multi, "multi_optimal", counting)
    found = search(BATCH, "multi_optimal").mechanism
    assert found.sampled == 4
    assert 9.95 < found.epsilon < 9.97
    assert len(built) <= 8  # 25 where nothing was known before the search


@pytest.mark.parametrize(
    ("guess", "tolerance"), [(None, 1e-2), (None, 2e-5), (1e-9, 1e-2), (7.0, 1e-2), (1e9, 1e-2)]
)
def test_a_search_is_private_whatever_it_starts_from(guess, tolerance):
    target = replace(BATCH, n=100_000)

    def family(epsilon):
        return multi_hm(epsilon, target.task.dimension, cells=1, sampled=1)

    spent = most_shuffled(target, family, guess=guess, tolerance=tolerance)
    assert shuffled_delta(family(spent), target.n, 1.0)[1] <= target.delta
    above = family(spent * (1 + 2 * tolerance) + 1e-3)
    assert shuffled_delta(above, target.n, 1.0)[1] > target.delta


def test_a_cap_in_reach_is_spent_whole():
    """16 steps crept up to it before, each of which built a mechanism."""
    tried = []

    def family(epsilon):
        tried.append(epsilon)
        return multi_hm(epsilon, 100, cells=1, sampled=1)

    assert budget.largest_shuffled(1.0, 1e-6, 900_000, family, cap=8.0) == 8.0
    assert tried == [8.0]
    # A cap out of reach is looked at where the guess is near it, and never believed.
    for cap in (9.96, 10.2, 12.0):
        spent = budget.largest_shuffled(1.0, 1e-6, 900_000, family, cap=cap)
        assert spent < min(cap, 9.96)
        assert shuffled_delta(family(spent), 900_000, 1.0)[1] <= 1e-6
