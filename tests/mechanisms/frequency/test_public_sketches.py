"""Oracles on a public random matrix: the hash, one noisy sign a user, and what seeds cost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import linalg

from mechanisms.papers.count_sketch import CountSketch, walsh_hadamard
from mechanisms.papers.public_hash import PublicHash, below, most_functions
from mechanisms.papers.random_projection import RandomProjection
from mechanisms.privacy import blanket
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.privacy.pair_law import ShuffleLaws, grouped
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted


def projection(epsilon, domain_size, seed=0):
    return RandomProjection(epsilon, domain_size, rows=16, seed=seed)


def sketch(epsilon, domain_size, seed=0):
    return CountSketch(epsilon, domain_size, width=4, sketches=4, seed=seed)


SMALL = [projection, sketch]
DEFAULT = [RandomProjection, CountSketch]


def signs(mechanism) -> np.ndarray:
    """(rows, d) the whole public matrix, entry by entry."""
    rows = np.arange(mechanism.height, dtype=np.uint64)[:, None]
    return 1 - 2 * mechanism.negative(rows, np.arange(mechanism.domain_size)).astype(int)


# ---- the hash --------------------------------------------------------------------------------


def test_equal_seeds_give_equal_functions_and_others_do_not():
    values = np.arange(70_000)
    words = PublicHash(5, 3, 70_000).words(2, values)
    np.testing.assert_array_equal(words, PublicHash(5, 3, 70_000).words(2, values))
    assert not np.isin(PublicHash(6, 3, 70_000).words(2, values), words).any()
    assert not np.isin(PublicHash(5, 3, 70_000).words(1, values), words).any()


def test_functions_stay_what_they_were():
    """Clients and collectors of different releases share them: they are part of the format."""
    words = PublicHash(0, 2, 300).words([0, 1, 1], [0, 255, 299])
    assert [f"{int(word):016x}" for word in words] == [
        "10bb000a825253cc",
        "16a90434800c2206",
        "d2f2f5337480f574",
    ]


def test_functions_do_not_repeat_a_simulations_noise():
    noise = SeededRandom(3).words(10_000)
    assert not np.isin(PublicHash(3, 4, 256).tables, noise).any()


def test_words_of_three_values_are_independent_over_functions():
    """Values that share bytes, so that a weaker hash would show; one bit of each word."""
    law = np.full(8, 1 / 8)
    n = sample_size(law, tilted(law))
    hashed = PublicHash(1, n, 1 << 16).words(np.arange(n)[:, None], [0x0102, 0x0103, 0x0203])
    for bit in (0, 17, 63):
        outcome = (hashed >> np.uint64(bit) & np.uint64(1)) @ np.array([1, 2, 4], np.uint64)
        counts = np.bincount(outcome.astype(int), minlength=8)
        assert follows(counts, law)
        assert not follows(counts, tilted(law))


def test_words_scale_to_any_bound():
    words = np.array([0, 1, 2**63, 2**64 - 1, 0x123456789ABCDEF0], np.uint64)
    for bound in (1, 2, 3, 127, 1 << 20, (1 << 32) - 1):
        assert below(words, bound).tolist() == [int(word) * bound >> 64 for word in words]
    law = np.full(5, 1 / 5)
    drawn = below(SeededRandom(1).words(sample_size(law, tilted(law))), 5)
    assert follows(np.bincount(drawn.astype(int), minlength=5), law)


def test_tables_fit_into_memory():
    assert PublicHash(0, most_functions(1 << 20), 1 << 20).tables.nbytes <= 1 << 27
    assert [most_functions(d) for d in (2, 256, 257, 1 << 32)] == [65536, 65536, 32768, 16384]


# ---- one report ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", SMALL)
def test_code_is_twice_the_row_plus_one_for_a_negative_sign(make):
    mechanism = make(3.0, 9)
    for cell in range(9):
        likelier = mechanism.channel(cell).reshape(-1, 2).argmax(axis=1)
        np.testing.assert_array_equal(1 - 2 * likelier, signs(mechanism)[:, cell])


def test_a_sketch_is_a_signed_bucket_seen_through_a_hadamard_matrix():
    mechanism = sketch(1.0, 50)
    columns = signs(mechanism).reshape(4, 4, 50)
    hadamard = linalg.hadamard(4)
    for k, cell in itertools.product(range(4), range(50)):
        product = hadamard @ columns[k, :, cell]
        assert sorted(np.abs(product)) == [0, 0, 0, 4]  # one bucket, with a sign


@pytest.mark.parametrize("make", DEFAULT)
def test_one_report_loses_what_it_says_in_a_large_domain(make):
    mechanism = make(1.0, 42_178)
    assert 1 - 1e-6 < tight_epsilon(mechanism) <= 1


# ---- the collector ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomProjection(1.0, 2, rows=1),
        RandomProjection(1.0, 256, rows=64, seed=4),
        RandomProjection(1.0, 257, rows=63, seed=-1),
        RandomProjection(1.0, 3000, rows=200),
        RandomProjection(1.0, 66_000, rows=130),
        CountSketch(1.0, 2, width=1, sketches=1),
        CountSketch(1.0, 257, width=2, sketches=7, seed=4),
        CountSketch(1.0, 3000, width=64, sketches=3),
        CountSketch(1.0, 66_000, width=16, sketches=5),
    ],
    ids=repr,
)
def test_collector_equals_brute_force(mechanism):
    rng = SeededRandom(1)
    messages = mechanism.perturb(rng.integers(mechanism.domain_size, 100), rng)
    told = 1 - 2 * (messages % 2).astype(int)
    rows, values = (messages // 2)[:, None], np.arange(mechanism.domain_size)
    agree = (1 - 2 * mechanism.negative(rows, values).astype(int)) == told[:, None]
    np.testing.assert_array_equal(mechanism.support(mechanism.count(messages)), agree.sum(axis=0))


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_transform_equals_the_product_with_a_hadamard_matrix(size):
    rows = SeededRandom(size).integers(1000, 3 * size).astype(np.int64).reshape(3, size)
    np.testing.assert_array_equal(walsh_hadamard(rows), rows @ linalg.hadamard(size))


def test_counts_beyond_double_precision_are_refused():
    mechanism = RandomProjection(1.0, 10, rows=8)
    with pytest.raises(ArithmeticError, match="exactly"):
        mechanism.support(np.full(16, 2**50))


def test_median_is_that_of_the_sketches_by_themselves():
    mechanism = CountSketch(2.0, 30, width=8, sketches=5)
    rng = SeededRandom(1)
    counts = mechanism.count(mechanism.perturb(rng.integers(30, 500), rng))
    counts[16:32] = 0  # nobody drew sketch 1
    surplus = (counts[::2] - counts[1::2]).reshape(5, 8)
    columns, slope = signs(mechanism).reshape(5, 8, 30), 2 * mechanism.contrast
    alone = [surplus[k] @ columns[k] / counts.reshape(5, 16)[k].sum() / slope for k in (0, 2, 3, 4)]
    np.testing.assert_allclose(mechanism.median(counts), np.median(alone, axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match="no report"):
        mechanism.median(np.zeros(80, np.int64))


def test_median_withstands_a_collision_that_spoils_the_mean():
    """A third of all users hold a value whose bucket another shares in one of 9 sketches."""
    mechanism = CountSketch(8.0, 2000, width=256, sketches=9)
    words = mechanism.hash.words(np.arange(9)[:, None], np.arange(2000)) % np.uint64(256)
    together = np.flatnonzero((words == words[:, :1]).sum(axis=0) == 1)
    histogram = np.zeros(2000, int)
    histogram[0], histogram[together[0] + 1] = 300_000, 600_000
    counts = mechanism.simulate(histogram, SeededRandom(1))
    mean, median = mechanism.estimate(counts), mechanism.median(counts)
    assert abs(mean[together[0]]) > 0.3 / 9
    assert abs(median[together[0]]) < 0.01


@pytest.mark.parametrize("make", DEFAULT)
def test_seeds_must_agree(make):
    histogram = np.array([900_000] + [0] * 9)
    counts = make(2.0, 10, seed=1).simulate(histogram, SeededRandom(1))
    assert make(2.0, 10, seed=1).estimate(counts)[0] == pytest.approx(1, abs=0.02)
    assert make(2.0, 10, seed=2).estimate(counts)[0] == pytest.approx(0, abs=0.05)


# ---- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", SMALL)
def test_given_a_seed_one_report_expects_the_matrix_times_itself(make):
    """From the channel, exactly: the bias that a seed leaves is the overlap of two columns."""
    mechanism = make(1.0, 9)
    decoded = np.array([mechanism.estimate(row, 1) for row in np.eye(32, dtype=np.int64)])
    channels = np.array([mechanism.channel(cell) for cell in range(9)])
    overlap = signs(mechanism).T @ signs(mechanism) / 16
    np.testing.assert_allclose(channels @ decoded, overlap, atol=1e-12)
    np.testing.assert_allclose(np.diag(channels @ decoded), 1, rtol=1e-12)


# ---- a shuffled batch ------------------------------------------------------------------------


@pytest.mark.parametrize("make", SMALL)
def test_shuffle_laws_agree_with_the_table(make):
    mechanism = make(2.0, 10)
    table = np.array([mechanism.channel(cell) for cell in range(10)])
    least = table.min(axis=0)
    assert np.ptp(least) < 1e-15  # both signs occur in every row, so the closed form is exact
    dominating = tuple(
        grouped(table[one], table[other], least, blanket=True) for one, other in mechanism.pairs()
    )
    attained = tuple(grouped(table[one], table[other], table[one]) for one, other in
                     mechanism.pairs())  # fmt: skip
    tabulated = blanket.delta_bounds(ShuffleLaws(dominating, attained, 2.0), 1000, 0.2)
    stated = blanket.delta_bounds(mechanism.shuffle_laws(), 1000, 0.2)
    assert stated == pytest.approx(tabulated, rel=1e-6)


@pytest.mark.parametrize("make", DEFAULT)
@pytest.mark.parametrize("domain_size", [50, 5000])
def test_shuffling_amplifies(make, domain_size):
    lower, upper = shuffled_epsilon(make(2.0, domain_size), 10**5, 1e-6)
    assert 0.01 < lower < upper < 2.2 * lower


# ---- what travels, and what is refused -------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "parameters", "message"),
    [
        (RandomProjection, {"domain_size": 1}, "domain_size must be at least 2"),
        (RandomProjection, {"domain_size": 10.0}, "domain_size must be an integer"),
        (RandomProjection, {"domain_size": 10, "rows": 0}, r"rows must lie in 1 .. 1048576"),
        (RandomProjection, {"domain_size": 10, "rows": 2**20 + 1}, r"1 .. 1048576, not 1048577"),
        (RandomProjection, {"domain_size": 10, "rows": None}, "rows must be an integer"),
        (RandomProjection, {"domain_size": 10, "seed": "a"}, "seed must be an integer"),
        (CountSketch, {"domain_size": 10, "width": 12}, "power of two.* next below is 8"),
        (CountSketch, {"domain_size": 10, "width": 0}, "the next below is 1"),
        (CountSketch, {"domain_size": 10, "width": 2**30}, "next below is 16777216"),
        (CountSketch, {"domain_size": 10, "sketches": 0}, "sketches must lie in 1 .. 16384 at"),
        (CountSketch, {"domain_size": 10, "sketches": 20_000}, "1 .. 16384 at width 1024, not"),
    ],
)  # fmt: skip
def test_impossible_parameters_are_refused_with_the_limit(make, parameters, message):
    with pytest.raises(ValueError, match=message):
        make(1.0, **parameters)
