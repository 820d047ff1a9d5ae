"""A release as a figure of matplotlib, for those who work in Python; pages draw their own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.views.largest import interval, largest
from pipelines.views.selected import LOWER, UPPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

    Args:
        table: of a release.
        statement: of the release.

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


def _bars(figure: Figure, table: pa.Table) -> None:
    """The largest, one below the other."""
    top = largest(table, _MOST)
    figure.set_figheight(2 + 0.25 * len(top.labels))
    axes, places = figure.add_subplot(), np.arange(len(top.labels))
    axes.barh(places, top.estimates, color="tab:blue", alpha=0.5)
    axes.hlines(places, top.lower, top.upper, color="black", label=top.legend)
    # Strangers have made some labels up: what TeX takes for a formula is none.
    axes.set_yticks(places, top.labels, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(top.unit)


def _bins(figure: Figure, table: pa.Table) -> None:
    """Along the numbers, bin by bin."""
    axes, (low, high, legend) = figure.add_subplot(), interval(table)
    edges = [*table["low"].to_pylist(), table["high"][-1].as_py()]
    estimate, lower, upper = (100 * table[name].to_numpy() for name in ("estimate", low, high))
    axes.stairs(upper, edges, baseline=lower, fill=True, alpha=0.3, label=legend)
    axes.stairs(estimate, edges, color="tab:blue")
    axes.set_ylabel("%")
