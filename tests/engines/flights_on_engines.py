"""The flights plan on Prism and on Flink: what it finds, and what a dying machine does to it.

pytest does not pick this file by itself: engines take minutes to fetch. `make test-engines` does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.engines import has_open
from deploy.engines import Running, running
from deploy.worker_pools import Pool
from pipelines.ledger.ledger import CollectionLedger
from tests.fakes.ledgers import begun_by

ROOT = Path(__file__).parents[2]
LOG = ROOT / "examples" / "flights.parquet"
TIMEOUT = 600.0  # seconds for one run

# Of normal errors beyond it, 1.3e-12 are: with the 1,460 comparisons of a run, 2e-9 a run at most.
BEYOND = 7.1

# Engines that end a job whose worker has died. The others start the lost part again.
GIVES_UP = {"prism"}

Start = Callable[[Path], subprocess.Popen[str]]


@pytest.fixture(params=["prism", "flink"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """An engine with two worker pools."""
    with running(request.param, tmp_path) as engine:
        yield engine


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """The example, with a budget that covers its release once."""
    text = (ROOT / "examples" / "flights.yaml").read_text()
    # Reports travel through every step: encode, perturb, shuffle, count.
    text = text.replace("metrics:\n", "drawn_by: each-report\nmin_reports: 300000\nmetrics:\n")
    for file in ("flights.parquet", "airports.txt"):
        text = text.replace(f": {file}", f": {ROOT}/examples/{file}")
    text = text.replace("output: ../flights-release", f"output: {tmp_path}/release")
    text = text.replace("ledger: ../flights-ledger.sqlite", f"ledger: {tmp_path}/ledger.sqlite")
    path = tmp_path / "flights.yaml"
    path.write_text(text.replace("budget: {epsilon: 10, delta", "budget: {epsilon: 1, delta"))
    begun_by(path)
    return path


@pytest.fixture
def start(engine: Running) -> Start:
    """Start the plan on the engine."""
    command = [sys.executable, "-m", "pipelines.cli.cli", "run"]
    return lambda plan: subprocess.Popen(
        [*command, str(plan), *engine.options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def said(run: subprocess.Popen[str]) -> str:
    """What a run said until it ended."""
    return run.communicate(timeout=TIMEOUT)[0]


def test_finds_what_is_there(start: Start, plan: Path, tmp_path: Path) -> None:
    run = start(plan)
    told = said(run)
    assert run.returncode == 0, told
    require_right(tmp_path)
    run = start(plan)
    told = said(run)
    assert run.returncode == 0, told
    assert "released before, and not made again" in told
    assert states(tmp_path) == ["committed"]


def test_a_machine_dies_in_the_middle(
    engine: Running, start: Start, plan: Path, tmp_path: Path
) -> None:
    run = start(plan)
    reading_pool(engine, run).kill()
    assert not (tmp_path / "release").exists()
    told = said(run)
    if engine.name in GIVES_UP:  # then nothing is published, nothing spent, and a rerun completes
        assert run.returncode == 3, told
        assert not (tmp_path / "release").exists()
        assert states(tmp_path) == ["returned"]
        run = start(plan)
        told = said(run)
    assert run.returncode == 0, told
    require_right(tmp_path)
    assert states(tmp_path)[-1] == "committed"
    assert states(tmp_path).count("committed") == 1
    assert list(tmp_path.glob(".release*")) == []


def reading_pool(engine: Running, run: subprocess.Popen[str]) -> Pool:
    """The pool whose worker has the log open: rows are on their way."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and run.poll() is None:
        for pool in engine.pools:
            if any(has_open(worker, LOG) for worker in pool.workers):
                return pool
        time.sleep(0.002)
    run.kill()
    raise AssertionError(f"no worker was seen reading: {said(run)}")


def states(folder: Path) -> list[str]:
    """Of the ledger's entries, in order."""
    return [entry.state for entry in CollectionLedger.open(str(folder / "ledger.sqlite")).entries()]


def require_right(folder: Path) -> None:
    """Every estimate within its error of the truth, and every row counted once."""
    truth = pq.read_table(LOG)
    statement = json.loads((folder / "release" / "statement.json").read_text())
    assert statement["metrics"] == ["origin", "delay", "distance"]
    delays = np.clip(truth["departure_delay"].drop_null().to_numpy(), -30, 180)
    for name in statement["metrics"]:
        about = json.loads((folder / "release" / name / "statement.json").read_text())
        # Who has no delay says so in a report, as good as any other.
        assert about["n"] == about["rows_read"] == len(truth)
        assert about["release_id"] == statement["release_id"]
        if name == "delay":
            require_near(about["mean"]["unbiased"], delays.mean(), about["mean"]["standard_error"])
    mean = pq.read_table(folder / "release" / "distance" / "mean.parquet").to_pylist()[0]
    require_near(mean["unbiased"], pc.mean(truth["distance"]).as_py(), mean["standard_error"])
    counts = {row["values"]: row["counts"] for row in truth["origin"].value_counts().to_pylist()}
    for row in pq.read_table(folder / "release" / "origin" / "histogram.parquet").to_pylist():
        share = counts.get(row["value"], 0) / len(truth)
        require_near(row["unbiased"], share, row["standard_error"])


def require_near(estimate: float, truth: float, error: float) -> None:
    assert abs(estimate - truth) <= BEYOND * error
