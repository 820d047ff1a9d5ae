"""What it costs to ask: CPU seconds of whole processes, beside Python and Beam alone.

The commands run in turn, several times, on a log of a thousand rows.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.job import write_log
from benchmarks.measure import installed

REPEATS = 5
_HUSHBEAM = [sys.executable, "-m", "pipelines.cli.cli"]
_BARE = """
import os, sys
from benchmarks.job import plain
plain(sys.argv[1])
os._exit(0)
"""
_INPUT = ["--input", "log.parquet", "--epsilon", "1", "--output", "out"]
_VALUES = ["--column", "category", "--domain", "0..914"]
_GRR = ["histogram", *_INPUT, *_VALUES, "--mechanism", "grr", "--min-reports", "500"]
_SIZED = ["--epsilon", "1", "--reports", "1000000", "--domain-size", "10000000"]
COMMANDS = {
    "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
    "bare Beam: read and count": [sys.executable, "-c", _BARE, "log.parquet"],
    "--version": [*_HUSHBEAM, "--version"],
    "--help": [*_HUSHBEAM, "--help"],
    "histogram --help": [*_HUSHBEAM, "histogram", "--help"],
    "ledger show": [*_HUSHBEAM, "ledger", "show", "--ledger", "ledger.sqlite"],
    "an option is missing": [*_HUSHBEAM, *_GRR[:-1]],
    "a column is missing": [*_HUSHBEAM, *_GRR, "--user-column", "who"],
    "check, three metrics": [*_HUSHBEAM, "check", "flights.yaml"],
    "check --clients": [*_HUSHBEAM, "check", "flights.yaml", "--clients"],
    "size, 10^7 values": [*_HUSHBEAM, "size", *_SIZED],
    "histogram, 1,000 rows": [*_HUSHBEAM, *_GRR],
    "count, 1,000 rows": [*_HUSHBEAM, "count", *_INPUT, *_VALUES],
    "sum, 1,000 rows": [*_HUSHBEAM, "sum", *_INPUT, "--column", "value", "--bounds", "0,3"],
}


def seconds(command: list[str], folder: Path, code: int = 0) -> float:
    """CPU seconds of one process, and of those that it waits for; it must end with that code."""
    before = os.times()
    done = subprocess.run(
        command, cwd=folder, env=installed(folder), capture_output=True, check=False
    )
    after = os.times()
    if done.returncode != code:  # a refusal would be a fast answer
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode()}")
    used = after.children_user - before.children_user
    return used + after.children_system - before.children_system


def main() -> None:
    """One row for each command."""
    with tempfile.TemporaryDirectory() as name:
        folder, examples = Path(name), Path(__file__).parents[1] / "examples"
        write_log(folder / "log.parquet", 1000)
        for file in ("flights.yaml", "flights.parquet", "airports.txt"):
            shutil.copy(examples / file, folder)  # a plan is refused behind a link
        plan = folder / "flights.yaml"  # of reports, as clients make them
        more = "drawn_by: each-report\nmin_reports: 300000\nmetrics:\n"
        plan.write_text(plan.read_text().replace("metrics:\n", more))
        begin = ["ledger", "init", "--ledger", "ledger.sqlite", "--population", "riders"]
        seconds([*_HUSHBEAM, *begin, "--budget", "2.5,1e-6"], folder)
        runs: dict[str, list[float]] = {command: [] for command in COMMANDS}
        for turn in range(REPEATS):
            for place, (command, words) in enumerate(COMMANDS.items()):
                # A folder of its own for each release.
                own = [f"out-{turn}-{place}" if word == "out" else word for word in words]
                runs[command].append(seconds(own, folder, 2 * ("is missing" in command)))
    cost = {command: statistics.median(times) for command, times in runs.items()}
    table = Table(title=f"medians of {REPEATS} processes")
    for heading in ("command", "CPU s", "x bare Beam"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    bare = cost["bare Beam: read and count"]
    for command, median in cost.items():
        table.add_row(command, f"{median:.2f}", f"{median / bare:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
