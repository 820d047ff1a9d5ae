"""report.html of a release of an average row: one page, self-contained."""

from __future__ import annotations

import html
import io
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines import pages
from pipelines.mean.report import number
from pipelines.vector_mean.result import FREQUENCIES, TABLE

_ROWS = 500
_POINTS = 1000  # that a picture shows; more would lie upon one another


def page(tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
    """The report of a release.

    Args:
        tables: the release's tables by file name.
        statement: the release's statement.
    """
    table, shares = tables[TABLE], tables.get(FREQUENCIES)
    asked, top = statement["asked"], table.slice(0, _ROWS)
    shrunk = "shrunk" in table.column_names
    return pages.page(
        "pipelines.vector_mean",
        dimension=f"{asked['dimension']:,}",
        n=f"{statement['n']:,}",
        created=statement["created"],
        confidence=f"{100 * asked['confidence']:g} %",
        chart=_chart(table, asked["confidence"]),
        order=_order(len(table)),
        covers=html.escape(statement["error"]["covers"]),
        shrunk=html.escape(_of_shrinking(statement)),
        promises="".join(f"<p>{html.escape(text)}</p>" for text in statement["in_words"]),
        exactly=html.escape(statement["published_exactly"]),
        heading="<th>shrunk</th>" if shrunk else "",
        rows="".join(_row(row) for row in top.to_pylist()),
        listed=f"{len(top):,}",
        all=f"{len(table):,}",
        shares="" if shares is None else _shares(shares),
        facts="".join(_fact(name, text) for name, text in _facts(statement)),
    )


def _order(rows: int) -> str:
    """How the picture lays the coordinates out."""
    if rows <= _POINTS:
        return "Coordinates are sorted by their estimates."
    return f"Coordinates are sorted by their estimates; {_POINTS:,} of {rows:,}, evenly, are drawn."


def _chart(table: pa.Table, confidence: float) -> str:
    """Sorted estimates within the band of their intervals, as inline SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # the object interface: no global state, no display

    order = np.argsort(table["estimate"].to_numpy(), kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(_POINTS, len(order))).astype(np.int64)]
    drawn = {
        name: table[name].to_numpy().astype(np.float64)[order]
        for name in table.column_names
        if name != "coordinate"
    }
    x = np.arange(len(order))
    style = rc_context(
        {"font.family": "sans-serif", "svg.fonttype": "none", "svg.hashsalt": "hushbeam"}
    )
    with style, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(8.4, 3.6), layout="constrained")
        axes = figure.subplots()
        told = f"{100 * confidence:g} %"
        for ends, colour, said in (
            (("lower_of_all", "upper_of_all"), "#e3edf7", f"{told} interval of all together"),
            (("lower", "upper"), "#b9d1e8", f"{told} interval of each"),
        ):
            low, high = (drawn[name] for name in ends)
            if len(x) == 1:
                axes.vlines(x, low, high, colors=colour, linewidth=12, label=said)
            else:
                axes.fill_between(x, low, high, color=colour, step="mid", linewidth=0, label=said)
        axes.plot(x, drawn["estimate"], ".", color="#1c3f66", markersize=3, label="estimate")
        if "shrunk" in drawn:
            axes.plot(x, drawn["shrunk"], ".", color="#b5651d", markersize=2, label="shrunk")
        axes.set_xticks([])
        axes.set_xlabel("coordinates, by their estimates")
        axes.set_ylabel("mean")
        axes.legend(loc="upper left", frameon=False, fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        buffer = io.StringIO()
        # No metadata: the page says when it was made and by what, and needs no addresses.
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]


def _of_shrinking(statement: Mapping[str, Any]) -> str:
    """What became of the estimates, if anything."""
    told = statement["error"].get("shrunk")
    if told is None:
        return ""
    kept = f"{100 * told['factor']:.3g} %"
    return (
        f"The shrunk row was moved towards {told['towards']}; {kept} of the distance were kept. "
        f"{told['means']}"
    )


def _shares(table: pa.Table) -> str:
    """The categories, as a section of its own."""
    top = table.slice(0, _ROWS)
    rows = "".join(_share(row) for row in top.to_pylist())
    return (
        '<h2>The categories</h2>\n<div class="scroll">\n<table class="numbers">\n<thead><tr>'
        "<th></th><th></th><th>share %</th><th>standard error</th><th>interval</th>"
        f"<th>of all together</th><th>reports</th></tr></thead>\n<tbody>\n{rows}</tbody>\n"
        "</table>\n</div>\n"
        f'<p class="note">{len(top):,} of {len(table):,} values are shown; '
        f"<code>{FREQUENCIES}</code> has all. Shares were projected on what adds up to 1 (POP); "
        "intervals belong to the unbiased ones.</p>"
    )


def _share(row: Mapping[str, Any]) -> str:
    def percent(name: str) -> str:
        return number(None if row[name] is None else 100 * row[name])

    cells = [html.escape(row["value"]), percent("estimate"), percent("standard_error")]
    cells += [
        f"{percent(low)} to {percent(high)}"
        for low, high in (("lower", "upper"), ("lower_of_all", "upper_of_all"))
    ]
    told = "".join(f"<td>{cell}</td>" for cell in [*cells, f"{row['n']:,}"])
    return f"<tr><th>{html.escape(row['attribute'])}</th>{told}</tr>\n"


def _row(row: Mapping[str, Any]) -> str:
    cells = [number(row["estimate"]), number(row["standard_error"])]
    cells += [
        f"{number(row[low])} to {number(row[high])}"
        for low, high in (("lower", "upper"), ("lower_of_all", "upper_of_all"))
    ]
    cells += [number(row["shrunk"])] if "shrunk" in row else []
    told = "".join(f"<td>{cell}</td>" for cell in [*cells, f"{row['n']:,}"])
    return f"<tr><th>{html.escape(row['coordinate'])}</th>{told}</tr>\n"


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the statement holds, as pairs for a table."""
    mechanism, asked = statement["mechanism"], statement["asked"]
    constants = ", ".join(
        f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}"
        for k, v in mechanism["constants"].items()
    )
    rejects = ", ".join(f"{name}: {amount:,}" for name, amount in statement["rejects"].items())
    told = f"{mechanism['messages_per_user']:.4g} of {mechanism['bits_per_message']} bits"
    return [
        ("mechanism", f"{mechanism['name']} ({constants})"),
        ("published in", mechanism["source"]),
        ("messages of a user", told),
        ("model", asked["model"]),
        ("reports counted", f"{statement['n']:,} (at least {asked['min_reports']:,} required)"),
        ("rows read", f"{statement['rows_read']:,}"),
        ("rows that could not be used", rejects or "none"),
        ("bounds", "; ".join(_bounds(each) for each in statement["bounds"])),
        ("neighbours", statement["neighbours"]),
        ("made with", ", ".join(f"{k} {v}" for k, v in statement["versions"].items())),
    ]


def _bounds(told: Mapping[str, Any]) -> str:
    columns = told["from"] if told["from"] == told["to"] else f"{told['from']} … {told['to']}"
    return f"{columns}: {told['low']:g} to {told['high']:g}, {told['how']}"


def _fact(name: str, text: str) -> str:
    return f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>\n"
