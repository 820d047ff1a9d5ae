"""NoiseFirst: the optimal partition against brute force, its error estimate, exact privacy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.central.laplace import DiscreteLaplace
from mechanisms.papers.central_histogram import histogram
from mechanisms.papers.noisefirst import NoiseFirst
from mechanisms.randomness import SeededRandom
from tests.oracles.central import exact_vector_delta, partitions

STEPS = np.repeat([100, 400, 50, 200], 64)


def spread(noisy, starts) -> float:
    """Of the noisy counts within their buckets."""
    buckets = np.split(np.asarray(noisy, float), starts[1:])
    return sum(((bucket - bucket.mean()) ** 2).sum() for bucket in buckets)


def objective(mechanism: NoiseFirst, noisy, starts) -> float:
    """The spread, and the price of the buckets."""
    return spread(noisy, starts) + mechanism.penalty * mechanism.noise.variance() * len(starts)


@given(
    st.lists(st.integers(-30, 30), min_size=2, max_size=9),
    st.sampled_from([0.2, 0.5, 1.0, 3.0]),
    st.sampled_from([0.0, 1.0, 2.0, 2.5, 7.0]),
)
@settings(max_examples=150, deadline=None)
def test_no_partition_is_better(noisy, epsilon, penalty):
    mechanism = NoiseFirst(epsilon, len(noisy), penalty)
    least = min(objective(mechanism, noisy, starts) for starts in partitions(len(noisy)))
    found = objective(mechanism, noisy, mechanism.buckets(noisy))
    assert found == pytest.approx(least, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("penalty", [0.5, 2.0, 6.0, 20.0, 1e4])
def test_dropping_starts_loses_nothing(penalty):
    """Against the full recursion over all pairs, with spreads from prefix sums of integers."""
    d, mechanism = 400, NoiseFirst(1.0, 400, penalty)
    counts = (100 + 80 * np.sin(np.arange(d) / 20)).astype(int)
    noisy = mechanism.noise.perturb(counts, SeededRandom(8))
    sums, squares = np.append(0, noisy.cumsum()), np.append(0, (noisy**2).cumsum())
    price, best = penalty * mechanism.noise.variance(), np.zeros(1)
    for t in range(1, d + 1):
        size = t - np.arange(t)
        spread = squares[t] - squares[:t] - (sums[t] - sums[:t]) ** 2 / size
        best = np.append(best, (best + spread).min() + price)
    found = objective(mechanism, noisy, mechanism.buckets(noisy))
    assert found == pytest.approx(best[-1], rel=1e-9)


@pytest.mark.parametrize(("penalty", "share"), [(2.0, 0.8), (math.log(256), 0.4)])
def test_merging_pays_on_steps(penalty, share):
    """Total squared error over that of the plain histogram, averaged over 40 releases. It is 0.64
    and 0.25 with standard errors of 0.023 and 0.020 (measured on 600 others): the limits are 7
    of them away, a false alarm below 1e-9, and plain noise is 9 beyond.
    """
    mechanism, rng = NoiseFirst(1.0, STEPS.size, penalty), SeededRandom(3)
    errors = [((mechanism.release(STEPS, rng) - STEPS) ** 2).sum() for _ in range(40)]
    plain = STEPS.size * mechanism.noise.variance()
    assert np.mean(errors) < share * plain


def test_release_is_merged_noise():
    mechanism = NoiseFirst(1.0, STEPS.size)
    noisy = histogram(1.0).perturb(STEPS, SeededRandom(5))
    merged, starts = mechanism.release(STEPS, SeededRandom(5)), mechanism.buckets(noisy)
    np.testing.assert_array_equal(merged, mechanism.merge(noisy))
    assert merged.sum() == pytest.approx(noisy.sum(), rel=1e-12)
    for got, bucket in zip(np.split(merged, starts[1:]), np.split(noisy, starts[1:]), strict=True):
        np.testing.assert_allclose(got, bucket.mean(), rtol=1e-12)


@pytest.mark.parametrize(("epsilon", "d"), [(1.0, 2), (8.0, 2), (8.0, 3)])
def test_the_noise_vector_keeps_the_claim(epsilon, d):
    """The law of all noisy counts on neighbours; merging cannot add to its divergence."""
    mechanism = NoiseFirst(epsilon, d)
    claim, unit = mechanism.guarantee, np.eye(d, dtype=int)
    assert (claim.model, claim.epsilon, claim.unit) == ("central", epsilon, "record")
    for a, b in itertools.permutations(range(d), 2):
        moved = (unit[a] - unit[b]).tolist()
        assert 0 < exact_vector_delta(mechanism.noise, moved, epsilon) <= claim.delta < 1e-17
        loose = DiscreteLaplace(epsilon, 1)  # noise for a record that is added, not replaced
        assert exact_vector_delta(loose, moved, epsilon) > 1e6 * claim.delta


def test_equal_counts_are_one_bucket_and_huge_ones_no_trouble():
    mechanism = NoiseFirst(1.0, 6)
    assert mechanism.buckets([7] * 6).tolist() == [0]
    huge = [1 << 60, 3, 3, 3, -(1 << 60), 4]
    assert mechanism.buckets(huge).tolist() == [0, 1, 4, 5]
    np.testing.assert_array_equal(mechanism.merge(huge), np.array(huge, float))


def test_a_domain_too_large_is_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"at most 65536, not 65537: .* coarser values.*Boost"):
        NoiseFirst(1.0, 65537)


@pytest.mark.parametrize("penalty", [math.nan, math.inf, -1.0])
def test_bad_penalties_are_refused(penalty):
    with pytest.raises(ValueError, match="penalty"):
        NoiseFirst(1.0, 10, penalty)


@pytest.mark.parametrize("counts", [[1, 2], [[1, 2, 3]], [1.0, 2.0, 3.0], [1 << 63, 0, 0]])
def test_bad_counts_are_refused(counts):
    with pytest.raises(ValueError, match="counts must be"):
        NoiseFirst(1.0, 3).release(counts, SeededRandom(1))


@pytest.mark.parametrize("noisy", [[1.0, 2.0], [1.0, math.nan, 2.0], [math.inf, 0.0, 0.0]])
def test_bad_noisy_counts_are_refused(noisy):
    mechanism = NoiseFirst(1.0, 3)
    for method in (mechanism.merge, mechanism.buckets):
        with pytest.raises(ValueError, match="noisy counts must be"):
            method(noisy)
