"""A stream on this machine: reports a second, sustained over many windows, and memory meanwhile."""

from __future__ import annotations

import os
import resource
import tempfile
import time
import warnings
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from mechanisms.randomness import SeededRandom
from pipelines.jobs.run import beam_options
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from pipelines.stream.driver import Driver
from pipelines.stream.state import State
from pipelines.stream.windows import streamed
from transforms.windows import SECOND

TARGET = 200_000  # reports a second
MANY = 100  # windows
GROWS = 1.05  # of memory, from the first quarter of many windows to their end, at most

_BEGIN = int(datetime(2026, 11, 20, tzinfo=timezone.utc).timestamp())
_PLAN = """\
collection: bench
version: 1
unit: {unit}
input: {folder}/landing/*.parquet
output: {folder}/out/{{window}}
epsilon: 2.0
min_reports: 10000
stream: {{window: 1min, state: "{folder}/state", time: at}}
metrics:
  - {{name: city, kind: histogram, column: city, domain: "0..99"}}
"""
_HEADINGS = (
    "unit", "windows", "rows a window", "reports / wall s", "reports / CPU s",
    "resident, after 1/4 and at the end",
)  # fmt: skip
_USERS = "user per window\nuser_column: user"


def main() -> None:
    """Windows of rows, with and without users; and many small windows for the memory."""
    warnings.simplefilter("ignore")
    screen = Console(width=120)
    windows = int(os.environ.get("HUSHBEAM_WINDOWS", "500"))
    for unit, count, rows in (
        ("row", 6, 2_000_000), (_USERS, 6, 2_000_000), (_USERS, windows, 12_000),
    ):  # fmt: skip
        table = Table(title="a stream: one report a row, one release a window")
        for heading in _HEADINGS:
            table.add_column(heading, justify="right")
        table.add_row(*_measured(unit, count, rows))
        screen.print(table)
    screen.print(f"target: {TARGET:,} reports a second; memory flat")


def _measured(unit: str, windows: int, rows: int) -> list[str]:
    """One row of the table: each window's file lands when the one before was taken in."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "landing").mkdir()
        Path(folder, "plan.yaml").write_text(_PLAN.format(unit=unit, folder=folder))
        plan = streamed(load(f"{folder}/plan.yaml"))
        state = State(plan.stream.state, mark(plan.plan).hex())
        driver = Driver(plan, state, beam_options([]), Console(quiet=True))
        wall, cpu, resident = 0.0, 0.0, []
        for window in range(windows):
            _land(folder, window, rows)
            begun, used = time.perf_counter(), time.process_time()
            driver.step()
            wall += time.perf_counter() - begun
            cpu += time.process_time() - used
            resident.append(_resident())
        driver.drain()
        state.close()
        made = len(list(Path(folder, "out").glob("*/statement.json")))
        if made != windows:
            raise SystemExit(f"{made} of {windows} windows were released")
    total = windows * rows
    if windows >= MANY and resident[-1] > GROWS * resident[windows // 4]:
        raise SystemExit(f"memory grows over {windows} windows: {resident[:: windows // 20]}")
    grown = f"{resident[windows // 4] >> 20} MB, {resident[-1] >> 20} MB"
    name = unit.splitlines()[0]
    return [name, str(windows), f"{rows:,}", f"{total / wall:,.0f}", f"{total / cpu:,.0f}", grown]


def _land(folder: str, window: int, rows: int) -> None:
    """A window's file, under another name first."""
    rng = SeededRandom(window)
    at = (_BEGIN + 60 * window) * SECOND + rng.integers(60 * SECOND, rows).astype(np.int64)
    table = pa.table(
        {
            "at": pa.array(at, pa.timestamp("us")),
            "user": rng.permutation(rows).astype(np.int64),
            "city": rng.integers(100, rows).astype(np.int32),
        }
    )
    pq.write_table(table, f"{folder}/landing/.partial")
    os.rename(f"{folder}/landing/.partial", f"{folder}/landing/{window:04d}.parquet")


def _resident() -> int:
    """Bytes of memory this process has now; its largest, where that cannot be told."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main()
