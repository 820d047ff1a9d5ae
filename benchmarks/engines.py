"""A plan of four metrics on this machine's Flink cluster, beside the local runner.

    python -m benchmarks engines
    python -m benchmarks.engines 1e8 1e9 [--kill SECONDS] [--only cluster] [--text csv.gz]

What is counted: CPU seconds of all processes of an engine and of the command that gave it the job,
the most memory of each, and the bytes that Flink's tasks handed to one another. `--kill` loses a
task manager once its worker has spent so many CPU seconds on rows, and starts none in its place.
Large logs are hard links to one file: the work is that of as many rows, the disk holds ten million,
and of text a million.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.job import DOMAIN, PLACES, write_log
from deploy.engines import Running, running
from pipelines.ledger.ledger import CollectionLedger

ROWS, FILE, TEXT_FILE = (1_000_000, 10_000_000), 10_000_000, 1_000_000
_HUSHBEAM = [sys.executable, "-m", "pipelines.cli.cli"]
_ROOT = Path(__file__).parents[1]
_EVERY = 0.2  # seconds between two looks at all processes
_TICK, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
PLAN = """\
collection: engines
version: 1
unit: row
input: log/*.{ending}
types: {{category: int, place: int, value: float}}
output: release
ledger: ledger.sqlite
budget: {{epsilon: 2, delta: 1.0e-5}}
epsilon: 1.0
delta: 1.0e-6
min_reports: 100000
metrics:
  - {{name: category, kind: histogram, column: category, domain: 0..{most}, share: 0.4}}
  - {{name: place, kind: histogram, column: place, domain: 0..{last}, share: 0.2}}
  - {{name: value, kind: distribution, column: value, bounds: "-4,4", share: 0.2}}
  - {{name: mean, kind: mean, column: value, bounds: "-4,4", share: 0.2}}
"""


@dataclass
class Meter:
    """What groups of processes use, those included that come and go.

    Attributes:
        groups: a name for each process group.
        peaks: MB of the largest process of each name.
    """

    groups: dict[int, str]
    peaks: dict[str, float] = field(default_factory=dict)
    _cpu: dict[tuple[str, str], float] = field(default_factory=dict)

    def look(self) -> float:
        """Look at all of them once; CPU seconds of all that was ever seen."""
        for entry in Path("/proc").glob("[0-9]*/stat"):
            words = _words(entry)
            name = self.groups.get(int(words[2])) if words else None
            if name is not None:
                # A process's number may come again, its start with it cannot.
                self._cpu[entry.parent.name, words[19]] = _seconds(words)
                memory = int(words[21]) * _PAGE / 1e6
                self.peaks[name] = max(self.peaks.get(name, 0.0), memory)
        return sum(self._cpu.values())


class Cost(NamedTuple):
    """Of one run: seconds, CPU seconds, bytes between Flink's tasks, and `Meter.peaks`."""

    wall: float
    cpu: float
    shuffled: int
    peaks: dict[str, float]


@dataclass
class Kill:
    """The end of a cluster's first task manager, as on a machine that runs out of memory.

    Attributes:
        engine: a cluster.
        after: CPU seconds that its worker is to have spent since it first opened the log.
        log: the folder that is read.
        machine: whether its worker pool goes with it.
    """

    engine: Running
    after: float
    log: Path
    machine: bool = False
    _opened: float | None = None

    def look(self) -> bool:
        """See whether it is time, and then do it; whether it was."""
        pool = self.engine.pools[0]
        for worker in pool.workers:
            used = _seconds(_words(Path(f"/proc/{worker}/stat")))
            if self._opened is None and has_open(worker, self.log):
                self._opened = used
            if self._opened is not None and used >= self._opened + self.after:
                if self.engine.cluster is not None:
                    self.engine.cluster.task_managers[0].send_signal(signal.SIGKILL)
                if self.machine:
                    pool.kill()
                return True
        return False


def prepare(folder: Path, rows: int, ending: str = "parquet") -> None:
    """A plan, its log and its ledger in a folder."""
    log = folder / "log"
    log.mkdir(parents=True)
    files = max(1, rows // (FILE if ending == "parquet" else TEXT_FILE))
    write_log(folder / "0.parquet", rows // files)
    first = as_text(folder / "0.parquet", ending)
    for i in range(files):
        os.link(first, log / f"{i}.{ending}")
    (folder / "plan.yaml").write_text(PLAN.format(ending=ending, most=DOMAIN - 1, last=PLACES - 1))
    subprocess.run([*_HUSHBEAM, "ledger", "init", "plan.yaml"], cwd=folder, env=_env(), check=True)


def as_text(log: Path, ending: str) -> Path:
    """A Parquet file as CSV or JSON lines; itself where it is to stay one."""
    path = log.with_suffix(f".{ending}")
    if ending == "jsonl":
        records = pq.read_table(log).to_pylist()
        with path.open("wb") as file:
            file.writelines(orjson.dumps(record) + b"\n" for record in records)
    elif ending != "parquet":  # Arrow compresses by a file's name
        with pa.output_stream(str(path)) as file:
            pyarrow.csv.write_csv(pq.read_table(log), file)
    return path


def run(folder: Path, rows: int, engine: Running | None, kill: Kill | None = None) -> Cost:
    """Release the plan once, and see that nothing is missing from it.

    Args:
        folder: that was prepared.
        rows: of the log.
        engine: where; None for the local runner.
        kill: what is to happen meanwhile.

    Raises:
        RuntimeError: it failed, or a row is missing, or came twice, or nothing was killed.
    """
    meter = Meter({} if engine is None else groups_of(engine))
    before = meter.look()
    command = [*_HUSHBEAM, "run", "plan.yaml", *(engine.options if engine else ())]
    started = time.monotonic()
    with (folder / "said").open("wb") as said:
        client = subprocess.Popen(
            command, cwd=folder, env=_env(), stdout=said, stderr=said, start_new_session=True
        )
    meter.groups[client.pid] = "command"
    while client.poll() is None:
        cpu = meter.look() - before
        if kill is not None and kill.look():
            kill = None
        time.sleep(_EVERY)
    wall = time.monotonic() - started
    if client.returncode or kill is not None:
        words = (folder / "said").read_text()[-2000:]
        raise RuntimeError(f"exit code {client.returncode}, killed: {kill is None}: {words}")
    require_whole(folder, rows)
    flinks = None if engine is None else engine.cluster
    return Cost(wall, cpu, 0 if flinks is None else flinks.shuffled(), meter.peaks)


def has_open(process: int, path: Path) -> bool:
    """Whether a process has a file open, or one in a folder."""
    try:
        folder = f"/proc/{process}/fd"
        names = [os.readlink(f"{folder}/{each}") for each in os.listdir(folder)]
    except OSError:  # it has closed a file, or has ended, while we looked
        return False
    return any(Path(name).is_relative_to(path) for name in names)


def _words(stat: Path) -> list[str]:
    """What /proc says of a process, behind its name; nothing once it has ended."""
    try:
        return stat.read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _seconds(words: list[str]) -> float:
    """Its CPU time."""
    return (int(words[11]) + int(words[12])) / _TICK if words else 0.0


def groups_of(engine: Running) -> dict[int, str]:
    """A name for the process group of each part of an engine."""
    groups = {pool.process.pid: "worker" for pool in engine.pools}
    groups[engine.server.pid] = "job server"
    if engine.cluster is not None:
        groups[engine.cluster.job_manager.pid] = "job manager"
        groups |= {member.pid: "task manager" for member in engine.cluster.task_managers}
    return groups


def require_whole(folder: Path, rows: int) -> None:
    """See that a release counts every row once in each metric, and was paid for once.

    Raises:
        RuntimeError: it does not, or was not.
    """
    for name in json.loads((folder / "release" / "statement.json").read_text())["metrics"]:
        said = json.loads((folder / "release" / name / "statement.json").read_text())
        if not said["n"] == said["rows_read"] == rows:
            raise RuntimeError(f"{name}: {said['n']} reports of {said['rows_read']} of {rows} rows")
    states = [
        entry.state for entry in CollectionLedger.open(str(folder / "ledger.sqlite")).entries()
    ]
    if states.count("committed") != 1:
        raise RuntimeError(f"entries of the ledger: {states}")


def _env() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(_ROOT), "OPENBLAS_NUM_THREADS": "1"}


def main(words: Sequence[str] = ()) -> None:
    """One row for each size and runner."""
    parser = argparse.ArgumentParser(prog="benchmarks.engines", description=__doc__)
    parser.add_argument("rows", nargs="*", type=lambda word: int(float(word)), default=ROWS)
    parser.add_argument("--kill", type=float, metavar="SECONDS")
    parser.add_argument("--only", choices=("local", "cluster"))
    parser.add_argument("--text", choices=("csv", "csv.gz", "jsonl"), default="parquet")
    asked = parser.parse_args(words)
    table = Table(title="four metrics")
    for heading in (
        "rows",
        "runner",
        "wall s",
        "CPU s",
        "M rows / CPU s",
        "shuffled MB",
        "peak MB",
    ):
        table.add_column(heading, justify="right")
    for rows in asked.rows:
        for name in [asked.only] if asked.only else ["local", "cluster"]:
            with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
                folder = Path(temporary, "job")
                prepare(folder, rows, asked.text)
                engine = kill = None
                if name == "cluster":
                    engine = stack.enter_context(running(name, Path(temporary)))
                    if asked.kill is not None:
                        kill = Kill(engine, asked.kill, folder / "log")
                cost = run(folder, rows, engine, kill)
            peaks = ", ".join(f"{process} {peak:,.0f}" for process, peak in cost.peaks.items())
            table.add_row(
                f"{rows:,}", name, f"{cost.wall:.0f}", f"{cost.cpu:.0f}",
                f"{rows / cost.cpu / 1e6:.2f}", f"{cost.shuffled / 1e6:,.0f}", peaks,
            )  # fmt: skip
            Console(width=160).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
