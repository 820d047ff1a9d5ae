"""DP-SGD gets better with epsilon, and never as good as without noise."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest


@pytest.mark.verify
def test_accuracy_of_dp_sgd_grows_with_epsilon(run) -> None:
    words = ["--study", "dp-sgd", "--systems", "softmax", "softmax-exact", "--jobs", "1"]
    more = ["--epsilons", "0.5", "8", "--data", "digits:1000", "--repetitions", "1"]
    outcome = run(["evaluate", "train", *words, *more, "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    rows = pq.read_table("out/results.parquet").to_pylist()
    right = {(row["system"], row["epsilon"]): row["accuracy"] for row in rows}
    assert right["softmax", 0.5] + 0.1 < right["softmax", 8.0] < right["softmax-exact", 8.0] + 0.05
    assert right["softmax-exact", 8.0] > 0.9
    assert {row["private"] for row in rows if row["system"] == "softmax-exact"} == {False}
    assert len({row["sigma"] for row in rows}) == 3
    assert Path("out/accuracy-by-epsilon-delta-1e-05.svg").exists()
