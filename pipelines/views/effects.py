"""What a page says first of an experiment's differences, and the picture of its lifts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.views.digits import digits
from pipelines.views.facts import cell, shortened
from pipelines.views.pictures import bars

_WIDE, _MOST = 60, 30
_NEEDED = frozenset({"lift", "lift_lower", "lift_upper", "outcome_kind", "compared_with"})

Row = Mapping[str, Any]


def rows_of(table: pa.Table, most: int = _MOST) -> list[Row]:
    """The differences, the clearest first; none of a table that is not an experiment's.

    Args:
        table: of the release.
        most: at most so many.
    """
    if not {*table.column_names} >= _NEEDED:
        return []
    rows = [row for row in table.to_pylist() if _half(row) is not None]
    return sorted(rows, key=lambda row: -abs(row["estimate"]) / _half(row))[:most]


def _half(row: Row) -> float | None:
    """Of the interval that holds with all others."""
    ends = row["upper_simultaneous"], row["lower_simultaneous"]
    if None in ends or row["estimate"] is None:
        return None
    half = float(ends[0] - ends[1]) / 2
    return half if 0 < half < math.inf else None


def line(row: Row, confidence: float, together: int) -> tuple[str, str, str]:
    """A difference in words: the number, what its interval is, and what it is of.

    Args:
        row: of `rows_of`.
        confidence: of intervals.
        together: how many of them hold at once.
    """
    rate, half = row["outcome_kind"] == "rate", _half(row) or math.nan
    times, unit = (100, " %") if rate else (1, "")
    effect = digits(times * row["estimate"], times * half)
    sign = "+" if row["estimate"] >= 0 and not effect.startswith("-") else ""
    number = f"{cell(row['group'])} - {cell(row['compared_with'])}: {sign}{effect}{unit}"
    number += f" ± {digits(times * half, times * half)}{unit}"
    held = f"({100 * confidence:g} %{f' of all {together} together' * (together > 1)})"
    verdict = "beyond chance" if abs(row["estimate"]) > half else "not beyond chance"
    points = ", in percentage points" * rate
    return number, held, f"{cell(row['value'])}{points}: {verdict}{_relative(row)}"


def _relative(row: Row) -> str:
    lift, ends = row["lift"], (row["lift_lower"], row["lift_upper"])
    if lift is None or None in ends:
        return ""
    low, high = (100 * end for end in ends)
    wide = (high - low) / 4 or 1.0
    return (
        f"; relative to {cell(row['compared_with'])} {digits(100 * lift, wide)} % "
        f"({digits(low, wide)} to {digits(high, wide)})"
    )


def drawn(table: pa.Table, confidence: float) -> tuple[str, str, str] | None:
    """Lifts as bars with their intervals; None where none is known.

    Args:
        table: of the release.
        confidence: of intervals.
    """
    rows = [row for row in rows_of(table) if row["lift_lower"] is not None]
    if not rows:
        return None
    labels = [shortened(f"{cell(row['value'])} · {cell(row['group'])}", _WIDE) for row in rows]
    lift, low, high = (
        np.array([100 * row[name] for row in rows]) for name in ("lift", "lift_lower", "lift_upper")
    )
    texts = [f"{digits(x, (top - end) / 4)} %" for x, end, top in zip(lift, low, high, strict=True)]
    note = f"Lines are {100 * confidence:g} % intervals, each by itself, of chance and noise. "
    note += "A bar in outline is one that these alone may have made."
    return bars(labels, lift, [low, high], texts), "Differences, relative to the first arm", note
