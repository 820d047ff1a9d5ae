"""What people see of running totals: how they grow, and what holds of them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.views import facts, pages
from pipelines.views.digits import digits
from pipelines.views.facts import cell
from pipelines.views.headline import LARGEST, head
from pipelines.views.pictures import AxisScale, Chart

TABLE = "totals.parquet"
_PICTURES = 6  # of the largest totals
_ROWS = 200
_WIDE = 60  # characters of a name


def page(table: pa.Table, statement: Mapping[str, Any], title: str | None = None) -> bytes:
    """The report of the windows so far.

    Args:
        table: of their totals, in the order of windows.
        statement: of all windows.
        title: what grows; by default as the terms say it.
    """
    request, mechanism = statement["request"], statement["mechanism"]
    windows, confidence = len(table["window"].unique()), request["confidence"]
    newest = table.slice(max(len(table) - _ROWS, 0)).to_pylist()[::-1]
    listed = f"The newest {len(newest):,} of {len(table):,}."
    last = table.filter(pc.equal(table["window"], table["window"][-1])) if windows else None
    said = {
        "title": title or f"{_what(request)}, so far",
        "figures": {TABLE: unit_of(request)},
        "headline": {"table": TABLE, "rows": LARGEST},
    }
    lead = f"{windows:,} of {request['horizon']:,} windows, charged once."
    begin = head(
        last if last is None else last.drop_columns(["window"]),
        {**statement, **said},
        lead,
        "Begun",
    )
    return pages.page(
        "pipelines.running",
        begin,
        pictures="\n".join(_picture(table, name, confidence) for name in _largest(table)),
        rows="".join(map(_row, newest)),
        listed=listed if len(newest) < len(table) else "",
        confidence=f"{confidence:g}",
        facts=facts.table([
            ("mechanism", f"{mechanism['name']}, {mechanism['buffers']} buffers of noise a total"),
            ("published in", mechanism["source"]),
            ("noise of a window", f"Gaussian of standard deviation {mechanism['sigma']:.4g}"),
            facts.request(statement),
            ("neighbours", statement["neighbours"]),
            ("published as it is", statement["published_exactly"]),
            facts.made_with(statement),
        ]),
    )  # fmt: skip


def _what(request: Mapping[str, Any]) -> str:
    """What grows, in words; numbers from Python are of whatever adds them."""
    if request.get("kind") == "sum":
        by = f" by {request['group_by']}" if request["group_by"] else ""
        return f"{request['column']}: sum{by}"
    return f"{request['column']}: {unit_of(request)}" if request.get("column") else unit_of(request)


def unit_of(request: Mapping[str, Any]) -> str:
    """What a total counts."""
    if request.get("kind") == "sum":
        return "sum"
    return "events" if request.get("per_value", 1) > 1 else f"{request['unit']}s"


def _largest(table: pa.Table) -> list[str]:
    """The names of the largest totals after the last window."""
    if not len(table):
        return []
    last = table.filter(pc.equal(table["window"], table["window"][-1]))
    top = pc.sort_indices(last["estimate"], sort_keys=[("", "descending")])
    return list(last["value"].take(top.slice(0, _PICTURES)).to_pylist())


def _picture(table: pa.Table, name: str, confidence: float) -> str:
    """How one total grows, with its band, as a figure of the page."""
    mine = table.filter(pc.equal(table["value"], name))
    low, total, high = (mine[end].to_numpy() for end in ("lower", "estimate", "upper"))
    windows = range(1, len(mine) + 1)
    chart = Chart(
        AxisScale.over(windows), AxisScale.over(low, high), names=mine["window"].to_pylist()
    )
    chart.area(windows, low, high, "band", f"{100 * confidence:g} % interval of each window alone")
    chart.line(windows, total)
    if len(mine) == 1:
        chart.points(windows, total)
    label = facts.shortened(cell(name), _WIDE)
    drawn = chart.svg(f"total: {label}", "after window")
    return (
        f'<figure class="scroll" role="img" aria-label="The total of {html.escape(label)} after '
        f'each window; the table below has the numbers">\n{drawn}\n</figure>'
    )


def _row(row: Mapping[str, Any]) -> str:
    error = row["standard_error"]
    heads = "".join(f"<th>{html.escape(cell(row[name]))}</th>" for name in ("window", "value"))
    estimate, own, low, high = (
        digits(row[name], error) for name in ("estimate", "standard_error", "lower", "upper")
    )
    return f"<tr>{heads}<td>{estimate}</td><td>{own}</td><td>{low} to {high}</td></tr>\n"
