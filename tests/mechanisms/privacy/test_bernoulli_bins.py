"""Flipped one-hot vectors in a shuffled batch: enumeration, known limits and monotonicity."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from mechanisms.privacy import bernoulli_bins
from mechanisms.privacy.bernoulli_bins import _batch, unary_delta, unary_epsilon
from mechanisms.privacy.binomial_edges import binomial_edges
from mechanisms.privacy.dummy_laws import binomial
from mechanisms.privacy.search import gaussian_epsilon
from tests.oracles.dummies import exact_unary_delta


def symmetric(epsilon: float) -> tuple[float, float]:
    other = 1 / (math.exp(epsilon / 2) + 1)
    return 1 - other, other


def optimised(epsilon: float) -> tuple[float, float]:
    return 0.5, 1 / (math.exp(epsilon) + 1)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("keep", "other"), [(0.5, 0.2), (0.8, 0.2), (0.95, 0.4), (1.0, 0.3), (0.6, 0.0), (1.0, 0.0)]
)
def test_brackets_the_enumeration(n: int, keep: float, other: float) -> None:
    """Up to 25 users the upper bound tries every number of holders: it is the truth itself."""
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        truth = exact_unary_delta(n, keep, other, epsilon)
        lower, upper = unary_delta(n, keep, other, epsilon)
        assert lower <= truth * (1 + 1e-12) + 1e-15
        assert truth * (1 - 1e-12) <= upper <= truth * (1 + 1e-9) + 1e-29


def worst_numbers(n: int, keep: float, other: float, epsilon: float) -> float:
    """The largest divergence over a grid of numbers of holders, by plain double sums."""
    numbers = np.unique(np.linspace(0, n - 1, 8).astype(int))

    def laws(holders: int) -> tuple[np.ndarray, np.ndarray]:
        count = np.arange(n + 1)
        base = np.convolve(
            binom.pmf(count[: holders + 1], holders, keep),
            binom.pmf(count[: n - holders], n - 1 - holders, other),
        )
        return np.convolve(base, [1 - keep, keep]), np.convolve(base, [1 - other, other])

    worst = 0.0
    for a in numbers:
        for b in numbers[numbers <= n - 1 - a]:
            (held, free), (held_b, free_b) = laws(int(a)), laws(int(b))
            gap = np.outer(held, free_b) - math.exp(epsilon) * np.outer(free, held_b)
            worst = max(worst, float(np.maximum(gap, 0).sum()))
    return worst


@pytest.mark.parametrize(("n", "law"), [(60, symmetric(2.0)), (400, symmetric(4.0)),
                                        (400, optimised(2.0)), (150, (0.9, 0.3))])  # fmt: skip
def test_brackets_any_number_of_holders(n: int, law: tuple[float, float]) -> None:
    lower, upper = unary_epsilon(n, *law, 1e-4)
    epsilon = (lower + upper) / 2
    truth = worst_numbers(n, *law, epsilon)
    low, high = unary_delta(n, *law, epsilon)
    assert low <= truth * (1 + 1e-9)
    assert truth <= high
    assert low <= 1e-4 <= high


@settings(deadline=None, max_examples=60)
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.0, 5.0))
def test_one_user_is_the_local_loss(one: float, two: float, epsilon: float) -> None:
    other, keep = sorted((one, two))
    if not keep > other:
        return
    first = np.outer([1 - keep, keep], [1 - other, other])
    truth = np.maximum(first - math.exp(epsilon) * first.T, 0).sum()
    lower, upper = unary_delta(1, keep, other, epsilon)
    assert lower <= truth + 1e-15
    assert truth - 1e-15 <= upper <= truth * (1 + 1e-9) + 1e-12
    local = math.log(keep * (1 - other) / (other * (1 - keep)))
    assert unary_epsilon(1, keep, other, 1e-12)[1] <= local * (1 + 1e-12)


@pytest.mark.parametrize("law", [symmetric(1.0), symmetric(8.0), optimised(1.0), optimised(8.0)])
def test_bounds_nearly_meet_for_telemetry(law: tuple[float, float]) -> None:
    lower, upper = unary_epsilon(200_000, *law, 1e-6)
    assert lower < upper < lower * 1.05
    low, high = unary_delta(200_000, *law, upper)
    assert low <= 1e-6 * (1 + 1e-9)
    assert high <= 1e-6 * (1 + 1e-3)  # it may count on a coin or two fewer
    assert unary_delta(200_000, *law, lower)[0] >= 1e-6 * (1 - 1e-3)


def test_large_batches_look_normal() -> None:
    keep, other = optimised(4.0)
    n = 10**6
    mu = (keep - other) * math.sqrt(2 / (n * other * (1 - other)))
    lower, upper = unary_epsilon(n, keep, other, 1e-6)
    assert lower == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=5e-3)
    assert upper == pytest.approx(lower, rel=2e-2)


@pytest.mark.verify
@pytest.mark.parametrize("n", [20_000_000, 1 << 40])
def test_huge_batches_look_more_normal_still(n: int) -> None:
    for keep, other in (optimised(2.0), symmetric(6.0)):
        for delta in (1e-9, 1e-12):
            mu = (keep - other) * math.sqrt(2 / (n * other * (1 - other)))
            normal = gaussian_epsilon(mu, delta)
            lower, upper = unary_epsilon(n, keep, other, delta)
            assert lower == pytest.approx(normal, rel=5e-3)
            assert lower < upper < lower * 1.02


@pytest.mark.parametrize("law", [symmetric(2.0), optimised(2.0)])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_edges_see_what_all_counts_show(
    law: tuple[float, float], delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 100_000
    at_edges = unary_epsilon(n, *law, delta)
    monkeypatch.setattr(bernoulli_bins, "LEAST_VARIANCE", math.inf)
    _batch.cache_clear()
    assert unary_epsilon(n, *law, delta) == pytest.approx(at_edges, rel=1e-3)
    _batch.cache_clear()


@pytest.mark.parametrize(("keep", "other"), [(0.9, 0.11), (0.999, 0.5), (0.501, 0.5)])
def test_cells_are_as_near_as_they_say(keep: float, other: float) -> None:
    users = 50_000
    ones = bernoulli_bins.Bin(users, keep, other)
    law, edges = ones.look(0, users)[0], binomial_edges((users, other))
    others = binomial(users, other, tail=1e-60)
    first = edges.first + edges.step * np.arange(edges.below.size) - others.first
    for ours, bit in ((law.occupied, keep), (law.free, other)):
        count = np.convolve(others.pmf, [1 - bit, bit])
        cells = np.add.reduceat(count, first)[:-1]
        np.testing.assert_allclose(ours, cells, rtol=law.relative)
        assert count[: first[0]].sum() + count[first[-1] :].sum() <= law.missing
    assert law.relative < 5 * edges.relative


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 3000), st.floats(0.5, 8.0), st.floats(1e-9, 1e-2), st.booleans())
def test_monotone_and_consistent(n: int, local: float, delta: float, flat: bool) -> None:
    law = symmetric(local) if flat else optimised(local)
    lower, upper = unary_epsilon(n, *law, delta)
    assert 0 <= lower <= upper <= local * (1 + 1e-12)
    low, high = unary_delta(n, *law, upper)
    assert low <= high
    assert low <= delta * (1 + 1e-9)
    assert unary_epsilon(2 * n, *law, delta)[0] <= lower * (1 + 1e-4) + 1e-9
    assert unary_delta(n, *law, upper / 2)[0] >= low


def test_ranges_hold_every_number_of_holders() -> None:
    for n in (1, 2, 24, 25, 26, 1000, 10**6):
        for law in (symmetric(6.0), optimised(1.0), (0.999, 0.1), (1.0, 0.5), (0.5, 0.0)):
            ranges = _batch(n, *law).bin.ranges
            assert ranges[0][0] == 0
            assert ranges[-1][1] == n - 1
            assert all(a[1] + 1 == b[0] for a, b in pairwise(ranges))
            assert len(ranges) <= 65


def test_without_noise_nothing_is_hidden() -> None:
    assert unary_delta(100, 1.0, 0.0, 3.0)[1] == 1.0
    assert unary_epsilon(100, 1.0, 0.0, 1e-6)[1] == math.inf
    assert unary_epsilon(1, 1.0, 0.5, 1e-6)[1] == math.inf


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("n must", lambda: unary_delta(0, 0.5, 0.1, 1.0)),
    ("n must", lambda: unary_delta(2.5, 0.5, 0.1, 1.0)),
    ("other < keep", lambda: unary_delta(10, 0.1, 0.5, 1.0)),
    ("other < keep", lambda: unary_delta(10, 0.5, 0.5, 1.0)),
    ("other < keep", lambda: unary_delta(10, math.nan, 0.5, 1.0)),
    ("other < keep", lambda: unary_delta(10, 1.5, 0.5, 1.0)),
    ("epsilon must", lambda: unary_delta(10, 0.5, 0.1, math.nan)),
    ("epsilon must", lambda: unary_delta(10, 0.5, 0.1, -1.0)),
    ("delta must", lambda: unary_epsilon(10, 0.5, 0.1, 0.0)),
    ("delta must", lambda: unary_epsilon(10, 0.5, 0.1, math.nan)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()
