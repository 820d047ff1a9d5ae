"""Scores of buckets, and the exact law of their sums for a prefix that nobody holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from mechanisms.heavy_hitters.scores import Chance, row, rows_of
from mechanisms.randomness import SeededRandom


def uniform(seed: int, size: int) -> np.ndarray:
    return (SeededRandom(seed).words(size) >> np.uint64(40)).astype(np.int64)


def test_scores_are_normal_quantiles_where_nothing_ties() -> None:
    places = SeededRandom(1).permutation(1 << 16)
    found = row(places**2 // 99 + places, 1000, 1000).scores / 256  # only the order counts
    expected = stats.norm.ppf((places + 0.5) / (1 << 16))
    np.testing.assert_allclose(found, expected, atol=0.08)
    assert found.std() == pytest.approx(1, abs=0.01)
    assert abs(found.mean()) < 0.01


def test_ties_share_the_mean_of_their_places() -> None:
    support = np.array([2] * 6 + [3] * 3 + [7])
    found = row(support, 50, 50).scores / 256
    places = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    for value, (start, end) in {2: (0, 0.6), 3: (0.6, 0.9), 7: (0.9, 1.0)}.items():
        mean = places[int(start * 1e5) : int(end * 1e5)].mean()
        np.testing.assert_allclose(found[support == value], mean, atol=1 / 256)


def test_a_string_that_most_of_many_users_hold_is_ranked_as_any_other() -> None:
    """Without a table that is as long as its support."""
    support = uniform(2, 500)
    support[7] = support.max() + 1
    near = row(support, 100, 100)
    support[7] = 1 << 50
    far = row(support, 100, 100)
    np.testing.assert_array_equal(far.scores, near.scores)
    np.testing.assert_array_equal(far.places, near.places)
    assert far.places.dtype == near.places.dtype
    np.testing.assert_array_equal(far.supports[far.places], support)


def test_smaller_groups_weigh_less() -> None:
    support = uniform(2, 500)
    large, small = rows_of([support, support], np.array([400, 100]))
    np.testing.assert_allclose(small.scores, large.scores / 2, atol=1)
    assert (large.n, small.n) == (400, 100)
    nobody = rows_of([support * 0, support * 0], np.array([0, 0]))
    assert not any(each.scores.any() for each in nobody)


def test_chance_is_the_law_of_a_sum_over_uniform_buckets() -> None:
    """Against all combinations of buckets, ties and uneven groups included."""
    rows = [
        row(uniform(3, 16), 100, 100),
        row(np.repeat([0, 1, 7], [10, 5, 1]), 60, 100),
        row(uniform(4, 16), 30, 100),
    ]
    sums = np.array([sum(each) for each in itertools.product(*(r.scores.tolist() for r in rows))])
    chance = Chance.of(rows)
    for total in range(sums.min() - 3, sums.max() + 4):
        exact = np.mean(sums >= total)
        assert exact * (1 - 1e-12) <= chance.exceeding(total) <= exact + 1e-12
    assert chance.exceeding([sums.min(), sums.max() + 1]).tolist() == pytest.approx([1, 0])
    for probability in (1.0, 0.5, 0.1, 1 / 16**3, 1e-6):
        threshold = chance.threshold(probability)
        assert np.mean(sums >= threshold) <= probability
        assert threshold == sums.min() or np.mean(sums >= threshold - 1) > probability - 1e-12


def test_the_tails_of_many_rows_are_those_of_a_normal_law() -> None:
    rows = [row(uniform(k, 1 << 14), 900, 900) for k in range(9)]
    chance = Chance.of(rows)
    for deviations in (1.0, 3.0, 5.0, 6.5):
        found = float(chance.exceeding(round(256 * 3 * deviations)))
        assert found == pytest.approx(stats.norm.sf(deviations), rel=0.1)


def test_far_tails_keep_their_digits() -> None:
    """Against a convolution without rounding, down to the rarest sum."""
    rows = [row(np.arange(64), 100, 100) for _ in range(6)]
    law = np.array([1], object)
    shifted = rows[0].scores - rows[0].scores.min()
    for _ in rows:
        law = np.convolve(law, np.bincount(shifted).astype(object))
    exact = np.array([float(x) for x in law[::-1].cumsum()[::-1] / 64**6])
    tail = Chance.of(rows).tail
    assert (tail >= exact).all()
    np.testing.assert_allclose(tail, exact, rtol=1e-9)
    assert (np.diff(tail) <= 0).all()


def test_many_different_scores_are_summed_as_few_are() -> None:
    rows = [row(uniform(k, 1 << 11), 900, 900) for k in (1, 2)]
    assert np.unique(rows[0].scores).size > 512
    sums = np.add.outer(*(r.scores for r in rows)).ravel()
    chance = Chance.of(rows)
    exact = np.bincount(sums - sums.min())[::-1].cumsum()[::-1] / sums.size
    assert chance.least == sums.min()
    assert (chance.tail >= exact).all()
    np.testing.assert_allclose(chance.tail, exact, rtol=1e-9)


def test_sums_too_rare_to_be_looked_at_are_still_bounded() -> None:
    """Of 60 groups in which one bucket of 64 stands out: how many of them stand out is binomial."""
    rows = [row(63 * (np.arange(64) == 63), 100, 100) for _ in range(60)]
    low, high = (int(rows[0].scores[place]) for place in (0, 63))
    chance = Chance.of(rows)
    assert chance.law.size < 60 * (high - low)  # 64^-60 is out of sight
    found = chance.exceeding(60 * low + np.arange(62) * (high - low))
    exact = stats.binom.sf(np.arange(62) - 1, 60, 1 / 64)
    assert (found >= exact * (1 - 1e-11)).all()  # scipy's own error
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-57)
    assert chance.exceeding(-(10**6)) == 1
    assert exact[1 + (chance.threshold(1e-40) - 60 * low - 1) // (high - low)] <= 1e-40
