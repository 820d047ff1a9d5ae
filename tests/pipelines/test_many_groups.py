"""Sums and means of many groups err as those of one, and as those of a trusted collector."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.counting.options import SumOptions
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.resolving import resolve

ASKED: Any = {
    "input": ("log.parquet",), "output": "out", "epsilon": 1.0, "delta": 1e-6, "column": "x",
    "bounds": "-60,180",
}  # fmt: skip


def resolved(kind: Any, groups: int, **more: Any) -> Any:
    grouped = {"group_by": "g", "groups": f"0..{groups - 1}"} if groups > 1 else {}
    options = kind(**ASKED | grouped | more)
    return resolve(options, Source(telemetry=UNREAD))


@pytest.mark.parametrize("groups", [1, 2, 229, 100_000])
def test_a_sum_of_a_group_errs_as_one_laplace_noise(groups: int) -> None:
    """3.13 times as much from 200 groups on, where a release had the dummies of one sum."""
    central = math.sqrt(2) * 180 / ASKED["epsilon"]
    assert central < resolved(SumOptions, groups).error <= 1.1 * central


@pytest.mark.parametrize("groups", [2, 229, 100_000])
def test_a_mean_of_a_group_has_the_noise_of_a_mean_of_all(groups: int) -> None:
    many, one = (
        resolved(MeanOptions, number, drawn_by="shuffler").accuracy.noise for number in (groups, 1)
    )
    assert many == pytest.approx(one, rel=0.05)
