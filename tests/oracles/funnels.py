"""Funnels, user by user and beginning by beginning: slow, and plain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Row = tuple[float, set[int], int]
"""When it was, the steps that it holds (from 1 on), and its segment."""


def furthest(rows: Iterable[Row], steps: int, within: float = math.inf) -> int:
    """The furthest step of one user's rows."""
    moments: dict[float, set[int]] = {}
    for time, held, _ in rows:
        moments.setdefault(time, set()).update(held)
    best = 0
    for start in sorted(moments):
        if 1 not in moments[start]:
            continue
        reached = 1
        for time in sorted(moments):
            after = start < time <= start + within
            if after and reached < steps and reached + 1 in moments[time]:
                reached += 1
        best = max(best, reached)
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
        far, place = furthest(rows, steps, within), segment(rows)
        for step in range(far):
            table[place if place is not None else -1][step] += 1
    return table
