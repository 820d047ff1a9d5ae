"""The whole command on real data, over seeded runs: measured error against what it promises."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.measure import DATA, require_near_one
from mechanisms.randomness import SeededRandom
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.release import ReleaseMetric
from pipelines.metrics.resolving import resolve
from pipelines.releases.release import read
from pipelines.request.requests import request

RUNS = 30
CASES = [
    ("census_us1940_city", "city", 0.5),
    ("census_us1940_city", "city", 1.0),
    ("kosarak_first100k_one_item", "item", 0.5),
]

_opened = itertools.count()


def stream() -> SeededRandom:
    """A generator of its own for every step that opens one: equal seeds would correlate them."""
    return SeededRandom(next(_opened))


def main() -> None:
    """One row for each data set and epsilon."""
    table = Table(title=f"hushbeam histogram, shuffle model, delta 1e-6, {RUNS} seeded runs")
    for heading in ("data", "epsilon", "mechanism", "local", "predicted", "measured", "ratio",
                    "covered by 95 %"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "data" else "right")
    ratios = {}
    for name, column, epsilon in CASES:
        path = DATA / f"{name}.parquet"
        if path.exists():
            cells, ratios[f"{name}, {epsilon:g}"] = _measured(path, column, epsilon)
            table.add_row(name, f"{epsilon:g}", *cells)
    Console(width=150).print(table)
    require_near_one(ratios)


def _measured(path: Path, column: str, epsilon: float) -> tuple[list[str], float]:
    """What 30 releases of one column were like, and measured over predicted error."""
    values = pq.ParquetFile(path).read([column])[column].combine_chunks()
    errors, covered = [], []
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        domain = Path(folder, "domain.txt")
        declared = pc.unique(values)
        domain.write_text("".join(f"{value}\n" for value in declared.to_pylist()))
        shares = _shares(values, declared)
        for run in range(RUNS):
            asked = {"input": [str(path)], "column": column, "domain": str(domain),
                     "epsilon": epsilon, "min_reports": len(values),
                     "output": f"{folder}/{run}"}  # fmt: skip
            options = request(HistogramOptions, asked)
            metric = resolve(options, open_rng=stream)
            with contextlib.redirect_stderr(nowhere), beam.Pipeline("FnApiRunner") as pipeline:
                pipeline | ReleaseMetric(metric)
            released = pq.read_table(pa.BufferReader(read(options.output, "histogram.parquet")))
            errors.append(np.mean((released["unbiased"].to_numpy() - shares) ** 2))
            low, high = released["lower"].to_numpy(), released["upper"].to_numpy()
            covered.append(np.mean((low <= shares) & (shares <= high)))
    predicted, measured = metric.design.error, float(np.mean(errors))
    ratio = measured / predicted
    said = (
        f"{predicted:.3g}",
        f"{measured:.3g}",
        f"{ratio:.3f}",
        f"{100 * np.mean(covered):.1f} %",
    )
    return [metric.design.name, f"{metric.design.local.epsilon:.3f}", *said], ratio


def _shares(values: pa.Array, declared: pa.Array) -> np.ndarray:
    """The truth, in the order of the domain."""
    cells = pc.index_in(values, value_set=declared).to_numpy()
    return np.bincount(cells, minlength=len(declared)) / len(values)
