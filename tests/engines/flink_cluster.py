"""Four metrics of twenty million rows on a Flink cluster, which loses a task manager meanwhile.

pytest does not pick this file by itself: engines take minutes to fetch. `make test-engines` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.engines import Kill, prepare, run
from deploy.engines import Running, running

ROWS = 20_000_000
AFTER = 0.3  # CPU seconds of a worker with the log, of about two

# Of normal errors beyond it, 1.3e-12 are: with the 2,008 comparisons of a run, 3e-9 a run at most.
BEYOND = 7.1


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Running]:
    """A job manager, two task managers, and a worker pool for each."""
    with running("cluster", tmp_path) as engine:
        yield engine


@pytest.mark.parametrize("machine", [False, True], ids=["task manager", "task manager and pool"])
def test_a_task_manager_dies_in_the_middle(engine: Running, tmp_path: Path, machine: bool) -> None:
    folder = tmp_path / "job"
    prepare(folder, ROWS)
    flink = engine.cluster
    assert flink is not None
    run(folder, ROWS, engine, Kill(engine, AFTER, folder / "log", machine))  # right, and once
    assert flink.failures() >= 1  # else the kill came too late, or hit nothing
    assert flink.ask("overview")["taskmanagers"] == 1
    require_right(folder)
    assert list(folder.glob(".release*")) == []


def require_right(folder: Path) -> None:
    """Every share within its error of the truth, of the one file to which all of the log links."""
    truth = pq.read_table(folder / "log" / "0.parquet")
    for name in ("category", "place"):
        rows = pq.read_table(folder / "release" / name / "histogram.parquet").to_pydict()
        shares = np.bincount(truth[name].to_numpy(), minlength=len(rows["value"])) / len(truth)
        errors = np.abs(rows["unbiased"] - shares[np.array(rows["value"], np.int64)])
        assert (errors <= BEYOND * np.array(rows["standard_error"])).all()
    mean = pq.read_table(folder / "release" / "mean" / "mean.parquet").to_pylist()[0]
    value = np.clip(truth["value"].to_numpy(), -4, 4).mean()
    assert abs(mean["unbiased"] - value) <= BEYOND * mean["standard_error"]
