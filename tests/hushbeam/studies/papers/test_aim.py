"""AIM spends what it may, and chooses the table that its model lacks; mbi is stood in for."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hushbeam.studies.papers import aim
from mechanisms.privacy.search import gaussian_delta
from mechanisms.randomness import SeededRandom

SIZES = (2, 3, 2, 2)


def hidden(n: int = 4000) -> np.ndarray:
    """The last column is the parity of two others, which no table of two columns tells."""
    rng = np.random.default_rng(4)
    rows = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    rows[:, 3] = rows[:, 0] ^ rows[:, 2]
    return rows


@dataclass
class Measured:
    values: np.ndarray
    clique: tuple[int, ...]
    stddev: float = 1.0


@dataclass
class Model:
    """A table of all columns, raked to what was measured."""

    joint: np.ndarray
    cliques: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def total(self) -> float:
        return float(self.joint.sum())

    def project(self, clique: tuple[int, ...]) -> Any:
        rest = tuple(c for c in range(len(SIZES)) if c not in clique)
        return SimpleNamespace(datavector=lambda: self.joint.sum(axis=rest).ravel())


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Measured]:
    every: list[Measured] = []

    def estimate(domain: Any, measurements: list[Measured], **_: Any) -> Model:
        every[:] = measurements
        joint = np.full(SIZES, 4000 / math.prod(SIZES))
        for _ in range(20):
            for one in measurements:
                rest = tuple(c for c in range(len(SIZES)) if c not in one.clique)
                now = joint.sum(axis=rest, keepdims=True)
                wanted = np.maximum(one.values, 1e-3).reshape(now.shape)
                joint = joint * (wanted / now) ** 0.7
        return Model(joint, [one.clique for one in measurements])

    def synthetic_data(model: Model, rows: int, seed: int) -> Any:
        shares = model.joint.ravel() / model.total
        cells = np.random.default_rng(seed).choice(shares.size, rows, p=shares)
        columns = dict(enumerate(np.unravel_index(cells, SIZES)))
        return SimpleNamespace(to_dict=lambda: columns)

    mbi = SimpleNamespace(
        Domain=lambda names, sizes: sizes,
        LinearMeasurement=Measured,
        estimation=SimpleNamespace(MirrorDescent=lambda: SimpleNamespace(estimate=estimate)),
        junction_tree=SimpleNamespace(hypothetical_model_size=lambda domain, cliques: 0.0),
    )
    made = mbi, synthetic_data
    monkeypatch.setattr(aim, "require_mbi", lambda: made)
    return every


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-6), (1.0, 1e-6), (5.0, 1e-9)])
def test_rho_is_on_the_private_side_and_not_far_from_it(epsilon: float, delta: float) -> None:
    """Of the Gaussian mechanism of that rho the exact delta is known."""
    rho = aim.concentrated(epsilon, delta)
    assert gaussian_delta(math.sqrt(2 * rho), epsilon) <= delta
    assert gaussian_delta(math.sqrt(2 * 1.5 * rho), epsilon) > delta
    simple = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2
    assert simple < rho < 1.8 * simple  # Bun and Steinke 2016, which is looser


def test_tables_weigh_what_they_have_of_those_that_are_wanted() -> None:
    weights = aim.workload(4, 3)
    assert len(weights) == 4 + 6 + 4
    for part, weight in weights.items():
        assert weight == sum(len({*part} & {*one}) for one in combinations(range(4), 3))


def test_the_budget_is_spent_and_no_more(measured: list[Measured]) -> None:
    rho = aim.concentrated(1.0, 1e-6)
    _, said = aim.synthetic(hidden(), SIZES, 2, 1.0, 1e-6, SeededRandom(1))
    noise = sum(0.5 / one.stddev**2 for one in measured)
    # One part in ten of what rounds spend is for choosing.
    assert 0.85 * rho < noise <= 0.95 * rho
    assert said["tables"] == len(measured) > len(SIZES)
    assert {one.clique for one in measured[: len(SIZES)]} == {(0,), (1,), (2,), (3,)}


def test_the_table_that_tells_the_most_is_chosen(measured: list[Measured]) -> None:
    """With tables of three the hidden parity is had, and with tables of two it cannot be."""
    odd = []
    for ways in (2, 3):
        made, _ = aim.synthetic(hidden(), SIZES, ways, 2.0, 1e-6, SeededRandom(2))
        odd.append((made[:, 0] ^ made[:, 2] ^ made[:, 3]).mean())
    assert 0.35 < odd[0] < 0.65
    assert odd[1] < 0.05
    assert measured[len(SIZES)].clique == (0, 2, 3)


def test_choices_are_those_of_the_exponential_mechanism() -> None:
    source = np.random.default_rng(1)
    scores = {(0,): 0.0, (1,): 1.0, (2,): 3.0}
    drawn = [aim._drawn(scores, 2.0, 1.5, source)[0] for _ in range(20_000)]
    odds = np.exp(1.5 / 4 * np.array([0.0, 1.0, 3.0]))
    assert np.bincount(drawn) / 20_000 == pytest.approx(odds / odds.sum(), abs=0.025)


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(ValueError, match=r"\[aim\]"):
        aim.require_mbi()
