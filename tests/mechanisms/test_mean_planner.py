"""The choice of a mechanism for means: the least worst-case variance within what may be spent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mechanisms import catalog
from mechanisms.mean.key_value import GroupTask
from mechanisms.mean.task import MeanTask
from mechanisms.planner.search import search
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.targets.rules import Target
from tests.fakes.few import ends

LOCAL = Target("local", 1.0, 0.0, 1, MeanTask())
SHUFFLE = Target("shuffle", 1.0, 1e-6, 10_000, MeanTask(cells=64))
KEYS = ("cells",)


def changed(target, **changes):
    """A target with other privacy, or of another question."""
    own = {key: changes.pop(key) for key in KEYS if key in changes}
    return replace(target, task=replace(target.task, **own), **changes)


def buildable(target: Target) -> dict[str, float]:
    """The worst variance of every mechanism of the catalogue that serves a target."""
    found = {}
    for name in catalog.of_task("mean"):
        try:
            found[name] = search(target, name).mechanism.worst_variance
        except ValueError:
            continue
    return found


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 9.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_auto_is_the_best_of_the_whole_catalogue(epsilon, delta):
    target = changed(LOCAL, epsilon=epsilon, delta=delta, cells=256)
    best, every = search(target), buildable(target)
    assert len(every) >= 9
    assert best.mechanism.worst_variance <= min(every.values()) * (1 + 1e-9)
    assert tight_delta(best.mechanism, epsilon) <= delta
    assert best.release == best.local
    assert best.release.epsilon == best.mechanism.epsilon <= epsilon


def test_a_delta_is_spent_by_those_that_can():
    target = changed(LOCAL, epsilon=0.5, delta=0.01)
    for name in ("ndm", "window_optimal", "hybrid_optimal", "nm", "im"):
        assert search(target, name).local.delta == 0.01
        assert search(changed(target, delta=0.0), name).local.delta == 0
    assert 0 < search(target, "gaussian_analytic").local.delta <= 0.01
    assert search(target, "optimal").local.delta == 0


def test_the_best_mechanism_of_the_local_model_is_the_optimum():
    assert search(LOCAL).name == "optimal"
    assert search(LOCAL).mechanism.cells == 1024
    assert search(changed(LOCAL, cells=50)).mechanism.cells == 50
    assert search(changed(LOCAL, epsilon=10.0)).name != "optimal"


def test_a_cap_is_kept():
    assert search(changed(LOCAL, epsilon_local=0.5)).mechanism.epsilon == 0.5
    small = changed(SHUFFLE, n=1000, cells=16)
    assert search(changed(small, epsilon_local=2.0)).mechanism.epsilon <= 2.0
    alone = search(changed(small, epsilon=None, epsilon_local=2.0))
    assert alone.mechanism.epsilon == 2.0
    assert alone.release.epsilon < 0.5


def test_a_shuffled_batch_meets_its_target_and_wastes_little_of_it():
    found = search(SHUFFLE)
    assert found.release.model == "shuffle"
    assert 0.99 < found.release.epsilon <= 1.0
    assert found.release.delta == 1e-6
    assert tight_epsilon(found.mechanism) <= found.local.epsilon
    assert shuffled_delta(found.mechanism, 10_000, 1.0)[1] <= 1e-6
    assert "batches exist that lose" in found.release.how
    # Far better than without the shuffler.
    assert found.mechanism.worst_variance < search(LOCAL).mechanism.worst_variance / 50


@pytest.mark.parametrize(
    "name", ends([n for n, one in catalog.of_task("mean").items() if "shuffle" in one.models])
)
def test_every_mechanism_is_amplified_by_name(name):
    found = search(changed(SHUFFLE, n=2000), name)
    assert found.name == name
    assert found.local.epsilon > 1.5
    assert found.release.epsilon <= 1.0
    assert shuffled_delta(found.mechanism, 2000, 1.0)[1] <= 1e-6


def test_auto_is_as_good_as_any_in_the_batch():
    target = changed(SHUFFLE, n=50_000)
    best = search(target).mechanism.worst_variance
    for name in ("optimal", "hybrid_optimal", "window_optimal"):
        assert best <= search(target, name).mechanism.worst_variance * 1.02


def test_groups_get_the_grid_with_the_least_error():
    large = replace(SHUFFLE, n=1_000_000)
    for target in (LOCAL, large):
        best = search(target.asking(GroupTask(5)))
        assert best.name == "key_value"
        assert best.release.epsilon <= 1.0
        for cells in (1, 2, 4, 16, 64):
            other = search(target.asking(GroupTask(5, cells)))
            assert other.mechanism.cells == cells
            assert best.error <= other.error * (1 + 1e-9)
    assert search(LOCAL.asking(GroupTask(5))).mechanism.cells == 1
    assert search(large.asking(GroupTask(5))).mechanism.cells > 4


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
        search(changed(LOCAL, **target), name)
