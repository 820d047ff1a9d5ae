"""Apple's count mean sketch: the paper's algorithms by brute force, and what has no signs."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import linalg

from mechanisms.papers.count_mean_sketch import CountMeanSketch
from mechanisms.papers.count_sketch import CountSketch
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.randomness import SeededRandom


def buckets(mechanism: CountMeanSketch) -> np.ndarray:
    """(sketches, d) h_k(v), from what a client that never lies would send."""
    rows = np.arange(mechanism.height, dtype=np.uint64)[:, None]
    negative = mechanism.negative(rows, np.arange(mechanism.domain_size))
    signs = (1 - 2 * negative.astype(int)).reshape(mechanism.sketches, mechanism.width, -1)
    spectra = np.einsum("lh,klv->khv", linalg.hadamard(mechanism.width), signs)
    assert np.all(np.sort(spectra, axis=1)[:, :-1] == 0)
    assert np.all(spectra.max(axis=1) == mechanism.width)  # one bucket, and never a minus
    return spectra.argmax(axis=1)


@pytest.mark.parametrize("seed", [0, 7])
def test_estimates_are_those_of_the_papers_server(seed):
    """Sketch-HCMS: M[j, l] += k c_eps w; M H^T; then m / (m - 1) (1 / k sum_l M - n / m)."""
    epsilon, d, m, k, n = 1.5, 40, 8, 5, 3000
    mechanism = CountMeanSketch(epsilon, d, width=m, sketches=k, seed=seed)
    rng = SeededRandom(1)
    messages = mechanism.perturb(rng.integers(d, n), rng).astype(int)
    table = np.zeros((k, m))
    scale = k * (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    for message in messages:
        row, negative = divmod(message, 2)
        table[row // m, row % m] += scale * (1 - 2 * negative)
    table = table @ linalg.hadamard(m).T
    read = table[np.arange(k)[:, None], buckets(mechanism)].sum(axis=0)
    counts = m / (m - 1) * (read / k - n / m)
    estimate = mechanism.estimate(mechanism.count(messages))
    np.testing.assert_allclose(estimate, counts / n, rtol=1e-9, atol=1e-12)


def test_values_in_one_bucket_are_taken_for_one_another_and_that_is_subtracted():
    """At an epsilon where nobody lies the estimate is known from the buckets alone."""
    mechanism = CountMeanSketch(40.0, 30, width=4, sketches=6)
    places = buckets(mechanism)
    shared = (places[:, :1] == places).mean(axis=0)
    counts = mechanism.simulate(np.eye(30, dtype=int)[0] * 500_000, SeededRandom(3))
    expected = (shared - 1 / 4) / (1 - 1 / 4)
    np.testing.assert_allclose(mechanism.estimate(counts), expected, atol=0.02)
    assert len(set(shared.tolist())) > 3


@pytest.mark.parametrize("domain_size", [12, 100])
def test_no_two_values_differ_in_more_than_half_of_all_rows(domain_size):
    mechanism = CountMeanSketch(1.0, domain_size, width=4, sketches=3)
    apart = [mechanism.differing(*pair) for pair in combinations(range(domain_size), 2)]
    assert max(apart) <= mechanism.farthest <= mechanism.height // 2
    assert max(apart) == mechanism.farthest


def test_shuffling_hides_it_better_than_a_sketch_with_signs():
    """Where values cannot all be compared, half of all rows are known to tell none apart."""
    lower, upper = shuffled_epsilon(CountMeanSketch(2.0, 5000), 10**5, 1e-6)
    assert 0.01 < lower < upper < 1.5 * lower
    assert upper < 0.8 * shuffled_epsilon(CountSketch(2.0, 5000), 10**5, 1e-6)[1]


def test_median_is_that_of_the_sketches_by_themselves():
    mechanism = CountMeanSketch(3.0, 20, width=8, sketches=5)
    counts = mechanism.simulate(np.full(20, 2000), SeededRandom(1))
    places = buckets(mechanism)
    plus, minus = counts.reshape(5, 8, 2).transpose(2, 0, 1)
    tables = (plus - minus) @ linalg.hadamard(8) / (2 * mechanism.keep - 1)
    users = counts.reshape(5, -1).sum(axis=1)[:, None]
    alone = 8 / 7 * (np.take_along_axis(tables, places, axis=1) / users - 1 / 8)
    np.testing.assert_allclose(mechanism.median(counts), np.median(alone, axis=0), rtol=1e-9)


def test_one_bucket_tells_nothing():
    with pytest.raises(ValueError, match="width must be at least 2"):
        CountMeanSketch(1.0, 10, width=1)
