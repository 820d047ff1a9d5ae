"""One-bit reports: the worst of their shuffled batches, against enumeration and plain sums."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from mechanisms.frequency.hash_budget import largest_local_epsilon
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.privacy import blanket, one_bit
from mechanisms.privacy.amplification import laws_of, shuffled_delta, shuffled_epsilon
from mechanisms.privacy.one_bit import OneBit
from tests.fakes.few import ends
from tests.oracles.privacy import Tabulated, exact_shuffled_delta, hockey_stick

WORD = 1 << 20
ENDS = [(0.7, 0.3), (0.9, 0.4), (0.55, 0.02), (0.999, 0.98), (0.5, 0.49)]
"""P(1) of the input likeliest to send a 1, and of the one least likely to."""


def table(high: float, low: float, *between: float) -> Tabulated:
    """A channel to one bit; the inputs beside the ends lie between them."""
    ones = [round(chance * WORD) for chance in (high, low, *between)]
    return Tabulated(tuple((WORD - one, one) for one in ones))


def plain(high: float, low: float, n: int, epsilon: float) -> float:
    """delta by sums of scipy's binomials, over all compositions of the others and both tests."""
    worst = 0.0
    for one, other in ((high, low), (1 - low, 1 - high)):
        for holders in range(n):
            held = binom.pmf(np.arange(holders + 1), holders, one)
            free = binom.pmf(np.arange(n - holders), n - 1 - holders, other)
            rest = np.convolve(held, free)
            first, second = (np.convolve(rest, (1 - p, p)) for p in (one, other))
            worst = max(worst, hockey_stick(first, second, epsilon))
    return worst


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("ends", ENDS)
def test_bracket_holds_the_truth_by_enumeration(ends, n):
    """Among all batches of all inputs, those between the ends included."""
    high, low = ends
    mechanism = table(high, low, (high + low) / 2, 0.9 * low + 0.1 * high)
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        truth = exact_shuffled_delta(mechanism, n, epsilon)
        lower, upper = shuffled_delta(mechanism, n, epsilon)
        assert lower <= truth * (1 + 1e-9) + 1e-15
        assert truth <= upper * (1 + 1e-9) + 1e-15
        assert upper <= truth * 1.005 + 1e-15


@pytest.mark.parametrize(("ends", "n"), [*product(ENDS[:3], [10, 61]), (ENDS[0], 180)])
def test_bracket_holds_the_truth_by_plain_sums(ends, n):
    """Whatever others hold; the worst number of holders is an inner one in some of these."""
    bits = OneBit((1 - ends[0], ends[0]), (1 - ends[1], ends[1]))
    for epsilon in (0.0, 0.2, 0.8):
        truth = plain(*ends, n, epsilon)
        lower, upper = bits.delta(n, epsilon, blanket.FINE)
        assert lower <= truth * (1 + 1e-9) + 1e-14
        assert truth <= upper * (1 + 1e-9) + 1e-14
        assert upper <= truth * 1.005 + 1e-14
        assert bits.attained(n, epsilon) <= lower * (1 + 1e-9)


def test_the_worst_composition_may_be_an_inner_one():
    """Neither end: where only those were looked at, delta came out 3 % below the truth."""
    keep = 1 / (1 + math.exp(-0.5))
    bits = OneBit((1 - keep, keep), (keep, 1 - keep))
    ends = bits.attained(30, 0.389)
    assert bits.delta(30, 0.389, blanket.COARSE)[0] > 1.02 * ends
    assert plain(keep, 1 - keep, 30, 0.389) > 1.02 * ends


@pytest.mark.parametrize("n", ends([100, 10**6, 10**10]))
@pytest.mark.parametrize("local", [2.0, 8.0])
def test_bracket_of_epsilon_is_at_most_one_percent_wide(n, local):
    """It was up to 44 % wide by the blanket, and had no lower end from 10^9 reports on."""
    lower, upper = shuffled_epsilon(k_ary(local, 2), n, 1e-6)
    assert 0 < lower <= upper <= 1.01 * lower
    assert upper <= local


@pytest.mark.parametrize("ends", ENDS)
def test_far_tails_keep_their_relative_accuracy(ends):
    """A delta of 10^-60 is no sum of doubles that were cut off at 10^-24."""
    high, low = ends
    bits, n, epsilon = OneBit((1 - high, high), (1 - low, low)), 400, 0.0
    step = math.log(max(high / low, (1 - low) / (1 - high))) / 100
    while bits.attained(n, epsilon) > 1e-60 and epsilon < 95 * step:
        epsilon += step
    lower, upper = bits.delta(n, epsilon, blanket.COARSE)
    assert log_plain(high, low, n, epsilon) <= math.log(upper) + 1e-6
    assert log_plain(1 - low, 1 - high, n, epsilon) <= math.log(upper) + 1e-6
    assert 0 < lower <= upper <= 10 * lower


def log_plain(one: float, other: float, n: int, epsilon: float) -> float:
    """The logarithm of delta where all others hold the first law, by logarithms throughout."""
    law = binom.logpmf(np.arange(n), n - 1, one)
    none, some = np.append(law, -np.inf), np.append(-np.inf, law)
    first, second = (
        np.logaddexp(none + math.log1p(-chance), some + math.log(chance)) for chance in (one, other)
    )
    gain = first - second - epsilon
    ahead = gain > 0
    if not ahead.any():
        return -math.inf
    return float(np.logaddexp.reduce(first[ahead] + np.log1p(-np.exp(-gain[ahead]))))


def test_clients_may_spend_what_the_bracket_leaves_them():
    """A batch of two values: within half a percent of what no batch would let them."""
    epsilon, delta, n = 0.5, 1e-6, 100_000
    spent = largest_local_epsilon(epsilon, delta, n, 2)
    assert shuffled_delta(k_ary(spent, 2), n, epsilon)[1] <= delta
    assert shuffled_delta(k_ary(spent * 1.005, 2), n, epsilon)[0] > delta
    before = blanket.dominated_delta(laws_of(k_ary(spent, 2)).dominating[0], n, epsilon)
    assert before > 20 * delta  # which the blanket alone would have forbidden


def test_what_is_out_of_reach_keeps_the_blanket():
    certain = OneBit((0.0, 1.0), (1.0, 0.0))
    assert not certain.hidden
    assert laws_of(k_ary(16.0, 2)).exactly is not None
    rare = laws_of(k_ary(21.0, 2))
    assert rare.exactly is None
    assert laws_of(k_ary(1.0, 3)).bits is None
    assert blanket.upper_delta(rare, 1 << 40, 1.0) < 1


@pytest.mark.parametrize("ends", ENDS[::2])
@pytest.mark.parametrize("deviations", [2.0, 9.5])
def test_very_many_are_a_bin_that_shows_what_tables_do(ends, deviations, monkeypatch):
    """To a delta of 10^-23."""
    high, low = ends
    bits, n = OneBit((1 - high, high), (1 - low, low)), 300_000
    variance = min(high * (1 - high), low * (1 - low))
    epsilon = deviations * (high - low) / math.sqrt(n * variance)
    by_tables = bits.delta(n, epsilon, blanket.FINE)
    monkeypatch.setattr(one_bit, "_LARGE", 0.0)
    lower, upper = bits.delta(n, epsilon, blanket.FINE)
    assert lower == pytest.approx(by_tables[0], rel=1e-2)
    assert lower <= by_tables[1]
    assert by_tables[0] <= upper <= lower * 3
