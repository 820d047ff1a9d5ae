"""Every registered mechanism for histograms is a system that can be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mechanisms.catalog import of_task

pytestmark = pytest.mark.verify

SYSTEMS = of_task("frequency")


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_mechanism_is_a_system(run, workspace, name: str) -> None:
    """With a public seed or without: a cell is measured, or refused for a reason of its own."""
    words = ["--systems", name, "grr@local", "--epsilons", "1", "--data", "zipf:20000,8,1"]
    outcome = run(
        ["evaluate", "histogram", *words, "--repetitions", "1", "--jobs", "1", "--output", "out"]
    )
    assert outcome.code == 0, outcome.said
    assert "failed" not in outcome.said
    measured = {row["system"] for row in pq.read_table("out/results.parquet").to_pylist()}
    refused = json.loads(Path("out/refused.json").read_text())
    assert name in measured or any(name in str(entry) for entry in refused)
