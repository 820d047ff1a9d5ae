"""Bands and differences hold for every law of noise that is published."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pipelines.site.changes import Reach, change

MISS = 0.05
LAWS = {
    "normal": stats.norm(scale=3),
    "Laplace": stats.laplace(scale=2),
    "binomial": stats.binom(10_000, 0.01),
    "two-sided geometric": stats.dlaplace(0.7),
}


def half(law, tail: float) -> float:
    """The half-length that misses with this probability."""
    return max(law.isf(tail / 2) - law.mean(), law.mean() - law.ppf(tail / 2))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("figures", [1, 10, 1000])
def test_bands_of_more_figures_are_never_too_short(law, figures: int) -> None:
    alone, together = (np.array(half(law, MISS / count)) for count in (1, figures))
    reach = Reach(alone, together, MISS, figures)
    for comparisons in (1, 3, figures, 10 * figures, 1000 * figures):
        assert reach.half(comparisons) >= half(law, MISS / comparisons) - 1e-9
    if figures > 1:
        assert reach.half(figures) == pytest.approx(together)
        assert reach.half(1) == pytest.approx(alone)


def test_bands_of_normal_noise_are_not_much_too_long() -> None:
    law = LAWS["normal"]
    reach = Reach(np.array(half(law, MISS)), np.array(half(law, MISS / 1000)), MISS, 1000)
    assert reach.half(365_000) < 1.15 * half(law, MISS / 365_000)


@pytest.mark.parametrize("name", ["normal", "Laplace"])
def test_equal_windows_show_a_change_as_rarely_as_is_said(name: str) -> None:
    """False alarms of 200 labels together: of 4,000 pairs at most 5 % and 7 standard errors."""
    law, labels, pairs = LAWS[name], 200, 4000
    rng = np.random.default_rng(7)
    reach = np.full(labels, half(law, MISS / labels))
    error = np.full(labels, law.std())
    before, now = law.rvs((2, pairs, labels), random_state=rng)
    found = 0
    for one, other in zip(before, now, strict=True):
        found += bool(change((one, error, reach), (other, error, reach)).beyond.any())
    limit = MISS + 7 * (MISS * (1 - MISS) / pairs) ** 0.5
    assert found / pairs < limit


def test_a_change_of_two_half_lengths_is_seen() -> None:
    error, reach = np.ones(3), np.full(3, 3.0)
    made = change((np.zeros(3), error, reach), (np.array([0.0, 9.0, -9.0]), error, reach))
    assert made.beyond.tolist() == [False, True, True]
    assert made.half == pytest.approx(3 * 2**0.5)


def test_where_nothing_is_known_nothing_has_changed() -> None:
    error, nothing = np.array([1.0]), np.array([np.nan])
    made = change((nothing, error, nothing), (np.array([5.0]), error, error))
    assert not made.beyond.any()
