"""How often an experiment's intervals miss, and how long they are beside those without noise.

`python -m benchmarks.experiments 2000` makes so many releases of each log, each of other users.
Numbers are exponential, so that a textbook says what chance alone does to each figure.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

import hushbeam
from mechanisms.postprocess.intervals import normal_quantile

RUNS = 100
"""Releases of each log; a few minutes."""

EPSILON, CONFIDENCE = 1.0, 0.95
_RATE, _MEAN, _TOP, _LEVELS = 0.1, 200.0, 2000.0, (0.5, 0.95)
_LOGS = ((10_000, 0.0), (10_000, 0.2), (100_000, 0.0), (100_000, 0.05))
_SURE = 4  # standard errors by which too many miss


class Figure(NamedTuple):
    """What is true of a figure.

    Attributes:
        effect: the second arm's less the first one's.
        half: of an interval that covers chance alone.
    """

    effect: float
    half: float


def figures(n: int, lift: float) -> dict[str, Figure]:
    """Name -> what is true of n users, of whom half have so much more of each outcome."""
    far, arms = normal_quantile(CONFIDENCE) / math.sqrt(n / 2), np.array([1, 1 + lift])

    def figure(of_one: Any, spread: Any) -> Figure:
        return Figure(float(of_one[1] - of_one[0]), float(far * np.hypot(*spread)))

    rates, means = _RATE * arms, _MEAN * arms
    clipped = means * -np.expm1(-_TOP / means)
    squares = 2 * means * (means - (_TOP + means) * np.exp(-_TOP / means))
    made = {
        "bought": figure(rates, np.sqrt(rates * (1 - rates))),
        "ms": figure(clipped, np.sqrt(squares - clipped**2)),
    }
    for p in _LEVELS:
        spread = means * math.sqrt(p / (1 - p))  # sqrt(p (1 - p)) over the density
        made[f"ms at {p:g}"] = figure(-means * math.log(1 - p), spread)
    return made


def log(n: int, lift: float, draw: np.random.Generator) -> Any:
    """A row of each user."""
    treated = draw.random(n) < 0.5
    times = 1 + lift * treated
    return pd.DataFrame({
        "user": np.arange(n), "arm": np.where(treated, "new", "old"),
        "bought": draw.random(n) < _RATE * times, "ms": draw.exponential(_MEAN * times),
    })  # fmt: skip


def released(rows: Any) -> Iterator[dict[str, Any]]:
    """The table of a release with secure noise."""
    bounds, levels = f"ms=0,{_TOP:g}", ",".join(map(str, _LEVELS))
    release = hushbeam.experiment(
        rows, user_column="user", arm="arm", arms="old,new", rate="bought", mean=bounds,
        quantile=f"{bounds}@{levels}", epsilon=EPSILON, confidence=CONFIDENCE, expected=len(rows),
    )  # fmt: skip
    yield from release.tables["experiment"].to_pylist()


def main(runs: int = RUNS) -> None:
    """Print the table, and refuse intervals that miss too often beyond doubt."""
    headings = ("figure", "users", "lift", "missed", "± s.e.", "shown", "length")
    table = Table(*headings, title=f"{runs} releases, epsilon {EPSILON:g}, four figures each")
    far, doubt = [], math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / runs)
    for place, (n, lift) in enumerate(_LOGS):
        draw, truth = np.random.default_rng(place), figures(n, lift)
        seen: defaultdict[str, list[tuple[bool, bool, float]]] = defaultdict(list)
        for _ in range(runs):
            for row in released(log(n, lift, draw)):
                low, high, true = row["lower"], row["upper"], truth[row["value"]]
                missed, shown = not low <= true.effect <= high, not low <= 0 <= high
                seen[row["value"]].append((missed, shown, (high - low) / 2 / true.half))
        for name, outcomes in seen.items():
            missed, shown, length = np.mean(outcomes, axis=0)
            numbers = f"{missed:.3f}", f"{doubt:.3f}", f"{shown:.3f}", f"{length:.3f}"
            table.add_row(name, f"{n:,}", f"{lift:.0%}", *numbers)
            if missed > 1 - CONFIDENCE + _SURE * doubt:
                far.append(f"{name} of {n:,}")
    Console().print(table)
    if far:
        raise SystemExit(f"intervals miss too often: {far}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks.experiments", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=RUNS, help="releases of each log")
    main(parser.parse_args().runs)
