"""Crowds above a noisy threshold: what they cost, what is found, and what is told of it."""

from __future__ import annotations

import math
from functools import reduce
from itertools import product

import numpy as np
import pytest

from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Independent
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import Gaussian, Laplace, ShufflerNoise
from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.randomness import SeededRandom
from tests.fakes.few import ends
from tests.oracles.dummies import hockey_stick
from tests.oracles.statistics import follows, sample_size

SMALL = {"epsilon": 1.0, "delta": 0.02}  # a threshold of a few users
DETECTABLE = 4e-5  # of a million users
USERS, STRINGS, EXPONENT = 10**6, 10**5, 1.1


def made(law: ShufflerNoise, strings: int = 1, epsilon: float = 1.0, delta: float = 0.5) -> Crowds:
    """Crowds of any noise, whatever they promise."""
    level = Level(strings, 2 * strings)
    return Crowds(Counters((level,), Independent((law,)), "add or remove", epsilon, delta))


def released(crowds: Crowds, users: int, largest: int) -> np.ndarray:
    """(largest + 1,) by enumeration: P(value), and at 0 that nothing is published."""
    law = np.zeros(largest + 1)
    for noise, chance in enumerate(crowds.law.pmf.tolist(), -crowds.law.mu):
        value = users + noise
        law[value if users and value > crowds.threshold else 0] += chance
    return law


def worst(crowds: Crowds, steps: list[tuple[int, ...]], epsilon: float) -> float:
    """The largest divergence over crowds of all sizes, each of which may change by a step.

    Args:
        crowds: what is published.
        steps: by how much each of some strings' crowds changes.
        epsilon: of the divergence.
    """
    sizes = range(3 * crowds.threshold + 4)  # from there on all crowds are alike
    largest = sizes[-1] + crowds.law.mu + 1
    laws = [released(crowds, users, largest) for users in (*sizes, sizes[-1] + 1)]
    # All outcomes of several strings are too many; which of a few sizes are worst is not.
    few = [0, 1, crowds.threshold, *sizes[-2:]] if len(steps[0]) > 1 else sizes
    found = 0.0
    for step in steps:
        for users in product(few, repeat=len(step)):
            after = [n + s for n, s in zip(users, step, strict=True)]
            if min(after) < 0:
                continue
            pair = [
                reduce(np.multiply.outer, [laws[n] for n in these]).ravel()
                for these in (users, after)
            ]
            found = max(found, hockey_stick(*pair, epsilon), hockey_stick(*pair[::-1], epsilon))
    return found


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("law", [Laplace(3, 1.0), Laplace(5, 0.4), Gaussian(4, 2.0)])
def test_one_string_costs_what_its_counter_does(law: ShufflerNoise, epsilon: float) -> None:
    """Whatever crowd it is of: the largest divergence of all is that of a counter read whole."""
    crowds = made(law)
    lower, upper = crowds.design.price.delta(epsilon)
    found = worst(crowds, [(1,)], epsilon)
    assert lower * (1 - 1e-9) <= found <= upper
    assert upper <= lower * 1.001


@pytest.mark.parametrize(
    ("neighbours", "strings", "steps"),
    [("add or remove", 2, [(1, 1), (0, 1)]), ("replace", 1, [(1, -1), (1, 0)])],
)
def test_several_strings_cost_what_their_counters_do(
    neighbours: str, strings: int, steps: list[tuple[int, ...]]
) -> None:
    law, level = Laplace(3, 0.5), Level(strings, 2 * strings)
    crowds = Crowds(Counters((level,), Independent((law,)), neighbours, 1.0, 0.5))
    for epsilon in (0.3, 0.8, 1.0):
        lower, upper = crowds.design.price.delta(epsilon)
        assert lower * (1 - 1e-6) <= worst(crowds, steps, epsilon) <= upper


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize("strings", [1, 2, 40])
@pytest.mark.parametrize(("epsilon", "delta"), ends([(0.1, 1e-5), (1.0, 1e-7), (4.0, 1e-9)]))
def test_what_was_asked_is_met(strings: int, neighbours: str, epsilon: float, delta: float) -> None:
    crowds = Crowds.meeting(strings, neighbours, epsilon, delta)
    assert crowds.design.guarantee.delta == delta  # it is refused where the price is higher
    usual = Counters.meeting(crowds.design.levels, neighbours, epsilon, delta)
    assert crowds.detection_limit <= Crowds(usual).detection_limit


@pytest.mark.parametrize("strings", [1, 3, 100])
@pytest.mark.parametrize("epsilon", [20.0, 600.0])
def test_an_epsilon_that_promises_nothing_is_answered_all_the_same(
    strings: int, epsilon: float
) -> None:
    """At once and in little memory, though losses are large and spread little."""
    crowds = Crowds.meeting(strings, "add or remove", epsilon, 1e-6)
    assert crowds.design.guarantee.epsilon == epsilon
    assert crowds.detection_limit <= 24


def partition_selection(users: int, epsilon: float, delta: float) -> list[float]:
    """The largest probabilities with which 0, 1, 2, ... users' string may be published at all.

    The recurrence of Desfontaines, Voss, Gipson, Mandayam, PoPETs 2022: each step is as steep as
    (epsilon, delta) allows, upwards and seen from 1.
    """
    chances = [0.0]
    for _ in range(users):
        last = chances[-1]
        chances.append(
            min(
                math.exp(epsilon) * last + delta,
                1 - math.exp(-epsilon) * (1 - last - delta),
                1.0,
            )
        )
    return chances


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
def test_nothing_that_is_as_private_publishes_a_string_sooner(epsilon: float, delta: float) -> None:
    """It is optimal partition selection at the delta it comes to; at the one asked for, nearly.

    Noise is whole, so what it comes to is up to e^epsilon below what was asked: that costs at most
    a user in front of the half, and another behind it.
    """
    crowds = Crowds.meeting(1, "add or remove", epsilon, delta)
    users = 2 * crowds.threshold + 3
    own = crowds.chances(range(users + 3))
    met = float(crowds.law.pmf[0])
    assert delta * math.exp(-epsilon) * 0.999 <= met <= delta
    best = partition_selection(users, epsilon, met)
    np.testing.assert_allclose(own[: users + 1], best, rtol=1e-6)
    most = np.array(partition_selection(users, epsilon, delta))
    assert (most <= own[2:] + 1e-12).all()


def test_a_string_that_nobody_holds_is_never_published() -> None:
    crowds = Crowds.meeting(3, "add or remove", **SMALL)
    assert crowds.chances([0, -5]).tolist() == [0.0, 0.0]
    assert crowds.threshold == crowds.law.mu


@pytest.mark.parametrize("users", [1, 5, 8, 40])
def test_what_is_drawn_follows_the_law(users: int) -> None:
    """Values of a crowd, and how often it is not published; a law 30 % off would not pass."""
    crowds = Crowds.meeting(1, "add or remove", **SMALL)
    law = released(crowds, users, users + crowds.law.mu)
    seen = np.flatnonzero(law)
    other = law[seen] * np.where(np.arange(seen.size) == np.argmax(law[seen]), 0.7, 1.0)
    other /= other.sum()
    size = sample_size(law[seen], other)
    kept, values = crowds.publish(np.full(size, users), SeededRandom(users))
    counts = np.bincount(np.where(kept, values, 0), minlength=law.size)
    assert counts.sum() == counts[seen].sum()
    assert follows(counts[seen], law[seen])
    assert not follows(counts[seen], other)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(
    "law", [Laplace(16, 1.0), Laplace(3, 1.0), Gaussian(40, 9.0), Gaussian(5, 40.0)]
)
def test_intervals_cover_given_that_a_string_is_published(
    law: ShufflerNoise, confidence: float
) -> None:
    """Of crowds of every size, by enumeration; either end is wrong at most half as often."""
    crowds = made(law)
    for users in range(1, 4 * law.mu + 2):
        chances = released(crowds, users, users + law.mu)
        values = np.arange(crowds.threshold + 1, chances.size)
        given = chances[crowds.threshold + 1 :] / chances[crowds.threshold + 1 :].sum()
        least, largest = crowds.limits(values, confidence)
        assert (least >= 1).all()
        assert given[least > users].sum() <= (1 - confidence) / 2 + 1e-12
        assert given[largest < users].sum() <= (1 - confidence) / 2 + 1e-12


def test_intervals_are_no_wider_than_they_must_be() -> None:
    """Far above the threshold they are those of the noise; near it they reach down, to 1."""
    crowds = Crowds.meeting(1, "add or remove", 1.0, 1e-7)
    (least, close), (largest, above) = crowds.limits([1000, crowds.threshold + 1], 0.95)
    assert (least, largest) == (997, 1003)
    assert 1 <= close < crowds.threshold - 3
    assert above == crowds.threshold + 3  # a larger crowd would seldom say so little


def test_what_is_published_is_too_large_near_the_threshold_alone() -> None:
    crowds = Crowds.meeting(1, "add or remove", 1.0, 1e-7)
    for users in (1, 12, 17, 18, 60):
        law = released(crowds, users, users + crowds.law.mu)
        values = np.arange(law.size)
        shown = values > crowds.threshold
        mean = float(law[shown] @ values[shown] / law[shown].sum())
        assert math.isclose(crowds.too_large(users), mean - users, abs_tol=1e-9)
    assert crowds.too_large(60) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("strings", [2, 5, 20])
def test_no_noise_near_by_has_a_lower_threshold(strings: int) -> None:
    """Of either family, at scales up to a third away: a fiftieth less is not private."""
    crowds = Crowds.meeting(strings, "add or remove", 1.0, 1e-7)
    lower = crowds.threshold - max(1, crowds.threshold // 50)
    for scale in np.geomspace(0.75, 1.33, 25).tolist():
        for law in _alike(crowds.law, lower, scale):
            other = made(law, strings)
            finds = lower + 1 - other.design.error_law().ppf(0.1)
            if finds < crowds.detection_limit - max(1, crowds.detection_limit // 50):
                assert other.design.price.upper(1.0) > 1e-7


def _alike(law: ShufflerNoise, mu: int, scale: float) -> list[ShufflerNoise]:
    """Noise of both families with about the same spread."""
    sigma = math.sqrt(law.variance) * scale
    return [Laplace(mu, math.sqrt(2) / sigma), Gaussian(mu, sigma)]


def test_a_million_users_strings_are_found() -> None:
    """The figures of the documentation: 40 of a million are enough, and 2,000 strings are found."""
    crowds = Crowds.meeting(1, "add or remove", epsilon=1.0, delta=1e-7)
    assert crowds.detection_limit == 18
    assert Crowds.meeting(1, "add or remove", epsilon=1.0, delta=1e-8).detection_limit == 20
    assert crowds.detection_limit / USERS <= DETECTABLE
    weights = np.arange(1, STRINGS + 1.0) ** -EXPONENT
    for seed in range(3):
        holders = np.random.default_rng(seed).multinomial(USERS, weights / weights.sum())
        held = np.flatnonzero(holders)
        kept, values = crowds.publish(holders[held], SeededRandom(seed))
        found = held[kept]
        assert found.size >= 3000
        # Each is missed once in 3e11 searches at most, so all of them once in 3e8.
        assert np.isin(np.flatnonzero(holders >= 40), found).all()
        error = math.sqrt(crowds.design.variances[0])
        large = holders[found] >= 40
        off = (values[kept] - holders[found])[large]
        assert abs(off.std() - error) < 6.2 * error * math.sqrt(4.2 / 4 / off.size)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"strings": 0}, "1 .. 65,536 strings"),
        ({"strings": 1 << 17}, "1 .. 65,536 strings"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": math.nan}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"neighbours": "swap"}, "neighbours"),
        ({"epsilon": 1e-6, "strings": 1000}, "above 1,048,576 users"),
    ],
)
def test_refuses(asked: dict, said: str) -> None:
    usual = {"strings": 1, "neighbours": "add or remove", "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(ValueError, match=said):
        Crowds.meeting(**(usual | asked))


def test_confidence_is_checked() -> None:
    with pytest.raises(ValueError, match="confidence"):
        Crowds.meeting(1, "add or remove", **SMALL).limits([9], math.nan)
