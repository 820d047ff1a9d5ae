"""What people see of counts and sums: a page, and the largest of them on the screen."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from pipelines.metrics.counting.result import COLUMNS
from pipelines.views import facts, pages, selected
from pipelines.views.console import numbers_table
from pipelines.views.digits import digits, spread
from pipelines.views.facts import cell
from pipelines.views.headline import QUANTILE, figure_of, first_word, head, label, order
from pipelines.views.pictures import AxisScale, Chart, bars

OTHER_LABEL, OTHER_PAIR = "(any other, or none)", "(any other pair)"

_BARS = 30  # more than these cannot be told apart in a picture
_ROWS = 200
_POINTS = 1024  # of a line
_SHOWN = 10  # on the screen
_WIDE = 28  # characters of a label


def page(
    first: pa.Table,
    statement: Mapping[str, Any],
    table: pa.Table | None = None,
    figure: str | None = None,
) -> bytes:
    """The report of a release.

    Args:
        first: the release's table, of which the page's first figures are.
        statement: the release's.
        table: what is listed, as people read it; by default the same.
        figure: above the table, whose order is then kept; by default bars of the largest figures.
    """  # fmt: skip
    table, of = first if table is None else table, figure_of(statement)
    top = _largest(table, _ROWS, of) if figure is None else table.slice(0, _ROWS)
    names = _names(table)
    together = len(table) if selected.LOWER in table.column_names else 1
    confidence = statement["request"]["confidence"]
    interval = html.escape(selected.heading(confidence, together))
    labels, errors = statement.get("labels", {}), _has_errors(table)
    own = [html.escape(cell(labels.get(name, name))) for name in names]
    heads = [*own, *_heads(of, errors), interval]
    which = first_word(of) if figure is None else "first"
    listed = "" if len(top) == len(table) else f"The {len(top)} {which} of {len(table):,}."
    return pages.page(
        "pipelines.metrics.counting",
        head(first, statement),
        figure=_figure(table, confidence, of)
        if figure is None and len(table) > 1
        else figure or "",
        promises=facts.promises(statement),
        reading=facts.prose(statement["error"]["reading"]),
        cut=" ".join(html.escape(said) for said in _cut(statement)),
        heads="".join(f"<th>{head}</th>" for head in heads),
        rows="".join(_row(names, row, of, errors) for row in top.to_pylist()),
        listed=listed,
        facts=facts.table(_facts(statement)),
    )


def _names(table: pa.Table) -> list[str]:
    """The columns that say what a figure is of."""
    return [name for name in table.column_names if name not in COLUMNS]


def _label(row: Mapping[str, Any], names: list[str]) -> list[str]:
    """What a figure is of, as people can read it."""
    if len(names) > 1 and all(row[name] is None for name in names):
        return [OTHER_PAIR, *[""] * (len(names) - 1)]  # either value may be a declared one
    return [OTHER_LABEL if row[name] is None else cell(row[name]) for name in names]


def _has_errors(table: pa.Table) -> bool:
    return "standard_error" in table.column_names and (
        table["standard_error"].null_count < len(table)
    )


def _heads(figure: str, errors: bool) -> list[str]:
    """Of the columns of numbers."""
    unit = ", %" if figure == "share" else ""
    return [f"estimate{unit}", *[f"standard error{unit}"] * errors]


def _largest(table: pa.Table, rows: int, figure: str = "") -> pa.Table:
    """Those that a reader looks for first: the largest, or, of means, those that are best known."""
    return table.take(pa.array(order(table, figure)[:rows], pa.int64()))


def _figure(table: pa.Table, confidence: float, figure: str) -> str:
    """Bars with error bars, as a figure of a page."""
    top, names = _largest(table, _BARS, figure), _names(table)
    labels = [
        facts.shortened(" · ".join(filter(None, _label(row, names))), _WIDE)
        for row in top.to_pylist()
    ]
    ends = [top[name].to_numpy() for name in (selected.LOWER, selected.UPPER)]
    legend = f"estimate, {100 * confidence:g} % interval of all together"
    drawn = bars(labels, top["estimate"].to_numpy(), ends, legend)
    said = f"The {len(top)} {first_word(figure)} of {len(table):,} figures with error bars"
    return framed(drawn, said, len(table), confidence)


def framed(drawn: str, said: str, together: int, confidence: float) -> str:
    """A drawing as a figure of a page, with what its lines cover.

    Args:
        drawn: as SVG.
        said: what it shows.
        together: of how many figures each line has its part.
        confidence: of all together.
    """
    return (
        f'<figure class="scroll" role="img" aria-label="{said}; the table below '
        f'has the numbers">\n{drawn}\n</figure>\n'
        f'<p class="note">{said}: lines cover the true figures of all {together:,} together with '
        f"probability {confidence:g}.</p>\n"
    )


def cumulative(table: pa.Table, confidence: float) -> str:
    """The shares below each number with their band, as a figure of a page.

    Args:
        table: the bins of a distribution.
        confidence: of the band, of all points together.
    """
    # A picture has fewer points across than a table may have rows.
    table = table.take(np.unique(np.linspace(0, len(table) - 1, _POINTS).round().astype(int)))
    edges = table["high"].to_numpy()
    band = [100 * table[f"cumulative_{end}_simultaneous"].to_numpy() for end in ("lower", "upper")]
    chart = Chart(AxisScale.over(edges), AxisScale(0, 100))
    chart.area(
        edges, band[0], band[1], "band", f"{100 * confidence:g} % band of all points together"
    )
    chart.line(edges, 100 * table["cumulative"].to_numpy())
    drawn = chart.svg("share of numbers below, %")
    said = "The share of numbers below each number"
    return (
        f'<figure class="scroll" role="img" aria-label="{said}; the files beside '
        f'this page have the numbers">\n{drawn}\n</figure>\n'
    )


def show_quantiles(screen: Console, table: pa.Table, confidence: float) -> None:
    """The quantiles, as a table."""
    headings = ("estimate", f"{100 * confidence:g} % interval")
    shown_ = numbers_table(("quantile",), headings)
    for row in table.slice(0, _ROWS).to_pylist():
        error = spread(row["lower"], row["upper"])
        estimate, low, high = (digits(row[name], error) for name in ("estimate", "lower", "upper"))
        shown_.add_row(f"{100 * row['p']:.10g} %", estimate, f"{low} to {high}")
    screen.print(shown_)


def _row(names: list[str], row: Mapping[str, Any], figure: str, errors: bool) -> str:
    low, high = selected.ends(row)
    error, estimate = row.get("standard_error"), row["estimate"]
    if figure == "share":
        low, high, error, estimate = (
            None if number is None else 100 * number for number in (low, high, error, estimate)
        )
    labels = _label(row, names)
    if figure == QUANTILE:
        labels = [label((None, str(row["p"])), figure)]
    # A second label that there is none of is no heading, which readers for the blind would stop at.
    heads = "".join(f"<th>{html.escape(text)}</th>" if text else "<td></td>" for text in labels)
    by = error or spread(low, high)
    numbers = digits(estimate, by), *[digits(error, error)] * errors
    cells = "".join(f"<td>{number}</td>" for number in numbers)
    return f"<tr>{heads}{cells}<td>{digits(low, by)} to {digits(high, by)}</td></tr>\n"


def _cut(statement: Mapping[str, Any]) -> list[str]:
    """What was left out, in sentences."""
    return [
        f"About {digits(part['estimate'], part['standard_error'])} {part['what']} (standard error "
        f"{digits(part['standard_error'], part['standard_error'])})."
        for part in statement.get("cut", {}).values()
    ]


def _facts(statement: Mapping[str, Any]) -> list[facts.Fact]:
    """What the statement holds, as pairs for a table."""
    mechanism, request = statement["mechanism"], statement["request"]
    drawn = f", dummies drawn by the {mechanism['dummies']}" if "dummies" in mechanism else ""
    noise = facts.noise(mechanism["constants"].get("noise", []))
    return [
        ("mechanism", f"{mechanism['name']}{drawn}"),
        ("published in", mechanism["source"]),
        *([("noise", noise)] if noise else []),
        ("messages", f"{mechanism['messages_per_user']:,.4g} a {request['unit']}"),
        facts.request(statement),
        ("neighbours", statement["neighbours"]),
        ("published as it is", statement["published_exactly"]),
        facts.made_with(statement),
    ]


def show(
    screen: Console, table: pa.Table, confidence: float, labels: Mapping[str, str] | None = None
) -> None:
    """The largest figures, as a table.

    Args:
        screen: where to.
        table: the release's.
        confidence: of intervals.
        labels: columns that say what a figure is of, as readers know them.
    """
    top, names = _largest(table, _SHOWN), _names(table)
    headings = ("estimate", "± s.e.", selected.heading(confidence, len(table)))
    title = f"the {len(top)} largest of {len(table):,} figures" if len(table) > 1 else None
    own = [escape(cell((labels or {}).get(name, name))) for name in names]
    screen_table = numbers_table(own, headings, title)
    for row in top.to_pylist():
        error, (low, high) = row["standard_error"], selected.ends(row)
        screen_table.add_row(
            *(Text(label) for label in _label(row, names)),  # plain strings would be markup
            digits(row["estimate"], error),
            digits(error, error),
            f"{digits(low, error)} to {digits(high, error)}",
        )
    screen.print(screen_table)
