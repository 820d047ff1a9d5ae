"""Whole jobs on Beam's local runner: rows per CPU second, memory.

Each run is a process of its own. Two figures are given: `job`, CPU time from the first step of
the pipeline to its release, and `process`, which adds starting Python and importing Beam.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.measure import peak_memory, run_apart

ROWS, DOMAIN, REPEATS = 10_000_000, 915, 3
PLACES = 1_092  # pairs of them and of values, and all others, are a million
_VALUES = ["--column", "category", "--domain", f"0..{DOMAIN - 1}"]
_GRR = ["histogram", *_VALUES, "--mechanism", "grr"]
VARIANTS = {
    "read and count, no privacy": [],
    "grr, shuffled": _GRR,
    "grr, fused": [*_GRR, "--shuffler", "fused"],
    "srr, shuffled": ["histogram", *_VALUES, "--mechanism", "srr"],
    "olh, local": ["histogram", *_VALUES, "--mechanism", "olh", "--model", "local"],
    "grr, shuffled, bounded per user": [
        *_GRR, "--user-column", "user_id", "--min-reports", "2000000",
    ],
    "count by value, presence hidden": ["count", *_VALUES],
    "the same, 10 values a user": [
        "count", *_VALUES, "--user-column", "user_id", "--rows-per-user", "10",
    ],
    "cross-tab, a million keys": [
        "cross-tab", "--columns", "category", "place", "--domains", f"category=0..{DOMAIN - 1}",
        f"place=0..{PLACES - 1}",
    ],
    "heavy hitters among numbers": ["strings", "--search", "levels", "--column", "place"],
    "sum, presence hidden": ["sum", "--column", "value", "--bounds", "0,3"],
}  # fmt: skip


def write_log(path: Path, rows: int) -> None:
    """A log of Zipf values; a user has three rows on average."""
    rng = np.random.default_rng(1)
    weights = 1 / np.arange(1, DOMAIN + 1) ** 1.1
    table = {
        "user_id": rng.integers(0, rows // 3, rows),
        "category": rng.choice(DOMAIN, rows, p=weights / weights.sum()).astype(np.int32),
        "value": rng.normal(size=rows),
        "place": rng.integers(0, PLACES, rows).astype(np.int32),
    }
    pq.write_table(pa.table(table), path, row_group_size=1 << 18)


def plain(log: str) -> None:
    """The least any job could do: read the column and count it."""
    import apache_beam as beam

    from transforms.rows.telemetry import ReadTelemetry

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        (
            pipeline
            | ReadTelemetry((log,), ("category",))
            | beam.Map(lambda table: np.bincount(table["category"].to_numpy(), minlength=DOMAIN))
            | beam.CombineGlobally(sum)
        )


def child(log: str, output: str, arguments: list[str]) -> None:
    """One run; prints what it cost."""
    started = time.process_time()
    import apache_beam  # noqa: F401

    from pipelines.cli.cli import main as hushbeam
    from pipelines.metrics.registry import find

    find(arguments[0] if arguments else "histogram")  # the command would import it
    imported = time.process_time()
    if not arguments:
        plain(log)
    else:
        command, *more = arguments
        # One process, whose CPU time is all there is: see benchmarks/cores.py.
        more += ["--input", log, "--epsilon", "1", "--output", output, "--direct_num_workers=1"]
        code = hushbeam([command, *more])
        if code:
            sys.exit(code)
    ended = time.process_time()
    cost = {
        "job": ended - imported, "process": ended, "import": imported - started,
        "peak": peak_memory(),
    }  # fmt: skip
    print(json.dumps(cost), flush=True)
    os._exit(0)  # as the command itself ends; see pipelines.cli.cli.entry


def main() -> None:
    """Measure every variant, in turn, several times; then the growth of memory with rows."""
    table = Table(title=f"{ROWS:,} rows, {DOMAIN} values, medians of {REPEATS} runs")
    for heading in ("job", "M rows / CPU s", "with start-up", "x plain count", "peak MB"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.parquet")
        write_log(log, ROWS)
        runs = {
            (name, i): _run(log, Path(folder, f"{name}{i}"), arguments)
            for i in range(REPEATS)
            for name, arguments in VARIANTS.items()
        }
        cost = {
            name: {
                key: statistics.median(runs[name, i][key] for i in range(REPEATS))
                for key in ("job", "process", "peak")
            }
            for name in VARIANTS
        }
        base = next(iter(cost.values()))
        for name, figures in cost.items():
            table.add_row(
                name, *(f"{ROWS / figures[key] / 1e6:.1f}" for key in ("job", "process")),
                f"{figures['job'] / base['job']:.1f}", f"{figures['peak']:.0f}",
            )  # fmt: skip
        Console(width=120).print(table)
        for rows in (ROWS // 4, ROWS // 2, ROWS):
            smaller = Path(folder, f"{rows}.parquet")
            write_log(smaller, rows)
            peak = _run(smaller, Path(folder, f"growth{rows}"), _GRR)["peak"]
            print(f"grr, shuffled, {rows:>10,} rows: peak {peak:.0f} MB")


def _run(log: Path, output: Path, arguments: list[str]) -> dict[str, float]:
    """One run in a process of its own."""
    return run_apart("benchmarks.job", log, output, arguments)


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], sys.argv[3:])
