"""What training costs and reaches: gradients of a million users, sums, and DP-SGD on digits."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.measure import DATA, peak_memory, run_apart, seconds
from hushbeam.studies.populations.tables import read_examples
from hushbeam.studies.systems.oriented_edges import OrientedEdges
from hushbeam.studies.systems.sums import SUMS
from mechanisms.learning.dp_sgd import WholeGradients, design
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.randomness import SecureRandom, SeededRandom
from mechanisms.sampling.rounded_normal import RoundedNormal

TRAINED = 8000  # of 10,000; the last fifth is held back
DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0, math.inf)
PIXELS = 784
NORMALS = 8_000_000
LEAST = 0.9  # of the digits right at epsilon 8

TABLES = ("wisdm2019_phone_accel", "adult", "ipums_us1980", "credit_default")
RUNS, EPSILON, MOST = 30, 0.5, 1.1  # of the root mean squared error beside a curator's

USERS, WIDTH, STEPS = 1_000_000, 90, 50
JOBS = {
    "local": ["--model", "local"],
    "shuffled": ["--model", "shuffle"],
    "local, one row a user": ["--model", "local", "--user-column", "user", "--min-reports", "1"],
}


def digits() -> tuple[np.ndarray, np.ndarray]:
    """(10000, 785) float32 pixels in [-1, 1] with the constant 1, and the (10000,) digits."""
    table = pq.read_table(DATA / "mnist10k.parquet", columns=["image", "label"])
    images = np.frombuffer(b"".join(table["image"].to_pylist()), np.uint8).reshape(-1, PIXELS)
    rows = np.ones((len(images), PIXELS + 1), np.float32)
    rows[:, :-1] = images / 127.5 - 1
    return rows, table["label"].to_numpy()


def accuracy(
    objective: Objective, rows: np.ndarray, labels: np.ndarray, epsilon: float, seed: int
) -> tuple[float, float, float]:
    """(sigma, share of held-back digits that a private run gets right, seconds)."""
    training = design(objective, TRAINED, epsilon, DELTA)
    start = time.perf_counter()
    weights = training.train(rows[:TRAINED], labels[:TRAINED], SeededRandom(seed))
    spent = time.perf_counter() - start
    wrong = objective.errors(weights, rows[TRAINED:], labels[TRAINED:])
    return training.sigma, 1 - float(np.mean(wrong)), spent


def main() -> None:
    """A row for each whole job; then one for each model and epsilon."""
    screen, rng = Console(width=120), SecureRandom()
    _jobs(screen)
    _sums(screen)
    noise = RoundedNormal(2.0**31)
    screen.print(
        f"{NORMALS:,} rounded normals: {seconds(lambda: noise.draw(NORMALS, rng), 3):.2f} s"
    )
    if not (DATA / "mnist10k.parquet").exists():
        screen.print(f"no digits in {DATA}: the accuracies are left out")
        return
    rows, labels = digits()
    perceptron = Perceptron(inputs=PIXELS + 1, hidden=(100,), classes=10)
    gradients, weights = WholeGradients(perceptron, 1.0), perceptron.start(rng)
    epoch = seconds(lambda: gradients.total(weights, rows[:TRAINED], labels[:TRAINED]), 3)
    screen.print(f"an epoch of the 784-100-10 perceptron, clipped in whole numbers: {epoch:.2f} s")
    table = Table(title=f"DP-SGD on mnist10k, {TRAINED:,} rows, delta = {DELTA:g}, 25 epochs")
    for heading in ("model", "epsilon", "sigma", "accuracy", "seconds"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    edges = OrientedEdges(side=28)
    drawn = edges.rows(rows[:, :-1])
    cases = {
        "softmax of pixels": (Softmax(inputs=PIXELS + 1, classes=10), rows),
        "perceptron of pixels": (perceptron, rows),
        "softmax of edges": (Softmax(inputs=edges.features + 1, classes=10), drawn),
    }
    for name, (objective, inputs) in cases.items():
        for epsilon in EPSILONS:
            sigma, right, spent = accuracy(objective, inputs, labels, epsilon, seed=1)
            table.add_row(name, f"{epsilon:g}", f"{sigma:.3f}", f"{right:.4f}", f"{spent:.1f}")
            if epsilon == 8 and not right >= LEAST:
                raise SystemExit(f"{name}: {right} of the digits right at epsilon 8, not {LEAST}")
    screen.print(table)


def _sums(screen: Console) -> None:
    """Linear regression from sums of products: among dummies, and by a curator."""
    headings = ("least squares", *SUMS, "ratio", "constant")
    table = Table(title=f"root mean squared error on [-1, 1], epsilon {EPSILON:g}, {RUNS} runs")
    table.add_column("table")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name in TABLES:
        if not (path := DATA / f"{name}.parquet").exists():
            continue
        (people,) = read_examples([str(path)])
        trained, held = np.split(SeededRandom(1).permutation(people.n), [people.n * 4 // 5])
        rows, targets = people.rows[trained], people.targets[trained]
        objective, missed = SquaredError(people.d), people.targets[held]

        def root(weights: np.ndarray) -> float:
            wrong = objective.errors(weights, people.rows[held], missed)  # noqa: B023
            return math.sqrt(float(np.mean(wrong)))

        errors = {"least squares": root(objective.fit_exactly(rows, targets))}
        for system, made in SUMS.items():
            fit = made(people, len(rows), EPSILON, 1e-6)
            errors[system] = float(
                np.mean([root(fit(rows, targets, run)[0]) for run in range(RUNS)])
            )
        errors["ratio"] = errors["counters"] / errors["central_sums"]
        errors["constant"] = float(np.std(missed))
        table.add_row(name, *(f"{errors[heading]:.5f}" for heading in headings))
        if not errors["ratio"] <= MOST:
            raise SystemExit(f"{name}: {errors['ratio']} times a curator's error, not {MOST}")
    screen.print(table)


# ---- whole jobs, each in a process of its own ----------------------------------------------------


def _jobs(screen: Console) -> None:
    """Linear regression on gradients that users randomise themselves, start-up and all."""
    table = Table(title=f"train, {STEPS} steps over {USERS:,} users, {WIDTH} features")
    for heading in ("job", "wall s", "CPU s", "peak MB"):
        table.add_column(heading, justify="left" if heading == "job" else "right")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.parquet")
        _write_log(log)
        for name, arguments in JOBS.items():
            start = time.perf_counter()
            cost = run_apart("benchmarks.learning", log, Path(folder, name), arguments)
            wall = time.perf_counter() - start
            table.add_row(name, f"{wall:.1f}", f"{cost['cpu']:.1f}", f"{cost['peak']:.0f}")
    screen.print(table)


def _write_log(path: Path) -> None:
    """Rows in [-1, 1] whose target a tenth of them tell of."""
    rng = np.random.default_rng(1)
    columns = {f"f{place}": rng.uniform(-1, 1, USERS) for place in range(WIDTH)}
    told = sum(columns[f"f{place}"] for place in range(0, WIDTH, 10))
    columns["y"] = np.clip(told / 10 + rng.normal(0, 0.1, USERS), -1, 1)
    table = pa.table({**columns, "user": rng.permutation(USERS)})
    pq.write_table(table, path, row_group_size=1 << 17)


def child(log: str, output: str, arguments: list[str]) -> None:
    """One run; prints what it cost."""
    from pipelines.cli.cli import main as hushbeam

    words = ["train", "--input", log, "--number", "f*=-1,1", "--target", "y=-1,1", "--epsilon", "1"]
    code = hushbeam([*words, "--steps", str(STEPS), "--output", output, *arguments])
    if code:
        sys.exit(code)
    print(json.dumps({"cpu": time.process_time(), "peak": peak_memory()}), flush=True)
    os._exit(0)  # as the command itself ends; see pipelines.cli.cli.entry


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], sys.argv[3:])
