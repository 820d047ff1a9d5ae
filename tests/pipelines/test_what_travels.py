"""A metric is small, whatever was asked of it before: every step of its job carries it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apache_beam.internal import cloudpickle_pickler

from pipelines.plan.job import unread_job
from pipelines.plan.loading import load
from tests.contract import examples, forms, runs
from tests.fakes.few import few
from tests.golden.prices import cases

LARGEST = 1 << 15  # bytes; of laws of noise there are megabytes, in each of the steps of a plan
CASES = [case for case in cases() if case[1] != forms.HORIZON]


@pytest.mark.parametrize(
    ("kind", "name", "options"), few(CASES, lambda case: case[0]),
    ids=[f"{kind} {name}" for kind, name, _ in CASES],
)  # fmt: skip
def test_laws_of_noise_stay_at_home(
    kind: str, name: str, options: dict[str, Any], workspace: Path
) -> None:
    runs.write_inputs(workspace, examples.log())
    Path("plan.yaml").write_text(
        runs.plan([("m", kind, options)], input="log.parquet", output="out/{window}")
    )
    (metric,) = unread_job(load("plan.yaml"), "2024-05-08").metrics
    assert metric.unit_error > 0
    assert isinstance(metric.cautions, list)
    assert len(cloudpickle_pickler.dumps(metric)) < LARGEST
