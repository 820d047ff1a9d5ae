"""Whether every row is counted once, again and again: an engine that loses some says nothing.

    python -m benchmarks conserved
    python -m benchmarks.conserved RUNS [ROWS]

Beam's mode of threads lost whole blocks in 7 of 40 such runs over ten million rows, and none over a
million. A run that hushbeam itself refuses for rows that were lost counts as one that lost some.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.job import DOMAIN, write_log
from benchmarks.measure import installed

RUNS, ROWS = 40, 10_000_000
_GRR = ["histogram", "--column", "category", "--domain", f"0..{DOMAIN - 1}", "--epsilon", "1"]
_USERS = ["--user-column", "user_id", "--min-reports", "100"]
WAYS = {
    "shuffled": [*_GRR, "--mechanism", "grr"],
    "fused": [*_GRR, "--mechanism", "grr", "--shuffler", "fused"],
    "users": [*_GRR, "--mechanism", "grr", *_USERS],
}


def main(runs: int = RUNS, rows: int = ROWS) -> None:
    """Count in every way, in one process and in two workers, in turn."""
    lost = {(name, workers): 0 for name in WAYS for workers in (1, 2)}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.parquet")
        write_log(log, rows)
        users = np.unique(pq.read_table(log, columns=["user_id"])["user_id"].to_numpy()).size
        for turn in range(runs):
            for name, workers in lost:
                n = users if name == "users" else rows
                output = Path(folder, f"{name}{workers}.{turn}")
                lost[name, workers] += _counted(log, output, WAYS[name], workers) != (n, rows)
    for (name, workers), number in lost.items():
        print(f"{name}, {workers} worker(s): {number} of {runs} runs over {rows:,} rows lost some")
    print(f"{time.perf_counter() - began:.0f} s")
    if any(lost.values()):
        sys.exit(1)


def _counted(log: Path, output: Path, words: list[str], workers: int) -> tuple[int, int] | None:
    """How many reports and rows a release stands on; None if there is no release."""
    command = [
        sys.executable, "-m", "pipelines.cli.cli", *words, "--input", str(log),
        "--output", str(output),
        f"--direct_num_workers={workers}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=installed(output.parent))
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    statement = json.loads((output / "statement.json").read_text())
    return statement["n"], statement["rows_read"]


if __name__ == "__main__":
    main(*(int(float(word)) for word in sys.argv[1:]))
