"""Large jobs on one core and on two: the whole command, and what rows beyond a tenth cost.

    python -m benchmarks cores
    python -m benchmarks.cores 1e9 [fused plan ...]

A command uses all cores that it may, so `taskset` alone tells runs apart. Start-up cannot be split:
rows are what a run takes longer than one over a tenth of them, the start of workers included. Logs
are one file under many names. Each figure is the best of several runs, taken in turn. It ends
with an error where a second core helps less than it should.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.engines import PLAN
from benchmarks.job import DOMAIN, write_log
from benchmarks.measure import installed, peak_memory

ROWS, FILE, REPEATS, CORES = 100_000_000, 10_000_000, 3, 2
LEAST = {ROWS: 1.3, 10 * ROWS: 1.6}  # times as fast on both cores, shuffled
_GRR = (
    f"histogram --column category --domain 0..{DOMAIN - 1} --mechanism grr --epsilon 1"
    " --input log/*.parquet --output release"
)
JOBS = {
    "fused": f"{_GRR} --shuffler fused",
    "shuffled": _GRR,
    "srr": _GRR.replace("grr", "srr"),
    "plan": "run plan.yaml",
    "users": f"{_GRR} --user-column user_id --min-reports 2000000",
}


def child(words: list[str]) -> None:
    """One command; prints what it and its workers took."""
    began = time.perf_counter()
    from pipelines.cli.cli import main as hushbeam

    if hushbeam(words):
        sys.exit(3)
    wall = time.perf_counter() - began
    own, workers = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    figures = {
        "wall": wall,
        "cpu": sum(each.ru_utime + each.ru_stime for each in (own, workers)),
        "peak": peak_memory(),
        "worker": workers.ru_maxrss / 1e3,
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)  # as the command itself ends; see pipelines.cli.cli.entry


def measure(log: Path, rows: int, job: str, cores: int) -> dict[str, float]:
    """One run over so many rows, in a folder and a process of its own."""
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        here = Path(folder)
        (here / "log").mkdir()
        for number in range(max(1, rows // FILE)):
            os.link(log, here / "log" / f"{number:04}.parquet")
        (here / "plan.yaml").write_text(PLAN)
        if job == "plan":
            begin = [sys.executable, "-m", "pipelines.cli.cli", "ledger", "init", "plan.yaml"]
            subprocess.run(
                begin, cwd=folder, check=True, capture_output=True, env=installed(log.parent)
            )
        command = [sys.executable, "-m", "benchmarks.cores", "child", *JOBS[job].split()]
        command = ["taskset", "--cpu-list", f"0-{cores - 1}", *command]
        done = subprocess.run(
            command,
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            env=installed(log.parent),
        )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _best(log: Path, rows: int, jobs: list[str]) -> Iterator[tuple[str, list[dict[str, float]]]]:
    """Of each job the best of several runs: over all rows on one core and on two, and over few."""
    asked = [(rows, 1), (rows, CORES), (rows // 10, 1), (rows // 10, CORES)]
    for job in jobs:
        runs = [[measure(log, n, job, cores) for n, cores in asked] for _ in range(REPEATS)]
        yield (
            job,
            [
                {key: min(run[place][key] for run in runs) for key in runs[0][place]}
                for place in range(len(asked))
            ],
        )


def main(rows: int = ROWS, jobs: list[str] | None = None) -> None:
    """Measure jobs over so many rows."""
    missed, table = "", Table(title=f"{rows:,} rows, one core and {CORES}, best of {REPEATS} runs")
    table.add_column("job")
    for heading in ("wall s", "x", "of rows", "x", "CPU s", "peak MB", "a worker"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.parquet")
        write_log(log, FILE)
        for job, (one, two, *few) in _best(log, rows, jobs or [*JOBS]):
            faster = one["wall"] / two["wall"]
            if job == "shuffled" and faster < LEAST.get(rows, 0):
                missed = f"{job}: {faster:.2f} times as fast on both, and not {LEAST[rows]}"
            alone = one["wall"] - few[0]["wall"], two["wall"] - few[1]["wall"]
            table.add_row(
                job, f"{one['wall']:.1f} {two['wall']:.1f}", f"{faster:.2f}",
                f"{alone[0]:.1f} {alone[1]:.1f}", f"{alone[0] / alone[1]:.2f}",
                f"{one['cpu']:.1f} {two['cpu']:.1f}", f"{one['peak']:.0f} {two['peak']:.0f}",
                f"{two['worker']:.0f}",
            )  # fmt: skip
    Console(width=120).print(table)
    if missed:
        raise SystemExit(missed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2:])
    else:
        main(int(float(sys.argv[1])) if sys.argv[1:] else ROWS, sys.argv[2:] or None)
