"""Projective geometry response: its collector, its closed forms, its place in the shuffle model."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.algebra.finite_field import is_order
from mechanisms.catalog import build
from mechanisms.frequency.projective_geometry import ProjectiveGeometry, orders
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.search import search
from mechanisms.privacy import budget
from mechanisms.privacy.blanket import upper_delta
from mechanisms.privacy.pair_law import PairLaw, grouped
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from tests.oracles.geometry import incidences
from tests.oracles.statistics import follows, sample_size, tilted

CASES = [
    (2, 2, 2), (2, 2, 3), (2, 3, 4), (2, 3, 5), (2, 3, 7), (2, 7, 100), (3, 2, 2), (3, 2, 4),
    (3, 3, 5), (3, 3, 13), (3, 5, 100), (4, 2, 5), (4, 3, 16), (4, 3, 18), (4, 5, 300), (5, 2, 4),
    (5, 3, 31), (7, 3, 50), (8, 2, 9), (8, 3, 70), (16, 2, 17), (16, 3, 260), (61, 2, 62),
    (64, 2, 60), (509, 2, 400), (512, 2, 513),
]  # fmt: skip


@pytest.mark.parametrize(("q", "t", "domain_size"), CASES)
def test_collector_equals_brute_force(q, t, domain_size):
    mechanism = ProjectiveGeometry(1.0, domain_size, q)
    assert (mechanism.digits, mechanism.codes) == (t, (q**t - 1) // (q - 1))
    rng = SeededRandom(q * t)
    messages = mechanism.perturb(rng.integers(domain_size, 4000), rng)
    brute = incidences(q, t)[:domain_size, messages.astype(np.int64)].sum(axis=1)
    np.testing.assert_array_equal(mechanism.support(mechanism.count(messages)), brute)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_collector_equals_brute_force_for_any_messages(data):
    q, t = data.draw(st.sampled_from([(2, 6), (3, 4), (4, 3), (5, 3), (7, 2), (8, 3), (13, 2)]))
    least = (q ** (t - 1) - 1) // (q - 1) + 1
    domain_size = data.draw(st.integers(max(2, least), (q**t - 1) // (q - 1)))
    mechanism = ProjectiveGeometry(1.0, domain_size, q)
    messages = data.draw(st.lists(st.integers(0, mechanism.codes - 1), min_size=1, max_size=60))
    brute = incidences(q, t)[:domain_size, messages].sum(axis=1)
    np.testing.assert_array_equal(mechanism.support(mechanism.count(messages)), brute)


@pytest.mark.parametrize(("q", "t", "domain_size"), CASES)
def test_a_report_is_likelier_on_the_hyperplane_of_the_value(q, t, domain_size):
    """The wire format, and the odds: within a part in 10^9 of e^epsilon, from below."""
    mechanism, on = ProjectiveGeometry(1.5, domain_size, q), incidences(q, t)
    for cell in {0, 1, domain_size // 2, domain_size - 1}:
        weights, total = mechanism.weights(cell)
        assert sum(weights.tolist()) == total <= 1 << 64
        likely, rest = set(weights[on[cell]].tolist()), set(weights[~on[cell]].tolist())
        assert len(likely) == len(rest) == 1
        assert math.exp(1.5) * (1 - 1e-9) < likely.pop() / rest.pop() < math.exp(1.5) * (1 + 1e-15)


@pytest.mark.parametrize(("q", "domain_size"), [(2, 31), (3, 13), (4, 21), (5, 31), (8, 9)])
def test_the_sampler_follows_the_channel_of_every_cell(q, domain_size):
    """Values at every level of the numbering, in one block and each alone."""
    mechanism = ProjectiveGeometry(1.0, domain_size, q)
    laws = [mechanism.channel(cell) for cell in range(domain_size)]
    n = max(sample_size(law, tilted(law)) for law in laws)
    reports = mechanism.perturb(np.tile(np.arange(domain_size), n), SeededRandom(q))
    for cell, law in enumerate(laws):
        counts = mechanism.count(reports[cell::domain_size])
        assert follows(counts, law)
        assert not follows(counts, tilted(law))


@pytest.mark.parametrize(("q", "t", "domain_size"), CASES[:21])
def test_closed_forms_by_exact_enumeration(q, t, domain_size):
    """keep, other and the variance as rationals from the channel, for holders and others."""
    mechanism, on = ProjectiveGeometry(0.7, domain_size, q), incidences(q, t)
    weights, total = mechanism.weights(0)
    weights = weights.astype(object)
    keep, other = (Fraction(int(weights[on[cell]].sum()), total) for cell in (0, 1))
    assert math.isclose(mechanism.keep, keep, rel_tol=1e-15)
    assert math.isclose(mechanism.other, other, rel_tol=1e-15)
    assert math.isclose(mechanism.contrast, keep - other, rel_tol=1e-15)
    for cell in range(domain_size):
        support = Fraction(int(weights[on[cell]].sum()), total)
        assert support == (keep if cell == 0 else other)
        variance = support * (1 - support) / (keep - other) ** 2
        assert math.isclose(mechanism.variance(float(cell == 0), 1), variance, rel_tol=1e-13)


@pytest.mark.parametrize(("epsilon", "q", "excess"), [(1.0, 4, 0.005), (2.0, 8, 0.001)])
def test_the_variance_is_all_but_optimal(epsilon, q, excess):
    """4 e^epsilon / (e^epsilon - 1)^2 is the least that any mechanism reaches in large domains."""
    mechanism = build("projective", epsilon=epsilon, domain_size=42_178)
    assert mechanism.hash_range == q
    least = 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2
    assert least < mechanism.average_variance(1) < least * (1 + excess)
    primes_alone = build("olh", epsilon=epsilon, domain_size=42_178, hash_range=q - 1)
    assert mechanism.average_variance(1) < primes_alone.average_variance(1) * 0.991
    hashed = build("olh", epsilon=epsilon, domain_size=42_178)  # the same field, one symbol more
    assert hashed.hash_range == q
    assert mechanism.average_variance(1) == pytest.approx(hashed.average_variance(1), rel=1e-3)


@pytest.mark.parametrize("domain_size", [2, 3, 10, 60, 915, 42_178])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_the_field_is_the_best_one(epsilon, domain_size):
    chosen = build("projective", epsilon=epsilon, domain_size=domain_size)
    for q in filter(is_order, range(2, 513)):
        rival = ProjectiveGeometry(epsilon, domain_size, q)
        assert chosen.average_variance(1) <= rival.average_variance(1)
    assert build("projective", epsilon=epsilon, domain_size=domain_size, hash_range=4).digits >= 2


def test_domains_too_large_for_most_fields_get_one_that_fits():
    assert set(orders(2**27)) < set(orders(2**20))
    assert build("projective", epsilon=3.0, domain_size=2**27).codes <= 1 << 28


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"domain_size": 1}, "domain_size must be at least 2"),
        ({"domain_size": 1, "hash_range": 4}, "domain_size must be at least 2"),
        ({"domain_size": 2**40}, "counters"),
        ({"domain_size": 100, "hash_range": 0}, "prime or a power of two"),
        ({"domain_size": 100, "hash_range": 9}, "prime or a power of two"),
        ({"domain_size": 100, "hash_range": 521}, r"2 \.\. 512"),
        ({"domain_size": 2**28, "hash_range": 512}, "counters"),
    ],
)
def test_impossible_parameters_are_refused_with_the_limit(parameters, message):
    with pytest.raises(ValueError, match=message):
        build("projective", epsilon=1.0, **parameters)


def test_batches_that_cannot_be_decoded_are_refused():
    mechanism = ProjectiveGeometry(1.0, 100, 4)
    with pytest.raises(ValueError, match="no report"):
        mechanism.estimate(mechanism.count([]))
    with pytest.raises(ArithmeticError, match="exactly"):
        mechanism.support(np.full(mechanism.codes, 1 << 50))


# ---- the shuffle model -------------------------------------------------------------------------

SHUFFLED = [
    (2, 2),
    (2, 3),
    (2, 4),
    (2, 5),
    (2, 9),
    (3, 2),
    (3, 4),
    (3, 6),
    (3, 12),
    (4, 3),
    (4, 20),
]


def kinds(law: PairLaw) -> np.ndarray:
    """The law with equal codes joined, in a fixed order."""
    table = np.stack([law.first, law.second, law.others])
    return table[:, np.lexsort(np.round(table, 12))]


@pytest.mark.parametrize(("q", "domain_size"), SHUFFLED)
def test_shuffle_laws_by_tabulation(q, domain_size):
    """The blanket is the code-wise least; every pair and third value is one of those attained."""
    mechanism = ProjectiveGeometry(1.2, domain_size, q)
    laws = mechanism.shuffle_laws()
    table = np.stack([mechanism.channel(cell) for cell in range(domain_size)])
    attained = [kinds(law) for law in laws.attained]
    seen = set()
    for one in range(domain_size):
        for two in set(range(domain_size)) - {one}:
            blanket = kinds(grouped(table[one], table[two], table.min(axis=0), blanket=True))
            np.testing.assert_allclose(kinds(laws.dominating[0]), blanket, atol=1e-12)
            for third in (
                range(domain_size) if domain_size == 2 else set(range(domain_size)) - {one, two}
            ):
                law = kinds(grouped(table[one], table[two], table[third]))
                same = [i for i, a in enumerate(attained)
                        if a.shape == law.shape and np.allclose(a, law, atol=1e-12)]  # fmt: skip
                assert same
                seen.update(same)
    assert seen == set(range(len(attained)))


@pytest.mark.parametrize(
    "target",
    [
        Target("shuffle", 0.3, 1e-6, 20_000, FrequencyTask(915)),
        Target("shuffle", 0.5, 1e-6, 602_325, FrequencyTask(915)),
        Target("shuffle", 0.2, 1e-9, 3_000, FrequencyTask(42_178)),
        Target("shuffle", 1.0, 1e-6, 1_000, FrequencyTask(12)),
        Target("shuffle", 1.0, 1e-6, 100_000, FrequencyTask(5_000), 2.0),
    ],
)  # fmt: skip
def test_the_planner_spends_what_the_batch_allows_on_the_best_field(target):
    found = search(target, "projective")
    assert found.release.epsilon <= target.epsilon
    laws = found.mechanism.shuffle_laws()
    assert upper_delta(laws, target.n, target.epsilon, budget.COARSE) <= target.delta
    spent = found.mechanism.epsilon
    if spent < target.cap:
        more = ProjectiveGeometry(
            spent * 1.001, target.task.domain_size, found.mechanism.hash_range
        )
        assert upper_delta(more.shuffle_laws(), target.n, target.epsilon) > target.delta
    for q in (2, 4, 8, 16, 31, 64, 127, 256, 512):
        over = partial(ProjectiveGeometry, domain_size=target.task.domain_size, hash_range=q)
        rival = budget.largest_local_epsilon(*target.batch, over, q, target.cap)
        error = ProjectiveGeometry(rival, target.task.domain_size, q).average_variance(target.n)
        assert found.error <= error * 1.02
