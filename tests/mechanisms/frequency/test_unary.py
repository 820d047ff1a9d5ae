"""Unary encoding and subset selection: sets of values, exactly private, and the least error."""

from __future__ import annotations

import math
import pickle
import tracemalloc
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from mechanisms.channel import Mechanism
from mechanisms.frequency.subset_selection import SubsetSelection
from mechanisms.frequency.unary import Unary, optimised, symmetric
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.clones import clones_epsilon
from mechanisms.privacy.divergence import renyi, tight_delta, tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.rounding import exponential_bounds
from tests.oracles.statistics import follows, population, sample_size, tilted, zipf

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


def test_privacy_holds_exactly_for_every_pair_of_values(mechanism):
    largest, _ = exponential_bounds(mechanism.epsilon)  # below e^epsilon
    laws = [mechanism.report_law(cell) for cell in range(mechanism.inputs)]
    worst = Fraction(0)
    for one, other in permutations(laws, 2):
        assert sum(one.values()) == 1
        worst = max(worst, *(one[report] / other[report] for report in one))
    assert worst <= largest
    assert math.log(worst) > mechanism.epsilon * (1 - 1e-6) or mechanism.epsilon == 30.0


def test_declared_pairs_stand_for_all_pairs(mechanism):
    laws = [mechanism.report_law(cell) for cell in range(mechanism.inputs)]

    def spectrum(i, j):
        return sorted((laws[i][report], laws[j][report]) for report in laws[i])

    declared = [spectrum(*pair) for pair in mechanism.pairs()]
    assert all(spectrum(*pair) in declared for pair in permutations(range(mechanism.inputs), 2))


def by_ratio(kinds, denominators) -> dict[Fraction | None, tuple[Fraction, Fraction]]:
    """The probability under each of two laws of every likelihood ratio."""
    total: dict[Fraction | None, list[Fraction]] = {}
    for (one, other), count in kinds.items():
        masses = Fraction(one * count, denominators[0]), Fraction(other * count, denominators[1])
        entry = total.setdefault(masses[0] / masses[1] if masses[1] else None, [Fraction(0)] * 2)
        entry[0], entry[1] = entry[0] + masses[0], entry[1] + masses[1]
    return {ratio: (one, other) for ratio, (one, other) in total.items()}


def test_closed_form_of_a_pair_is_the_enumeration(mechanism):
    pairs = [(0, 1), (1, 0), (mechanism.inputs - 1, 0), (1, 1)]
    for one, other in pairs:
        enumerated = by_ratio(*Mechanism.kinds(mechanism, one, other))
        assert by_ratio(*mechanism.kinds(one, other)) == enumerated


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("domain_size", [2, 1000, 10**6])
def test_audits_need_no_enumeration(name, domain_size):
    for epsilon in (0.01, 1.0, 8.0):
        mechanism = MAKE[name](epsilon, domain_size)
        assert epsilon * (1 - 1e-6) < tight_epsilon(mechanism) <= epsilon
        assert tight_delta(mechanism, epsilon) == 0
        assert 0 < tight_delta(mechanism, epsilon / 2) < 1
        assert 0 < renyi(mechanism, 2.0) < epsilon


# ---- accuracy, from the exact law ------------------------------------------------------------


def test_one_report_is_unbiased_with_the_closed_form_variance(mechanism):
    """In exact arithmetic up to the last step: no sampling."""
    for cell in range(mechanism.inputs):
        law = mechanism.report_law(cell)
        for value in range(mechanism.inputs):
            supported = sum(chance for report, chance in law.items() if value in report)
            expected = mechanism.keep if value == cell else mechanism.other
            np.testing.assert_allclose(float(supported), expected, rtol=1e-15)
            spread = float(supported * (1 - supported)) / mechanism.contrast**2
            share = 1.0 if value == cell else 0.0
            expected = mechanism.variance(share, 1)  # where keep is near 1, as exact as doubles
            np.testing.assert_allclose(spread, expected, rtol=1e-9, atol=1e-15)
    decoded = mechanism.estimate(mechanism.count([0, 1]), 1)
    np.testing.assert_allclose(decoded[:2], (1 - mechanism.other) / mechanism.contrast)
    np.testing.assert_allclose(mechanism.keep - mechanism.other, mechanism.contrast, rtol=1e-9)


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


def test_subsets_have_the_size_they_should():
    mechanism = SubsetSelection(1.0, 50)
    _, senders = mechanism.send(np.arange(50), SeededRandom(1))
    assert set(np.bincount(senders).tolist()) == {mechanism.subset_size} == {13}


@pytest.mark.parametrize("name", MAKE)
def test_any_split_counts_alike(name):
    mechanism, rng = MAKE[name](1.5, 40), SeededRandom(5)
    messages = mechanism.perturb(rng.integers(40, 2000), rng)
    whole = mechanism.count(messages)
    for pieces in (2, 7, 500):
        parts = [mechanism.count(piece) for piece in np.array_split(messages, pieces)]
        np.testing.assert_array_equal(sum(parts), whole)
    np.testing.assert_array_equal(mechanism.support(whole), whole)
    with pytest.raises(ValueError, match="how many users"):
        mechanism.estimate(whole)


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


@pytest.mark.parametrize(
    ("name", "epsilon", "histogram"),
    [("sue", 1.0, [2, 1]), ("oue", 1.0, [1, 2]), ("subset", 1.0, [2, 0, 1]),
     ("subset", 0.1, [1, 0, 1, 0]), ("subset", 0.1, [0, 0, 0, 2]), ("subset", 2.5, [1, 3])],
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


@pytest.mark.parametrize("name", MAKE)
def test_measured_error_is_the_predicted_one(name):
    """30 runs over 600 bins: the ratio's standard deviation is about 1 %, so 10 % is 9 of them."""
    n, d = 600_000, 600
    mechanism, rng = MAKE[name](2.0, d), SeededRandom(7)
    holders = np.bincount(population(zipf(d), n), minlength=d)
    errors, size = [], 0
    for _ in range(30):
        counts = mechanism.simulate(holders, rng)
        errors.append(np.mean((mechanism.estimate(counts, n) - holders / n) ** 2))
        size += int(counts.sum())
    assert 0.9 < np.mean(errors) / mechanism.average_variance(n) < 1.1
    assert size / (30 * n) == pytest.approx(mechanism.messages, rel=1e-3)
    again = mechanism.simulate(holders, SeededRandom(1))
    np.testing.assert_array_equal(again, mechanism.simulate(holders, SeededRandom(1)))
    assert again.dtype == np.int64


# ---- shuffled batches ------------------------------------------------------------------------


def exact_batch_delta(mechanism, n, epsilon) -> float:
    """The hockey-stick divergence of the sums of n users' reports, over all neighbours."""
    laws = [mechanism.report_law(cell) for cell in range(mechanism.inputs)]
    odds, worst = math.exp(epsilon), 0.0
    for others in combinations_with_replacement(range(mechanism.inputs), n - 1):
        sums = [sums_of_reports([law, *(laws[cell] for cell in others)]) for law in laws]
        for one, other in permutations(sums, 2):
            excess = sum(max(float(one[s]) - odds * float(other.get(s, 0)), 0.0) for s in one)
            worst = max(worst, excess)
    return worst


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(("local", "d", "n"), [(1.0, 3, 1), (1.0, 3, 3), (2.0, 2, 4), (3.0, 3, 2)])
def test_accounting_of_a_batch_holds_against_enumeration(name, local, d, n):
    mechanism = MAKE[name](local, d)
    for epsilon in (0.1 * local, 0.4 * local):
        exact = exact_batch_delta(mechanism, n, epsilon)
        lower, upper = shuffled_delta(mechanism, n, epsilon)
        assert lower <= exact * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= upper <= tight_delta(mechanism, epsilon) * (1 + 1e-9)
        assert lower > 0 or d == 2 or name == "subset"
        if n == 1:
            assert upper == pytest.approx(exact)


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


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-30, "1", None])
def test_epsilon_that_means_nothing_is_refused(name, epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        MAKE[name](epsilon, 10)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("size", [10.5, "10", None, 1, 0, -3, (1 << 28) + 1])
def test_a_domain_that_is_no_number_of_values_is_refused(name, size):
    with pytest.raises(ValueError, match="domain_size"):
        MAKE[name](1.0, size)


@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 5.0, 45.0, 700.0])
@pytest.mark.parametrize("name", ["sue", "oue"])
def test_the_chances_of_bits_are_doubles(name, epsilon):
    """So that what is computed from `keep` and `other` is about the bits that are sent."""
    mechanism = MAKE[name](epsilon, 5)
    assert Fraction(mechanism.other) == Fraction(mechanism.other_weight, 1 << 64)
    assert Fraction(mechanism.keep) == Fraction(mechanism.keep_weight, 1 << 64)


@pytest.mark.parametrize("name", MAKE)
def test_an_epsilon_beyond_64_bits_is_still_met(name):
    mechanism = MAKE[name](700.0, 5)
    chances = mechanism.report_law(0).values()
    assert min(chances) > 0
    one, other = mechanism.report_law(0), mechanism.report_law(1)
    assert max(one[r] / other[r] for r in one) <= exponential_bounds(700.0)[0]
    assert mechanism.perturb([3], SeededRandom(1)).size <= 5


def test_a_subset_too_large_to_send_names_the_domain_that_is_not():
    with pytest.raises(ValueError, match="up to 7797801 values do not"):
        SubsetSelection(1.0, 1 << 24)
    assert SubsetSelection(1.0, 7797801).subset_size <= 1 << 21


@pytest.mark.parametrize(("name", "least"), [("sue", 15), ("oue", 15), ("subset", 22)])
def test_reports_that_are_too_many_are_not_listed(name, least):
    with pytest.raises(ValueError, match="to list them all"):
        MAKE[name](1.0, least).report_law(0)
    assert sum(MAKE[name](1.0, least - 5).report_law(0).values()) == 1


@pytest.mark.parametrize("name", MAKE)
def test_travels_as_its_fields(name):
    mechanism = MAKE[name](1.0, 9)
    assert mechanism.reports  # fills caches
    assert mechanism.constants()["keep"] == mechanism.keep
    parcel = pickle.dumps(mechanism)
    assert len(parcel) < 500
    assert pickle.loads(parcel) == mechanism
    assert mechanism.guarantee == mechanism.local
    assert (mechanism.guarantee.model, mechanism.guarantee.delta) == ("local", 0.0)


def test_cells_out_of_range_are_refused():
    for name in MAKE:
        mechanism = MAKE[name](1.0, 5)
        for call in (mechanism.report_law, lambda c, m=mechanism: m.perturb([c], SeededRandom(1))):
            with pytest.raises(ValueError, match="cells"):
                call(5)
        with pytest.raises(ValueError, match="cells"):
            mechanism.kinds(0, 5)


def test_the_two_encodings_are_told_apart():
    assert symmetric(1.0, 5) == Unary(1.0, 5, symmetric=True) != optimised(1.0, 5)
