"""Measured error against predicted error, over seeded runs, on made and on real data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.measure import DATA, require_near_one
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.search import search
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target

RUNS = 30
REAL = {"census_us1940_city": "city", "kosarak_first100k_one_item": "item"}


def logs() -> Iterator[tuple[str, np.ndarray, int]]:
    """(name, cells, domain size) of each data set there is."""
    weights = 1 / np.arange(1, 601) ** 1.2
    counts = np.floor(600_000 * weights / weights.sum()).astype(int)
    counts[0] += 600_000 - counts.sum()
    yield "Zipf, n = 600,000, d = 600", np.repeat(np.arange(600), counts), 600
    for name, column in REAL.items():
        path = DATA / f"{name}.parquet"
        if path.exists():
            values = pq.read_table(path, columns=[column])[column].to_numpy()
            declared, cells = np.unique(values, return_inverse=True)
            yield f"{name}, n = {cells.size:,}, d = {declared.size:,}", cells, declared.size


def main() -> None:
    """One row for each data set, model and epsilon."""
    table = Table(title=f"mean squared error per value, {RUNS} seeded runs")
    for heading in ("data", "model", "epsilon", "mechanism", "predicted", "measured", "ratio",
                    "after POP"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "data" else "right")
    ratios = {}
    for name, cells, d in logs():
        truth = np.bincount(cells, minlength=d) / cells.size
        for model, epsilon in [("local", 1.0), ("shuffle", 0.5), ("shuffle", 1.0)]:
            delta = 1e-6 if model == "shuffle" else 0.0
            design = search(Target(model, epsilon, delta, cells.size, FrequencyTask(d)))
            mechanism, before, after = design.mechanism, [], []
            if not isinstance(mechanism, FrequencyOracle):
                raise SystemExit(f"{design.name} sends no reports")
            for run in range(RUNS):
                counts = mechanism.count(mechanism.perturb(cells, SeededRandom(run)))
                estimate = mechanism.estimate(counts)
                before.append(np.mean((estimate - truth) ** 2))
                after.append(np.mean((project(estimate) - truth) ** 2))
            predicted = design.error
            ratios[f"{name}, {model} {epsilon:g}"] = float(np.mean(before) / predicted)
            p = mechanism.constants().get("hash_range", "none")
            table.add_row(
                name, model, f"{epsilon:g}", f"{design.name}, p = {p}",
                f"{predicted:.3g}", f"{np.mean(before):.3g}",
                f"{np.mean(before) / predicted:.3f}", f"{np.mean(after):.3g}",
            )  # fmt: skip
    Console(width=150).print(table)
    require_near_one(ratios)
