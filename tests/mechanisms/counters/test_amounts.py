"""Digits, bounded contributions, whole amounts: exact and unbiased."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from mechanisms.counters.amounts import (
    LARGEST,
    Amounts,
    Ends,
    SignedDigits,
    WholeAmounts,
    WholeEnds,
    digit_weights,
    digits,
    tallied,
    units,
    whole_amounts,
)
from mechanisms.counters.contributions import Contributions, pairs
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 8, 100, 1023, 1024])
def test_every_number_has_digits(most: int) -> None:
    weights = digit_weights(most)
    assert sum(weights) == most
    numbers = np.arange(most + 1)
    rows = digits(numbers, most)
    assert (np.array(weights) @ rows == numbers).all()
    assert len(weights) == math.ceil(math.log2(most + 1))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_total_of_a_long_block_is_exact_beyond_what_doubles_are(sign: int) -> None:
    """2^23 + 3 of the largest numbers come to more than 2^53, and to an odd number."""
    n, most = (1 << 23) + 3, LARGEST - 1
    numbers = np.full((n, 1), sign * most)
    (total,) = tallied(np.zeros((n, 1), np.int64), 1, numbers).tolist()
    assert total == sign * n * most
    assert total % 2 == 1
    assert int(float(total)) != total
    # A row more or less moves it by its own number, and one left out by none.
    places = np.zeros((n, 1), np.int64)
    places[-1] = -1
    assert tallied(places, 1, numbers).tolist() == [total - sign * most]
    assert tallied(np.full((2, 1), -1), 3, np.ones((2, 1), np.int64)).tolist() == [0, 0, 0]


def test_totals_by_group_are_exact_without_noise() -> None:
    rng = np.random.default_rng(6)
    uneven = SignedDigits(5, 2, 6, least=-4), SignedDigits(3, 1, 5, least=-5)
    plain = Amounts(5, 2, 6), Amounts(5, 2, 6, signed=True), Amounts(4, 4), Amounts(1)
    for encoder in (*plain, *uneven):
        n, k = 300, encoder.most_groups
        low = getattr(encoder, "least", -encoder.most if encoder.signed else 0)
        groups = np.array([rng.permutation(encoder.groups)[:k] for _ in range(n)])
        groups[rng.random((n, k)) < 0.3] = -1
        amounts = rng.integers(low, encoder.most + 1, (n, k))
        sets = encoder.encode(groups, amounts)
        counts = [
            np.bincount(row[row >= 0], minlength=level.counters)
            for row, level in zip(sets, encoder.levels, strict=True)
        ]
        kept = groups >= 0
        truth = np.bincount(groups[kept], amounts[kept], encoder.groups)
        assert encoder.estimate([row.astype(float) for row in counts]).tolist() == truth.tolist()


def test_contributions_are_bounded_and_drawn_evenly() -> None:
    users = np.repeat([0, 1, 3], [60, 3, 2])
    groups = np.concatenate([np.tile(np.arange(6), 10), [2, 2, 2], [0, 5]])
    drawn = np.zeros(6)
    for seed in range(600):
        made = pairs(users, groups, n=4, k=2, rng=SeededRandom(seed)).placed(2).at_most(4)
        assert made.groups.shape == made.amounts.shape == (4, 2)
        assert len(set(made.groups[0].tolist())) == 2
        assert made.amounts[0].tolist() == [4, 4]
        assert (made.groups[1].tolist(), made.amounts[1].tolist()) == ([2, -1], [3, 0])
        assert made.groups[2].tolist() == [-1, -1]
        assert sorted(made.groups[3].tolist()) == [0, 5]
        assert made.cut.tolist() == [True, False, False, False]
        drawn[made.groups[0]] += 1
    # Each group is one of the two with chance 1/3; 6.5 standard deviations.
    assert (np.abs(drawn - 200) < 6.5 * math.sqrt(600 * 2 / 9)).all()
    capped = pairs([0, 0, 0], [1, 1, 1], 1, 2, SeededRandom(1)).placed(2).at_most(2)
    assert (capped.amounts.tolist(), capped.cut.tolist()) == ([[2, 0]], [True])
    nobody = pairs([], [], 3, 2, SeededRandom(1)).placed(2).at_most(1)
    assert (nobody.groups == -1).all()
    assert not nobody.cut.any()


@pytest.mark.parametrize(
    ("n", "size"),
    [(1, 255), (1, 256), (16, 16), (257, 1), (256, 256), (257, 255), (1 << 20, 1 << 12)],
)
def test_users_and_groups_are_told_apart_in_words_of_any_width(n: int, size: int) -> None:
    """Their pairs are as many as a word of 8, 16 or 32 bits holds, and one more or less."""
    rng = np.random.default_rng(1)
    users, groups = (np.r_[rng.integers(most, size=200), 0, most - 1] for most in (n, size))
    numbers = np.arange(202.0)
    owned = [*zip(users.tolist(), groups.tolist(), strict=True)]
    rows, expected = Counter(owned), dict.fromkeys(owned, 0.0)
    for pair, number in zip(owned, numbers.tolist(), strict=True):
        expected[pair] += number
    for given_ in (None, numbers):
        made = pairs(users, groups, n, 202, SeededRandom(1), given_)
        found = [*zip(made.users.tolist(), made.groups.tolist(), strict=True)]
        assert found == sorted(rows)
        assert made.rows.tolist() == [rows[pair] for pair in found]
        sums = [rows[pair] if given_ is None else expected[pair] for pair in found]
        assert made.amounts.tolist() == sums


def test_averages_are_of_the_rows_of_each_group() -> None:
    groups, ones = np.array([[0, 2], [1, -1]]), np.zeros(2, np.bool_)
    made = Contributions(
        groups, np.array([[6.0, -3.0], [5.0, 0.0]]), np.array([[3, 2], [1, 0]]), ones
    )
    assert made.averages.tolist() == [[2.0, -1.5], [5.0, 0.0]]


def test_whole_amounts_keep_the_mean() -> None:
    size = 100_000
    for value in (-3.0, -1.234, 0.0, 0.1, 2.999):
        rounded = whole_amounts(np.full(size, value), 3.0, 7, SeededRandom(2))
        exact = value / 3 * 7
        assert {*np.unique(rounded)} <= {math.floor(exact), math.ceil(exact)}
        assert abs(rounded.mean() - exact) < 6.5 * 0.5 / math.sqrt(size)
    assert whole_amounts(np.zeros((2, 3)), 1.0, 4, SeededRandom(1)).shape == (2, 3)


def test_units_keep_rounding_below_a_hundredth_of_the_noise() -> None:
    n, noise, bound = 1_000_000, 1.5 * 40, 40.0
    b = units(noise, n, bound)
    assert n / 4 * (bound / b) ** 2 <= noise**2 / 100
    assert n / 4 * (bound / (b - 1)) ** 2 > noise**2 / 100


def test_bad_amounts_are_refused() -> None:
    for groups, k in ((3, 0), (3, 4), (0, 0)):
        with pytest.raises(ValueError, match=r"most_groups must lie in 1 \.\."):
            Amounts(groups, k)
    for most in (0, -1, 1 << 31):
        with pytest.raises(ValueError, match="largest number must lie"):
            Amounts(1, 1, most)
    for least in (0, 1, -4):
        with pytest.raises(ValueError, match="least number must lie in -3"):
            SignedDigits(1, 1, 3, least=least)
    for amount in (-3, 4):
        with pytest.raises(ValueError, match="an amount lies outside"):
            SignedDigits(1, 1, 3, least=-2).encode(np.array([[0]]), np.array([[amount]]))
    for amount in (-1, 4):
        with pytest.raises(ValueError, match="an amount lies outside"):
            Amounts(1, 1, 3).encode(np.array([[0]]), np.array([[amount]]))
    for bound in (0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="bound must be positive"):
            whole_amounts([0.0], bound, 3, SeededRandom(1))
    for value in (1.5, math.nan):
        with pytest.raises(ValueError, match="lie outside"):
            whole_amounts([value], 1.0, 3, SeededRandom(1))
    for noise, n in ((0.0, 3), (math.nan, 3), (1.0, 0)):
        with pytest.raises(ValueError, match="there must be noise"):
            units(noise, n, 1.0)


def test_further_rows_of_a_user_who_is_counted_once_are_not_cut() -> None:
    made = pairs([0, 0, 1], [1, 1, 2], 2, 2, SeededRandom(1)).placed(2)
    assert made.at_most(1).cut.tolist() == [False, False]
    assert pairs([0] * 3, [1] * 3, 1, 2, SeededRandom(1)).placed(2).at_most(2).cut.tolist() == [
        True
    ]


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("k", [1, 2, 50])
def test_pairs_are_those_of_shuffles(k: int, numbered: bool) -> None:
    """Of each user with more groups those stay that the first k steps of a shuffle put first."""
    rng, n = np.random.default_rng(6), 40
    users, groups = rng.integers(0, n, 600), rng.integers(0, 9, 600)
    numbers = rng.normal(size=600) if numbered else None
    own = [sorted({*groups[users == user].tolist()}) for user in range(n)]
    several, same = [user for user in range(n) if len(own[user]) > k], SeededRandom(7)
    stay = [[*kinds] for kinds in own]
    for step in range(k if several else 0):
        bounds = np.array([len(own[user]) - step for user in several], np.uint64)
        for user, place in zip(several, same.below(bounds).tolist(), strict=True):
            one, other = step, step + place
            stay[user][one], stay[user][other] = stay[user][other], stay[user][one]
    expected = []
    for user, kinds in enumerate(stay):
        for place, kind in enumerate(kinds[:k]):
            rows = (users == user) & (groups == kind)
            total = rows.sum() if numbers is None else sum(numbers[rows].tolist())
            expected.append((user, place, kind, total, rows.sum()))
    made = pairs(users, groups, n, k, SeededRandom(7), numbers)
    assert [*zip(*made[:5], strict=True)] == expected
    assert made.cut.tolist() == [len(kinds) > k for kinds in own]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_any_groups_of_a_user_are_as_likely_to_stay(k: int) -> None:
    n = 40_000
    users, groups = np.repeat(np.arange(n), 4), np.tile(np.arange(4), n)
    made = pairs(users, groups, n, k, SeededRandom(k)).placed(k)
    orders = [*permutations(range(4), k)]
    codes = np.array([sum(4**i * g for i, g in enumerate(order)) for order in orders])
    found = made.groups @ 4 ** np.arange(k)
    counts = (found[:, None] == codes).sum(axis=0)
    law = np.full(len(orders), 1 / len(orders))
    # `follows` has a false alarm rate below 1e-9; n is more than it takes to see 30 %.
    assert n >= sample_size(law, tilted(law))
    assert follows(counts, law)
    assert not follows(np.round(n * tilted(law)).astype(int), law)


def test_pairs_of_numbers_that_fill_a_word_are_sorted_alike() -> None:
    """Where a key and a place have more than 64 bits."""
    users, groups = np.array([2**20, 0, 2**20]), np.array([2**41, 5, 2**41])
    made = pairs(users, groups, 2**20 + 1, 1, SeededRandom(0), np.array([1.0, 2.0, 4.0]))
    assert made.groups.tolist() == [5, 2**41]
    assert made.amounts.tolist() == [2.0, 5.0]


@pytest.mark.parametrize(
    "amounts",
    [Amounts(3, most=5), Amounts(3, most=5, signed=True), SignedDigits(3, most=5, least=-2),
     Ends(3, most=5), WholeAmounts(3, most=5, least=-2), WholeEnds(3, most=5)],
)  # fmt: skip
@pytest.mark.parametrize("size", [10, 1000])
def test_totals_refuse_what_reports_do(amounts: Amounts, size: int) -> None:
    groups, numbers = np.zeros(size, np.int64), np.zeros(size, np.int64)
    assert amounts.totals(groups, numbers).sum() >= 0
    for beyond in (amounts.low - 1, 6):
        numbers[-1] = beyond
        with pytest.raises(ValueError, match="an amount lies outside"):
            amounts.totals(groups, numbers)
