"""A report among uniform messages: enumeration, both bounds, and the papers' closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.papers.published_bounds import (
    mixdump_dummies,
    puredump_dummies,
    puredump_messages,
)
from mechanisms.papers.uniform_crowd import UniformCrowd, least_dummies
from tests.oracles.dummies import crowd_delta


@pytest.mark.parametrize(
    "crowd",
    [
        UniformCrowd(2, 3, 2, 0.0),
        UniformCrowd(4, 3, 0, 0.7),
        UniformCrowd(3, 4, 1, 0.25),
        UniformCrowd(3, 1, 0, 0.0),
        UniformCrowd(3, 4, 0, 0.0, miss=0.2),
        UniformCrowd(4, 3, 1, 0.5, miss=0.1),
        UniformCrowd(3, 5, 0, 0.6, miss=0.3),
    ],
)
def test_brackets_the_enumeration(crowd: UniformCrowd) -> None:
    """Below by the batch whose others hold a third value; above by the worst batch."""
    for epsilon in (0.0, 0.2, 0.7, 1.5):
        lower, upper = crowd.delta(epsilon)
        attained = crowd_delta(crowd, epsilon, [2] * (crowd.users - 1) if crowd.bins > 2 else None)
        worst = crowd_delta(crowd, epsilon, None)
        assert lower <= attained * (1 + 1e-9) + 1e-15
        assert attained <= worst * (1 + 1e-12)
        assert worst <= upper * (1 + 1e-9) + 1e-15
        if crowd.miss == 0 and crowd.chance == 0:  # nobody's lies, and a known number
            assert upper <= lower * 1.001 + 1e-12


def test_two_bounds_meet_without_lies() -> None:
    for crowd, epsilon in (
        (UniformCrowd(915, 542_092, 0, 0.2298), 0.5),
        (UniformCrowd(100, 1000, 100, 0.0), 0.1),
    ):
        lower, upper = crowd.delta(epsilon)
        assert lower < upper < lower * 1.001
    lower, upper = UniformCrowd(42_178, 900_000, 6, 0.4).delta(0.5)
    assert lower < upper < lower * 1.01  # how many there are is known only roughly


@pytest.mark.parametrize(
    ("bins", "n", "each", "epsilon", "delta"),
    [(50, 10000, 10, 0.1, 7.1635161084790044e-06), (100, 1000, 100, 0.1, 0.00020872515383569675)],
)
def test_uniform_dummies_references(
    bins: int, n: int, each: int, epsilon: float, delta: float
) -> None:
    lower, upper = UniformCrowd(bins, n, each, 0.0).delta(epsilon)
    assert delta * (1 - 2e-4) <= lower <= delta * (1 + 1e-9)
    assert delta * (1 - 1e-9) <= upper <= delta * (1 + 1e-4)
    assert UniformCrowd(bins, n, each, 0.0).upper_epsilon(delta) == pytest.approx(epsilon, rel=1e-4)


@settings(deadline=None, max_examples=8)
@given(st.integers(3, 60), st.integers(1, 300), st.floats(0, 0.99), st.floats(0, 2))
def test_a_silent_message_is_no_message(
    bins: int, users: int, chance: float, epsilon: float
) -> None:
    """delta of a random number of dummies is the mean of that of each number."""
    crowd = UniformCrowd(bins, min(users, 9), 0, chance)
    truth, n = (1 - chance) ** crowd.users, crowd.users
    for k in range(1, n + 1):
        likely = math.comb(n, k) * chance**k * (1 - chance) ** (n - k)
        truth += likely * UniformCrowd(bins, 1, k, 0.0).delta(epsilon)[1]
    lower, upper = crowd.delta(epsilon)
    assert lower <= truth * (1 + 1e-9)
    assert upper == pytest.approx(truth, rel=1e-3)


@settings(deadline=None, max_examples=6)
@given(st.integers(2, 500), st.integers(1, 10**5), st.floats(0.2, 3), st.floats(1e-9, 1e-2))
def test_least_dummies_meet_the_target(bins: int, users: int, epsilon: float, delta: float) -> None:
    whole, chance = least_dummies(bins, users, epsilon, delta)
    crowd = UniformCrowd(bins, users, whole, chance)
    lower, upper = crowd.delta(epsilon)
    assert lower <= upper <= delta
    assert crowd.upper_epsilon(delta) <= epsilon * (1 + 1e-4)
    assert chance * 2**53 == int(chance * 2**53)
    fewer = (whole + chance) * 0.9
    thinner = UniformCrowd(bins, users, math.floor(fewer), fewer % 1)
    assert thinner.delta(epsilon)[1] > delta * 0.999


def test_lies_save_dummies() -> None:
    bins, users = 50, 20_000
    plain = sum(least_dummies(bins, users, 0.3, 1e-6))
    found = [sum(least_dummies(bins, users, 0.3, 1e-6, miss)) for miss in (0.0005, 0.002, 0.01)]
    assert plain > found[0] > found[1] > found[2] == 0


def test_epsilon_never_exceeds_the_report() -> None:
    crowd = UniformCrowd(10, 5, 0, 0.0, miss=0.05)
    assert crowd.local_epsilon == pytest.approx(math.log(0.55 / 0.05))
    assert crowd.upper_epsilon(1e-9) <= crowd.local_epsilon
    assert crowd.lower_epsilon(1e-9, crowd.local_epsilon) <= crowd.upper_epsilon(1e-9)
    assert UniformCrowd(10, 5, 0, 0.1).upper_epsilon(1e-9) == math.inf
    assert crowd.delta(crowd.local_epsilon)[1] == 0
    assert UniformCrowd(10, 5, 0, 0.1).local_delta(3.0) == 1.0
    assert crowd.local_delta(1.0) == pytest.approx(0.55 - math.e * 0.05)


def test_published_numbers_are_the_bound_backwards() -> None:
    for epsilon, delta, bins in ((0.5, 1e-6, 915), (1.0, 1e-9, 40), (0.03, 0.2, 2)):
        needed = puredump_messages(epsilon, delta, bins)
        bound = 14 * bins * math.log(2 / delta)
        assert math.sqrt(bound / (needed - 1)) <= epsilon < math.sqrt(bound / (needed - 3))
        whole, chance = puredump_dummies(epsilon, delta, bins, 10_000)
        assert needed < (whole + chance) * 10_000 < needed * 1.1 + 200
        assert 0 <= chance < 1
    lies = mixdump_dummies(0.5, 1e-6, 915, 600_000, miss=0.0002)
    assert 0 < sum(lies) < sum(puredump_dummies(0.5, 1e-6, 915, 600_000))
    assert mixdump_dummies(1.0, 1e-3, 10, 600_000, miss=0.05) == (0, 0.0)


def test_the_number_the_bound_asks_for_is_seldom_missed() -> None:
    """One user's last dummy may be missing with a thousandth of delta."""
    needed = puredump_messages(1.0, 0.2 * 0.999, 2)
    assert puredump_dummies(1.0, 0.2, 2, 1) == (needed - 1, pytest.approx(1 - 0.2e-3))


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("bins", lambda: UniformCrowd(1, 10, 0, 0.5)),
    ("n must", lambda: UniformCrowd(3, 0, 0, 0.5)),
    ("whole", lambda: UniformCrowd(3, 1, -1, 0.5)),
    ("whole", lambda: UniformCrowd(3, 1, 0, math.nan)),
    ("whole", lambda: UniformCrowd(3, 1, 0, 0.5, miss=0.4)),
    ("epsilon must", lambda: UniformCrowd(3, 1, 0, 0.5).delta(math.nan)),
    ("delta must", lambda: UniformCrowd(3, 1, 0, 0.5).upper_epsilon(0.0)),
    ("epsilon up to 1", lambda: puredump_messages(1.5, 1e-6, 10)),
    ("delta up to", lambda: puredump_messages(0.5, 0.5, 10)),
    ("epsilon must", lambda: puredump_messages(math.nan, 0.1, 10)),
    ("epsilon", lambda: least_dummies(10, 10, 1e-30, 1e-6)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_dummies_that_never_come_hide_nothing() -> None:
    assert UniformCrowd(3, 2, 0, 1e-300).lower_delta(0.5) > 0.99
