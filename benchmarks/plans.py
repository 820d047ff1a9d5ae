"""What ten metrics of one log cost together, beside what each costs alone.

Every run is a process of its own, the table's figures are CPU seconds. A plan reads the log once,
so ten metrics should cost less than twice one metric's reading and what the ten mechanisms cost.
HUSHBEAM_ROWS says how many rows the log has (10,000,000).
"""

from __future__ import annotations

import os
import resource
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
_METRICS = 10
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
import apache_beam as beam
from transforms.telemetry import ReadTelemetry
with beam.Pipeline("FnApiRunner") as pipeline:
    _ = (
        pipeline
        | ReadTelemetry(({files!r},), ({column!r},))
        | beam.Map(lambda table: table.num_rows).with_output_types(int)
        | beam.CombineGlobally(sum)
    )
"""


def main() -> None:
    """Make a log, run each metric alone and all together."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        start = _cpu([sys.executable, "-c", "import pipelines.single, pipelines.plan.run"])
        files = f"{folder}/log-*.parquet"
        beam = _cpu([sys.executable, "-c", "import apache_beam, transforms.telemetry"])
        read = _cpu([sys.executable, "-c", _READ.format(files=files, column="c0")]) - beam
        alone = [_run(folder, [number], 0.1) - start for number in range(_METRICS)]
        together = _run(folder, list(range(_METRICS)), 0.1 * _METRICS) - start
    table = Table(title=f"{_METRICS} metrics of {ROWS:,} rows, CPU seconds without start-up")
    for heading in ("reading one column", "each alone", "their sum", "together", "allowed"):
        table.add_column(heading, justify="right")
    allowed = 2 * read + sum(each - read for each in alone)
    each = f"{min(alone):.2f} to {max(alone):.2f}"
    table.add_row(f"{read:.2f}", each, f"{sum(alone):.2f}", f"{together:.2f}", f"{allowed:.2f}")
    Console().print(table)


def _write(folder: Path) -> None:
    """Half of the columns are categories, half are numbers."""
    draws = np.random.default_rng(7)
    for part in range(10):
        size = ROWS // 10
        columns = {f"c{n}": draws.integers(0, 100, size, np.int32) for n in range(_METRICS // 2)}
        columns |= {f"c{n}": draws.random(size) for n in range(_METRICS // 2, _METRICS)}
        pq.write_table(pa.table(columns), folder / f"log-{part}.parquet")


def _run(folder: str, numbers: list[int], epsilon: float) -> float:
    """One plan in a process of its own."""
    name = "-".join(map(str, numbers))
    head = _HEAD.format(folder=folder, name=name, epsilon=epsilon, least=int(0.9 * ROWS))
    path = Path(folder) / f"plan-{name}.yaml"
    path.write_text(head + "".join(_metric(number) for number in numbers))
    return _cpu([sys.executable, "-m", "pipelines.cli", "run", str(path)])


def _metric(number: int) -> str:
    if number < _METRICS // 2:
        asked = "kind: histogram, domain: 0..99, mechanism: grr"
    else:
        asked = 'kind: mean, bounds: "0,1", mechanism: hm'
    return f"  - {{name: m{number}, column: c{number}, {asked}}}\n"


def _cpu(words: list[str]) -> float:
    """CPU seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, cwd=_ROOT, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
