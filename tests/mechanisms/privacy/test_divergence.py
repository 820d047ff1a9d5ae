"""The exact audit against plain sums, closed forms and rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.privacy.divergence import (
    double_up,
    log_up,
    tight_delta,
    tight_epsilon,
    worst_pair,
)
from tests.oracles.privacy import Tabulated, hockey_stick

CASES = [(0.1, 2, 2), (1.0, 4, 4), (1.0, 10, 3), (2.0, 50, 7), (4.0, 100, 2), (8.0, 30, 30)]
tables = st.lists(
    st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any), min_size=2, max_size=4
).map(lambda rows: Tabulated(tuple(map(tuple, rows))))


@pytest.mark.parametrize(("epsilon", "d", "p"), CASES)
def test_linear_hash_loses_epsilon_and_hardly_less(epsilon: float, d: int, p: int) -> None:
    mechanism = LinearHash(epsilon, d, p)
    found = tight_epsilon(mechanism)
    ratio = Fraction(mechanism.keep_weight, mechanism.miss_weight)
    assert exponential_bounds(found)[0] >= ratio > exponential_bounds(math.nextafter(found, 0))[0]
    assert found == pytest.approx(epsilon, rel=1e-12)
    assert found <= epsilon
    assert tight_delta(mechanism, epsilon) == 0


@pytest.mark.parametrize(("epsilon", "d", "p"), CASES)
def test_tight_delta_of_linear_hash(epsilon: float, d: int, p: int) -> None:
    mechanism, e = LinearHash(epsilon, d, p), math.exp(epsilon / 2)
    # Where the symbols of the pair differ, the first one's is likelier by keep - e^eps miss.
    truth = (1 - mechanism.collision) * (mechanism.keep - e * mechanism.miss_weight / 2**64)
    assert tight_delta(mechanism, epsilon / 2) == pytest.approx(truth, rel=1e-12)


def test_a_code_that_gives_an_input_away() -> None:
    mechanism = Tabulated(((1, 3, 0), (1, 2, 1)))
    assert tight_epsilon(mechanism) == math.inf
    assert tight_delta(mechanism, 20.0) == 0.25
    assert worst_pair(mechanism, 20.0) == (1, 0)


def test_big_losses_are_followed() -> None:
    mechanism = Tabulated(((2**62, 1), (1, 2**62)))
    assert tight_epsilon(mechanism) == pytest.approx(62 * math.log(2))
    assert tight_delta(mechanism, 42.0) == pytest.approx(1 - math.exp(42.0) / 2**62)


@given(tables, st.floats(0, 3))
def test_tight_delta_is_the_plain_sum_rounded_up(mechanism: Tabulated, epsilon: float) -> None:
    laws = [mechanism.channel(cell) for cell in range(mechanism.inputs)]
    plain = {
        (i, j): hockey_stick(laws[i], laws[j], epsilon)
        for i in range(len(laws))
        for j in range(len(laws))
        if i != j
    }
    found = tight_delta(mechanism, epsilon)
    assert found == pytest.approx(max(plain.values()), rel=1e-12, abs=1e-15)
    assert plain[worst_pair(mechanism, epsilon)] == pytest.approx(found, rel=1e-12, abs=1e-15)


@given(tables)
def test_delta_vanishes_exactly_at_tight_epsilon(mechanism: Tabulated) -> None:
    epsilon = tight_epsilon(mechanism)
    if epsilon < math.inf:
        assert tight_delta(mechanism, epsilon) < 1e-15
    if 0 < epsilon < math.inf:
        assert tight_delta(mechanism, epsilon * (1 - 1e-6)) > 0


def test_roundings_are_tight() -> None:
    assert double_up(Fraction(1, 2)) == 0.5
    assert (
        double_up(Fraction(1, 3)) >= Fraction(1, 3) > math.nextafter(double_up(Fraction(1, 3)), 0)
    )
    assert log_up(Fraction(1)) == 0
    tiny = 1 + Fraction(1, 10**12)
    assert exponential_bounds(log_up(tiny))[0] >= tiny
    assert log_up(tiny) == pytest.approx(1e-12, rel=1e-11)


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -1.0, -math.inf])
def test_meaningless_epsilons_are_refused(epsilon: float) -> None:
    for function in (tight_delta, worst_pair):
        with pytest.raises(ValueError, match="epsilon"):
            function(k_ary(1.0, 3), epsilon)


def test_one_input_has_no_loss_to_speak_of() -> None:
    for function in (tight_epsilon, lambda m: tight_delta(m, 1.0)):
        with pytest.raises(ValueError, match="two inputs"):
            function(Tabulated(((1, 1),)))
