"""The binomial sampler: its brackets, its law, and the bits beyond the first 64."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import comb

import numpy as np
import pytest
from scipy import stats

from mechanisms.randomness import SeededRandom
from mechanisms.sampling.sparse_bits import ExactBinomial
from tests.oracles.statistics import FALSE_ALARM, follows, sample_size, tilted

WORD = 1 << 64


@lru_cache
def distribution_function(trials: int, threshold: int) -> list[int]:
    """F(0), ..., F(trials) as they are defined, in units of 2^(-64 trials)."""
    terms = (
        comb(trials, k) * threshold**k * (WORD - threshold) ** (trials - k)
        for k in range(trials + 1)
    )
    return list(accumulate(terms))


class Scripted(SeededRandom):
    """Begins with given words, for every draw alike, and goes on at random."""

    def __init__(self, seed: int, *script: int) -> None:
        super().__init__(seed)
        self.script, self.asked = list(script), 0

    def words(self, size):
        self.asked += 1
        return np.full(size, self.script.pop(0), np.uint64) if self.script else super().words(size)


@pytest.mark.parametrize("bits", [64, 128, 192])
@pytest.mark.parametrize(
    ("trials", "threshold"),
    [
        (1, WORD // 2), (2, WORD // 2), (1, 1), (1, WORD - 1), (10, 12345678901234567), (50, 1),
        (50, WORD - 1), (7, WORD // 8), (300, WORD - (1 << 40)), (400, 3 << 60), (300, WORD // 5),
    ],
)  # fmt: skip
def test_brackets_hold_the_distribution_function_and_nothing_else(trials, threshold, bits):
    exact = distribution_function(trials, threshold)
    first, low, high = ExactBinomial(trials, threshold).brackets(bits)
    assert low == sorted(low)
    assert high == sorted(high)
    for i, (below, above) in enumerate(zip(low, high, strict=True)):
        assert below * WORD**trials <= exact[first + i] << bits <= above * WORD**trials
        assert above <= min(below + 2, 2**bits)
    # Words that no bracket holds are decided: those before the first count and after the last.
    assert first == 0 or (low[0], high[0]) == (0, 1)
    assert first + len(low) == trials or low[-1] == 2**bits - 1


@pytest.mark.parametrize(("trials", "chance"), [(1, 0.3), (6, 0.4), (4, 0.9), (8192, 1 / 100)])
def test_counts_follow_the_binomial_law_and_no_other(trials, chance):
    threshold = int(chance * WORD)
    low, high = (0, trials) if trials < 10 else stats.binom.interval(0.999, trials, chance)
    inside = np.arange(int(low) + 1, int(high)) if trials > 10 else np.arange(trials)
    # The tails beyond `inside` are one outcome each.
    ends = stats.binom.cdf([inside[0] - 1, *inside, np.inf], trials, chance)
    law = np.diff(ends, prepend=0)
    wrong = tilted(law)
    n = sample_size(law[law > 0], wrong[law > 0])
    counts = ExactBinomial(trials, threshold).draw(n, SeededRandom(trials))
    assert counts.dtype == np.int64
    outcomes = np.bincount(np.clip(counts - inside[0] + 1, 0, inside.size + 1), minlength=law.size)
    assert follows(outcomes, law)
    assert not follows(outcomes, wrong)


@pytest.mark.parametrize(("trials", "threshold", "k"), [(3, WORD // 3, 0), (40, WORD // 7, 5)])
def test_a_word_on_a_boundary_is_decided_by_more_bits(trials, threshold, k):
    """Source that word, the count is k with the probability that F leaves to it: about a half."""
    scaled = Fraction(distribution_function(trials, threshold)[k], WORD ** (trials - 1))
    word, share = int(scaled), float(scaled % 1)
    assert 0.1 < share < 0.9
    n = 4000
    counts = ExactBinomial(trials, threshold).draw(n, Scripted(1, word))
    assert set(counts.tolist()) == {k, k + 1}
    low, high = stats.binom.interval(1 - FALSE_ALARM, n, share)
    assert low <= np.count_nonzero(counts == k) <= high
    # Either neighbour needs no more bits.
    for neighbour, count in [(word - 1, k), (word + 1, k + 1)]:
        rng = Scripted(1, neighbour)
        assert ExactBinomial(trials, threshold).draw(1, rng).tolist() == [count]
        assert rng.asked == 1


def test_bits_are_drawn_until_they_decide():
    trials, threshold, k = 40, WORD // 7, 5
    exact = distribution_function(trials, threshold)[k]
    digits = [exact // WORD ** (trials - place) % WORD for place in (1, 2, 3, 4)]
    for last, count in [(digits[3] - 1, k), (digits[3] + 1, k + 1)]:
        rng = Scripted(1, *digits[:3], last)
        assert ExactBinomial(trials, threshold).draw(1, rng).tolist() == [count]
        assert rng.asked == 4


def test_a_boundary_that_is_a_word_is_on_its_upper_side():
    """F(0) = 1/2 exactly: no bracket can tell, yet every word below is a 0 and every other a 1."""
    coin = ExactBinomial(1, WORD // 2)
    assert not coin.draw(100, Scripted(1, WORD // 2 - 1)).any()
    assert coin.draw(100, Scripted(1, WORD // 2)).all()


@pytest.mark.parametrize(("trials", "threshold"), [(200, WORD // 2), (300, 5 << 60)])
def test_the_first_and_last_words_reach_into_the_tails(trials, threshold):
    exact = distribution_function(trials, threshold)
    low = ExactBinomial(trials, threshold).draw(200, Scripted(1, 0))
    high = ExactBinomial(trials, threshold).draw(200, Scripted(2, WORD - 1))
    one = WORD ** (trials - 1)  # the probability of a word
    assert all(count == 0 or exact[count - 1] < one for count in low.tolist())
    assert all(exact[count] > WORD**trials - one for count in high.tolist())
    assert len(set(low.tolist())) > 1
    assert len(set(high.tolist())) > 1


@pytest.mark.parametrize(("trials", "threshold"), [(0, 5), (-1, 5), (5, 0), (5, WORD), (5, -1)])
def test_coins_that_do_not_exist_are_refused(trials, threshold):
    with pytest.raises(ValueError, match="trials" if trials < 1 else "threshold"):
        ExactBinomial(trials, threshold)
