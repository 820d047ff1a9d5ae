"""Rounded Gaussian noise: its law, its exact path, its fast path held to the exact one."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from mechanisms.randomness import SeededRandom
from mechanisms.sampling.rounded_normal import RoundedNormal, normal_tail, unseen

FALSE_ALARM = 1e-10


class LastBits:
    """A source of the 128 bits that are drawn where 64 leave a doubt; always the same ones."""

    def __init__(self, rest):
        self.calls = iter([rest & ((1 << 64) - 1), rest >> 64])

    def words(self, size):
        return np.full(size, next(self.calls), np.uint64)


def cell_probabilities(sigma, reach):
    """P(round(Z) = k) for |k| <= reach; the tails beyond go to the ends."""
    ends = (np.arange(-reach, reach) + 0.5) / sigma
    return np.diff(np.concatenate([[0.0], ndtr(ends), [1.0]]))


def rejects(drawn, law, reach):
    """A chi-square test of clipped draws; every cell is expected 5 times or more."""
    counts = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
    expected = drawn.size * law
    assert expected.min() >= 5
    surprise = float(((counts - expected) ** 2 / expected).sum())
    return stats.chi2.sf(surprise, 2 * reach) < FALSE_ALARM


@pytest.mark.parametrize(("sigma", "reach"), [(0.4, 1), (1.0, 3), (7.3, 24)])
def test_draws_follow_the_rounded_law_and_no_law_with_a_sigma_two_percent_off(sigma, reach):
    # A sigma 2 % off moves the chi-square of n draws by about n * 2 * 0.02^2 = 800: against 49
    # cells (mean 48, standard deviation 10) far beyond the false alarm rate. The coarsest of the
    # three laws has 3 cells and moves by n * 4e-4 = 200 and more.
    drawn = RoundedNormal(sigma).draw(1_000_000, SeededRandom(11))
    assert not rejects(drawn, cell_probabilities(sigma, reach), reach)
    assert rejects(drawn, cell_probabilities(1.02 * sigma, reach), reach)


def test_a_fine_grid_has_the_gaussian_law_and_its_moments():
    sigma, n = 2.0**30, 400_000
    drawn = RoundedNormal(sigma).draw(n, SeededRandom(5)) / sigma
    assert stats.kstest(drawn, "norm").pvalue > FALSE_ALARM
    bound = 6.5  # standard errors: two-sided false alarm 8e-11
    for power, moment, spread in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(drawn**power) - moment) <= bound * math.sqrt(spread / n)


def test_fast_draws_are_the_ones_that_exact_arithmetic_gives():
    """Also for a sigma so large that some draws leave a doubt: those must not be off by one."""
    noise = RoundedNormal(2.0**34)
    words = SeededRandom(2).words(1000)
    drawn = noise._block(words, LastBits(1 << 127))
    for word, found in zip(words.tolist(), drawn.tolist(), strict=True):
        exact = noise._exactly((word >> 1) << 128 | (1 << 127), abs(found) + 5)
        assert abs(found) == exact
        assert found == 0 or (found < 0) == (word & 1)


@pytest.mark.parametrize("k", [1, 2, 10**9, 5 * 10**10])
def test_a_uniform_number_at_the_end_of_an_integers_share_is_decided_by_its_last_bits(k):
    noise = RoundedNormal(2.0**34)
    end = int(noise._tail(k))  # tails below it reach k, tails above do not
    assert noise._exactly(end - 1, 0) == k
    assert noise._exactly(end + 1, 0) == k - 1
    # Through `_block`: the first 64 bits of the two are the same, the other 128 differ.
    for tail, expected in [(end - 1, k), (end + 1, k - 1)]:
        word, rest = (tail >> 128) << 1, tail & ((1 << 128) - 1)

        assert noise._block(np.array([word], np.uint64), LastBits(rest)).tolist() == [expected]


def test_the_least_tail_ends_where_the_bound_of_the_error_says():
    noise = RoundedNormal(3.0)
    farthest = noise._exactly(0, 0)
    assert 15.9 * 3 < farthest < 17 * 3
    assert noise.farthest < 2.0**-180
    assert RoundedNormal(2.0**36).farthest < 2.0**-145


def test_tails_agree_with_scipy_and_stay_true_where_doubles_end():
    with localcontext(Context(prec=90)):
        for x in ("0", "0.001", "0.5", "1", "3.25", "8", "14"):
            assert float(normal_tail(Decimal(x))) == pytest.approx(
                float(ndtr(-float(x))), rel=1e-13
            )
        # Known to 20 digits (DLMF 7.12 continued fraction): P(Z >= 16).
        assert float(normal_tail(Decimal(16))) == pytest.approx(6.388754400537906e-58, rel=1e-12)


def test_signs_are_fair_and_a_stream_repeats():
    noise = RoundedNormal(50.0)
    drawn = noise.draw(100_001, SeededRandom(9))
    positive = int((drawn > 0).sum())
    moved = int((drawn != 0).sum())
    assert abs(positive - moved / 2) <= 6.5 * math.sqrt(moved) / 2
    assert np.array_equal(drawn, noise.draw(100_001, SeededRandom(9)))
    assert noise.draw(0, SeededRandom(1)).shape == (0,)


def test_what_draws_are_off_by_is_added_to_delta_rounded_up():
    assert unseen(0, 1e-50, 3.0) == 0
    assert unseen(1e9, 1e-50, 1.0) == pytest.approx(1e-41 * (1 + math.e), rel=1e-6)
    assert unseen(1e9, 1e-50, 1.0) > 1e-41 * (1 + math.e)
    assert unseen(1e9, 1e-50, 1e4) == 1.0


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf, 2.0**36 * 1.01])
def test_a_sigma_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="sigma"):
        RoundedNormal(bad)
