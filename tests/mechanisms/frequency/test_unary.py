"""Unary encoding and subset selection: sets of values, exactly private, and the least error."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from mechanisms.frequency.subset_selection import SubsetSelection
from mechanisms.frequency.unary import optimised
from mechanisms.papers.basic_rappor import symmetric
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.randomness import SeededRandom
from tests.oracles.privacy import clones_epsilon
from tests.oracles.statistics import follows, sample_size, tilted

MAKE = {"sue": symmetric, "oue": optimised, "subset": SubsetSelection}
SMALL = [
    (name, epsilon, d)
    for name in MAKE
    for epsilon, d in [(0.1, 2), (0.1, 5), (1.0, 4), (2.5, 6), (6.0, 3), (30.0, 3)]
]


@pytest.fixture(params=SMALL, ids=lambda case: "-".join(map(str, case)))
def mechanism(request):
    name, epsilon, domain_size = request.param
    return MAKE[name](epsilon, domain_size)


def whole_reports(mechanism, cells, rng) -> np.ndarray:
    """Every user's report as a number whose bits are the values that it holds."""
    messages, senders = mechanism.send(cells, rng)
    return np.bincount(senders, 2.0 ** messages.astype(int), minlength=len(cells)).astype(int)


def law_of_reports(mechanism, cell) -> np.ndarray:
    """The probabilities of those numbers."""
    law = np.zeros(2**mechanism.domain_size)
    for report, chance in mechanism.report_law(cell).items():
        law[sum(2**value for value in report)] = chance
    return law


# ---- privacy, by enumeration -----------------------------------------------------------------


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("domain_size", [2, 1000, 10**6])
def test_audits_need_no_enumeration(name, domain_size):
    for epsilon in (0.01, 1.0, 8.0):
        mechanism = MAKE[name](epsilon, domain_size)
        assert epsilon * (1 - 1e-6) < tight_epsilon(mechanism) <= epsilon
        assert tight_delta(mechanism, epsilon) == 0
        assert 0 < tight_delta(mechanism, epsilon / 2) < 1


# ---- accuracy, from the exact law ------------------------------------------------------------


def test_messages_are_the_expected_size_of_a_report(mechanism):
    law = mechanism.report_law(0)
    mean = sum(len(report) * chance for report, chance in law.items())
    np.testing.assert_allclose(mechanism.messages, float(mean), rtol=1e-14)


@pytest.mark.parametrize("name", ["oue", "subset"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0])
def test_large_domains_reach_the_least_error_of_local_privacy(name, epsilon):
    n, e = 1000, math.exp(epsilon)
    mechanism = MAKE[name](epsilon, 10**5)
    np.testing.assert_allclose(mechanism.variance(0.0, n), 4 * e / (n * (e - 1) ** 2), rtol=0.01)
    assert symmetric(epsilon, 10**5).variance(0.0, n) > mechanism.variance(0.0, n)


def test_published_constants():
    """Wang et al., section 4.3, and the table of section 20 at epsilon 1."""
    e = math.e
    sue, oue = symmetric(1.0, 100), optimised(1.0, 100)
    np.testing.assert_allclose([sue.keep, sue.other], [e**0.5 / (e**0.5 + 1), 1 / (e**0.5 + 1)])
    np.testing.assert_allclose([oue.keep, oue.other], [0.5, 1 / (e + 1)])
    np.testing.assert_allclose(sue.variance(0.0, 1), e**0.5 / (e**0.5 - 1) ** 2)
    np.testing.assert_allclose(oue.variance(0.0, 1), 3.683, rtol=2e-4)


@pytest.mark.parametrize(("epsilon", "domain_size"), [(1.0, 10), (1.0, 11), (0.3, 7), (3.0, 50)])
def test_no_other_subset_size_is_more_accurate(epsilon, domain_size):
    mechanism, e, d = SubsetSelection(epsilon, domain_size), math.exp(epsilon), domain_size

    def error(k):
        keep = k * e / (k * e + d - k)
        other = (k - keep) / (d - 1)
        return (keep * (1 - keep) + (d - 1) * other * (1 - other)) / (keep - other) ** 2 / d

    best = min(range(1, d), key=error)
    assert mechanism.subset_size == best
    np.testing.assert_allclose(mechanism.average_variance(1), error(best), rtol=1e-9)


# ---- the client ------------------------------------------------------------------------------


@pytest.mark.parametrize("portion", [1 << 19, 1500])
@pytest.mark.parametrize(
    ("name", "epsilon", "d"),
    [("sue", 1.0, 3), ("sue", 6.0, 3), ("oue", 1.0, 4), ("oue", 3.0, 3), ("subset", 1.0, 5),
     ("subset", 0.1, 6), ("subset", 2.0, 2)],
)  # fmt: skip
def test_whole_reports_follow_their_law_and_no_other(monkeypatch, name, epsilon, d, portion):
    """Below 1/16 bits are counted first and then placed; a portion may end within a user's bits."""
    mechanism = MAKE[name](epsilon, d)
    monkeypatch.setattr(type(mechanism), "portion", portion)
    for cell in {0, d - 1}:
        law = law_of_reports(mechanism, cell)
        wrong = tilted(law)
        n = sample_size(law, wrong)
        found = whole_reports(mechanism, np.full(n, cell), SeededRandom(cell))
        outcomes = np.bincount(found, minlength=law.size)
        assert follows(outcomes, law)
        assert not follows(outcomes, wrong)


@pytest.mark.parametrize(("name", "epsilon"), [("sue", 3.0), ("oue", 1.0), ("oue", 4.0),
                                               ("subset", 1.0), ("subset", 4.0)])  # fmt: skip
def test_large_reports_hold_two_values_with_their_joint_law(name, epsilon):
    d, own, second = 1000, 400, 977
    mechanism = MAKE[name](epsilon, d)
    weights, denominator = mechanism.memberships()
    law = np.array([weights[pair] / denominator for pair in product([False, True], repeat=2)])
    wrong = tilted(law)
    n = sample_size(law, wrong)
    messages, senders = mechanism.send(np.full(n, own), SeededRandom(2))
    held = np.zeros((2, n), int)
    for row, value in enumerate((own, second)):
        held[row, senders[messages == value]] = 1
    outcomes = np.bincount(2 * held[0] + held[1], minlength=4)
    assert follows(outcomes, law)
    assert not follows(outcomes, wrong)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 20), (5.0, 300)])
def test_the_order_of_messages_tells_nothing(name, epsilon, d):
    """A user's messages ascend, so that none of them stands out as the one drawn for the value."""
    mechanism, rng = MAKE[name](epsilon, d), SeededRandom(3)
    cells = rng.integers(d, 5000).astype(int)
    messages, senders = mechanism.send(cells, SeededRandom(4))
    assert messages.dtype == np.uint64
    assert senders.dtype == np.int64
    assert (np.diff(senders * d + messages.astype(int)) > 0).all()
    np.testing.assert_array_equal(mechanism.perturb(cells, SeededRandom(4)), messages)
    alone = mechanism.perturb([int(cells[0])], SeededRandom(5)).astype(int)
    assert (np.diff(alone) > 0).all()
    assert mechanism.perturb([], rng).size == mechanism.send([], rng)[1].size == 0


@pytest.mark.parametrize("name", MAKE)
def test_memory_beyond_the_messages_does_not_grow_with_users(name):
    mechanism, cells = MAKE[name](2.0, 600), np.arange(60_000) % 600
    mechanism.perturb(cells[:10], SeededRandom(1))
    tracemalloc.start()
    try:
        messages = mechanism.perturb(cells, SeededRandom(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * messages.nbytes + 60e6


# ---- simulated populations -------------------------------------------------------------------


def sums_of_reports(laws) -> dict[tuple[int, ...], Fraction]:
    """The law of the counts when users with these laws report, by convolution."""
    d = 1 + max(value for law in laws for report in law for value in report)
    sums: Counter[tuple[int, ...]] = Counter({(0,) * d: Fraction(1)})
    for law in laws:
        longer: Counter[tuple[int, ...]] = Counter()
        for counts, chance in sums.items():
            for report, weight in law.items():
                longer[tuple(c + (j in report) for j, c in enumerate(counts))] += chance * weight
        sums = longer
    return dict(sums)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("name", "epsilon", "histogram"),
    [("oue", 1.0, [1, 2]), ("subset", 1.0, [2, 0, 1]), ("subset", 0.1, [0, 0, 0, 2])],
)  # fmt: skip
def test_simulated_counts_have_the_joint_law_of_real_ones(name, epsilon, histogram):
    mechanism = MAKE[name](epsilon, len(histogram))
    cells = np.repeat(np.arange(len(histogram)), histogram)
    exact = sums_of_reports([mechanism.report_law(int(cell)) for cell in cells])
    states = list(exact)
    chances = np.array([float(exact[state]) for state in states])
    # States rarer than that are counted with the likeliest one.
    common = np.flatnonzero((chances > 0.03) | (chances == chances.max()))
    place = np.full(len(states), int(np.argmax(chances[common])))
    place[common] = np.arange(common.size)
    law = np.bincount(place, chances)
    wrong = tilted(law)
    n, rng = sample_size(law, wrong), SeededRandom(6)
    index = {state: i for i, state in enumerate(states)}
    found = [index[tuple(mechanism.simulate(histogram, rng).tolist())] for _ in range(n)]
    outcomes = np.bincount(place[found], minlength=law.size)
    assert follows(outcomes, law)
    assert not follows(outcomes, wrong)


# ---- shuffled batches ------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKE)
def test_a_large_batch_loses_less_than_any_mechanism_may(name):
    mechanism = MAKE[name](2.0, 1000)
    lower, upper = shuffled_epsilon(mechanism, 10**5, 1e-6)
    assert 0 <= lower <= upper < clones_epsilon(2.0, 10**5, 1e-6)
    assert shuffled_delta(mechanism, 10**5, upper)[1] <= 1e-6 * (1 + 1e-3)
    assert shuffled_epsilon(mechanism, 2, 1e-9)[1] <= 2.0
    assert shuffled_delta(mechanism, 10**5, 2.0)[1] <= tight_delta(mechanism, 2.0) + 1e-300


@pytest.mark.parametrize("name", ["sue", "oue"])
def test_the_bracket_of_a_batch_of_bits_is_narrow(name):
    lower, upper = MAKE[name](4.0, 1000).batch_epsilon(10**6, 1e-6)
    assert 0.9 * upper < lower <= upper


# ---- parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 5.0, 45.0, 700.0])
@pytest.mark.parametrize("name", ["sue", "oue"])
def test_the_chances_of_bits_are_doubles(name, epsilon):
    """So that what is computed from `keep` and `other` is about the bits that are sent."""
    mechanism = MAKE[name](epsilon, 5)
    assert Fraction(mechanism.other) == Fraction(mechanism.other_weight, 1 << 64)
    assert Fraction(mechanism.keep) == Fraction(mechanism.keep_weight, 1 << 64)


def test_a_subset_too_large_to_send_names_the_domain_that_is_not():
    with pytest.raises(ValueError, match="up to 7797801 values do not"):
        SubsetSelection(1.0, 1 << 24)
    assert SubsetSelection(1.0, 7797801).subset_size <= 1 << 21


@pytest.mark.parametrize(("name", "least"), [("sue", 15), ("oue", 15), ("subset", 22)])
def test_reports_that_are_too_many_are_not_listed(name, least):
    with pytest.raises(ValueError, match="to list them all"):
        MAKE[name](1.0, least).report_law(0)
    assert sum(MAKE[name](1.0, least - 5).report_law(0).values()) == 1
