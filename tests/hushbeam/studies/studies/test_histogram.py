"""Every registered mechanism for histograms is a system that can be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hushbeam.studies.studies.histogram import STUDY
from mechanisms.catalog import of_task

pytestmark = pytest.mark.verify

SYSTEMS = of_task("frequency")


def test_every_mechanism_is_a_system(run, workspace) -> None:
    """With a public seed or without: a cell is measured, or refused for a reason of its own."""
    words = ["--systems", *SYSTEMS, "--epsilons", "1", "--data", "zipf:20000,8,1"]
    outcome = run(
        ["evaluate", "histogram", *words, "--repetitions", "1", "--jobs", "1", "--output", "out"]
    )
    assert outcome.code == 0, outcome.said
    assert "failed" not in outcome.said
    measured = {row["system"] for row in pq.read_table("out/results.parquet").to_pylist()}
    refused = {entry["system"] for entry in json.loads(Path("out/refused.json").read_text())}
    assert measured | refused == set(SYSTEMS)


def test_liars_and_messages_are_drawn(run, workspace) -> None:
    words = ["--systems", "counters", "sbin:published", "fme", "poisson", "laplace"]
    more = ["--epsilons", "1", "--data", "zipf:2000,2000,1.2", "--liars", "0", "0.05"]
    asked = ["evaluate", "histogram", *words, *more, "--repetitions", "3", "--jobs", "1"]
    outcome = run([*asked, "--output", "out"])
    assert outcome.code == 0, outcome.said
    table = pq.read_table("out/results.parquet")
    assert table.schema.equals(STUDY.columns)
    for row in table.to_pylist():
        assert (row["gain"] is None) == (row["liars"] == 0)
        assert (row["predicted_mse"] is None) == (row["system"] == "fme")
        if row["liars"]:
            # 100 of 2,000 push up; noise of some 10 counts, but for sbin's 11.3: 6.5 of these.
            assert abs(row["gain"] - 0.05) < 0.04 or row["system"] == "poisson"
    collected = {row["system"]: row["collected"] for row in table.to_pylist()}
    assert collected["laplace"] == 1
    assert collected["counters"] == pytest.approx(1 + 27, rel=0.05)
    named = "epsilon-1-delta-1e-06"
    names = {path.name for path in workspace.glob("out/*.svg")}
    assert names == {
        f"mse-by-liars-{named}.svg", f"mse-by-collected-{named}.svg",
        f"mse-by-collected-{named}-liars-0.05.svg",
    }  # fmt: skip
    drawn = Path(f"out/mse-by-liars-{named}.svg").read_text()
    assert ">fme<" in drawn
    assert "% malicious clients" not in drawn  # one line a system
