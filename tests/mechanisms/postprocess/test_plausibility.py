"""Counts that no population makes likely: honest ones pass, whatever people hold; forged do not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mechanisms.catalog import build
from mechanisms.channel import Mechanism
from mechanisms.heavy_hitters.levels import Levels
from mechanisms.heavy_hitters.plausibility import chance
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.randomness import SeededRandom

FALSE_ALARM = 1e-6

MECHANISMS: dict[str, Mechanism] = {
    "grr": build("grr", epsilon=1.0, domain_size=5),
    "olh": build("olh", epsilon=1.0, domain_size=300),
    "hadamard": build("hadamard", epsilon=1.0, domain_size=300),
    "duchi": build("duchi", epsilon=1.0, cells=64),
    "pm": build("pm", epsilon=1.0, cells=64),
    "hm": build("hm", epsilon=1.0, cells=64),
    "laplace": build("laplace", epsilon=1.0, cells=64),
    "groups": PublicGroups(build("duchi", epsilon=1.0, cells=8), 3),
    "levels": Levels(build("grr", epsilon=1.0, domain_size=16), (1, 1, 2)),
}


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_honest_clients_are_not_doubted_whatever_they_hold(name: str) -> None:
    """Alike, at the ends, and spread: each of 60 batches is doubted with probability < 1e-6."""
    mechanism, rng = MECHANISMS[name], SeededRandom(7)
    last = mechanism.inputs - 1
    for size in (1, 40, 5000):
        populations = [np.zeros(size, int), np.full(size, last), np.arange(size) % (last + 1)]
        for cells in populations * 6:
            if isinstance(mechanism, Levels):  # whose clients draw their level before they look
                groups = mechanism.draw(size, rng)
                cells = groups * mechanism.oracle.inputs + cells % mechanism.oracle.inputs
            counts = mechanism.count(mechanism.perturb(cells, rng))
            assert chance(mechanism, counts) >= FALSE_ALARM


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_reports_that_all_say_one_thing_are_doubted(name: str) -> None:
    mechanism = MECHANISMS[name]
    for code in (0, mechanism.codes - 1):
        counts = np.zeros(mechanism.codes, np.int64)
        counts[code] = 5000
        assert chance(mechanism, counts) < FALSE_ALARM


def test_hashes_that_all_support_one_value_are_doubted() -> None:
    """No code comes too often: each report is honest but for its answer."""
    mechanism, rng = MECHANISMS["olh"], SeededRandom(8)
    counts = mechanism.count(mechanism.perturb(np.full(40_000, 17), rng))
    supporting = np.array(
        [mechanism.support(np.eye(1, mechanism.codes, k, dtype=np.int64)[0])[17]
         for k in np.flatnonzero(counts)]
    )  # fmt: skip
    forged = np.zeros_like(counts)
    forged[np.flatnonzero(counts)[supporting == 1]] = 8
    assert forged.max() < 10 * forged[forged > 0].mean()
    assert chance(mechanism, forged) < FALSE_ALARM


def test_hashes_that_are_chosen_for_what_they_support_are_doubted() -> None:
    """Three liars in a hundred, for ten values: no support is out of reach, but the hashes are."""
    mechanism, rng = MECHANISMS["olh"], SeededRandom(9)
    honest = mechanism.count(mechanism.perturb(np.arange(97_000) % 300, rng))
    forged = mechanism.forged(np.arange(10), 3000, rng)
    assert chance(mechanism, honest) >= FALSE_ALARM
    assert chance(mechanism, honest + forged) < FALSE_ALARM


def test_liars_who_crowd_a_level_are_doubted() -> None:
    mechanism, rng = MECHANISMS["levels"], SeededRandom(10)
    assert isinstance(mechanism, Levels)
    cells = mechanism.draw(40_000, rng) * 16 + np.arange(40_000) % 16
    honest = mechanism.count(mechanism.perturb(cells, rng))
    crowd = mechanism.count(mechanism.perturb(np.arange(2000) % 16, rng))  # of the first level
    assert chance(mechanism, honest) >= FALSE_ALARM
    assert chance(mechanism, honest + crowd) < FALSE_ALARM


def test_a_push_spread_over_many_codes_is_doubted() -> None:
    """All above the middle, each code as often as any: only runs of codes tell."""
    mechanism = MECHANISMS["pm"]
    counts = np.zeros(mechanism.codes, np.int64)
    counts[3 * mechanism.codes // 4 :] = 60
    assert chance(mechanism, counts) < FALSE_ALARM


@pytest.mark.parametrize("held", [(0, 0, 0, 0, 0), (0, 1, 2, 0, 1), (2, 2, 1, 1, 1)])
def test_the_bound_is_one_over_every_outcome_of_a_small_batch(held: tuple[int, ...]) -> None:
    """P(chance <= a) <= a for every a, from the exact law of five reports."""
    mechanism = build("grr", epsilon=2.0, domain_size=3)
    laws = [mechanism.channel(cell) for cell in held]
    found = []
    for sent in itertools.product(range(3), repeat=len(held)):
        weight = math.prod(law[code] for law, code in zip(laws, sent, strict=True))
        found.append((chance(mechanism, np.bincount(sent, minlength=3)), weight))
    found.sort()
    total = 0.0
    for bound, weight in found:
        total += weight
        if bound < 1:
            assert total <= bound * (1 + 1e-9)


def test_what_cannot_be_tested_is_not_doubted() -> None:
    several = build("oue", epsilon=1.0, domain_size=20)
    counts = np.zeros(several.codes, np.int64)
    counts[3] = 10_000
    assert chance(several, counts) == 1.0
    assert chance(MECHANISMS["grr"], np.zeros(5, np.int64)) == 1.0
