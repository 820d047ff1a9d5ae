"""Key-value systems: what PrivKVM loses and why it errs, and that quotients have no such bias."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushbeam.studies.papers.privkv import PrivKvRounds
from hushbeam.studies.populations.keys import read_keys
from hushbeam.studies.studies.key_value import MECHANISMS, _Quotients
from mechanisms.randomness import SeededRandom

(KEYS,) = read_keys(["keys:300000,2,1"])


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_all_rounds_together_lose_less_than_is_claimed(rounds: int) -> None:
    each = 1 / rounds  # of epsilon 2, half of it over the rounds
    first = 1 + math.log(2 * math.exp(each) / (math.exp(each) + 1))
    lost = PrivKvRounds(2.0, rounds).lost
    assert lost == pytest.approx(first + (rounds - 1) * each, rel=1e-9)
    assert lost < 2


def test_means_as_published_are_drawn_towards_nought_and_less_so_each_round() -> None:
    """The bias is known: what is left of it, to 6.5 standard errors of what signs scatter by."""
    epsilon, n = 2.0, KEYS.n / KEYS.d
    for rounds in (1, 2, 3):
        system = PrivKvRounds(epsilon, rounds)
        _, means = system.estimates(KEYS, SeededRandom(2))
        first = math.exp(epsilon / 2)
        drawn = KEYS.shares * first / (KEYS.shares * first + 1 - KEYS.shares)
        expected = drawn * KEYS.mean
        for _ in range(rounds - 1):  # a fair coin says whether the key is there
            expected = KEYS.shares * KEYS.mean + (1 - KEYS.shares) * expected
        error = 6.5 * math.cosh(system.of_number / 2) / math.sinh(system.of_number / 2)
        error /= math.sqrt(n * 0.45)
        assert np.all(np.abs(means - expected) < 2 * error)


def test_at_an_epsilon_that_protects_the_bias_is_a_third_of_the_mean() -> None:
    """Half hold the second key: at epsilon 1 of the yeses there 62 % are true."""
    _, means = PrivKvRounds(1.0).estimates(KEYS, SeededRandom(4))
    first = math.exp(0.5)
    expected = KEYS.mean * KEYS.shares * first / (KEYS.shares * first + 1 - KEYS.shares)
    error = 6.5 / math.tanh(0.25) / math.sqrt(KEYS.n / 2 * 0.5)
    assert np.all(np.abs(means - expected) < error)
    assert abs(means[1] - KEYS.mean[1]) > 0.3 * abs(KEYS.mean[1]) - error


@pytest.mark.parametrize("name", MECHANISMS)
def test_quotients_come_to_the_truth(name: str) -> None:
    system = _Quotients(MECHANISMS[name](4.0, KEYS.d))
    assert system.lost == 4.0
    frequencies, means = system.estimates(KEYS, SeededRandom(5))
    # Reports of 150,000 users vary by less than 4, over a share of a half.
    reach = 6.5 * 2 / math.sqrt(KEYS.n / 2) / 0.5
    assert np.all(np.abs(means - KEYS.mean) < reach)
    assert np.all(np.abs(frequencies - KEYS.shares) < reach)
    assert reach < 0.3 * abs(KEYS.mean).min()
