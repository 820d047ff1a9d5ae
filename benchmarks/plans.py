"""What ten metrics of one log cost together, beside what each costs alone.

Every run is a process of its own, without further workers, and tells its CPU seconds from when all
is imported. The table holds the least of several rounds, for other work on the machine only adds. A
plan reads the log once, so ten metrics should cost less than twice one metric's reading and what
the ten mechanisms cost: each alone, without reading its column. HUSHBEAM_ROWS says how many rows
the log has (10,000,000), HUSHBEAM_ROUNDS how often each run is made (3).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

ROWS = int(float(os.environ.get("HUSHBEAM_ROWS", "1e7")))
ROUNDS = int(os.environ.get("HUSHBEAM_ROUNDS", "3"))
_METRICS = 10
_OF_A_KIND = _METRICS // 2
_ROOT = Path(__file__).parents[1]

_HEAD = """\
collection: ten
version: 1
input: {folder}/log-*.parquet
output: {folder}/out-{name}
epsilon: {epsilon}
min_reports: {least}
metrics:
"""

_READ = """
import os
import time
import apache_beam as beam
import apache_beam.runners.portability.fn_api_runner.fn_runner
from transforms.rows.telemetry import ReadTelemetry
before = time.process_time()
with beam.Pipeline("FnApiRunner") as pipeline:
    _ = (
        pipeline
        | ReadTelemetry(({files!r},), ({column!r},))
        | beam.Map(lambda table: table.num_rows).with_output_types(int)
        | beam.CombineGlobally(sum)
    )
print(time.process_time() - before, flush=True)
os._exit(0)  # as the command does: threads of libraries may outlive their interpreter
"""

_RUN = """
import os
import time
import apache_beam.runners.portability.fn_api_runner.fn_runner
import pipelines.metrics.reports.shares, pipelines.metrics.reports.means
from pipelines.plan.run import run
before = time.process_time()
run({path!r}, None, ["--direct_num_workers=1"])
print(time.process_time() - before, flush=True)
os._exit(0)  # as the command does: threads of libraries may outlive their interpreter
"""

_PLAN = """
import time
import apache_beam
import dp_accounting
import pipelines.metrics.counting.shapes.tree, pipelines.metrics.statistics.distribution
import pipelines.metrics.statistics.mean
import pipelines.metrics.counting.by_counters, pipelines.metrics.statistics.sum
from pipelines.plan.job import unread_job
from pipelines.plan.loading import load
before = time.process_time()
unread_job(load("examples/flights-counts.yaml"), "all")
print(time.process_time() - before, flush=True)
"""


def main() -> None:
    """Make a log; round after round, read it, run each metric alone and all together."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        rounds = [_round(folder) for _ in range(ROUNDS)]
    costs = {name: min(each[name] for each in rounds) for name in rounds[0]}
    reading = [costs[f"read {kind}"] for kind in range(2)]
    alone = [costs[f"alone {number}"] for number in range(_METRICS)]
    own = [each - reading[number // _OF_A_KIND] for number, each in enumerate(alone)]
    table = Table(title=f"{_METRICS} metrics of {ROWS:,} rows, CPU seconds without imports")
    for heading in ("reading one column", "each alone", "their sum", "together", "allowed"):
        table.add_column(heading, justify="right")
    read = statistics.fmean(reading)
    each, allowed = f"{min(alone):.2f} to {max(alone):.2f}", 2 * read + sum(own)
    cells = (read, sum(alone), costs["together"], allowed)
    first, *rest = (f"{cell:.2f}" for cell in cells)
    table.add_row(first, each, *rest)
    Console().print(table)
    planning = min(_cpu(_PLAN) for _ in range(ROUNDS))
    print(f"planning examples/flights-counts.yaml: {planning:.2f} CPU seconds without imports")


def _round(folder: str) -> dict[str, float]:
    """What every sort of run costs, one after the other."""
    costs = {}
    for kind in range(2):
        files, column = f"{folder}/log-*.parquet", f"c{kind * _OF_A_KIND}"
        costs[f"read {kind}"] = _cpu(_READ.format(files=files, column=column))
    for number in range(_METRICS):
        costs[f"alone {number}"] = _run(folder, [number], 0.1)
    costs["together"] = _run(folder, list(range(_METRICS)), 0.1 * _METRICS)
    return costs


def _write(folder: Path) -> None:
    """Half of the columns are categories, half are numbers."""
    draws = np.random.default_rng(7)
    for part in range(10):
        size = ROWS // 10
        columns = {f"c{n}": draws.integers(0, 100, size, np.int32) for n in range(_OF_A_KIND)}
        columns |= {f"c{n}": draws.random(size) for n in range(_OF_A_KIND, _METRICS)}
        pq.write_table(pa.table(columns), folder / f"log-{part}.parquet")


def _run(folder: str, numbers: list[int], epsilon: float) -> float:
    """One plan in a process of its own."""
    name = "-".join(map(str, numbers))
    head = _HEAD.format(folder=folder, name=name, epsilon=epsilon, least=int(0.9 * ROWS))
    path = Path(folder) / f"plan-{name}.yaml"
    path.write_text(head + "".join(_metric(number) for number in numbers))
    cost = _cpu(_RUN.format(path=str(path)))
    shutil.rmtree(Path(folder) / f"out-{name}")  # the next round makes it again
    return cost


def _metric(number: int) -> str:
    if number < _OF_A_KIND:
        asked = "kind: histogram, domain: 0..99, mechanism: grr"
    else:
        asked = 'kind: mean, bounds: "0,1", mechanism: hm'
    return f"  - {{name: m{number}, column: c{number}, {asked}}}\n"


def _cpu(program: str) -> float:
    """The CPU seconds that a program says last, run in a process of its own."""
    words = [sys.executable, "-c", program]
    ran = subprocess.run(words, check=True, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    return float(ran.stdout.split()[-1])
