"""The choice of a mechanism for means: the least worst-case variance within what may be spent."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mechanisms import catalog
from mechanisms.mean_planner import (
    KEY_VALUE,
    MeanTarget,
    design,
    design_groups,
)
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_delta, tight_epsilon

LOCAL = MeanTarget("local", 1.0, 0.0, n=1)
SHUFFLE = MeanTarget("shuffle", 1.0, 1e-6, n=10_000, cells=64)


def buildable(target: MeanTarget) -> dict[str, float]:
    """The worst variance of every mechanism of the catalogue that serves a target."""
    found = {}
    for name in catalog.of_task("mean"):
        try:
            found[name] = design(target, name).mechanism.worst_variance
        except ValueError:
            continue
    return found


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 9.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_auto_is_the_best_of_the_whole_catalogue(epsilon, delta):
    target = replace(LOCAL, epsilon=epsilon, delta=delta, cells=256)
    best, every = design(target), buildable(target)
    assert len(every) >= 9
    assert best.mechanism.worst_variance <= min(every.values()) * (1 + 1e-9)
    assert tight_delta(best.mechanism, epsilon) <= delta
    assert best.release == best.local
    assert best.release.epsilon == best.mechanism.epsilon <= epsilon


def test_a_delta_is_spent_by_those_that_can():
    target = replace(LOCAL, epsilon=0.5, delta=0.01)
    for name in ("ndm", "window_optimal", "hybrid_optimal", "nm", "im"):
        assert design(target, name).local.delta == 0.01
        assert design(replace(target, delta=0.0), name).local.delta == 0
    assert 0 < design(target, "gaussian_analytic").local.delta <= 0.01
    assert design(target, "optimal").local.delta == 0


def test_the_best_mechanism_of_the_local_model_is_the_optimum():
    assert design(LOCAL).name == "optimal"
    assert design(LOCAL).mechanism.cells == 1024
    assert design(replace(LOCAL, cells=50)).mechanism.cells == 50
    assert design(replace(LOCAL, epsilon=10.0)).name != "optimal"


def test_a_cap_is_kept():
    assert design(replace(LOCAL, epsilon_local=0.5)).mechanism.epsilon == 0.5
    small = replace(SHUFFLE, n=1000, cells=16)
    assert design(replace(small, epsilon_local=2.0)).mechanism.epsilon <= 2.0
    alone = design(replace(small, epsilon=None, epsilon_local=2.0))
    assert alone.mechanism.epsilon == 2.0
    assert alone.release.epsilon < 0.5


def test_a_shuffled_batch_meets_its_target_and_wastes_little_of_it():
    found = design(SHUFFLE)
    assert found.release.model == "shuffle"
    assert 0.99 < found.release.epsilon <= 1.0
    assert found.release.delta == 1e-6
    assert tight_epsilon(found.mechanism) <= found.local.epsilon
    assert shuffled_delta(found.mechanism, 10_000, 1.0)[1] <= 1e-6
    assert "batches exist that lose" in found.release.how
    # Far better than without the shuffler.
    assert found.mechanism.worst_variance < design(LOCAL).mechanism.worst_variance / 50


@pytest.mark.parametrize(
    "name", [n for n, one in catalog.of_task("mean").items() if "shuffle" in one.models]
)
def test_every_mechanism_is_amplified_by_name(name):
    found = design(replace(SHUFFLE, n=2000), name)
    assert found.name == name
    assert found.local.epsilon > 1.5
    assert found.release.epsilon <= 1.0
    assert shuffled_delta(found.mechanism, 2000, 1.0)[1] <= 1e-6


def test_auto_is_as_good_as_any_in_the_batch():
    target = replace(SHUFFLE, n=50_000)
    best = design(target).mechanism.worst_variance
    for name in ("optimal", "hybrid_optimal", "window_optimal"):
        assert best <= design(target, name).mechanism.worst_variance * 1.02


def test_groups_get_the_grid_with_the_least_error():
    for target in (LOCAL, replace(SHUFFLE, n=1_000_000, cells=None)):
        best = design_groups(target, 5)
        assert best.name == KEY_VALUE
        assert best.release.epsilon <= 1.0
        error = best.mechanism.worst_variance(0.2)
        for cells in (1, 2, 4, 16, 64):
            other = design_groups(replace(target, cells=cells), 5)
            assert other.mechanism.cells == cells
            assert error <= other.mechanism.worst_variance(0.2) * (1 + 1e-9)
    assert design_groups(LOCAL, 5).mechanism.cells == 1
    assert design_groups(replace(SHUFFLE, n=1_000_000, cells=None), 5).mechanism.cells > 4


@pytest.mark.parametrize(
    ("target", "name", "match"),
    [
        ({}, "magic", "unknown mechanism 'magic'; there are: optimal"),
        ({}, "gaussian", "gaussian needs a delta of every single report"),
        ({"epsilon": 9.0}, "optimal", "the nearest that works is 8"),
    ],
)
def test_what_cannot_be_met_is_refused(target, name, match):
    with pytest.raises(ValueError, match=match):
        design(replace(LOCAL, **target), name)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"model": "central"}, "model must be one of"),
        ({"epsilon": None}, "epsilon is missing"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": math.nan}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"n": 0}, "n"),
        ({"epsilon_local": -1.0}, "epsilon"),
    ],
)
def test_targets_that_mean_nothing_are_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        replace(LOCAL, **wrong)
    if "delta" in wrong or "n" in wrong:
        with pytest.raises(ValueError, match=match):
            replace(SHUFFLE, **wrong)
    with pytest.raises(ValueError, match="delta"):
        replace(SHUFFLE, delta=0.0)
