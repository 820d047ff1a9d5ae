"""Medians of several runs, side by side in one process; and how large a process became."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.cli.cli import memory_pool

# Real data, where a checkout has it beside itself.
DATA = Path(os.environ.get("HUSHBEAM_DATA", "../shared/data"))


def require_near_one(ratios: dict[str, float], tolerance: float = 0.1) -> None:
    """End with an error if a measured quantity is not what was predicted."""
    far = {name: ratio for name, ratio in ratios.items() if not abs(ratio - 1) <= tolerance}
    if far:
        raise SystemExit(f"measured over predicted, beyond {tolerance:g}: {far}")


def seconds(run: Callable[[], object], repeats: int = 7) -> float:
    """Median CPU seconds of a call, after one warm-up that fills its caches."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def peak_memory() -> float:
    """The most memory that this process had at once, in MB.

    `ru_maxrss` would not tell: a new process inherits what the one before its `exec` had, and reads
    no less than the parent that has written the log. It stands in where there is no /proc.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1.024e-3
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def installed(folder: Path) -> dict[str, str]:
    """The environment of a command's process as where it is installed.

    Modules are compiled once, into a folder, whatever this process is told to leave behind: some
    400 of ours would be compiled in every run. A matrix product has one thread, and Arrow its
    allocator, as the command sees to.
    """
    kept = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    root = {"PYTHONPATH": str(Path(__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    return memory_pool() | os.environ | kept | root


def run_apart(
    module: str, log: Path | str, output: Path, arguments: Sequence[str]
) -> dict[str, float]:
    """What a benchmark's own run says last, as JSON, in a process of its own.

    Args:
        module: that is run.
        log: what it reads.
        output: what it writes.
        arguments: more words.
    """
    command = [sys.executable, "-m", module, str(log), str(output), *arguments]
    environment = installed(output.parent)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
