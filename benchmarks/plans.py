"""What ten metrics of one log cost together, beside what each costs alone.

Every run is a process of its own, the table's figures are CPU seconds, each the median of several
rounds. A plan reads the log once, so ten metrics should cost less than twice one metric's reading
and what the ten mechanisms cost: each alone, without reading its column. What a process needs to
start, imports above all, counts nowhere. HUSHBEAM_ROWS says how many rows the log has (10,000,000),
HUSHBEAM_ROUNDS how often each run is made (3).
"""

from __future__ import annotations

import os
import resource
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


# What every process of a sort imports before or while it runs.
_READS = "import apache_beam, transforms.telemetry, apache_beam.runners.direct.direct_runner"
_RUNS = "import pipelines.cli, pipelines.plan.command, matplotlib.figure; " + "; ".join(
    f"from pipelines.kinds import find; find({kind!r})" for kind in ("histogram", "mean")
)


def main() -> None:
    """Make a log; round after round, read it, run each metric alone and all together."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        costs = _medians([_round(folder) for _ in range(ROUNDS)])
    reading = [costs[f"read {kind}"] - costs["import to read"] for kind in range(2)]
    alone = [costs[f"alone {number}"] - costs["import to run"] for number in range(_METRICS)]
    own = [each - reading[number // _OF_A_KIND] for number, each in enumerate(alone)]
    together = costs["together"] - costs["import to run"]
    table = Table(title=f"{_METRICS} metrics of {ROWS:,} rows, CPU seconds without start-up")
    for heading in ("reading one column", "each alone", "their sum", "together", "allowed"):
        table.add_column(heading, justify="right")
    read = statistics.fmean(reading)
    each = f"{min(alone):.2f} to {max(alone):.2f}"
    allowed = 2 * read + sum(own)
    table.add_row(f"{read:.2f}", each, f"{sum(alone):.2f}", f"{together:.2f}", f"{allowed:.2f}")
    Console().print(table)


def _round(folder: str) -> dict[str, float]:
    """The cost of every sort of process, one after the other."""
    costs = {
        f"import to {verb}": _python(text) for verb, text in (("read", _READS), ("run", _RUNS))
    }
    for kind in range(2):
        files, column = f"{folder}/log-*.parquet", f"c{kind * _OF_A_KIND}"
        costs[f"read {kind}"] = _python(_READ.format(files=files, column=column))
    for number in range(_METRICS):
        costs[f"alone {number}"] = _run(folder, [number], 0.1)
    costs["together"] = _run(folder, list(range(_METRICS)), 0.1 * _METRICS)
    return costs


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


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
    cost = _cpu([sys.executable, "-m", "pipelines.cli", "run", str(path)])
    shutil.rmtree(Path(folder) / f"out-{name}")  # the next round makes it again
    return cost


def _metric(number: int) -> str:
    if number < _OF_A_KIND:
        asked = "kind: histogram, domain: 0..99, mechanism: grr"
    else:
        asked = 'kind: mean, bounds: "0,1", mechanism: hm'
    return f"  - {{name: m{number}, column: c{number}, {asked}}}\n"


def _python(text: str) -> float:
    """Some lines of Python in a process of their own."""
    return _cpu([sys.executable, "-c", text])


def _cpu(words: list[str]) -> float:
    """CPU seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, cwd=_ROOT, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
