"""Intervals of what the job draws hold as often as they say, whatever law its noise has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.central import asked
from mechanisms.randomness import SeededRandom
from transforms.collector.collect_counts import Counted

RUNS = 400
LEAST = 0.95 - 6.5 * (0.95 * 0.05 / RUNS) ** 0.5
"""What holds in 95 % holds less often once in 10^10 runs."""


def held(release: Any, counts: np.ndarray, true: np.ndarray, table: str) -> tuple[Any, float]:
    """How often each interval holds the truth, and how often all together do."""
    rng, alone, together = SeededRandom(17), np.zeros(true.size), 0
    for _ in range(RUNS):
        drawn = Counted(release.design.noisy(counts, rng), 0, 0)
        made = release.tables(drawn)[table]
        ends = [made[name].to_numpy() for name in ("lower", "upper")]
        wide = [made[f"{name}_simultaneous"].to_numpy() for name in ("lower", "upper")]
        alone += (ends[0] <= true + 1e-9) & (true - 1e-9 <= ends[1])
        together += bool(((wide[0] <= true + 1e-9) & (true - 1e-9 <= wide[1])).all())
    return alone / RUNS, together / RUNS


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("size", [3, 20])  # by geometric noise, and by Gaussian noise
def test_means_of_rows_lie_in_their_intervals(tmp_path: Any, size: int, each: bool) -> None:
    path, n = str(tmp_path / "rows.parquet"), 3000
    pq.write_table(pa.table({f"f{i:02}": [0.5] for i in range(size)}), path)
    release = asked("vector-mean", input=(path,), number=("f*=-1,1",), count_each=each)
    rows, means = release.reporting.rows, np.linspace(-0.9, 0.9, size)
    own = np.rint(n * rows.steps * (means + 1) / 2) if each else np.rint(n * rows.steps * means)
    ends = [own, n * rows.steps - own] if each else [own]
    counts = np.zeros(release.design.codes, np.int64)
    whole = np.concatenate([*ends, [n]])
    counts[: whole.size] = whole
    alone, together = held(release, counts, means, "vector-mean.parquet")
    assert (alone >= LEAST).all()
    assert together >= LEAST
    assert alone.mean() < 0.985  # and are no longer than that takes


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("bins", [16, 300])
def test_a_distribution_lies_in_its_intervals(bins: int, delta: float) -> None:
    release = asked("distribution", column="distance", bounds="0,5000", bins=bins, delta=delta)
    tree = release.reporting.tree
    cells = SeededRandom(3).generator().poisson(40, bins)
    rows = [np.add.reduceat(np.pad(cells, (0, tree.leaves - bins)), np.arange(0, tree.leaves, s))
            for s in tree.sizes[1:]]  # fmt: skip
    counts = np.zeros(release.design.codes, np.int64)
    whole = np.concatenate(rows)
    counts[: whole.size] = whole
    below = np.cumsum(cells)[:-1] / cells.sum()
    rng, alone, together = SeededRandom(5), np.zeros(bins - 1), 0
    for _ in range(RUNS):
        evidence = release.evidence(Counted(release.design.noisy(counts, rng), 0, 0))
        low, high = (end[:-1] for end in evidence.limits[""])
        alone += (low <= below + 1e-9) & (below - 1e-9 <= high)
        low, high = (end[:-1] for end in evidence.limits["_simultaneous"])
        together += bool(((low <= below + 1e-9) & (below - 1e-9 <= high)).all())
    assert (alone / RUNS >= LEAST).all()
    assert together / RUNS >= LEAST
