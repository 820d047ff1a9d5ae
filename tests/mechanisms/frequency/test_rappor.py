"""RAPPOR: its filters, its two responses, their exact law, and what its estimates cost."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.papers.bloom_filters import BloomFilters
from mechanisms.papers.rappor import Rappor
from mechanisms.privacy.audit import audit
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import FALSE_ALARM, follows, population, sample_size, tilted, zipf

SIGMAS = float(stats.norm.isf(FALSE_ALARM / 2))  # of a two-sided test
WORD = 1 << 64


def small(epsilon=1.0, domain_size=6, bits=4, hashes=1, cohorts=2, **rest):
    return Rappor(epsilon, domain_size, bits, hashes, cohorts, **rest)


def reports_of(mechanism, messages, senders, size) -> np.ndarray:
    """How often each report came, in the order of `weights`: spelt out, message by message."""
    bags: list[list[int]] = [[] for _ in range(size)]
    for message, sender in zip(messages.tolist(), senders.tolist(), strict=True):
        bags[sender].append(message)
    found = Counter(tuple(sorted(bag)) for bag in bags)
    assert found.keys() <= set(mechanism.reports)
    return np.array([found[report] for report in mechanism.reports])


# ---- the filters -----------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "hashes"), [(5, 1), (5, 2), (4, 3), (6, 3)])
def test_filters_are_uniform_sets_of_distinct_bits(bits, hashes):
    """Over cohorts: every set is as likely, and what two values' sets share is hypergeometric."""
    sets = list(itertools.combinations(range(bits), hashes))
    law = np.full(len(sets), 1 / len(sets))
    shared = stats.hypergeom(bits, hashes, hashes).pmf(np.arange(hashes + 1))
    n = max(sample_size(p, tilted(p)) for p in (law, shared))
    filters = BloomFilters(seed=2, domain_size=500, bits=bits, hashes=hashes, cohorts=n)
    places = np.sort(filters.positions(np.arange(n)[:, None], [7, 300]), axis=-1)
    assert places.min() >= 0
    assert places.max() < bits
    names = {chosen: index for index, chosen in enumerate(sets)}
    counts = np.bincount([names[tuple(p)] for p in places[:, 0].tolist()], minlength=len(sets))
    assert follows(counts, law)
    assert not follows(counts, tilted(law))
    overlap = (places[:, 0, :, None] == places[:, 1, None, :]).sum(axis=(1, 2))
    assert follows(np.bincount(overlap, minlength=hashes + 1), shared)


def test_overlaps_are_counted_in_each_cohort():
    filters = BloomFilters(seed=0, domain_size=300, bits=9, hashes=3, cohorts=5)
    values = [3, 280, 4]
    shared = filters.overlaps(values)
    for cohort, (i, one), (j, other) in itertools.product(
        range(5), enumerate(values), enumerate(values)
    ):
        both = [set(filters.positions(cohort, value).tolist()) for value in (one, other)]
        assert shared[cohort, i, j] == len(both[0] & both[1])


# ---- one report ------------------------------------------------------------------------------


def test_in_a_large_domain_one_pair_that_shares_nothing_stands_for_all():
    mechanism = Rappor(1.0, 42_178)
    (pair,) = mechanism.pairs()
    assert mechanism.filters.overlaps(pair)[:, 0, 1].max() == 0
    assert 1 - 1e-6 < tight_epsilon(mechanism) <= 1
    assert audit(mechanism).holds


def test_a_user_sends_one_header_and_bits_of_its_own_cohort():
    mechanism = Rappor(4.0, 1000)
    n = 40_000  # more than one block
    cells = SeededRandom(1).integers(1000, n)
    messages, senders = mechanism.send(cells, SeededRandom(2))
    np.testing.assert_array_equal(messages, mechanism.perturb(cells, SeededRandom(2)))
    header = messages >= mechanism.headers
    assert np.bincount(senders[header], minlength=n).tolist() == [1] * n
    cohort = np.empty(n, int)
    cohort[senders[header]] = messages[header] - np.uint64(mechanism.headers)
    np.testing.assert_array_equal(cohort[senders[~header]], messages[~header] // np.uint64(128))
    pairs = np.sort(senders * mechanism.codes + messages.astype(np.int64))
    assert np.diff(pairs).min() > 0  # a set bit is sent once
    per_user = np.bincount(senders)
    assert abs(per_user.mean() - mechanism.messages) < SIGMAS * per_user.std() / math.sqrt(n)


# ---- the two responses -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "permanent"), [(1.0, None), (1.0, 1.0), (0.3, 5.0), (3.0, 700.0), (1e-9, 1.0)]
)
def test_the_two_responses_compose_to_the_flip_that_is_drawn_at_once(epsilon, permanent):
    mechanism = Rappor(epsilon, 100, hashes=3, permanent=permanent)
    kept, instant = Fraction(mechanism.permanent_flip_weight, WORD), mechanism.instantaneous_flip
    assert 0 <= instant < Fraction(1, 2)
    assert kept + instant - 2 * kept * instant == Fraction(mechanism.flip_weight, WORD)
    assert (instant == 0) == (permanent == epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.7, 10.0])
@pytest.mark.parametrize("hashes", [1, 2, 3, 7])
def test_all_reports_ever_made_lose_what_was_promised(epsilon, hashes):
    mechanism = Rappor(epsilon, 100, hashes=hashes, permanent=3.3 * epsilon)
    for flip, loss in (
        (mechanism.permanent_flip_weight, mechanism.permanent_guarantee.epsilon),
        (mechanism.flip_weight, mechanism.guarantee.epsilon),
    ):
        odds = Fraction(WORD - flip, flip) ** (2 * hashes)
        assert odds <= exponential_bounds(loss)[0]
        assert math.log(odds) > loss * (1 - 1e-6)
    assert mechanism.permanent_guarantee.epsilon == 3.3 * epsilon
    # The paper's own parameter f, and its bound on all reports, 2 h ln((1 - f/2) / (f/2)).
    f = 2 / (1 + math.exp(3.3 * epsilon / (2 * hashes)))
    assert mechanism.permanent_flip == pytest.approx(f / 2, rel=1e-12)


def test_a_report_from_what_was_kept_has_the_law_of_one_drawn_at_once():
    mechanism = small(1.0, bits=4, hashes=2, cohorts=2, permanent=1.8)
    law = mechanism.channel(3)
    n = sample_size(law, tilted(law))
    rng = SeededRandom(1)
    kept = mechanism.permanent_response(np.full(n, 3), rng)
    counts = reports_of(mechanism, *mechanism.instantaneous_response(*kept, rng), n)
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


def test_what_is_kept_has_its_own_law_and_is_left_as_it_was():
    mechanism = small(1.0, bits=4, hashes=2, cohorts=2, permanent=1.8)
    alone = small(1.8, bits=4, hashes=2, cohorts=2)  # a report that loses as much
    law = alone.channel(3)
    n = sample_size(law, tilted(law))
    cohorts, bits = mechanism.permanent_response(np.full(n, 3), SeededRandom(1))
    before = bits.copy()
    exact = small(1.8, bits=4, hashes=2, cohorts=2, permanent=1.8)  # reports show all that is kept
    counts = reports_of(alone, *exact.instantaneous_response(cohorts, bits, SeededRandom(2)), n)
    assert follows(counts, law)
    assert not follows(counts, tilted(law))
    mechanism.instantaneous_response(cohorts, bits, SeededRandom(2))
    np.testing.assert_array_equal(bits, before)


def test_reports_from_one_response_average_out_to_it_and_to_no_more():
    """2,000 reports of one user: they tell the permanent bits, not the filter below them."""
    mechanism = Rappor(1.0, 100, bits=16, cohorts=1)
    _, bits = mechanism.permanent_response([5], SeededRandom(3))
    many = np.repeat(bits, 2000, axis=0)
    messages, _ = mechanism.instantaneous_response(np.zeros(2000, int), many, SeededRandom(4))
    share = mechanism.count(messages)[:16] / 2000
    np.testing.assert_array_equal(share > 0.5, bits[0])
    filter_ = np.isin(np.arange(16), mechanism.filters.positions(0, 5))
    assert (filter_ != bits[0]).any()


# ---- estimates -------------------------------------------------------------------------------


def test_given_a_seed_one_report_expects_its_share_of_the_filters():
    """From the law, exactly: the bias that a seed leaves is what filters share beyond chance."""
    mechanism = small(1.0, 5, bits=5, hashes=2, cohorts=3)
    flip = Fraction(mechanism.flip_weight, WORD)
    shared = mechanism.filters.overlaps(range(5)).sum(axis=0)
    for cell in range(5):
        expected = [Fraction(0)] * 5
        for report, chance in mechanism.report_law(cell).items():
            support = mechanism.support(np.bincount(report, minlength=mechanism.codes))
            expected = [e + chance * int(s) for e, s in zip(expected, support, strict=True)]
        wanted = [2 * flip + (1 - 2 * flip) * Fraction(int(s), 3) for s in shared[cell]]
        assert expected == wanted
        assert float(expected[cell]) == pytest.approx(mechanism.keep, rel=1e-12)


def test_measured_error_is_the_predicted_one():
    """20 seeds, 600 bins: the ratio's standard deviation is about 1.3 %, so 10 % is 7 of them."""
    n, d = 600_000, 600
    histogram = np.bincount(population(zipf(d), n), minlength=d)
    truth, errors = histogram / n, []
    for seed in range(20):
        mechanism = Rappor(2.0, d, seed=seed)
        counts = mechanism.simulate(histogram, SeededRandom(seed))
        errors.append(np.mean((mechanism.estimate(counts) - truth) ** 2))
    assert 0.9 < np.mean(errors) / mechanism.variance(truth, n).mean() < 1.1


@pytest.mark.parametrize("road", ["simulated", "sent"])
def test_both_roads_give_counts_of_the_exact_law(road):
    """Mean, variance and a covariance of every count, given the seed; 1,500 populations."""
    mechanism = small(1.0, 4, bits=5, hashes=2, cohorts=3)
    histogram, runs = np.array([20, 10, 5, 0]), 1500
    cells = np.repeat(np.arange(4), histogram)
    rng, counts = SeededRandom(1), np.empty((runs, mechanism.codes))
    for run in range(runs):
        counts[run] = (
            mechanism.simulate(histogram, rng)
            if road == "simulated"
            else mechanism.count(mechanism.perturb(cells, rng))
        )
    assert np.all(counts[:, mechanism.headers :].sum(axis=1) == 35)
    chance = np.full((4, mechanism.codes), mechanism.flip / 3)  # of each code, in one's report
    chance[:, mechanism.headers :] = 1 / 3
    for cell, cohort in itertools.product(range(4), range(3)):
        chance[cell, 5 * cohort + mechanism.filters.positions(cohort, cell)] = (
            1 - mechanism.flip
        ) / 3
    mean, variance = histogram @ chance, histogram @ (chance * (1 - chance))
    centred = counts - mean
    assert np.all(np.abs(centred.mean(axis=0)) < SIGMAS * np.sqrt(variance / runs))
    tolerance = SIGMAS * (centred**2).std(axis=0) / math.sqrt(runs)
    assert np.all(np.abs((centred**2).mean(axis=0) - variance) < tolerance)
    # A bit is sent by a user of its cohort, hence with that header.
    product = centred[:, 0] * centred[:, mechanism.headers]
    wanted = float(histogram @ (chance[:, 0] * (1 - 1 / 3)))
    assert abs(product.mean() - wanted) < SIGMAS * product.std() / math.sqrt(runs) < wanted


def test_headers_tell_how_many_users_there_were():
    mechanism = Rappor(2.0, 1000)
    rng = SeededRandom(1)
    messages = mechanism.perturb(rng.integers(1000, 5000), rng)
    whole = mechanism.count(messages)
    assert mechanism.users(whole, reported=1) == 5000
    np.testing.assert_array_equal(mechanism.estimate(whole), mechanism.estimate(whole, 5000))
    for pieces in (2, 7):
        parts = [mechanism.count(piece) for piece in np.array_split(messages, pieces)]
        np.testing.assert_array_equal(sum(parts), whole)
    with pytest.raises(ValueError, match="no report"):
        mechanism.estimate(mechanism.count([]))


# ---- what travels, and what is refused -------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"domain_size": 1}, "domain_size must be at least 2"),
        ({"domain_size": 10.5}, "domain_size must be an integer"),
        ({"bits": 1}, r"bits must lie in 2 .. "),
        ({"bits": 1 << 40}, r"bits must lie in 2 .. 67108863"),
        ({"bits": 4, "hashes": 5}, "hashes must lie in 1 .. 3, below bits, 4; not 5"),
        ({"hashes": 0}, "hashes must lie in 1 .. 127"),
        ({"hashes": 2.0}, "hashes must be an integer"),
        ({"cohorts": 0}, "cohorts must lie in 1 .. 32768 at bits 128 and hashes 2, not 0"),
        ({"bits": 1 << 20, "cohorts": 64}, "cohorts must lie in 1 .. 63 at bits 1048576"),
        ({"cohorts": 40_000}, "32768"),
        ({"permanent": 0.5}, "permanent must be finite and at least epsilon, 1.0"),
        ({"permanent": math.nan}, "permanent"),
        ({"permanent": math.inf}, "permanent"),
        ({"permanent": "2"}, "permanent"),
        ({"seed": 1.5}, "seed must be an integer"),
    ],
)
def test_impossible_parameters_are_refused_with_the_limit(parameters, message):
    with pytest.raises(ValueError, match=message):
        Rappor(**{"epsilon": 1.0, "domain_size": 100, **parameters})


def test_too_many_reports_to_list_are_refused():
    with pytest.raises(ValueError, match="at most 16384 reports can be listed"):
        Rappor(1.0, 100).report_law(0)
