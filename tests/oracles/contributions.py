"""What one unit adds to the exact numbers of a release, over all that its rows may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from mechanisms.channel import Floats
from mechanisms.randomness import SeededRandom
from transforms.encoders.reports import reports_of

Row = tuple[int, float]  # (group, number)


def levels_of(metric: Any, rows: Sequence[Row], seed: int) -> list[Floats]:
    """The counters that a job has of a log with one unit, as `Take` is handed them.

    Adding a unit to any log adds this to them, for counters add up.
    """
    users, groups = np.zeros(len(rows), np.int64), np.array([group for group, _ in rows], np.int64)
    summed = metric.encoder().number is not None
    numbers = np.array([number for _, number in rows], float) if summed else None
    reporting, layout = metric.reporting, metric.design.layout
    (words,) = reports_of(reporting, users, groups, numbers, 1, None, SeededRandom(seed))
    raised = words.ravel()[words.ravel() < int(layout.starts[-1])]
    counts = np.bincount(raised.astype(np.int64), minlength=int(layout.starts[-1]))
    levels = [np.asarray(row, float) for row in layout.split(counts)]
    return levels[: len(reporting.amounts.levels)]


def units(
    groups: int, numbers: Sequence[float], most: int, seeds: int = 3
) -> Iterator[tuple[tuple[Row, ...], int]]:
    """(rows, seed) of all units with up to so many rows, of each group with each number."""
    rows = [(group, number) for group in range(groups) for number in numbers]
    for size in range(1, most + 1):
        for chosen in combinations_with_replacement(rows, size):
            for seed in range(seeds):
                yield chosen, seed
