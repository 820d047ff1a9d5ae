"""What simulated releases of counters err, held to the figures they are to reach."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.counters import columns, figures
from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters


@pytest.mark.verify
def test_every_statistic_reaches_its_target() -> None:
    made = figures()
    assert not [one for one in made if not one.measured <= one.most]
    # Power: no target is so lax that half as much noise again would reach it, devices' apart.
    assert all(one.most < 1.5 * one.measured for one in made if "interval" not in one.statistic)
    (missed,) = (one.measured for one in made if "missed" in one.statistic)
    assert 0.03 <= missed


def test_many_columns_are_many_releases() -> None:
    design = Counters.meeting(Amounts(2, 1, 7).levels, "replace", 1.0, 1e-6, correlated=True)
    errors = columns(design, 10_000, seed=1)
    assert errors.shape == (20_000,)
    # A false alarm is rarer than 1e-9: the squares' standard error is below 0.016 of their mean.
    assert np.mean(errors**2) == pytest.approx(design.column_variance, rel=0.1)
