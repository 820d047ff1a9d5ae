"""Differences are taken run by run."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from hushbeam.studies.engine.differences import Differences
from hushbeam.studies.engine.measure import Measure

FOLDS = tuple(f"fold_{number}" for number in range(5))
DIFFERENCES = Differences(Measure("mse", "error", parts=FOLDS), "default")


def test_differences_are_taken_on_the_same_folds() -> None:
    results = [
        {"data": "x", "n": 10, "epsilon": 1.0, "system": system, "private": True,
         "repetition": repetition,
         **{fold: repetition + place + more for place, fold in enumerate(FOLDS)}}
        for system, more in (("default", 0.0), ("pm", 0.25), ("hm", -0.5))
        for repetition in (1, 0)
    ]  # fmt: skip
    # Where the default was refused there is nothing to compare with.
    results.append({**results[-1], "epsilon": 700.0})
    table = list(DIFFERENCES.rows(results))
    assert pa.Table.from_pylist(table, DIFFERENCES.columns).num_rows == 3
    rows = {row["system"]: row for row in table}
    assert (rows["pm"]["difference"], rows["pm"]["difference_error"]) == (0.25, 0.0)
    assert rows["pm"]["runs"] == 10
    spread = np.std([0, 1, 2, 3, 4, 1, 2, 3, 4, 5], ddof=1) / math.sqrt(10)
    assert rows["hm"]["mse_error"] == pytest.approx(spread)
    first, *better = DIFFERENCES.sentences(table)
    assert "in 1 of 2 comparisons" in first
    assert better == ["hm on x (n = 10) at epsilon 1: 0.5 +- 0 better"]
