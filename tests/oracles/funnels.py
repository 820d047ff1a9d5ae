"""Funnels, user by user and beginning by beginning: slow, and plain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

Row = tuple[float, set[int], int]
"""When it was, the steps that it holds (from 1 on), and its segment."""


def moments(rows: Iterable[Row], steps: int, within: float = math.inf) -> list[float]:
    """When one user reached each step: from the first of the best beginnings."""
    known: dict[float, set[int]] = {}
    for time, held, _ in rows:
        known.setdefault(time, set()).update(held)
    best: list[float] = []
    for start in sorted(known):
        if 1 not in known[start]:
            continue
        path = [start]
        for time in sorted(known):
            after = start < time <= start + within
            if after and len(path) < steps and len(path) + 1 in known[time]:
                path.append(time)
        best = max(best, path, key=len)
    return best


def segment(rows: Iterable[Row]) -> int | None:
    """Where a user begins; of one moment the first segment that was declared."""
    begun = [(time, place) for time, held, place in rows if 1 in held]
    return min(begun)[1] if begun else None


def reached(
    users: Iterable[Sequence[Row]], steps: int, segments: int, within: float = math.inf
) -> list[list[int]]:
    """[segment][step - 1] how many users reached each step."""
    table = [[0] * steps for _ in range(segments)]
    for rows in users:
        far, place = len(moments(rows, steps, within)), segment(rows)
        for step in range(far):
            table[place if place is not None else -1][step] += 1
    return table


def took(
    users: Iterable[Sequence[Row]], steps: int, segments: int, bounds: Sequence[float],
    within: float = math.inf,
) -> list[list[list[int]]]:  # fmt: skip
    """[segment][step - 2][bin] how many took so long from the step before."""
    table = [[[0] * (len(bounds) + 1) for _ in range(steps - 1)] for _ in range(segments)]
    for rows in users:
        place = segment(rows)
        for step, (before, now) in enumerate(pairwise(moments(rows, steps, within))):
            longer = sum(now - before > bound for bound in bounds)
            table[place if place is not None else -1][step][longer] += 1
    return table
