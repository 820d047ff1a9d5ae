"""DP-SGD on handwritten digits: accuracy against epsilon, and what an epoch and the noise cost."""

from __future__ import annotations

import math
import time

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.measure import DATA, seconds
from mechanisms.learning.dp_sgd_design import design
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Softmax
from mechanisms.learning.oriented_edges import OrientedEdges
from mechanisms.learning.perceptron import Perceptron
from mechanisms.learning.whole_gradients import WholeGradients
from mechanisms.randomness import SecureRandom, SeededRandom
from mechanisms.sampling.rounded_normal import RoundedNormal

TRAINED = 8000  # of 10,000; the last fifth is held back
DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0, math.inf)
PIXELS = 784
NORMALS = 8_000_000
LEAST = 0.9  # of the digits right at epsilon 8


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
    """One row for each model and epsilon."""
    screen, rng = Console(width=120), SecureRandom()
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
