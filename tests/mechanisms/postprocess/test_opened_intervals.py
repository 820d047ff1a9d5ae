"""No interval is a point: where an estimate lies far outside of what is possible, it stays open."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.catalog import build
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.mean.intervals import estimate_mean
from mechanisms.postprocess.intervals import opened


def test_opening_changes_nothing_but_what_is_shut() -> None:
    lower, upper = np.array([0.0, 0.0, 0.3, 1.0]), np.array([0.0, 0.4, 0.5, 1.0])
    found = opened(lower, upper, np.array(0.1), np.array(0.2))
    assert found[0].tolist() == [0.0, 0.0, 0.3, 0.9]
    assert found[1].tolist() == [0.2, 0.4, 0.5, 1.0]
    wide = opened(np.zeros(1), np.zeros(1), np.array(9.0), np.array(9.0))
    assert (wide[0].item(), wide[1].item()) == (0.0, 1.0)


@pytest.mark.parametrize("code", [0, -1])
def test_a_mean_beyond_its_bounds_has_an_interval(code: int) -> None:
    """Every client answers as few would whatever they hold: nothing inside agrees."""
    mechanism = build("duchi", epsilon=0.5)
    counts = np.zeros(mechanism.codes, np.int64)
    counts[code] = 100_000
    found = estimate_mean(mechanism, counts, 0.95)
    assert abs(found.unbiased) > 1.5
    assert found.lower < found.upper
    assert -1 <= found.lower <= max(min(found.unbiased, 1), -1) <= found.upper <= 1


def test_bins_and_mean_of_a_distribution_have_intervals() -> None:
    mechanism = build("nm", epsilon=0.5, cells=7)
    counts = np.zeros(mechanism.codes, np.int64)
    counts[0] = 50_000
    found = DistributionEstimator(mechanism, 1).summarise(counts)
    assert np.all(found.upper > found.lower)
    assert found.mean.upper > found.mean.lower
