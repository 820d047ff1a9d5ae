"""Noise of running totals is what a unit really adds in a window, over the mu that is paid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import SeededRandom
from mechanisms.running.totals import Contribution, least
from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.resolving import resolve
from pipelines.running.kept import KeptTotals
from pipelines.running.options import RunningCountOptions, RunningSumOptions
from pipelines.running.totals import drawn
from tests.oracles.contributions import levels_of, units

COUNT, SUM = RunningCountOptions, RunningSumOptions
NAMED: Any = {"column": "n", "domain": "0..2"}
USERS: Any = {"user_column": "u", "user_windows": 3, "rows_per_user": 2}
GROUPS: Any = {"group_by": "g", "groups": "0..1"}
CASES: dict[str, tuple[Any, dict[str, Any], tuple[float, ...], int]] = {
    "count": (COUNT, {}, (0.0,), 1),
    "counts": (COUNT, NAMED, (0.0,), 1),
    "counts-of-users": (COUNT, {**NAMED, **USERS, "per_value": 2}, (0.0,), 5),
    "sum": (SUM, {"column": "n", "bounds": "-2,3"}, (-9.0, -2.0, 3.0, 9.0), 1),
    "sums-of-users": (SUM, {"column": "n", "bounds": "-2,3", **GROUPS, **USERS}, (-2.0, 3.0), 3),
}


@pytest.mark.parametrize("name", [*CASES])
def test_noise_is_what_a_unit_really_adds_over_the_mu_that_is_paid(name: str) -> None:
    kind, words, numbers, rows = CASES[name]
    options = kind(
        input=("log.parquet",), output="out", epsilon=1.0, delta=1e-6, window="a", series="s",
        horizon=30, **words,
    )  # fmt: skip
    metric: Any = resolve(options, Source(telemetry=UNREAD))
    groups = metric.reporting.amounts.groups
    norm = max(
        float(np.linalg.norm(metric.shape.totals(metric, levels_of(metric, chosen, seed))))
        for chosen, seed in units(groups, numbers, rows)
    )
    days = words.get("user_windows", 1)
    exactly = norm * metric.noise.factors.sensitivity(days)
    assert metric.noise.sigma * gaussian_mu(1.0, 1e-6) == pytest.approx(exactly, rel=1e-3)
    assert metric.noise.sigma * gaussian_mu(1.0, 1e-6) >= exactly


@pytest.mark.parametrize("off", [0.5, 0.999, 1.05])
def test_noise_that_is_not_paid_for_is_not_drawn(off: float) -> None:
    """The product holds sigma times mu to the norm by itself."""
    design = least(1.0, 1e-6, 30, Contribution(2.0, 1, 3))
    asked = {"epsilon": 1.0, "delta": 1e-6, "unit": "user"}
    kept = KeptTotals(asked, design, ("all",), "00", (), (), "", design.begin(), None, "out")
    after = drawn(kept, "a", [5], SeededRandom(1))
    assert after.windows == ("a",)
    cheap = replace(kept, design=replace(design, sigma=off * design.sigma))
    rng, fresh = SeededRandom(1), SeededRandom(1)
    with pytest.raises(ArithmeticError, match="not what they are paid for"):
        drawn(cheap, "a", [5], rng)
    assert rng.words(4).tolist() == fresh.words(4).tolist()
