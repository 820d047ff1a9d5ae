"""Every histogram system: its cost for a million users over 42,178 values, and its measured error.

Each system runs in a process of its own, so that its peak memory is its own. Up to a hundred
messages a user are really drawn and counted, block by block; the sums of longer reports are drawn
directly, as `evaluate` does it. Fitting is timed apart: a pipeline fits once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import peak_memory, require_near_one
from hushbeam.studies.systems.simulation import simulate
from mechanisms.catalog import of_task
from mechanisms.channel import Counts
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.search import Design, search
from mechanisms.randomness import SecureRandom, SeededRandom
from mechanisms.targets.rules import Target

N, D = 1_000_000, 42_178
BLOCK = 1 << 16  # users, as the pipeline has them
MANY = 100  # messages a user: beyond it sums are drawn
RUNS, RUNS_N, RUNS_D = 30, 600_000, 600


def population(n: int, d: int) -> Counts:
    """A Zipf histogram."""
    weights = 1 / np.arange(1, d + 1) ** 1.2
    counts: Counts = np.floor(n * weights / weights.sum()).astype(np.int64)
    counts[0] += n - counts.sum()
    return counts


def fitted(name: str, model: str, bound: str, n: int, d: int) -> Design[FrequencyOracle]:
    """A system at (0.5, 1e-6), or at epsilon 1 outside of the shuffle model."""
    shuffled = model == "shuffle"
    epsilon, delta = (0.5, 1e-6) if shuffled else (1.0, 0.0)
    return search(
        Target(model, epsilon, delta, n, FrequencyTask(d), honest_share=1.0, bound=bound), name
    )


def released(design: Design[FrequencyOracle], histogram: Counts) -> str:
    """One release by the road of the pipeline, or by its sums; which."""
    mechanism, rng = design.mechanism, SecureRandom()
    if design.target.model == "central":
        mechanism.release(histogram, rng)
        return "central"
    if design.messages > MANY:
        counts = mechanism.simulate(histogram, SeededRandom(1))
        mechanism.estimate(counts, int(histogram.sum()))
        return "sums"
    cells = np.repeat(np.arange(histogram.size, dtype=np.uint32), histogram)
    counts = np.zeros(mechanism.codes, np.int64)
    for start in range(0, cells.size, BLOCK):
        counts += mechanism.count(mechanism.perturb(cells[start : start + BLOCK], rng))
    mechanism.estimate(counts, cells.size)
    return "messages"


def measure(name: str, model: str, bound: str) -> dict[str, object]:
    """One system's figures, in this process."""
    start = time.process_time()
    design = fitted(name, model, bound, N, D)
    fitting = time.process_time() - start
    histogram, times = population(N, D), []
    for _ in range(3):
        start = time.process_time()
        road = released(design, histogram)
        times.append(time.process_time() - start)
    peak = peak_memory()
    small, few = fitted(name, model, bound, RUNS_N, RUNS_D), population(RUNS_N, RUNS_D)
    truth = few / few.sum()
    errors = [
        np.mean((simulate(small, few, SeededRandom(run)).unbiased - truth) ** 2)
        for run in range(RUNS)
    ]
    expected = float(np.mean(small.mechanism.variance(truth, RUNS_N)))
    if name == "boost":  # whose variance is stated for its worst value
        expected = small.error
    return {
        "messages": design.messages, "bits": design.bits, "mse": design.error,
        "epsilon": design.release.epsilon, "local": design.local.epsilon, "fit": fitting,
        "seconds": sorted(times)[1], "peak": peak, "road": road,
        "ratio": float(np.mean(errors)) / expected,
    }  # fmt: skip


def main() -> None:
    """A row for each system, model and bound."""
    table = Table(title=f"{N:,} users, {D:,} values; (0.5, 1e-6) shuffled, epsilon 1 elsewhere")
    for heading in (
        "system", "model", "messages", "MSE", "true epsilon", "local", "fit s", "release s",
        "by", "peak MB", f"measured / predicted, d = {RUNS_D}",
    ):  # fmt: skip
        table.add_column(heading, justify="right" if heading not in ("system", "model") else "left")
    screen, ratios = Console(width=150), {}
    for name, system in of_task(FrequencyTask.name).items():
        for model, bound in system.serves:
            words = [sys.executable, "-m", "benchmarks.systems", name, model, bound]
            ended = subprocess.run(words, capture_output=True, text=True)
            label = name if bound == "exact" else f"{name}, published"
            if ended.returncode:
                why = ended.stderr.strip().splitlines()[-1].removeprefix("ValueError: ")
                table.add_row(label, model, f"refused: {why}")
                continue
            found = json.loads(ended.stdout)
            ratios[f"{label}, {model}"] = found["ratio"]
            table.add_row(
                label, model, f"{found['messages']:.4g}", f"{found['mse']:.3g}",
                f"{found['epsilon']:.4g}", f"{found['local']:.4g}", f"{found['fit']:.2f}",
                f"{found['seconds']:.2f}", found["road"], f"{found['peak']:.0f}",
                f"{found['ratio']:.3f}",
            )  # fmt: skip
    screen.print(table)
    require_near_one(ratios)


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
