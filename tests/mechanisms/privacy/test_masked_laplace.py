"""Correlated noise in one bin: enumeration of (u, w), and searches for the best mask."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import nbinom

from mechanisms.privacy.masked_design import fewest_messages, least_variance
from mechanisms.privacy.masked_laplace import MaskedLaplace
from mechanisms.privacy.two_bins import two_bins_delta, two_bins_epsilon
from tests.fakes.few import ends
from tests.oracles.dummies import hockey_stick

# Variance and extra messages per bin of the published analysis at (0.5, 1e-6).
PUBLISHED = ends([(88.7, 636), (65.1, 822), (49.8, 1184), (39.3, 2165)])


def counters(noise: MaskedLaplace, share: float, size: int = 64) -> np.ndarray:
    """P(A + Z = u, B + Z = w), by the definition."""
    k = np.arange(size)
    a = nbinom.pmf(k, share, 1 - noise.decay)
    table = np.zeros((2 * size, 2 * size))
    for z, chance in enumerate(nbinom.pmf(k, share * noise.shape, 1 - noise.ratio)):
        table[z : z + size, z : z + size] += chance * np.outer(a, a)
    return table


@pytest.mark.parametrize("share", [1.0, 0.8, 1.7])
@pytest.mark.parametrize(
    "noise",
    [MaskedLaplace(0.4, 2.0, 0.4), MaskedLaplace(0.2, 0.6, 0.5), MaskedLaplace(0.5, 4, 0.1)],
)
def test_bin_law_by_enumeration(noise: MaskedLaplace, share: float) -> None:
    table = counters(noise, share)
    held, free = np.roll(table, 1, axis=0).ravel(), table.ravel()
    kept = held + free > 1e-8
    held, free = held[kept], free[kept]
    law = noise.bin_law(share)
    assert law is not None
    for epsilon in (0.1, 0.6, 1.5):
        truth = hockey_stick(np.outer(held, free), np.outer(free, held), epsilon)
        lower, upper = two_bins_delta(law, law, epsilon)
        assert lower == pytest.approx(truth, rel=3e-3, abs=3e-5)
        assert truth - 1e-12 <= upper <= lower + 2e-3


def test_general_law_agrees_with_the_closed_form() -> None:
    noise = MaskedLaplace(math.exp(-0.2), 15.7, 0.944)
    closed, summed = noise.bin_law(), noise.bin_law(1 + 1e-13)
    assert closed is not None
    assert summed is not None
    exact = two_bins_delta(closed, closed, 0.5)[1]
    lower, upper = two_bins_delta(summed, summed, 0.5)
    assert lower * (1 - 1e-6) <= exact <= upper
    assert upper < lower * 1.005
    assert MaskedLaplace(0.9999, 10.0, 0.9999).bin_law(1.1) is None


def test_more_users_tell_less() -> None:
    noise = MaskedLaplace(0.7, 8.0, 0.8)
    losses = [two_bins_epsilon(noise.bin_law(share), 1e-4)[1] for share in (0.5, 0.9, 1.0, 1.2, 3)]
    assert losses == sorted(losses, reverse=True)


def test_difference_is_discrete_laplace() -> None:
    noise = MaskedLaplace(0.6, 3.0, 0.5)
    first, pmf = noise.difference()
    k = first + np.arange(pmf.size)
    np.testing.assert_allclose(pmf[abs(k) < 40], (0.25 * 0.6 ** abs(k.astype(float)))[abs(k) < 40])
    assert noise.variance == pytest.approx(2 * 0.6 / 0.4**2)
    first, pmf = noise.difference(1.5)
    k = first + np.arange(pmf.size)
    assert pmf @ k**2 == pytest.approx(1.5 * noise.variance)


@pytest.mark.parametrize(("variance", "messages"), PUBLISHED)
def test_half_the_published_messages_suffice(variance: float, messages: float) -> None:
    share = math.sqrt(31.83 / variance)  # of epsilon, for about this variance
    found = fewest_messages(0.5, 1e-6, min(share, 0.95))
    assert found.variance < 1.02 * variance
    assert found.messages < 0.55 * messages
    better = least_variance(0.5, 1e-6, messages)
    assert better.messages <= messages
    assert better.variance < 0.91 * variance


@pytest.mark.parametrize(
    ("epsilon", "delta", "share"),
    [(0.5, 1e-6, 0.25), (1.0, 1e-9, 0.8), (3.0, 1e-3, 0.95), (0.1, 1e-6, 0.8), (12.0, 1e-6, 0.5),
     (0.5, 0.01, 0.8)],
)  # fmt: skip
def test_designs_meet_their_target_and_hardly_more(
    epsilon: float, delta: float, share: float
) -> None:
    found = fewest_messages(epsilon, delta, share)
    law = found.bin_law()
    assert law is not None
    assert delta * (1 - 1e-6) <= two_bins_delta(law, law, epsilon)[1] <= delta
    assert found.variance == pytest.approx(1 / (2 * math.sinh(share * epsilon / 4) ** 2))
    # No mask of another form and the same size does better by much.
    mask = found.shape * found.ratio / (1 - found.ratio)
    for slope in (0.8, 1.25):
        ratio = 1 - (1 - found.ratio) * slope
        if 0 < ratio < 1:
            other = MaskedLaplace(found.decay, 0.98 * mask * (1 - ratio) / ratio, ratio)
            other_law = other.bin_law()
            assert other_law is not None
            assert two_bins_delta(other_law, other_law, epsilon)[1] > delta


@pytest.mark.verify
def test_more_messages_buy_less_variance() -> None:
    budgets = [180, 250, 500, 1000, 1700, 10**5]
    found = [least_variance(0.5, 1e-6, budget) for budget in budgets]
    assert all(noise.messages <= budget for noise, budget in zip(found, budgets, strict=True))
    variances = [noise.variance for noise in found]
    assert variances == sorted(variances, reverse=True)
    assert found[1].messages > 0.98 * 250


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("epsilon must", lambda: fewest_messages(0.001, 1e-6)),
    ("epsilon must", lambda: fewest_messages(math.nan, 1e-6)),
    ("delta must", lambda: fewest_messages(0.5, 0.0)),
    ("share must", lambda: fewest_messages(0.5, 1e-6, 1.0)),
    ("share must", lambda: fewest_messages(0.5, 1e-6, math.nan)),
    ("at least 177", lambda: least_variance(0.5, 1e-6, 100)),
    ("at least 177", lambda: least_variance(0.5, 1e-6, math.nan)),
]


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()
