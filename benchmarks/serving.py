"""The endpoint at 2,000 requests a second, each with a token and synced before it is answered.

CPU seconds are of the service's processes alone: those that send run on the same cores.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from mechanisms.randomness import SeededRandom
from mechanisms.wire.tokens import Issuer
from pipelines.parties.window_keys import KeyFolder
from pipelines.plan.loading import load
from pipelines.plan.split import split
from tests.fakes.devices import minted, request, sealed_reports, send, serving

RATE, SECONDS, RUNS = 2000, 10, 3

_WINDOW = "2026-11-20"
_EXAMPLE = Path(__file__).parents[1] / "examples" / "client"
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print what a request takes, by the number of processes."""
    table = Table(title=f"hushbeam serve: {RATE:,} requests a second for {SECONDS} s")
    for heading in ("processes", "a second", "CPU ms each", "median ms", "99 % ms"):
        table.add_column(heading, justify="right")
    for processes in (1, 2):
        runs = [_run(processes, number) for number in range(RUNS)]
        rate, cpu, middle, late = min(runs, key=lambda run: run[1])
        cells = f"{rate:,.0f}", f"{cpu:.3f}", f"{middle:.0f}", f"{late:.0f}"
        table.add_row(str(processes), *cells)
    Console().print(table)


def _run(processes: int, number: int) -> tuple[float, float, float, float]:
    """Requests a second, CPU milliseconds of each, and how long half and 99 % took at the most."""
    size, rng = RATE * SECONDS, SeededRandom(number)
    with TemporaryDirectory() as folder:
        plan = Path(shutil.copytree(_EXAMPLE, f"{folder}/example")) / "plan.yaml"
        plan.write_text(plan.read_text() + "tokens: 1\n")
        parted, keys = split(load(str(plan)), _WINDOW), KeyFolder(f"{folder}/keys")
        keys.make(_WINDOW, parted.fingerprint, "issuer")
        seed = keys.of_window(parted.fingerprint, "issuer.seed").read_bytes()
        reports = sealed_reports(parted.expected(parted.form(True, [0])), size, rng)
        tokens = minted(Issuer(seed), size, rng)
        words = (
            str(plan), "--window", _WINDOW, "--landing", f"{folder}/landing",
            "--keys", str(keys.path), "--processes", str(processes),
        )  # fmt: skip
        with serving(*words) as (port, process):
            posts = [request(*pair) for pair in zip(reports, tokens, strict=True)]
            before, start = _cpu(process.pid), time.monotonic()
            statuses, seconds = send([port], posts, RATE, 256)
            rate = size / (time.monotonic() - start)
            cpu = (_cpu(process.pid) - before) / size * 1000
    if set(statuses) != {204}:
        raise RuntimeError(f"answered with {sorted(set(statuses))}")
    middle, late = np.quantile(seconds, [0.5, 0.99]) * 1000
    return rate, cpu, float(middle), float(late)


def _cpu(parent: int) -> float:
    """CPU seconds of a process and its children."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if parent in (int(entry.name), int(fields[1])):
                total += (int(fields[11]) + int(fields[12])) / _TICKS
    return total


if __name__ == "__main__":
    main()
