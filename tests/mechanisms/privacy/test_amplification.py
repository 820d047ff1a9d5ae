"""Shuffled batches of any mechanism, and the solvers that invert the accountant."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.frequency.hash_budget import best_histogram, largest_local_epsilon
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.mean.task import UsableMeanTask
from mechanisms.planner.search import search
from mechanisms.privacy.amplification import (
    laws_of,
    shuffled_delta,
    shuffled_epsilon,
    upper_laws,
)
from mechanisms.privacy.blanket import COARSE, dominated_delta, upper_delta
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.privacy.pair_law import PairLaw, covering, grouped
from mechanisms.targets.rules import Target
from tests.fakes.few import ends
from tests.oracles.privacy import Tabulated, clones_epsilon, exact_shuffled_delta


def as_table(mechanism: LinearHash) -> Tabulated:
    """The same channel, without its closed form."""
    rows = (mechanism.weights(cell)[0] for cell in range(mechanism.inputs))
    return Tabulated(tuple(tuple(int(w) for w in row) for row in rows))


@pytest.mark.parametrize(
    "mechanism", ends([k_ary(1.5, 4), LinearHash(2.0, 4, 2), LinearHash(3.0, 7, 3)])
)
def test_closed_form_and_table_agree(mechanism: LinearHash) -> None:
    for n, epsilon in [(1, 0.5), (30, 0.2), (1000, 0.1)]:
        closed = shuffled_delta(mechanism, n, epsilon)
        tabulated = shuffled_delta(as_table(mechanism), n, epsilon)
        assert tabulated[1] == pytest.approx(closed[1], rel=1e-4)
        assert closed[1] >= tabulated[0] >= closed[0] * (1 - 1e-3)


WINDOW = Tabulated(((3, 3, 1, 1, 1), (1, 3, 3, 1, 1), (1, 1, 3, 3, 1), (1, 1, 1, 3, 3)))
LEAKY = Tabulated(((90, 9, 1, 0), (9, 90, 0, 1), (45, 45, 5, 5)))
LOPSIDED = Tabulated(((7, 2, 1), (1, 8, 1), (1, 1, 8)))
BIT = Tabulated(((3, 1), (1, 3)))
SLANTED = Tabulated(((5, 1), (1, 2)))


@pytest.mark.parametrize("mechanism", [WINDOW, LEAKY, LOPSIDED, BIT, SLANTED])
@pytest.mark.parametrize(("n", "epsilon"), [(1, 0.3), (2, 0.0), (4, 0.5), (5, 0.2)])
def test_the_bracket_of_a_table_holds_the_enumerated_truth(
    mechanism: Tabulated, n: int, epsilon: float
) -> None:
    lower, upper = shuffled_delta(mechanism, n, epsilon)
    exact = exact_shuffled_delta(mechanism, n, epsilon)
    assert lower * (1 - 1e-10) <= exact <= upper * (1 + 1e-10)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=2, max_size=3),
    st.integers(1, 5),
    st.floats(0, 1),
)
def test_random_tables(rows: list[list[int]], n: int, epsilon: float) -> None:
    mechanism = Tabulated(tuple(map(tuple, rows)))
    lower, upper = shuffled_delta(mechanism, n, epsilon)
    exact = exact_shuffled_delta(mechanism, n, epsilon)
    assert lower * (1 - 1e-9) - 1e-13 <= exact <= upper * (1 + 1e-9) + 1e-15
    assert upper <= tight_delta(mechanism, epsilon) * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize("name", ["nm", "optimal", "duchi"])
def test_laws_that_rounding_alone_sets_apart_are_walked_once(name: str) -> None:
    target = Target("local", 7.0, 0.0, 1, UsableMeanTask(16))
    mechanism = search(target, name).mechanism
    (law,), least = upper_laws(mechanism).dominating, mechanism.blanket()
    pairs = [[mechanism.channel(cell) for cell in pair] for pair in mechanism.pairs()]
    for n, epsilon in [(30, 0.0), (1000, 1.0), (100_000, 0.4)]:
        each = [
            dominated_delta(grouped(one, other, least, blanket=True), n, epsilon, COARSE)
            for one, other in pairs
        ]
        assert max(each) * (1 - 1e-9) <= dominated_delta(law, n, epsilon, COARSE)
        assert dominated_delta(law, n, epsilon, COARSE) <= max(each) * (1 + 1e-5)


def test_a_law_that_covers_others_takes_what_reveals_most_of_each() -> None:
    tiny = 2.0**-50
    one = PairLaw(np.array([0.6, 0.3, 0.1, 0]), np.array([0.2, 0.7, 0.1, 0]), np.full(4, 0.25))
    first, second = one.first * [1 + tiny, 1, 1, 1], one.second * [1 - tiny, 1, 1, 1]
    (law,) = covering([one, PairLaw(first[[1, 0, 2, 3]], second[[1, 0, 2, 3]], one.others)])
    assert sorted(law.first) == sorted(first)
    assert sorted(law.second) == sorted(second)
    assert len(covering([one, PairLaw(one.second, one.first, one.others)])) == 2
    apart = PairLaw(one.first * [1 + 1e-9, 1, 1, 1], one.second, one.others)
    assert len(covering([one, apart])) == 2


def test_where_a_blanket_is_less_a_report_alone_reveals_as_much() -> None:
    one = PairLaw(np.array([0.6, 0.4, 0]), np.array([0.2, 0.8, 0]), np.array([0.2, 0.4, 0.4]))
    moved = 2.0**-46 * np.array([-1, 1, 0])  # with equal ratios, in one place less of all
    other = PairLaw(one.first + 0.6 * moved, one.second + 0.2 * moved, one.others + 0.2 * moved)
    for pair in ([one, other], [other, one]):
        (law,) = covering(pair)
        assert law.first[0] == 0.6
        assert law.local_delta(0.5) >= max(one.local_delta(0.5), other.local_delta(0.5))


def test_one_report_is_what_it_is() -> None:
    for mechanism in (WINDOW, LOPSIDED, k_ary(2.0, 5)):
        lower, upper = shuffled_delta(mechanism, 1, 0.4)
        assert lower == pytest.approx(upper, rel=1e-9)
        assert upper == pytest.approx(tight_delta(mechanism, 0.4), rel=1e-9)
        assert shuffled_epsilon(mechanism, 1, 1e-12)[1] <= tight_epsilon(mechanism)


@pytest.mark.parametrize("n", [1, 10, 10**7])
def test_far_beyond_what_one_report_loses_nothing_is_lost(n: int) -> None:
    for symbols in (2, 3):
        assert shuffled_delta(k_ary(20.0, symbols), n, 1000.0) == (0.0, 0.0)


def test_a_channel_too_large_to_tabulate_gets_the_clones_bound() -> None:
    cells = 40  # 1560 ordered pairs
    odd = Tabulated(tuple(tuple(2 + (i == j) for j in range(cells)) for i in range(cells)))
    assert laws_of(odd).attained == ()
    lower, upper = shuffled_epsilon(odd, 1000, 1e-6)
    assert (lower, upper) == (0.0, clones_epsilon(tight_epsilon(odd), 1000, 1e-6))
    leaky = Tabulated(tuple(tuple(int(i != j) for j in range(cells)) for i in range(cells)))
    with pytest.raises(ValueError, match="too large to tabulate"):
        shuffled_epsilon(leaky, 1000, 1e-6)


def test_laws_are_probabilities() -> None:
    for mechanism in (k_ary(1.0, 2), k_ary(3.0, 9), LinearHash(2.0, 9, 2), LinearHash(2.0, 30, 3),
                      LinearHash(5.0, 2, 7), LinearHash(5.0, 1000, 31), WINDOW):  # fmt: skip
        laws = laws_of(mechanism)
        for law in laws.dominating + laws.attained:
            for part in (law.first, law.second, law.others):
                assert np.all(part >= 0)
                assert math.fsum(part) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "d", "delta", "epsilon", "local", "variance"),
    [
        (602325, 915, 1e-6, 0.1, 6.37482494961601, 1.0081995606688277e-08),
        (602325, 915, 1e-6, 0.5, 8.565210268583815, 6.875489571195965e-10),
        (602325, 915, 1e-9, 1.0, 9.144410966612108, 3.71643329132108e-10),
        (1000000, 42178, 1e-6, 0.5, 10.034449995654267, 1.688792200582048e-10),
        (1000000, 42178, 1e-9, 0.2, 8.710242490336778, 1.4769155392275226e-09),
    ],
)
def test_the_inverse_reaches_the_reference_from_the_private_side(
    n: int, d: int, delta: float, epsilon: float, local: float, variance: float
) -> None:
    choice = best_histogram(epsilon, delta, n, d)
    assert choice.k_ary.epsilon == pytest.approx(local, abs=3e-3)
    assert choice.k_ary.average_variance(n) == pytest.approx(variance, rel=5e-3)
    assert choice.best is choice.k_ary
    assert choice.hashed is not None
    for mechanism in (choice.k_ary, choice.hashed):
        assert upper_delta(laws_of(mechanism), n, epsilon, COARSE) <= delta
        more = LinearHash(mechanism.epsilon * 1.002, d, mechanism.hash_range)
        assert upper_delta(laws_of(more), n, epsilon) > delta


def test_the_hash_range_is_the_best_of_its_neighbours() -> None:
    n, d, epsilon, delta = 10**5, 10**6, 0.5, 1e-6
    hashed = best_histogram(epsilon, delta, n, d).hashed
    assert hashed is not None
    for p in (hashed.hash_range // 2 | 1, 101, 1009, 4093):
        if p > 2 and all(p % q for q in range(2, 70)):
            local = largest_local_epsilon(epsilon, delta, n, d, p)
            other = LinearHash(local, d, p).average_variance(n)
            assert hashed.average_variance(n) <= other * 1.001


def test_a_cap_is_honoured_and_a_single_report_always_allowed() -> None:
    assert largest_local_epsilon(0.5, 1e-6, 10**6, 100, cap=3.0) == 3.0
    assert largest_local_epsilon(2.0, 1e-6, 10**6, 100, cap=1.0) == 1.0
    assert largest_local_epsilon(0.5, 1e-9, 3, 100) == pytest.approx(0.5, rel=1e-3)
    assert best_histogram(0.5, 1e-6, 10**6, 100, cap=2.0).k_ary.epsilon == 2.0
    free = largest_local_epsilon(0.5, 1e-6, 10**6, 100)
    assert largest_local_epsilon(0.5, 1e-6, 10**6, 100, cap=free * 1.001) <= free * 1.001


@settings(max_examples=10, deadline=None)
@given(
    st.floats(0.05, 2.0), st.floats(1e-10, 1e-3), st.integers(2, 10**7), st.sampled_from([2, 5, 97])
)
def test_the_inverse_meets_any_target(epsilon: float, delta: float, n: int, d: int) -> None:
    local = largest_local_epsilon(epsilon, delta, n, d)
    assert local >= epsilon
    assert upper_delta(laws_of(k_ary(local, d)), n, epsilon, COARSE) <= delta


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("n must", lambda: shuffled_epsilon(k_ary(1.0, 3), 0, 1e-6)),
    ("n must", lambda: shuffled_delta(k_ary(1.0, 3), -5, 0.1)),
    ("delta must", lambda: shuffled_epsilon(k_ary(1.0, 3), 10, math.nan)),
    ("delta must", lambda: shuffled_epsilon(k_ary(1.0, 3), 10, 0.0)),
    ("delta must", lambda: shuffled_epsilon(k_ary(1.0, 3), 10, 1.0)),
    ("epsilon must", lambda: shuffled_delta(k_ary(1.0, 3), 10, math.nan)),
    ("epsilon must", lambda: shuffled_delta(k_ary(1.0, 3), 10, math.inf)),
    ("epsilon must", lambda: largest_local_epsilon(0.0, 1e-6, 10, 3)),
    ("delta must", lambda: largest_local_epsilon(1.0, 0.0, 10, 3)),
    ("n must", lambda: largest_local_epsilon(1.0, 1e-6, 0, 3)),
    ("cap", lambda: largest_local_epsilon(1.0, 1e-6, 10, 3, cap=math.nan)),
    ("cap", lambda: best_histogram(1.0, 1e-6, 10, 3, cap=0.0)),
    ("hash_range", lambda: largest_local_epsilon(1.0, 1e-6, 1000, 100, 6)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()
