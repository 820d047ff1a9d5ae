"""Dummy messages: enumeration, 40-digit sums and the reference tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, nbinom
from scipy.stats import poisson as scipy_poisson

from mechanisms.papers.aue import least_binomial_chance, least_users
from mechanisms.privacy.dummy_laws import (
    DummyLaw,
    binomial,
    dummies_delta,
    least_poisson_mean,
    poisson,
)
from mechanisms.privacy.two_bins import two_bins_epsilon
from tests.oracles.privacy import poisson_dummies_delta

# epsilon, delta, least mean. Two references were about 1e-4 off their own target; the 40-digit
# sums below decide.
POISSON = [
    (0.1, 1e-6, 2641.1320149413195), (0.1, 1e-9, 5052.9087891878335),
    (0.2, 1e-6, 726.6883955959767), (0.2, 1e-9, 1337.6344723307734),
    (0.3, 1e-6, 343.438116504295), (0.3, 1e-9, 618.7415521655454),
    (0.5, 1e-6, 136.09632782612587), (0.5, 1e-9, 238.72226391435152),
    (0.7, 1e-6, 75.87285730918687), (0.7, 1e-9, 130.68461860466283),
    (1.0, 1e-6, 42.65467169295416), (1.0, 1e-9, 72.05492307003567),
]  # fmt: skip


def plain_delta(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """The hockey-stick of (X + 1, Y) from (X, Y + 1) over the whole grid."""
    with_one, without = np.append(0.0, first), np.append(second, 0.0)
    gap = np.outer(with_one, without) - math.exp(epsilon) * np.outer(without, with_one)
    return float(np.maximum(gap, 0).sum())


@pytest.mark.parametrize(("epsilon", "delta", "mean"), POISSON)
def test_least_poisson_means(epsilon: float, delta: float, mean: float) -> None:
    found = least_poisson_mean(epsilon, delta)
    assert found == pytest.approx(mean, rel=3e-4)
    assert dummies_delta(poisson(found), epsilon) <= delta
    assert dummies_delta(poisson(found * (1 - 1e-6)), epsilon) > delta


@pytest.mark.parametrize(
    ("mean", "epsilon"), [("136.1", "0.5"), ("42.7", "1.0"), ("3.7", "0.25"), ("0.01", "2.0"),
                          ("726.7", "0.2"), ("5052.9", "0.1")]
)  # fmt: skip
def test_poisson_against_40_digits(mean: str, epsilon: str) -> None:
    truth = float(poisson_dummies_delta(mean, epsilon))
    found = dummies_delta(poisson(float(mean)), float(epsilon))
    assert truth * (1 - 1e-15) <= found <= truth * (1 + 1e-8)


@pytest.mark.parametrize(
    ("n", "chance", "epsilon", "delta"),
    [
        (5, 0.6, 0.5, 0.35173161176031215),
        (8, 0.8, 1.0, 0.25067446357956236),
        (2000, 0.9, 0.5, 4.186147413596657e-08),
    ],
)
def test_binomial_references(n: int, chance: float, epsilon: float, delta: float) -> None:
    found = dummies_delta(binomial(n, chance), epsilon)
    assert delta * (1 - 1e-9) <= found <= delta * (1 + 1e-8)


@given(st.integers(1, 60), st.floats(0.01, 0.99), st.floats(0, 2))
def test_binomial_by_the_grid(n: int, chance: float, epsilon: float) -> None:
    pmf = binom.pmf(np.arange(n + 1), n, chance)
    plain = plain_delta(pmf, pmf, epsilon)
    found = dummies_delta(binomial(n, chance), epsilon)
    assert plain * (1 - 1e-11) <= found <= plain * (1 + 1e-9) + 1e-30


def test_windows_hold_the_laws() -> None:
    for mean in (0.001, 1.0, 17.3, 5e4):
        law = poisson(mean)
        counts = law.first + np.arange(law.pmf.size)
        np.testing.assert_allclose(law.pmf, scipy_poisson.pmf(counts, mean), rtol=1e-8, atol=1e-300)
        assert law.mean == pytest.approx(mean)
        assert law.variance == pytest.approx(mean)
    assert binomial(1000, 0.25).variance == pytest.approx(187.5)


def test_any_law_will_do() -> None:
    """Negative binomial dummies, cut off where little is missing; and one without a mode."""
    pmf = nbinom.pmf(np.arange(4000), 3, 0.05)
    law = DummyLaw(0, pmf, missing=1e-12)
    found, plain = dummies_delta(law, 0.3), plain_delta(pmf, pmf, 0.3)
    assert plain <= found <= plain + 3e-12
    jagged = np.array([0.3, 0.0, 0.3, 0.1, 0.3])
    assert dummies_delta(DummyLaw(2, jagged), 0.4) == pytest.approx(
        plain_delta(jagged, jagged, 0.4)
    )


def test_aue_needs_136_where_its_paper_adds_12161() -> None:
    n = 10**6
    assert least_binomial_chance(0.5, 1e-6, n) * n == pytest.approx(136.1, rel=1e-3)
    law = binomial(n, 1 - 200 * math.log(4e6) / (0.25 * n))
    assert law.variance == pytest.approx(12161, rel=0.02)
    assert two_bins_epsilon(law.bin_law, 1e-6)[1] == pytest.approx(0.044, abs=1e-3)


@settings(deadline=None)
@given(st.floats(0.05, 3.0), st.floats(1e-12, 1e-2), st.floats(1.1, 3.0))
def test_inverses_are_private_and_monotone(epsilon: float, delta: float, factor: float) -> None:
    mean = least_poisson_mean(epsilon, delta)
    assert dummies_delta(poisson(mean), epsilon) <= delta
    assert two_bins_epsilon(poisson(mean).bin_law, delta)[1] <= epsilon * (1 + 1e-6)
    assert least_poisson_mean(epsilon * factor, delta) <= mean * (1 + 1e-6)
    assert dummies_delta(poisson(mean * factor), epsilon) <= delta


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("mean must", lambda: poisson(0.0)),
    ("mean must", lambda: poisson(math.nan)),
    ("mean must", lambda: poisson(math.inf)),
    ("chance must", lambda: binomial(10, 1.0)),
    ("chance must", lambda: binomial(10, math.nan)),
    ("n must", lambda: binomial(0, 0.5)),
    ("epsilon must", lambda: dummies_delta(poisson(1.0), math.nan)),
    ("epsilon must", lambda: dummies_delta(poisson(1.0), -1.0)),
    ("epsilon must", lambda: least_poisson_mean(0.0, 1e-6)),
    ("delta must", lambda: least_poisson_mean(1.0, 0.0)),
    ("delta must", lambda: least_poisson_mean(1.0, math.nan)),
    ("delta must", lambda: two_bins_epsilon(poisson(1.0).bin_law, 1.0)[1]),
    ("too few", lambda: least_binomial_chance(0.1, 1e-9, 10)),
    ("pmf", lambda: DummyLaw(0, np.array([0.5, math.nan]))),
    ("pmf", lambda: DummyLaw(0, np.array([0.5, 0.4]))),
    ("missing", lambda: DummyLaw(0, np.array([1.0]), missing=math.nan)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_least_users_is_where_even_coins_begin_to_hide() -> None:
    for epsilon, delta in ((0.5, 1e-6), (1.0, 1e-3), (0.1, 1e-2), (5.0, 0.4)):
        n = least_users(epsilon, delta)
        assert dummies_delta(binomial(n, 0.5), epsilon) <= delta
        assert n == 1 or dummies_delta(binomial(n - 1, 0.5), epsilon) > delta
        assert least_binomial_chance(epsilon, delta, n) <= 0.5
    with pytest.raises(ValueError, match="524 users do"):
        least_binomial_chance(0.5, 1e-6, 100)
    with pytest.raises(ValueError, match=r"meets epsilon 1e-30"):
        least_users(1e-30, 1e-6)


def test_an_epsilon_out_of_reach_is_named() -> None:
    with pytest.raises(ValueError, match=r"epsilon 1e-30"):
        least_poisson_mean(1e-30, 1e-6)
    assert least_poisson_mean(700.0, 1e-6) == pytest.approx(-math.log(1e-6), rel=1e-6)
