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
_LIFT = ("lift", "lift_lower", "lift_upper")

Row = Mapping[str, Any]


def rows_of(table: pa.Table, most: int = _MOST) -> list[dict[str, Any]]:
    """The differences and `half` of their intervals, the clearest first; none of another table."""
    known = {*table.column_names}
    if not ({"outcome_kind", "compared_with"} <= known and known.issuperset(_LIFT)):
        return []
    if not all(pa.types.is_floating(table[name].type) for name in _LIFT):  # a stranger's
        return []
    rows = []
    for row in table.to_pylist():
        ends = [row.get(f"{end}_simultaneous", row.get(end)) for end in ("lower", "upper")]
        if None not in (row["estimate"], *ends) and 0 < ends[1] - ends[0] < math.inf:
            half = max(row["estimate"] - ends[0], ends[1] - row["estimate"])  # a quantile has two
            rows.append(row | {"half": half, "beyond": not ends[0] <= 0 <= ends[1]})
    return sorted(rows, key=lambda row: -abs(row["estimate"]) / row["half"])[:most]


def line(row: Row, confidence: float, together: int) -> tuple[str, str, str]:
    """A difference in words: the number, what its interval is, and what it is of.

    Args:
        row: of `rows_of`.
        confidence: of intervals.
        together: how many of them hold at once.
    """
    rate = row["outcome_kind"] == "rate"
    times, unit = (100, " %") if rate else (1, "")
    effect, half = times * row["estimate"], times * row["half"]
    said, wide = digits(effect, half), digits(half, half)
    first, sign = cell(row["compared_with"]), "" if said.startswith("-") else "+"
    interval = f"({100 * confidence:g} %{f' of all {together} together' * (together > 1)})"
    verdict = "beyond chance" if row["beyond"] else "not beyond chance"
    about = f"{cell(row['value'])}{', in percentage points' * rate}: {verdict}"
    lift, low, high = (row[name] for name in _LIFT)
    if None not in (lift, low, high) and high > low:
        lift, low, high = (digits(100 * x, 25 * (high - low)) for x in (lift, low, high))
        about += f"; relative to {first} {lift} % ({low} to {high})"
    return f"{cell(row['group'])} - {first}: {sign}{said}{unit} ± {wide}{unit}", interval, about


def drawn(table: pa.Table, confidence: float, most: int = _MOST) -> tuple[str, str, str] | None:
    """Lifts as bars with their intervals, the clearest first; None where none is known."""
    rows = [row for row in rows_of(table) if None not in [row[name] for name in _LIFT]][:most]
    if not rows:
        return None
    labels = [shortened(f"{cell(row['value'])} · {cell(row['group'])}", _WIDE) for row in rows]
    lift, low, high = 100 * np.array([[row[name] for name in _LIFT] for row in rows]).T
    texts = [f"{digits(x, (b - a) / 4)} %" for x, a, b in zip(lift, low, high, strict=True)]
    note = f"Lines are {100 * confidence:g} % intervals of all together, of chance and noise. "
    note += "A bar in outline is one that these alone may have made."
    return bars(labels, lift, [low, high], texts), "Differences relative to the first arm", note
