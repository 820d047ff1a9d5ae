"""Samplers against the laws that privacy was proven for: equal as rationals, not just alike."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mechanisms import catalog
from mechanisms.channel import Mechanism
from mechanisms.frequency.correlated_noise import CorrelatedNoise
from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.mean.two_point import duchi
from mechanisms.papers.aue import Aue
from mechanisms.papers.dump import MixDump, PureDump
from mechanisms.papers.rphm import MultiRphm
from mechanisms.sampling.integer_tables import IntegerTable
from mechanisms.vector.multi import multi_hm
from mechanisms.vector.privunit import PrivUnit
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles.enumeration import BEYOND, exact_law

Law = Mapping[Hashable, Fraction]

FREQUENCY = [
    catalog.build("grr", epsilon=1.0, domain_size=5),
    catalog.build("olh", epsilon=1.0, domain_size=10),
    LinearHash(1.0, 10, 4),
    catalog.build("srr", epsilon=2.5, domain_size=7),
    catalog.build("hadamard", epsilon=1.0, domain_size=7),
    catalog.build("sue", epsilon=1.0, domain_size=4),
    catalog.build("oue", epsilon=1.0, domain_size=4),
    catalog.build("subset", epsilon=1.0, domain_size=5),
    catalog.build("rappor", epsilon=1.0, domain_size=5, bits=4, hashes=2, cohorts=2),
    catalog.build("shist", epsilon=1.0, domain_size=5, rows=4),
    catalog.build("treehist", epsilon=1.0, domain_size=5, width=4, sketches=2),
]
MEAN = [
    catalog.build(name, epsilon=1.0, cells=4)
    for name in ("pm", "nm", "im", "window_optimal", "dct", "duchi", "ndm", "hm", "hybrid_optimal")
]
# An alias table's columns leave no order: its words are cut into more parts than it has changes.
ADDITIVE = [
    catalog.build("laplace", epsilon=2.0, cells=1),
    catalog.build("gaussian", epsilon=2.0, delta=0.05, cells=1),
]
VECTOR = [
    multi_hm(1.0, 2, cells=1),
    SampledCoordinates(1.0, 2, 2, duchi(0.5, cells=1)),
    MultiRphm(1.0, 4, projected=2, cells=1),
    PrivUnit(1.0, 2, radius=2.0, lines=3, codebooks=2),
]
LISTED = [
    Aue(1.0, 0.1, 14, 2, honest_share=0.8),
    Aue(2.0, 0.3, 4, 3, honest_share=1.0),
    PureDump(1.0, 0.05, 4, 3, honest_share=0.75),
    MixDump(0.6, 0.1, 3, 4, honest_share=1.0, epsilon_local=1.5),
]
POISSON = [
    PoissonDummies(1.0, 0.05, 4, 2, honest_share=0.75),
    PoissonDummies(3.0, 0.5, 3, 3, honest_share=0.7),
]
CORRELATED = CorrelatedNoise(4.0, 0.2, n=3, domain_size=2, honest_share=0.7)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of integers answer with their weights; that draws have these is tested with them."""
    monkeypatch.setattr(IntegerTable, "draw", lambda table, size, rng: rng.table(table, size))


def channel(mechanism: Mechanism, cell: int) -> Law:
    weights, total = mechanism.weights(cell)
    return {place: Fraction(int(weight), total) for place, weight in enumerate(weights) if weight}


def sampled(mechanism: Mechanism, cell: int, grid: int = 1) -> Law:
    return exact_law(lambda rng: int(mechanism.tally(cell, 1, rng).argmax()), grid=grid)


def named(mechanism: Mechanism) -> str:
    return f"{type(mechanism).__name__}-{mechanism.inputs}"


@pytest.mark.parametrize("mechanism", FREQUENCY + MEAN + VECTOR, ids=named)
def test_one_report_has_exactly_the_law_of_its_channel(mechanism: Mechanism) -> None:
    for cell in (0, mechanism.inputs - 1):
        assert sampled(mechanism, cell) == channel(mechanism, cell)


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=named)
def test_noise_has_exactly_the_law_of_its_table(mechanism: Mechanism) -> None:
    for cell in (0, 1):
        assert sampled(mechanism, cell, grid=1 << 8) == channel(mechanism, cell)


# ---- messages that hide among dummies ------------------------------------------------------------


def short_reports(mechanism: SeveralMessages, cell: int, most: int) -> Law:
    """The law of a user's messages, of those reports that are not longer."""

    def report(rng: object) -> Hashable:
        messages = mechanism.perturb([cell], rng)  # type: ignore[arg-type]
        return tuple(sorted(messages.tolist())) if messages.size <= most else BEYOND

    law = exact_law(report, most - 1)
    assert sum(law.values()) == 1
    return {outcome: chance for outcome, chance in law.items() if outcome != BEYOND}


@pytest.mark.parametrize("mechanism", LISTED, ids=named)
def test_a_user_of_dummies_sends_exactly_what_is_accounted(mechanism: SeveralMessages) -> None:
    for cell in (0, mechanism.inputs - 1):
        law = {report: p for report, p in mechanism.report_law(cell).items() if len(report) <= 5}
        assert short_reports(mechanism, cell, most=5) == law


@pytest.mark.parametrize("mechanism", POISSON, ids=named)
def test_poisson_dummies_are_as_many_as_are_accounted(
    tables: None, mechanism: PoissonDummies
) -> None:
    """Independent Poisson counts in each bin, whose sum over the honest users has `bin_mean`."""
    part = mechanism.bin_mean / mechanism.honest(mechanism.n)
    law = short_reports(mechanism, 1, most=4)
    assert len(law) == math.comb(3 + mechanism.codes, 3)
    for report, chance in law.items():
        dummies = np.bincount(report, minlength=mechanism.codes) - (np.arange(mechanism.codes) == 1)
        expected = stats.poisson.pmf(dummies, part).prod()
        assert float(chance) == pytest.approx(expected, rel=1e-12)


def test_correlated_noise_and_its_mask_are_as_large_as_is_accounted(tables: None) -> None:
    """In each bin shares A + Z and B + Z, negative binomial all three; small outcomes say it all.

    A mask that is 1 % short makes "no message" 1.4 % likelier here.
    """
    noise, part = CORRELATED.noise, 1 / CORRELATED.honest(CORRELATED.n)
    counts = np.arange(3)
    alone = stats.nbinom.pmf(counts, part, 1 - noise.decay)
    mask = stats.nbinom.pmf(counts, part * noise.shape, 1 - noise.ratio)

    def likely(adding: int, taking: int) -> float:
        shared = range(min(adding, taking) + 1)
        return sum(mask[z] * alone[adding - z] * alone[taking - z] for z in shared)

    law = short_reports(CORRELATED, 0, most=3)
    small = {report: chance for report, chance in law.items() if len(report) <= 3}
    assert len(small) == 15
    for report, chance in small.items():
        (a0, a1), (b0, b1) = np.bincount(report, minlength=4).reshape(2, 2).tolist()
        expected = likely(a0 - 1, b0) * likely(a1, b1)
        assert float(chance) == pytest.approx(expected, rel=1e-12)


# ---- the net itself ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Careless(LinearHash):
    """A client whose lies are a unit in 2^64 rarer than its channel says."""

    @property
    def miss_weight(self) -> int:  # type: ignore[override]
        return super().miss_weight - 1


def test_a_threshold_one_unit_off_is_seen() -> None:
    honest, careless = LinearHash(1.0, 5, 5), Careless(1.0, 5, 5)
    assert sampled(honest, 0) == channel(honest, 0)
    assert sampled(careless, 0) != channel(honest, 0)


def test_courses_of_several_answers_multiply() -> None:
    law = exact_law(lambda rng: int(rng.integers(6, 2).sum() * rng.bernoulli(1 << 62, 1)[0]))
    assert law[10] == Fraction(1, 36) / 4
    assert law[0] == Fraction(3, 4) + Fraction(1, 36) / 4
    thirds = exact_law(lambda rng: int(rng.words(1)[0] // np.uint64((1 << 64) // 3)))
    assert thirds == {
        **dict.fromkeys(range(3), Fraction((1 << 64) // 3, 1 << 64)),
        3: Fraction(1, 1 << 64),
    }
