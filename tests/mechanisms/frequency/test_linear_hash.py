"""The linear-hash family: its geometry, its collector, its closed forms."""

from __future__ import annotations

import functools
import json
import math
import operator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.catalog import build
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import support_variance
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import (
    digits,
    follows,
    forms,
    population,
    sample_size,
    support_by_brute_force,
    tilted,
    times,
    zipf,
)


def inner(form: list[int], value: list[int], q: int) -> int:
    terms = [times(a, v, q) for a, v in zip(form, value, strict=True)]
    return sum(terms) % q if q & (q - 1) else functools.reduce(operator.xor, terms)


VECTORS = json.loads(Path(__file__).parents[2].joinpath("data/vectors.json").read_text())


@pytest.mark.parametrize(("epsilon", "d", "q"), [(4.5, 6, 6), (4.0, 9, 3), (3.0, 3, 2)])
def test_lies_that_are_placed_follow_the_channel_as_those_that_are_tossed_for(epsilon, d, q):
    """Large batches draw how many lie, and where; a law that is 30 % off is told from theirs."""
    mechanism = LinearHash(epsilon, d, q)
    assert mechanism._rare
    law = mechanism.channel(1)
    size = sample_size(law, tilted(law))
    assert size > 1 << 13
    rng, counts = SeededRandom(17), np.zeros(law.size, np.int64)
    for _ in range(3):  # a part of each, as the last block of a batch may be short
        messages = mechanism.perturb(np.ones(size // 3, np.uint32), rng)
        places = np.flatnonzero(law[messages] < law.max())
        halves = np.bincount(places >= messages.size // 2, minlength=2)
        assert follows(halves, np.array([0.5, 0.5]))  # wherever in its batch a report stands
        counts += mechanism.count(messages)
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


@pytest.mark.verify
@pytest.mark.parametrize(
    ("p", "t", "domain_size"),
    [
        (2, 7, 100), (3, 7, 2000), (5, 3, 101), (17, 3, 3000), (701, 2, 5000), (4, 5, 900),
        (8, 3, 500), (256, 2, 3000),
    ],
)  # fmt: skip
def test_collector_equals_brute_force(p, t, domain_size):
    mechanism = LinearHash(1.0, domain_size, p)
    assert (mechanism.digits, mechanism.points) == (t, (p**t - 1) // (p - 1))
    rng = SeededRandom(p * t)
    messages = mechanism.perturb(rng.integers(domain_size, 4000), rng)
    support = mechanism.support(mechanism.count(messages))
    np.testing.assert_array_equal(
        support, support_by_brute_force(messages.astype(np.int64), p, t, domain_size)
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_collector_equals_brute_force_for_any_messages(data):
    p = data.draw(st.sampled_from([2, 3, 4, 5, 7, 8, 11, 13, 16]))
    t = data.draw(st.integers(1, {2: 7, 3: 4, 4: 4, 5: 3, 7: 3, 8: 3, 11: 2, 13: 2, 16: 2}[p]))
    domain_size = data.draw(st.integers(max(2, p ** (t - 1) + 1), p**t))
    mechanism = LinearHash(1.0, domain_size, p if t > 1 else domain_size)
    p = mechanism.hash_range
    messages = data.draw(st.lists(st.integers(0, mechanism.codes - 1), min_size=1, max_size=60))
    support = mechanism.support(mechanism.count(np.array(messages, np.uint64)))
    brute = support_by_brute_force(np.array(messages), p, mechanism.digits, domain_size)
    np.testing.assert_array_equal(support, brute)


def test_support_is_exact_for_batches_larger_than_any_census():
    """10^11 reports, all alike and all different: rounding to integers still finds each count."""
    mechanism = LinearHash(1.0, 2000, 3)
    counts = np.zeros(mechanism.codes, np.int64)
    counts[[5, 900, 3000]] = [10**11, 7, 3]
    brute = sum(
        times * support_by_brute_force(np.array([code]), 3, 7, 2000)
        for code, times in [(5, 10**11), (900, 7), (3000, 3)]
    )
    np.testing.assert_array_equal(mechanism.support(counts), brute)


def test_counts_beyond_double_precision_are_refused():
    mechanism = LinearHash(1.0, 2000, 3)
    counts = SeededRandom(1).integers(2**49, mechanism.codes).astype(np.int64)
    with pytest.raises(ArithmeticError, match="exactly"):
        mechanism.support(counts)


@pytest.mark.parametrize(("p", "t"), [(2, 4), (3, 3), (4, 2), (5, 2)])
def test_code_is_point_times_p_plus_symbol(p, t):
    """The wire format, spelt out: which form each point is, and what its symbol means."""
    mechanism = LinearHash(3.0, p**t, p)
    all_forms = forms(p, t)
    assert len(all_forms) == mechanism.points
    for cell in range(p**t):
        law = mechanism.channel(cell).reshape(mechanism.points, p)
        value = digits(cell, p, t)
        hashed = [inner(form, value, p) for form in all_forms]
        np.testing.assert_array_equal(law.argmax(axis=1), hashed)


@pytest.mark.parametrize(("p", "t"), [(2, 1), (2, 5), (3, 3), (7, 2), (13, 1), (4, 3), (8, 2)])
def test_collision_probability_is_the_familys_own(p, t):
    mechanism = LinearHash(1.0, p**t, p)
    hashed = np.array(
        [[inner(form, digits(cell, p, t), p) for cell in range(p**t)] for form in forms(p, t)]
    )
    for u in range(min(p**t, 9)):
        for v in range(u):
            assert (hashed[:, u] == hashed[:, v]).mean() == pytest.approx(
                mechanism.collision, abs=1e-15
            )


def test_large_prime_fits_in_a_few_megabytes():
    mechanism = build("srr", epsilon=7.0, domain_size=42_178, hash_range=701)
    assert mechanism.digits == 2
    assert mechanism.count([]).nbytes < 4.5e6


@pytest.mark.parametrize("case", VECTORS["grr_local_hash"], ids=lambda c: str(c["params"]))
def test_grr_local_hash_vectors(case):
    """The limit of a hash whose collision probability is 1/g, and k-ary response itself."""
    g, n, constants = case["params"]["g"], case["params"]["n"], case["constants"]
    mechanism = LinearHash(case["params"]["eps"], g, g)
    assert mechanism.keep == pytest.approx(constants["p"], rel=1e-9)
    assert mechanism.other == pytest.approx(constants["q"], rel=1e-9)
    assert g * mechanism.other == pytest.approx(constants["gamma"], rel=1e-9)
    for frequency, variance in case["variance_of_f_hat"].items():
        ours = support_variance(float(frequency), n, mechanism.keep, constants["p_hit_other"])
        assert float(ours) == pytest.approx(variance, rel=1e-9)


def test_equation_19_as_printed_is_biased_and_ours_is_not():
    """HP-SDP eq. 19 takes the miss probability for the probability of unrelated support."""
    g, n, d = 5, 400_000, 200
    mechanism = LinearHash(1.0, d, g)
    cells = population(zipf(d), n)
    truth = np.bincount(cells, minlength=d) / n
    support = mechanism.support(mechanism.count(mechanism.perturb(cells, SeededRandom(1)))) / n
    beta = 1 - mechanism.keep
    printed = (support - beta) / (1 - 2 * beta)
    ours = (support - mechanism.other) / mechanism.contrast
    error = math.sqrt(mechanism.average_variance(n))
    assert np.sqrt(np.mean((ours - truth) ** 2)) < 1.3 * error
    assert np.sqrt(np.mean((printed - truth) ** 2)) > 100 * error


def test_olh_takes_the_best_prime():
    for epsilon, best in [(0.5, 3), (1.0, 4), (2.0, 8), (3.0, 23)]:
        mechanism = build("olh", epsilon=epsilon, domain_size=10_000)
        assert mechanism.hash_range == best
        others = [LinearHash(epsilon, 10_000, p) for p in (2, 3, 4, 5, 7, 8, 11, 16, 19, 23, 29)]
        assert mechanism.average_variance(1) <= min(m.average_variance(1) for m in others)


def test_ranges_that_reach_the_domain_become_k_ary_response():
    grr = build("grr", epsilon=3.0, domain_size=10)
    assert build("olh", epsilon=3.0, domain_size=10) == grr
    assert build("srr", epsilon=3.0, domain_size=10) == grr
    assert build("srr", epsilon=3.0, domain_size=10, hash_range=99) == grr


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"domain_size": 1, "hash_range": 2}, "domain_size must be at least 2"),
        ({"domain_size": 100, "hash_range": 1}, "hash_range must lie in"),
        ({"domain_size": 100, "hash_range": 6}, "nearest are 5 and 7"),
        ({"domain_size": 2**40, "hash_range": 2}, "counters"),
    ],
)
def test_impossible_parameters_are_refused_with_the_limit(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearHash(1.0, **parameters)
