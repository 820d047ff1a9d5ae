"""What people see of running totals: how they grow, and what holds of them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.views import facts, pages, report
from pipelines.views.drawing import drawn
from pipelines.views.facts import cell
from pipelines.views.headline import LARGEST, head
from pipelines.views.listing import listed
from pipelines.views.pictures import AxisScale, Chart

TABLE = "totals.parquet"
_PICTURES = 6  # of the largest totals
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
    last = table.filter(pc.equal(table["window"], table["window"][-1])) if windows else None
    said = {
        **statement,
        "title": title or f"{_what(request)}, so far",
        "figures": {TABLE: unit_of(request)},
        "headline": {"table": TABLE, "rows": LARGEST},
        "labels": {"value": "of"},
    }
    now = None if last is None else last.drop_columns(["window"])
    lead = f"{windows:,} of {request['horizon']:,} windows, charged once."
    pictures = "".join(_picture(table, name, confidence) for name in _largest(table))
    newest = listed(TABLE, table.take(pa.array(range(len(table))[::-1], pa.int64())), said, False)
    own = [
        ("noise", f"Gaussian of standard deviation {mechanism['sigma']:.4g} in each window, from "
         f"{mechanism['buffers']} buffers a total"),
    ]  # fmt: skip
    reading = [*_READING, f"Each interval covers by itself with probability {confidence:g}."]
    return pages.whole(
        head(now, said, lead, "Begun"),
        (pictures if windows > 1 or now is None else drawn({TABLE: now}, said))
        + report.table(TABLE, newest, False)
        + pages.folds(reading, said, own)
        + pages.files([TABLE]),
    )


_READING = (
    "The noise of a total keeps to what is said of it however many windows it is over: what one "
    "window adds to it, the next in part takes back. So totals of neighbouring windows are off "
    "together, and a difference of two has an error of its own: `--last` shows it, and `rolling` "
    "in Python.",
)


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
        AxisScale.over(windows), AxisScale.over(low, high), 140, mine["window"].to_pylist()
    )
    chart.area(windows, low, high, "band", f"{100 * confidence:g} % interval of each window alone")
    chart.line(windows, total)
    label = facts.shortened(cell(name), _WIDE)
    picture = chart.svg(f"total: {label}", "after window")
    return (
        f'<figure class="scroll" role="img" aria-label="The total of {html.escape(label)} after '
        f'each window; the table below has the numbers">\n{picture}\n</figure>\n'
    )
