"""The largest figures of a table, of whatever kind, as pictures show them."""

from __future__ import annotations

import math
from typing import NamedTuple

import pyarrow as pa

from pipelines.views import facts, selected
from pipelines.views.facts import cell
from pipelines.views.headline import OTHER, order, unit_of

_TOGETHER, _ALONE = "estimate, interval of all together", "estimate, interval of each alone"

_WIDE = 48  # characters of a label


class Largest(NamedTuple):
    """Figures, the largest first; shares in percent.

    Attributes:
        labels: what each is of.
        estimates: of each.
        lower: where the intervals begin; NaN where that is unknown.
        upper: where they end.
        unit: of the numbers.
        legend: what is shown, and what the intervals cover.
    """

    labels: list[str]
    estimates: list[float]
    lower: list[float]
    upper: list[float]
    unit: str
    legend: str


def interval(table: pa.Table) -> tuple[str, str, str]:
    """The columns of both ends of the widest intervals that a table has, and the picture's legend.

    Args:
        table: with the columns that all kinds share.
    """
    if table[selected.LOWER].null_count < len(table):
        return selected.LOWER, selected.UPPER, _TOGETHER
    return "lower", "upper", _ALONE


def largest(table: pa.Table, most: int) -> Largest:
    """The largest of a table with the columns that all kinds share.

    Args:
        table: with a row or more.
        most: at most so many.
    """
    other = OTHER if len(table) > 1 else "all"
    figure = table["figure"][0].as_py()
    rows = table.take(pa.array(order(table, figure)[:most], pa.int64())).to_pylist()
    percent = 100 if figure == "share" else 1
    labels = [" · ".join(filter(None, (row["group"], row["value"]))) or other for row in rows]
    *ends, legend = interval(table)
    estimates, lower, upper = (
        [math.nan if row[name] is None else percent * row[name] for row in rows]
        for name in ("estimate", *ends)
    )
    return Largest(
        [facts.shortened(cell(label), _WIDE) for label in labels],
        estimates, lower, upper, unit_of(figure), legend,
    )  # fmt: skip
