"""A release as a figure of matplotlib, for those who work in Python; pages draw their own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.views.facts import shortened
from pipelines.views.headline import label, order, unit_of
from pipelines.views.selected import LOWER, UPPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDE = 48  # characters of a label
_MOST = 30  # bars: more than these cannot be told apart


def require_matplotlib() -> None:
    """Say what to install for figures; whatever else there is works without.

    Raises:
        RequestError: it is not installed.
    """
    if find_spec("matplotlib") is None:
        raise RequestError(
            "figures are drawn by matplotlib, which is not installed: pip install matplotlib, or, "
            "of a clone, pip install '.[plots]'"
        )


def drawn(table: pa.Table, statement: Mapping[str, Any]) -> Figure:
    """The estimates of a table with their simultaneous intervals.

    Raises:
        RequestError: the table has no figures that all kinds share, or there is no matplotlib.
    """
    if not ({"estimate", "figure", LOWER, UPPER} <= {*table.column_names} and len(table)):
        raise RequestError("this table has no estimates to be plotted; read its columns")
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    if {"low", "high"} <= {*table.column_names}:
        _bins(figure, table)
    else:
        _bars(figure, table)
    figure.legend(loc="outside lower center")  # where it hides nothing
    name = statement.get("metric") or statement["release"]
    guarantee = statement["guarantees"]["release"]
    figure.suptitle(f"{name}: epsilon {guarantee['epsilon']:.4g} per {guarantee['unit']}")
    return figure


def _ends(table: pa.Table) -> tuple[str, str, str]:
    """The columns of the widest intervals that a table has, and the picture's legend."""
    if table[LOWER].null_count < len(table):
        return LOWER, UPPER, "estimate, interval of all together"
    return "lower", "upper", "estimate, interval of each alone"


def _bars(figure: Figure, table: pa.Table) -> None:
    kind, (low, high, legend) = table["figure"][0].as_py(), _ends(table)
    rows = table.take(pa.array(order(table, kind, _MOST), pa.int64())).to_pylist()
    times = 100 if kind == "share" else 1
    lengths, lower, upper = (
        [np.nan if row[name] is None else times * row[name] for row in rows]
        for name in ("estimate", low, high)
    )
    labels = [label((row["group"], row["value"]), kind, len(table) > 1) or "all" for row in rows]
    figure.set_figheight(2 + 0.25 * len(rows))
    axes, places = figure.add_subplot(), np.arange(len(rows))
    axes.barh(places, lengths, color="tab:blue", alpha=0.5)
    axes.hlines(places, lower, upper, color="black", label=legend)
    # Strangers have made some labels up: what TeX takes for a formula is none.
    axes.set_yticks(places, [shortened(text, _WIDE) for text in labels], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(unit_of(kind))


def _bins(figure: Figure, table: pa.Table) -> None:
    axes, (low, high, legend) = figure.add_subplot(), _ends(table)
    edges = [*table["low"].to_pylist(), table["high"][-1].as_py()]
    estimate, lower, upper = (100 * table[name].to_numpy() for name in ("estimate", low, high))
    axes.stairs(upper, edges, baseline=lower, fill=True, alpha=0.3, label=legend)
    axes.stairs(estimate, edges, color="tab:blue")
    axes.set_ylabel("%")
