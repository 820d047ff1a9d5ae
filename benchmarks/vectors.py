"""Rows of many numbers: the client, the collector, and the whole job beside reading its file."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.measure import peak_memory, run_apart, seconds
from mechanisms.randomness import SecureRandom
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.sampled import SampledCoordinates
from transforms.collector.collect_counts import CountMessages
from transforms.encoders.attributes import NumberList
from transforms.encoders.bounds import Bounds
from transforms.encoders.coordinates import CoordinateEncoder
from transforms.encoders.encoder import encoded

USERS, BLOCK = 1 << 20, 1 << 14
ROWS, WIDTH, REPEATS = 1_000_000, 100, 3
VARIANTS = {
    "read, no privacy": [],
    "local": ["--model", "local"],
    "shuffled": ["--model", "shuffle", "--min-reports", "900000"],
}


def main() -> None:
    """A table of rates, then one of whole jobs."""
    table = Table(title=f"one message of a row, {USERS:,} users")
    for heading in ("d", "mechanism", "client, M users/s", "with the look-up", "collector, M/s"):
        table.add_column(heading, justify="right")
    for dimension in (1_000, 100_000):
        for name, mechanism in (
            ("multi_optimal", multi_optimal(1.0, dimension, sampled=1)),
            ("multi_hm", multi_hm(1.0, dimension, sampled=1)),
        ):
            rates = _client(mechanism), _picking(mechanism), _collector(mechanism)
            table.add_row(f"{dimension:,}", name, *(f"{rate / 1e6:.1f}" for rate in rates))
    Console(width=110).print(table)
    _jobs()


def _client(mechanism: SampledCoordinates) -> float:
    """Users a second: coordinates chosen, their numbers rounded and perturbed."""
    rng, values = SecureRandom(), np.zeros((USERS, 1))
    return USERS / seconds(lambda: mechanism.send(mechanism.choose(USERS, rng), values, rng), 3)


def _picking(mechanism: SampledCoordinates) -> float:
    """Users a second from an Arrow list column to words: every number is looked at."""
    rows = max(64, min(BLOCK, (1 << 24) // mechanism.dimension))
    flat = pa.array(np.random.default_rng(1).uniform(-1, 1, rows * mechanism.dimension))
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(flat, mechanism.dimension)})
    attributes = (NumberList("v", mechanism.dimension, Bounds(-1.0, 1.0)),)
    (batch,) = table.to_batches()
    encoder, rng = CoordinateEncoder(attributes, mechanism), SecureRandom()
    return rows / seconds(lambda: encoded(encoder, batch, None, rng), 3)


def _collector(mechanism: SampledCoordinates) -> float:
    """Messages a second, in the blocks that a shuffler sends, to an estimate."""
    rng = SecureRandom()
    messages = mechanism.send(mechanism.choose(USERS, rng), np.zeros((USERS, 1)), rng)
    blocks = np.split(messages, USERS // BLOCK)
    combine = CountMessages(mechanism)

    def collect() -> None:
        state = combine.create_accumulator()
        for block in blocks:
            state = combine.add_input(state, block)
        counted = combine.extract_output(combine.merge_accumulators([state]))
        mechanism.estimate(counted.counts)

    return USERS / seconds(collect, 3)


# ---- whole jobs, each in a process of its own ----------------------------------------------------


def _jobs() -> None:
    table = Table(title=f"{ROWS:,} x {WIDTH} doubles, medians of {REPEATS} runs, after start-up")
    for heading in ("job", "CPU s", "x reading", "peak MB"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.parquet")
        rng = np.random.default_rng(1)
        columns = {f"f{i}": rng.uniform(0, 1, ROWS) for i in range(WIDTH)}
        pq.write_table(pa.table(columns), log, row_group_size=1 << 17)
        del columns
        runs = {
            (name, i): run_apart("benchmarks.vectors", log, Path(folder, f"{name}{i}"), arguments)
            for i in range(REPEATS)
            for name, arguments in VARIANTS.items()
        }
    cost = {
        name: {
            key: statistics.median(runs[name, i][key] for i in range(REPEATS))
            for key in ("job", "peak")
        }
        for name in VARIANTS
    }
    base = next(iter(cost.values()))["job"]
    for name, figures in cost.items():
        job, peak = figures["job"], figures["peak"]
        table.add_row(name, f"{job:.2f}", f"{job / base:.1f}", f"{peak:.0f}")
    Console(width=110).print(table)


def child(log: str, output: str, arguments: list[str]) -> None:
    """One run; prints what it cost."""
    import apache_beam as beam

    from pipelines.cli.cli import main as hushbeam
    from transforms.rows.telemetry import ReadTelemetry

    imported = time.process_time()
    if not arguments:
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            read = pipeline | ReadTelemetry((log,), tuple(f"f{i}" for i in range(WIDTH)))
            read | beam.Map(lambda table: table.num_rows) | beam.CombineGlobally(sum)
    else:
        words = ["vector-mean", "--input", log, "--number", "f*=0,1", "--epsilon", "1"]
        code = hushbeam([*words, "--output", output, *arguments])
        if code:
            sys.exit(code)
    ended = time.process_time()
    print(json.dumps({"job": ended - imported, "peak": peak_memory()}), flush=True)
    os._exit(0)  # as the command itself ends; see pipelines.cli.cli.entry


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], sys.argv[3:])
