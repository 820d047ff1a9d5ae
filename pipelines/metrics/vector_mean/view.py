"""What people see of an average row: its page, and tables on the screen."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from pipelines.metrics.mean.view import interval, number
from pipelines.releases.schema import read_own
from pipelines.views import facts, pages, selected
from pipelines.views.console import numbers_table
from pipelines.views.headline import head
from pipelines.views.pictures import AxisScale, Chart
from pipelines.views.selected import LOWER, UPPER

TABLE, FREQUENCIES = "vector-mean.parquet", "frequencies.parquet"
"""Of the numbers, and of the categories."""

_ROWS = 500
_SHOWN, _LARGEST = 20, 5  # on the screen: coordinates or categories, and shares of each
_DRAWN = ("estimate", "lower", "upper", LOWER, UPPER, "shrunk")
_POINTS = 1000  # that a picture shows; more would lie upon one another


def page(tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
    """The report of a release.

    Args:
        tables: the release's tables by file name.
        statement: the release's statement.
    """
    table, shares = tables[TABLE], tables.get(FREQUENCIES)
    request, top = statement["request"], table.slice(0, _ROWS)
    shrunk = "shrunk" in table.column_names
    return pages.page(
        "pipelines.metrics.vector_mean",
        head(table, statement),
        confidence=f"{100 * request['confidence']:g} %",
        chart=chart(table, request["confidence"]),
        order=_order(len(table)),
        covers=facts.prose(statement["error"]["covers"]),
        shrunk=html.escape(_of_shrinking(statement)),
        promises=facts.promises(statement),
        exactly=facts.prose(statement["published_exactly"]),
        heading="<th>shrunk</th>" if shrunk else "",
        rows="".join(_row(row) for row in top.to_pylist()),
        listed=f"{len(top):,}",
        all=f"{len(table):,}",
        shares="" if shares is None else _shares(shares),
        facts=facts.table(_facts(statement)),
    )


def _order(rows: int) -> str:
    """How the picture lays the coordinates out."""
    if rows <= _POINTS:
        return "Coordinates are sorted by their estimates."
    return f"Coordinates are sorted by their estimates; {_POINTS:,} of {rows:,}, evenly, are drawn."


def chart(table: pa.Table, confidence: float) -> str:
    """Sorted estimates within the band of their intervals, as inline SVG."""
    order = np.argsort(table["estimate"].to_numpy(), kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(_POINTS, len(order))).astype(np.int64)]
    # Of what is drawn alone, or the axis would reach to the number of reports.
    drawn = {
        name: table[name].to_numpy().astype(np.float64)[order]
        for name in _DRAWN
        if name in table.column_names
    }
    x, percent = np.arange(len(order)), f"{100 * confidence:g} %"
    edges = np.repeat(np.arange(len(order) + 1) - 0.5, 2)[1:-1]  # each band is as wide as a place
    figure = Chart(AxisScale(-0.5, len(order) - 0.5), AxisScale.over(*drawn.values()), 280)
    for low, high, kind, label in (
        (LOWER, UPPER, "wide", f"{percent} interval of all together"),
        ("lower", "upper", "band", f"{percent} interval of each"),
    ):
        figure.area(edges, np.repeat(drawn[low], 2), np.repeat(drawn[high], 2), kind, label)
    figure.points(x, drawn["estimate"], "estimate")
    if "shrunk" in drawn:
        figure.points(x, drawn["shrunk"], "shrunk", "other")
    return figure.svg("mean", "coordinates, by their estimates", ticks=False)


def _of_shrinking(statement: Mapping[str, Any]) -> str:
    """What became of the estimates, if anything."""
    shrunk = statement["error"].get("shrunk")
    if shrunk is None:
        return ""
    kept = f"{100 * shrunk['factor']:.3g} %"
    return (
        f"The shrunk row was moved towards {shrunk['towards']}; {kept} of the distance were kept. "
        f"{shrunk['means']}"
    )


def _shares(table: pa.Table) -> str:
    """The categories, as a section of its own."""
    top = table.slice(0, _ROWS)
    rows = "".join(_share(row) for row in top.to_pylist())
    return (
        '<h2>The categories</h2>\n<div class="scroll" tabindex="0" role="region" '
        'aria-label="the shares">\n<table class="numbers">\n<thead><tr>'
        "<td></td><td></td><th>share %</th><th>standard error</th><th>interval</th>"
        f"<th>of all together</th><th>reports</th></tr></thead>\n<tbody>\n{rows}</tbody>\n"
        "</table>\n</div>\n"
        f'<p class="note">{len(top):,} of {len(table):,} values are shown; '
        f"<code>{FREQUENCIES}</code> has all. Shares add up to 1: projected, shrunk or all alike, "
        "by the least estimated risk; intervals belong to the unbiased ones.</p>"
    )


def _share(row: Mapping[str, Any]) -> str:
    cells = [html.escape(row["value"]), *_cells(_percent(row))]
    columns = "".join(f"<td>{cell}</td>" for cell in [*cells, f"{row['n']:,}"])
    return f"<tr><th>{html.escape(row['attribute'])}</th>{columns}</tr>\n"


def _row(row: Mapping[str, Any]) -> str:
    cells = [*_cells(row), *([number(row, "shrunk")] if "shrunk" in row else [])]
    columns = "".join(f"<td>{cell}</td>" for cell in [*cells, f"{row['n']:,}"])
    return f"<tr><th>{html.escape(row['coordinate'])}</th>{columns}</tr>\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Estimate, error, and both intervals."""
    ends = (("lower", "upper"), (LOWER, UPPER))
    intervals = (f"{number(row, low)} to {number(row, high)}" for low, high in ends)
    return [number(row, "estimate"), number(row, "standard_error"), *intervals]


def _percent(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same row with its numbers in percent."""
    return {name: 100 * value if isinstance(value, float) else value for name, value in row.items()}


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the statement holds, as pairs for a table."""
    mechanism = statement["mechanism"]
    messages = f"{mechanism['messages_per_user']:.4g} of {mechanism['bits_per_message']} bits"
    return [
        *facts.mechanism(statement),
        ("messages of a user", messages),
        *facts.counted(statement),
        ("bounds", "; ".join(_bounds(bounds) for bounds in statement["bounds"])),
        ("neighbours", statement["neighbours"]),
        facts.made_with(statement),
    ]


def _bounds(bounds: Mapping[str, Any]) -> str:
    columns = (
        bounds["from"] if bounds["from"] == bounds["to"] else f"{bounds['from']} … {bounds['to']}"
    )
    return f"{columns}: {bounds['low']:g} to {bounds['high']:g}, {bounds['how']}"


def show(screen: Console, folder: str, shares: bool, confidence: float) -> None:
    """The average row of a release, and of its categories who is most frequent."""
    _show_numbers(screen, read_own(folder, TABLE), confidence)
    if shares:
        table = read_own(folder, FREQUENCIES)
        _show_shares(screen, table, confidence, f"{folder}/{FREQUENCIES}")


def _show_numbers(screen: Console, table: pa.Table, confidence: float) -> None:
    """The first coordinates, as a table."""
    shrunk = ["shrunk"] if "shrunk" in table.column_names else []
    headings = ["estimate", "± s.e.", selected.heading(confidence, len(table)), *shrunk]
    title = f"{min(_SHOWN, len(table))} of {len(table):,} coordinates"
    shown = numbers_table(("coordinate",), headings, title)
    for row in table.slice(0, _SHOWN).to_pylist():
        names = ("estimate", "standard_error")
        cells = [*(number(row, name) for name in names), interval(row)]
        cells += [number(row, "shrunk") for _ in shrunk]
        shown.add_row(Text(row["coordinate"]), *cells)  # a plain string would be read as markup
    screen.print(shown)


def _show_shares(screen: Console, table: pa.Table, confidence: float, path: str) -> None:
    """The largest shares of each category, as a table, and where all of them are."""
    attributes = table["attribute"].unique().to_pylist()
    headings = ("share %", "± s.e.", selected.heading(confidence, len(table)))
    words = f"{min(_SHOWN, len(attributes))} of {len(attributes):,} categories"
    title = f"the {_LARGEST} largest shares in each of {words}"
    shown = numbers_table(("category", "value"), headings, title)
    for attribute in attributes[:_SHOWN]:
        own = table.filter(pc.equal(table["attribute"], attribute))
        for row in own.sort_by([("estimate", "descending")]).slice(0, _LARGEST).to_pylist():
            shown.add_row(Text(attribute), Text(row["value"]), *_percents(row))
    screen.print(shown)
    if remark := selected.remark(table):
        screen.print(remark, highlight=False)
    words = f"all {len(table):,} shares: {path}"
    screen.print(words, highlight=False, markup=False, soft_wrap=True)


def _percents(row: Mapping[str, Any]) -> list[str]:
    """The share, its standard error and its interval, in percent."""
    percent = _percent(row)
    return [number(percent, "estimate"), number(percent, "standard_error"), interval(percent)]
