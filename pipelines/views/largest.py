"""The largest figures of a table, of whatever kind, as pictures show them."""

from __future__ import annotations

import math
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.metrics.view import cell
from pipelines.views import facts, selected

LEGEND = "estimate, interval of all together"

_WIDE = 48  # characters of a label
_OTHER = "(any other, or none)"


class Largest(NamedTuple):
    """Figures, the largest first; shares in percent.

    Attributes:
        labels: what each is of.
        estimates: of each.
        lower: where the intervals begin that cover all of the table together; NaN where unknown.
        upper: where they end.
        unit: of the numbers.
    """

    labels: list[str]
    estimates: list[float]
    lower: list[float]
    upper: list[float]
    unit: str


def largest(table: pa.Table, most: int) -> Largest:
    """The largest of a table with the columns that all kinds share.

    Args:
        table: with a row or more.
        most: at most so many.
    """
    order = pc.sort_indices(table["estimate"], sort_keys=[("", "descending")])
    rows = table.take(order.slice(0, most)).to_pylist()
    percent = 100 if rows[0]["figure"] == "share" else 1
    labels = [" · ".join(filter(None, (row["group"], row["value"]))) or _OTHER for row in rows]
    estimates, lower, upper = (
        [math.nan if row[name] is None else percent * row[name] for row in rows]
        for name in ("estimate", selected.LOWER, selected.UPPER)
    )
    return Largest(
        [facts.shortened(cell(label), _WIDE) for label in labels],
        estimates, lower, upper, "%" if percent > 1 else rows[0]["figure"],
    )  # fmt: skip
