"""Numbers and categories in one collection: privacy, law, estimates, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.frequency import unary
from mechanisms.frequency.hashed_responses import k_ary, optimal_local
from mechanisms.frequency.projective_geometry import ProjectiveGeometry
from mechanisms.mean.hybrid import hm
from mechanisms.mean.optimal import Optimal
from mechanisms.mean.two_point import duchi
from mechanisms.papers.dump import PureDump
from mechanisms.papers.two_points import ndm
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.vector.mixed_choice import mixed_rows, oracle
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.rows import equal_share
from tests.oracles import mean as oracles_mean
from tests.oracles.privacy import exact_shuffled_delta

HALF = equal_share(2.0, 2)
TINY = {
    "number-and-bit": MixedRows(1.0, 1, (duchi(1.0, cells=2), k_ary(1.0, 2))),
    "both-of-two": MixedRows(2.0, 2, (duchi(HALF, cells=1), k_ary(HALF, 3))),
    "two-of-three": MixedRows(2.0, 2, (k_ary(HALF, 2), hm(HALF, cells=1), k_ary(HALF, 2))),
    "hash": MixedRows(1.5, 1, (optimal_local(1.5, 4, hash_range=3), hm(1.5, cells=1))),
    "geometry": MixedRows(1.0, 1, (ProjectiveGeometry(1.0, 3, 2), duchi(1.0, cells=1))),
}
SLACK = {
    "ndm": MixedRows(1.0, 2, (ndm(0.5, 0.01, cells=1), k_ary(0.5, 2), ndm(0.5, 0.02, cells=1)))
}

Z = 6.5  # standard errors, which chance exceeds once in 10^10 at the most


def among(cases):
    return pytest.mark.parametrize("mechanism", cases.values(), ids=cases)


# ---- privacy, by enumeration ---------------------------------------------------------------------


@among(TINY | SLACK)
def test_privacy_holds_exactly_for_every_pair_of_rows(mechanism):
    claim = mechanism.guarantee
    assert (claim.model, claim.epsilon) == ("local", mechanism.epsilon)
    multiplier, _ = exponential_bounds(claim.epsilon)  # a rational below e^epsilon
    assert oracles_mean.worst_divergence(mechanism, multiplier) <= Fraction(claim.delta)


def test_the_largest_deltas_of_a_report_add_up():
    (mechanism,) = SLACK.values()
    assert Fraction(0.01) + Fraction(0.02) <= Fraction(mechanism.guarantee.delta) < 0.0300001
    assert 0.005 < tight_delta(mechanism, 1.0) <= mechanism.guarantee.delta


@among(TINY | SLACK)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_neighbouring_batches_differ_by_more(mechanism, n):
    if mechanism.outcomes > 8:
        n = min(n, 2)  # more such reports have too many multisets to list
    for share in (0.05, 0.3, 0.7, 1.01):
        epsilon = share * mechanism.epsilon
        exact = exact_shuffled_delta(mechanism, n, epsilon)
        lower, upper = shuffled_delta(mechanism, n, epsilon)
        assert lower * (1 - 1e-9) <= exact <= upper * (1 + 1e-9)


def test_a_large_batch_is_accounted_for_from_both_sides():
    mechanism = mixed_rows(3.0, [None] * 300 + [2, 50, 30_000], sampled=1)
    lower, upper = shuffled_epsilon(mechanism, 1_000_000, 1e-6)
    assert 0 < lower <= upper < 1.1 * lower
    assert upper < 0.03


# ---- the estimates -------------------------------------------------------------------------------


def population(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two numbers and two categories (of 5 and of 70 values)."""
    user = np.arange(n)
    first = (user % 7) / 3.5 - 1
    numbers = np.stack([first, 0.4 - 0.6 * (user % 2)], axis=1).astype(np.float32)
    return numbers, np.stack([user % 5 % 3, user % 11], axis=1).astype(np.int32)


def arranged() -> dict[str, MixedRows]:
    """Numbers and categories in turn; one, two and all attributes a user."""
    found = {}
    for k in (1, 2, 4):
        share = equal_share(3.0, k)
        mixed = (k_ary(share, 5), Optimal(share), optimal_local(share, 70), hm(share, cells=64))
        found[f"{k}-of-4"] = MixedRows(3.0, k, mixed)
    return found


@among(arranged())
def test_estimates_are_unbiased_with_the_variance_they_state(mechanism):
    n = 100_000
    numbers, categories = population(n)
    messages = mechanism.report(numbers, categories, SeededRandom(11))
    assert messages.shape == (n * mechanism.sampled,)
    counts = mechanism.count(messages)
    assert mechanism.users(counts) == n
    truth = [
        np.bincount(categories[:, 0], minlength=5) / n,
        numbers[:, 0].mean(dtype=float),
        np.bincount(categories[:, 1], minlength=70) / n,
        numbers[:, 1].mean(dtype=float),
    ]
    found = mechanism.estimates(counts)
    share = mechanism.sampled / 4
    for estimate, true, expected in zip(found, truth, mechanism.variances, strict=True):
        assert abs(estimate.reports - n * share) <= Z * math.sqrt(n * share * (1 - share))
        errors = estimate.estimate - true
        assert np.all(np.abs(errors) <= Z * np.sqrt(estimate.variance))
        assert np.mean(estimate.variance) * n <= 1.05 * expected
        # Seventy squares of normal errors in units of their variance: chi-square, mean 70.
        if np.size(errors) == 70:
            assert 20 < np.sum(errors**2 / estimate.variance) < 200
    # A shift of a fifth, or attributes taken for one another, would be seen.
    deviations = [np.sqrt(x.variance).max() for x in found]
    assert max(deviations) < 0.2 / (2 * Z)
    np.testing.assert_array_equal(
        mechanism.estimate(counts), np.concatenate([np.ravel(x.estimate) for x in found])
    )


def test_the_stated_variance_is_that_of_repeated_collections():
    """400 collections: the ratio of variances is within 6.5 of its standard errors of 1."""
    mechanism, n, times = MixedRows(2.0, 1, (duchi(2.0), k_ary(2.0, 3))), 400, 400
    numbers, categories = np.full((n, 1), 0.5), np.arange(n)[:, None] % 3
    found = []
    for seed in range(times):
        counts = mechanism.count(mechanism.report(numbers, categories, SeededRandom(seed)))
        found.append(mechanism.estimates(counts))
    for index in (0, 1):
        estimates = np.array([x[index].estimate for x in found])
        stated = np.mean([x[index].variance for x in found], axis=0)
        ratio = estimates.var(axis=0) / stated
        # Of numbers the choice of users is counted as if with replacement, here of equal ones.
        assert np.all(np.abs(ratio - 1) < Z * math.sqrt(2 / times))
        truth = 0.5 if index == 0 else np.array([134, 133, 133]) / 400
        assert np.all(np.abs(estimates.mean(axis=0) - truth) < Z * np.sqrt(stated / times))


def test_what_nobody_reported_is_not_known():
    mechanism = TINY["number-and-bit"]
    number, bit = mechanism.estimates(np.array([0, 0, 3, 1]))
    assert number.reports == 0
    assert np.isnan(number.estimate)
    assert np.isnan(number.variance)
    assert (bit.reports, bit.estimate.shape) == (4, (2,))
    alone, _ = mechanism.estimates(np.array([1, 0, 0, 0]))
    assert np.isfinite(alone.estimate)
    assert np.isnan(alone.variance)


# ---- the choice ----------------------------------------------------------------------------------


def test_each_attribute_gets_what_serves_it_best():
    mechanism = mixed_rows(1.0, [None, 2, 1000])
    assert mechanism.sampled == 1
    assert isinstance(mechanism.attributes[0], Optimal)
    for size in (2, 1000):
        best = oracle(1.0, size).average_variance(1)
        assert best <= min(k(1.0, size).average_variance(1) for k in (k_ary, optimal_local))
    assert mixed_rows(0.03, [None, 2]).attributes[0] == duchi(0.03)


def test_the_number_of_attributes_is_the_better_of_those_around_the_rules():
    sizes = [None] * 10 + [3]
    best = mixed_rows(5.0, sizes)
    tried = [mixed_rows(5.0, sizes, sampled=k) for k in (1, 2, 3)]
    assert best.log_error == min(one.log_error for one in tried)
    assert best.sampled == 2
    assert mixed_rows(50.0, [None, 2]).sampled == 2


def test_a_thousand_attributes_fit():
    mechanism = mixed_rows(1.0, [None] * 20_000 + [42_178, 100])
    assert mechanism.codes <= 1 << 24
    assert 1 - 1e-6 < tight_epsilon(mechanism) <= 1.0


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "sampled", "attributes", "match"),
    [
        (1.0, 0, (duchi(1.0),), "sampled must lie in 1 .. 1"),
        (1.0, 1, (), "sampled must lie in 1 .. 0"),
        (1.0, 1.0, (duchi(1.0),), "sampled must be an integer"),
        (math.nan, 1, (duchi(1.0),), "epsilon"),
        (1.0, 2, (duchi(1.0), k_ary(0.5, 2)), "may spend an epsilon of 0.5"),
        (1.0, 1, (k_ary(1.5, 2),), "may spend an epsilon of 1.0"),
        (1.0, 1, (unary.optimised(1.0, 2),), "sends several messages"),
        (9.0, 1, (PureDump(1.0, 1e-6, 1000, 5),), "sends several messages"),
        (1.0, 1, (k_ary(1.0, 1 << 24), duchi(1.0)), "use fewer cells or smaller domains"),
    ],
)
def test_what_means_nothing_is_refused(epsilon, sampled, attributes, match):
    with pytest.raises(ValueError, match=match):
        MixedRows(epsilon, sampled, attributes)


@pytest.mark.parametrize(
    ("numbers", "categories", "match"),
    [
        ([[0.1], [2.0]], [[0], [1]], "1 of 2 rows hold values that lie outside"),
        ([[0.1], [math.nan]], [[0], [1]], "1 of 2 rows"),
        ([[0.1], [0.2]], [[0], [2]], "1 of 2 cells lie outside"),
        ([[0.1], [0.2]], [[0], [-1]], "1 of 2 cells lie outside"),
        ([[0.1], [0.2]], [[0.0], [1.0]], "cells must be integers"),
        ([[0.1], [0.2]], [[0, 1], [1, 0]], "rows of 1 integers"),
        ([[0.1, 0.2]], [[0]], "rows of 1 numbers"),
        ([[0.1], [0.2]], [[0]], "2 rows of numbers and 1 of others"),
    ],
)
def test_broken_rows_are_refused_without_quoting_them(numbers, categories, match):
    with pytest.raises(ValueError, match=match):
        TINY["number-and-bit"].report(numbers, categories, SeededRandom(1))


def test_counts_and_choices_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"counts must be of shape \(4,\)"):
        TINY["number-and-bit"].estimates(np.zeros(5, np.int64))
    with pytest.raises(ValueError, match="there is no attribute"):
        mixed_rows(1.0, [])
    with pytest.raises(ValueError, match=r"sampled must lie in 1 \.\. 2"):
        mixed_rows(1.0, [None, 2], sampled=3)
    with pytest.raises(ValueError, match="domain_size"):
        mixed_rows(1.0, [None, 1])
