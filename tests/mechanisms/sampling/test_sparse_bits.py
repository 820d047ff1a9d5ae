"""Rare coins: the joint law of whole rows, whichever way they are drawn, and what it costs."""

from __future__ import annotations

import tracemalloc
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from mechanisms.randomness import SeededRandom
from mechanisms.sampling import sparse_bits
from mechanisms.sampling.sparse_bits import distinct, heads
from tests.oracles.statistics import FALSE_ALARM, follows, sample_size, tilted

WORD = 1 << 64


@pytest.fixture(params=[(1 << 20, 1 << 17), (1000, 700)], ids=["whole", "in small pieces"])
def sizes(request, monkeypatch) -> None:
    """The same laws, whatever the sizes that only speed decides."""
    for name, size in zip(("_COINS", "_DRAWS"), request.param, strict=True):
        monkeypatch.setattr(sparse_bits, name, size)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize(
    ("columns", "chance"), [(3, 0.5), (4, 0.3), (2, 0.99), (3, 1 / 16), (2, 1 / 40), (1, 1e-3)]
)
def test_every_set_of_heads_in_a_row_has_its_probability(columns, chance):
    law = np.array(
        [chance ** sum(row) * (1 - chance) ** (columns - sum(row))
         for row in product([0, 1], repeat=columns)]
    )  # fmt: skip
    wrong = tilted(law)
    n = sample_size(law, wrong)
    found = heads(n * columns, int(chance * WORD), SeededRandom(columns))
    rows, places = np.divmod(found, columns)
    sets = np.bincount(rows, 2.0 ** (columns - 1 - places), minlength=n).astype(int)
    outcomes = np.bincount(sets, minlength=law.size)
    assert follows(outcomes, law)
    assert not follows(outcomes, wrong)


@pytest.mark.parametrize("chance", [1 / 500, 0.2])
def test_the_heads_of_long_rows_are_binomial_and_uniform(chance):
    """Rows that begin anywhere in a stretch: a thousand coins against two to sixty thousand."""
    n, columns = 40_000, 1000
    rows, places = np.divmod(heads(n * columns, int(chance * WORD), SeededRandom(4)), columns)
    sums = np.bincount(rows, minlength=n)
    low, high = stats.binom.interval(0.98, columns, chance)
    ends = stats.binom.cdf([*np.arange(low, high), np.inf], columns, chance)
    found = np.bincount(np.clip(sums - int(low), 0, ends.size - 1), minlength=ends.size)
    assert follows(found, np.diff(ends, prepend=0))
    assert follows(np.bincount(places, minlength=columns), np.full(columns, 1 / columns))


def test_heads_come_in_ascending_order_and_only_once():
    for chance in (0.7, 0.06, 1e-3, 1e-6):
        places = heads(5_000_000, int(chance * WORD), SeededRandom(1))
        assert (np.diff(places) > 0).all()
        assert 0 <= places[0] <= places[-1] < 5_000_000
        low, high = stats.binom.interval(1 - FALSE_ALARM, 5_000_000, chance)
        assert low <= places.size <= high


def test_coins_without_chance_or_choice():
    rng = SeededRandom(1)
    assert heads(1000, 0, rng).size == 0
    assert heads(0, 1 << 50, rng).size == 0
    np.testing.assert_array_equal(heads(1000, WORD, rng), np.arange(1000))
    assert distinct(np.array([], int), 5, rng).size == 0
    assert distinct(np.array([0, 0]), 5, rng).size == 0


@pytest.mark.verify
@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("density", [0, 1 << 30], ids=["by sorting", "by marking"])
@pytest.mark.parametrize(("columns", "count"), [(5, 2), (6, 3), (4, 3), (3, 3), (40, 2), (9, 1)])
def test_every_set_of_columns_is_equally_likely(monkeypatch, density, columns, count):
    monkeypatch.setattr(sparse_bits, "_DENSE", density)
    sets = {chosen: i for i, chosen in enumerate(combinations(range(columns), count))}
    law = np.full(len(sets), 1 / len(sets))
    n = sample_size(law, tilted(law)) if len(sets) > 1 else 100
    drawn = distinct(np.full(n, count), columns, SeededRandom(count))
    found = drawn.reshape(n, count)
    chosen = found - columns * np.arange(n)[:, None]
    outcomes = np.bincount([sets[tuple(row)] for row in chosen.tolist()], minlength=len(sets))
    assert follows(outcomes, law)
    assert len(sets) == 1 or not follows(outcomes, tilted(law))


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("density", [0, 1 << 30], ids=["by sorting", "by marking"])
def test_rows_may_get_different_numbers_of_columns(monkeypatch, density):
    monkeypatch.setattr(sparse_bits, "_DENSE", density)
    rng = SeededRandom(8)
    counts = rng.integers(8, 30_000).astype(np.int64)
    found = distinct(counts, 7, rng)
    assert (np.diff(found) > 0).all()
    np.testing.assert_array_equal(np.bincount(found // 7, minlength=counts.size), counts)
    # Source its size a row's set favours no column.
    for count in (1, 4, 6):
        columns = found[counts[found // 7] == count] % 7
        spread = np.bincount(columns, minlength=7)
        rows = np.count_nonzero(counts == count)
        low, high = stats.binom.interval(1 - FALSE_ALARM, rows, count / 7)
        assert (low <= spread).all()
        assert (spread <= high).all()


def test_memory_follows_the_heads_and_not_the_coins():
    """42 thousand million coins, as many as a large histogram has, and a pebble of memory."""
    heads(1, 1 << 44, SeededRandom(1))  # fills the cache of tables
    tracemalloc.start()
    try:
        places = heads(42_178 * 10**6, 1 << 44, SeededRandom(1))
        rare = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        heads(1 << 22, 1 << 63, SeededRandom(1))
        common = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 39_000 < places.size < 41_500
    assert rare < 10e6
    assert common < 60e6


@pytest.mark.parametrize("threshold", [-1, WORD + 1])
def test_impossible_chances_are_refused(threshold):
    with pytest.raises(ValueError, match="threshold"):
        heads(10, threshold, SeededRandom(1))


@pytest.mark.parametrize("coins", [-1, (1 << 62) + 1])
def test_impossible_numbers_of_coins_are_refused(coins):
    with pytest.raises(ValueError, match="coins"):
        heads(coins, 1 << 30, SeededRandom(1))


@pytest.mark.parametrize("counts", [[6], [-1], [2, 9]])
def test_more_columns_than_there_are_cannot_be_had(counts):
    with pytest.raises(ValueError, match=r"counts must lie in 0 \.\. 5"):
        distinct(np.array(counts), 5, SeededRandom(1))
