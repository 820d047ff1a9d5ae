"""Logs of nothing, of a row or three, of nulls alone: released, withheld or refused, never 3."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

LEVELS = "strings --search levels --column value --max-length 3"
VALUES = "--column value --domain vals.txt"
NUMBER = "--column x --bounds 0,10"
GROUPS = "--group-by g --groups 0..3"
ROW = "vector-mean --number a=0,1 --number b=0,1"
LOCAL = "--model local --min-reports 1"
COMMANDS = {
    "count": f"count {VALUES} --user-column u --rows-per-user 2 --per-value 3",
    "count by devices": f"count {VALUES} --dummies devices --enrolled 100",
    "sum": f"sum {NUMBER}",
    "sums": f"sum {NUMBER} {GROUPS}",
    "sum by devices": f"sum {NUMBER} --dummies devices --enrolled 100",
    "sum by split-mix": f"sum {NUMBER} --mechanism split-mix --enrolled 100",
    "mean": f"mean {NUMBER} {LOCAL}",
    "means": f"mean {NUMBER} {LOCAL} {GROUPS}",
    "mean, shuffled": f"mean {NUMBER}",
    "mean of counters": f"mean {NUMBER} --dummies shuffler",
    "means of counters": f"mean {NUMBER} --dummies shuffler {GROUPS}",
    "mean by split-mix": f"mean {NUMBER} --dummies shuffler --mechanism split-mix --enrolled 100",
    "row": f"{ROW} {LOCAL}",
    "row with a category": f"{ROW} {LOCAL} --category value=vals.txt",
    "row of counters": f"{ROW} --category value=vals.txt --dummies shuffler",
    "distribution": f"distribution {NUMBER} {LOCAL}",
    "distribution of counters": f"distribution {NUMBER} --dummies shuffler",
    "cross-tab": "cross-tab --columns value g --domains value=vals.txt g=0..3",
    "histogram": f"histogram {VALUES} {LOCAL}",
    "central histogram": f"histogram {VALUES} --dummies job",
    "histogram of counters": f"histogram {VALUES} --dummies shuffler",
    "strings by levels": f"{LEVELS} {LOCAL}",
    "strings by counted levels": f"{LEVELS} --dummies shuffler",
    "strings by a threshold": "strings --column value --user-column u",
    "active users": "active-users --time t --day 2026-11-20 --user-column u",
}
LOGS = ("0", "1", "2", "3", "nulls")
QUICK = {("sum", "0"), ("row", "1"), ("row", "nulls"), ("row", "0"), ("means of counters", "1")}


def log(which: str) -> pa.Table:
    """So many rows that are all alike, or three of nothing."""
    n, nulls = (3, True) if which == "nulls" else (int(which), False)

    def column(value: Any, kind: pa.DataType) -> pa.Array:
        return pa.array([None if nulls else value] * n, kind)

    return pa.table(
        {
            "u": pa.array([f"u{i}" for i in range(n)], pa.string()),
            "value": column("a", pa.string()), "x": column(3.5, pa.float64()),
            "g": column(1, pa.int64()), "a": column(0.5, pa.float32()),
            "b": column(0.25, pa.float32()),
            "t": column(datetime(2026, 11, 20, 5), pa.timestamp("us")),
        }
    )  # fmt: skip


@pytest.mark.verify
@pytest.mark.parametrize(
    ("case", "which"),
    [
        pytest.param(case, which, marks=[pytest.mark.verify] * ((case, which) not in QUICK))
        for case in COMMANDS
        for which in LOGS
    ],
)
def test_every_kind_ends_well(case: str, which: str, run: Any, workspace: Path) -> None:
    Path("vals.txt").write_text("a\nb\nc\n")
    pq.write_table(log(which), "log.parquet")
    words = [*COMMANDS[case].split(), "--epsilon", "1", "--input", "log.parquet", "--output", "o"]
    outcome = run(words)
    assert outcome.code in (0, 1, 2), outcome.said
    # Of so few rows noise alone may look like a log without values, whose share is published.
    share_alone = "that share alone is published" in outcome.said.replace("\n", " ")
    assert Path("o").exists() == (outcome.code == 0 or share_alone)
    if outcome.code == 1:
        assert "withheld: " in outcome.err
