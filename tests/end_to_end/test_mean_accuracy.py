"""The whole road of a mean, from Parquet files to the release, against the truth.

Generators are seeded, one unlike the other, and bounds are chosen as if they were not: with a
correct pipeline a z-score stays inside but with probability 1e-9.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms import catalog
from mechanisms.postprocess.intervals import normal_quantile
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.release import ReleaseMetric
from pipelines.metrics.reports.means import MeansByReports
from pipelines.metrics.resolving import resolve
from tests.fakes import canaries
from tests.oracles.transforms import fresh_stream, restart

pytestmark = pytest.mark.verify

ROWS = 12_000
LOW, HIGH = -20.0, 80.0
BOUND = normal_quantile(1 - 1e-9)
CERTAIN = 30.0  # an epsilon at which a report lies once in 10^10
GROUPS = ("red", "green", "blue")

_numbered = itertools.count()


def numbers(n: int = ROWS) -> np.ndarray:
    """Sorted and skewed, with a tenth beyond either bound."""
    return np.concatenate([np.linspace(-300, -30, n // 10), np.linspace(-19.7, 40.3, n - n // 5),
                           np.linspace(90, 4000, n // 10)])  # fmt: skip


def publish(
    tmp_path: Path, log: str, seed: int = 7, **asked: Any
) -> tuple[MeansByReports, Any, Any]:
    """The job, its table and its statement."""
    folder = tmp_path / f"out-{next(_numbered)}"
    defaults = {"column": "v", "bounds": f"{LOW},{HIGH}", "output": str(folder), "input": (log,)}
    # Everybody has a number here, and errors are held against those of the mechanism alone.
    defaults |= {"epsilon": 1.0, "model": "local", "unusable": "count"}
    asked = defaults | asked
    restart(seed)
    options = MeanOptions(**asked)
    job = resolve(options, open_rng=fresh_stream)
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = pipeline | ReleaseMetric(job)
    table = pq.ParquetFile(folder / "mean.parquet").read()
    return job, table.to_pylist(), json.loads((folder / "statement.json").read_text())


def z(job: MeansByReports, row: dict[str, Any], held: np.ndarray) -> float:
    """The deviation from the clipped mean, in standard errors of the truth."""
    clipped = np.clip(held, LOW, HIGH)
    half = (HIGH - LOW) / 2
    scaled = (clipped - LOW) / half - 1
    error = math.sqrt(job.design.mechanism.variance(scaled).mean() / held.size) * half
    return (row["unclipped"] - clipped.mean()) / error


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One row an event, sorted by value, with a group: as unlike a shuffled log as can be."""
    group = pa.array([GROUPS[k % 3 if k < ROWS // 2 else 0] for k in range(ROWS)])
    table = pa.table({"v": numbers(), "g": group})
    return canaries.write(tmp_path_factory.mktemp("events"), table, 3, 1500)


def groups_file(tmp_path: Path) -> str:
    (tmp_path / "groups.txt").write_text("\n".join(GROUPS))
    return str(tmp_path / "groups.txt")


def held_by(group: int) -> np.ndarray:
    k = np.arange(ROWS)
    return numbers()[np.where(k < ROWS // 2, k % 3, 0) == group]


# ---- one mean ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["local", "shuffle"])
@pytest.mark.parametrize("name", list(catalog.of_task("mean")))
def test_every_mechanism_is_within_its_error(name, model, events, tmp_path):
    asked: dict[str, Any] = {"mechanism": name, "model": model, "epsilon": None}
    asked |= {"epsilon_local": 2.0, "cells": 64}
    if name.startswith("gaussian"):
        asked |= {"model": "local", "delta": 1e-4}
    job, (row,), statement = publish(tmp_path, events, **asked)
    assert abs(z(job, row, numbers())) < BOUND
    assert abs(z(job, row, numbers() + 30)) > BOUND  # and it does reject another mean
    assert statement["n"] == row["rows"] == ROWS
    assert statement["mechanism"]["name"] == name
    assert statement["guarantees"]["local"]["epsilon"] <= 2.0
    assert row["lower"] <= row["estimate"] <= row["upper"]


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float32(), pa.decimal128(6, 1)],
    ids=str,
)
def test_columns_of_every_type_are_averaged(kind, tmp_path):
    column = pa.array([float(k % 5) for k in range(1000)]).cast(kind)
    log = canaries.write(tmp_path / "log", pa.table({"v": column}))
    _, (row,), _ = publish(tmp_path, log, epsilon=CERTAIN, bounds="0,4", cells=4, mechanism="pm")
    assert row["unclipped"] == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param([3.0] * 5000, 3.0, id="constant"),
        pytest.param([80.0] * 5000, 80.0, id="at-a-bound"),
        pytest.param([1e300] * 5000, 80.0, id="all-above"),
        pytest.param([-1e300] * 5000, -20.0, id="all-below"),
        pytest.param([0.0] * 4999 + [1e12], 0.016, id="spiky"),
    ],
)
@pytest.mark.parametrize("model", ["local", "shuffle"])
def test_awkward_data_have_right_answers(content, expected, model, tmp_path):
    log = canaries.write(tmp_path / "log", pa.table({"v": content}))
    job, (row,), _ = publish(tmp_path, log, model=model, epsilon=2.0, cells=64)
    assert abs(z(job, row, np.array(content))) < BOUND
    assert LOW <= row["lower"] <= row["estimate"] <= row["upper"] <= HIGH
    assert abs(row["estimate"] - expected) < BOUND * row["standard_error"]


# ---- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["local", "shuffle"])
def test_public_groups_are_means_of_their_own(model, events, tmp_path):
    named = {"group_by": "g", "groups": groups_file(tmp_path), "groups_public": True}
    job, rows, statement = publish(
        tmp_path, events, **named, model=model, epsilon=2.0, min_reports=2000, cells=64
    )
    for group, row in enumerate(rows):
        assert row["rows"] == held_by(group).size
        assert abs(z(job, row, held_by(group))) < BOUND
    assert "the group stays as it is" in statement["neighbours"]
    assert "group being public" in statement["guarantees"]["local"]["how"]
    assert any("Groups are public" in text for text in statement["in_words"])


def test_small_public_groups_are_withheld(events, tmp_path):
    named = {"group_by": "g", "groups": groups_file(tmp_path), "groups_public": True}
    _, rows, _ = publish(tmp_path, events, **named, min_reports=5000)
    assert [row["rows"] for row in rows] == [held_by(0).size, None, None]
    assert all(rows[1][name] is None for name in ("estimate", "lower", "upper", "standard_error"))


def test_groups_outside_the_declared_ones_are_counted(tmp_path):
    log = pa.table({"v": [1.0] * 90, "g": pa.array([0, 1, None] * 20 + [7] * 30)})
    path = canaries.write(tmp_path / "log", log)
    named = {"group_by": "g", "groups": "0..1", "epsilon": CERTAIN, "bounds": "0,2", "cells": 2}
    _, rows, statement = publish(tmp_path, path, **named)
    assert statement["rejects"] == {"null group": 20, "outside the groups": 30}
    assert [row["rows"] for row in rows] == pytest.approx([20, 20], abs=1e-4)
    assert [row["unclipped"] for row in rows] == pytest.approx([1, 1], abs=1e-6)
