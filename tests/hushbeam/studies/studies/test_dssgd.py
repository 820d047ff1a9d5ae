"""Participants gain by sharing, and noise that protects nobody says so."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow.parquet as pq

from hushbeam.studies.studies.dssgd import COLUMNS

DSSGD = ["evaluate", "train", "--study", "dssgd", "--jobs", "1"]


def test_participants_gain_by_sharing(run) -> None:
    words = [*DSSGD, "--systems", "largest", "noisy", "alone", "centralised"]
    more = ["--shares", "0.1", "1", "--participants", "10", "--data", "digits:600"]
    outcome = run([*words, *more, "--epochs", "4", "--repetitions", "1", "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    table = pq.read_table("out/results.parquet")
    assert table.schema == COLUMNS
    rows = table.to_pylist()
    right = {(row["system"], row["theta_u"]): row["accuracy"] for row in rows}
    # Of 120 held back, a standard error is below 0.05; the gaps are ten times as large.
    assert right["largest", 1.0] > right["alone", None] + 0.2
    assert right["centralised", None] > right["alone", None] + 0.2
    assert len(rows) == 6
    for row in rows:
        noisy = row["system"] == "noisy"
        assert (row["epsilon_of_the_run"] is not None) == noisy
        assert (row["epsilon_of_a_value"], row["delta"]) == ((1, 1e-5) if noisy else (None, None))
        assert (row["server"] is None) == (row["system"] in ("alone", "centralised"))
        assert row["participants"] == (1 if row["system"] == "centralised" else 10)
    assert min(row["epsilon_of_the_run"] or math.inf for row in rows) > 100
    assert "largest 10 participants, theta_u 0.1: accuracy 0." in outcome.out
    assert "centralised: accuracy 0." in outcome.out
    assert "which protects nobody" in outcome.out
    assert "alone 10" in Path("out/accuracy-by-share.svg").read_text()


def test_participants_may_train_a_convolution(run) -> None:
    words = [*DSSGD, "--model", "convolution", "--systems", "largest", "alone", "--shares", "1"]
    more = ["--participants", "5", "--data", "digits:600", "--epochs", "4", "--repetitions", "1"]
    assert run([*words, *more, "--output", "out"]).code == 0
    rows = pq.read_table("out/results.parquet").to_pylist()
    right = {row["system"]: row["accuracy"] for row in rows}
    assert {row["model"] for row in rows} == {"convolution"}
    # Of 120 held back, a standard error is below 0.05.
    assert right["largest"] > max(right["alone"] + 0.2, 0.4)
