"""PrivKV: what a report loses against what is claimed of it, and that what it says is unbiased."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from mechanisms.mean.two_point import duchi
from mechanisms.papers.privkv import KeyedNumber, PrivKv, privkv
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom


def loss(mechanism) -> float:
    """The largest log ratio of any two inputs, by the exact channel."""
    laws = [mechanism.channel(cell) for cell in range(mechanism.inputs)]
    return max(float(np.log(one / other).max()) for one, other in product(laws, laws))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_as_published_a_report_loses_less_than_is_claimed(epsilon: float) -> None:
    """The sum of both epsilons is claimed, and e1 + ln(2 e^e2 / (e^e2 + 1)) is lost."""
    half = epsilon / 2
    published = PrivKv.of(epsilon, 2, half, half)
    truth = half + math.log(2 * math.exp(half) / (math.exp(half) + 1))
    assert tight_epsilon(published) == pytest.approx(truth, rel=1e-9)
    assert loss(published) == pytest.approx(truth, rel=1e-9)
    assert truth < 0.91 * epsilon
    assert tight_epsilon(privkv(epsilon, 2)) == pytest.approx(epsilon, rel=1e-9)


def test_it_may_not_lose_more_than_it_says() -> None:
    with pytest.raises(ValueError, match="may spend an epsilon of 1"):
        PrivKv.of(1.0, 3, 0.8, 0.8)


@pytest.mark.parametrize(("key", "number", "fake"), [(1.0, 0.3, 0.4), (0.0, 0.5, -1.0), (0, 1, 1)])
def test_a_later_round_of_privkvm_is_priced_whatever_is_made_up(key, number, fake) -> None:
    one = KeyedNumber(duchi(number, cells=3), key, fake)
    assert one.epsilon == pytest.approx(loss(one), rel=1e-9)
    mean = one.channel(one.unusable)[:2] @ [-1, 1] / one.channel(one.unusable)[:2].sum()
    assert mean == pytest.approx(fake * math.tanh(number / 2), abs=1e-12)
    if not key:  # a round that asks about no key again costs what its sign does
        assert one.epsilon <= number * (1 + 1e-12)


def test_frequencies_and_sums_are_unbiased_with_the_closed_form_variance() -> None:
    one = privkv(1.3, 1, cells=2).scalar
    for cell in range(one.inputs):
        law = one.channel(cell)
        held = float(cell != one.unusable)
        value = held * float(np.append(one.mechanism.grid, 0.0)[cell])
        assert law @ one.presence == pytest.approx(held, abs=1e-12)
        assert law @ one.sums == pytest.approx(value, abs=1e-12)
    present, absent = one.presence_moments
    assert one.channel(0) @ one.presence**2 == pytest.approx(present)
    assert one.channel(one.unusable) @ one.presence**2 == pytest.approx(absent)


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_a_batch_tells_frequencies_and_means(share: float) -> None:
    """Each off by less than 6.5 of its standard errors: a false alarm below 1e-9 each."""
    n, mechanism = 60_000, privkv(3.0, 2)
    chance = np.random.default_rng(4)
    rows = np.where(chance.random((n, 2)) < share, chance.choice([-0.8, 0.4, 0.9], (n, 2)), np.nan)
    counts = mechanism.count(mechanism.report(rows, SeededRandom(3)))
    error = math.sqrt(mechanism.frequency_variance(share, n))
    held = 1 - np.isnan(rows).mean(axis=0)
    assert np.all(np.abs(mechanism.frequencies(counts) - held) < 6.5 * error)
    means, spread = mechanism.estimate(counts), np.sqrt(mechanism.estimated_variance(counts))
    assert np.all(np.abs(means - np.nanmean(rows, axis=0)) < 6.5 * spread)
    assert np.all(6.5 * spread < 0.6)
