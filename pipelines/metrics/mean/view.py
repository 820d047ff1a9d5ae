"""What people see of a release of means: its page, and a table on the screen."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from pipelines.views import facts, pages, selected
from pipelines.views.console import numbers_table
from pipelines.views.digits import digits, spread
from pipelines.views.headline import head

_ROWS = 500
_SHOWN = 20  # on the screen
_SCALE = 180  # width of the whole range between the bounds, in pixels
_WIDE = 48  # characters of a group that are shown


def page(table: pa.Table, statement: Mapping[str, Any]) -> bytes:
    """The report of a release.

    Args:
        table: the release's table.
        statement: the release's statement.
    """
    request, bounds = statement["request"], statement["bounds"]
    top = table.slice(0, _ROWS).to_pylist()
    rows = zip(labels(table), top, strict=False)
    unit = "users" if "users" in table.column_names else "rows"
    return pages.page(
        "pipelines.metrics.mean",
        head(table, statement),
        low=f"{bounds['low']:g}",
        high=f"{bounds['high']:g}",
        how=html.escape(bounds["how"]),
        confidence=f"{100 * request['confidence']:g} %",
        together="all groups together" if "group" in table.column_names else "by itself",
        covers=facts.prose(statement["error"]["covers"]),
        promises=facts.promises(statement),
        exactly=facts.prose(statement["published_exactly"]),
        last=unit,
        rows="".join(_row(label, row, unit, bounds) for label, row in rows),
        listed=len(top),
        all=f"{len(table):,}",
        facts=facts.table(_facts(statement)),
    )


def labels(table: pa.Table) -> list[str]:
    """What each row is the mean of."""
    if "group" not in table.column_names:
        return ["mean"]
    return [facts.shortened(str(group), _WIDE) for group in table["group"].to_pylist()]


def number(row: Mapping[str, Any], name: str) -> str:
    """A number of a row to the digits that its error allows, or a dash where there is none."""
    error = row["standard_error"]
    return "—" if row[name] is None else digits(row[name], error or spread(*selected.ends(row)))


def interval(row: Mapping[str, Any]) -> str:
    """Both ends of a row's interval: among others', that which covers with all of them."""
    lower, upper = selected.ends(row)
    error = row["standard_error"] or spread(lower, upper)
    return "withheld" if lower is None else f"{digits(lower, error)} to {digits(upper, error)}"


def _row(label: str, row: Mapping[str, Any], unit: str, bounds: Mapping[str, Any]) -> str:
    """One mean with its interval drawn between the bounds."""
    cells = "".join(f"<td>{number(row, name)}</td>" for name in ("estimate", "standard_error"))
    last = "withheld" if row[unit] is None else f"{row[unit]:,.0f}"
    if error := row[f"{unit}_standard_error"]:
        last += f" ± {digits(error, error)}"
    return (
        f"<tr><th>{html.escape(label)}</th>{cells}<td>{interval(row)}</td><td>{last}</td>"
        f"<td>{_drawn(row, bounds)}</td></tr>\n"
    )


def _drawn(row: Mapping[str, Any], bounds: Mapping[str, Any]) -> str:
    """The interval as a line, the estimate as a dot."""
    lower, upper = selected.ends(row)
    if lower is None:
        return ""
    low, half = bounds["low"], bounds["high"] / 2 - bounds["low"] / 2

    def at(value: float) -> float:
        return 4 + _SCALE * min(max((value / 2 - low / 2) / half, 0.0), 1.0)

    dot = ""
    if row["estimate"] is not None:
        dot = f'<circle cx="{at(row["estimate"]):.1f}" cy="7" r="3.5" class="dot"/>'
    return (
        f'<svg class="picture" width="{_SCALE + 8}" height="14" role="img" aria-hidden="true">'
        f'<rect x="4" y="6" width="{_SCALE}" height="2" class="wide"/>'
        f'<line x1="{at(lower):.1f}" x2="{at(upper):.1f}" y1="7" y2="7" '
        f'class="thick"/>{dot}</svg>'
    )


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the statement holds, as pairs for a table."""
    mechanism, request, bounds = statement["mechanism"], statement["request"], statement["bounds"]
    described = [
        *facts.mechanism(statement),
        ("bits of a report", str(mechanism["bits_per_message"])),
        *facts.counted(statement),
        ("bounds", f"{bounds['low']:g} to {bounds['high']:g}, {bounds['how']}"),
        ("neighbours", statement["neighbours"]),
        ("intervals", "of the worst case" if request["interval"] == "worst" else "plug-in"),
        facts.made_with(statement),
    ]
    if request["groups"] is not None:
        public = "public" if request["groups_public"] else "as private as the numbers"
        described.insert(7, ("groups", f"{request['groups']}, {public}"))
    return described


def show(screen: Console, table: pa.Table, confidence: float) -> None:
    """The means, or the first of them, as a table on the screen."""
    grouped = "group" in table.column_names
    title = f"{min(_SHOWN, len(table))} of {len(table):,} groups" if grouped else None
    interval_of = selected.heading(confidence, len(table) if grouped else 1)
    headings = ("estimate", "± s.e.", interval_of)
    shown = numbers_table(("group" if grouped else "",), headings, title)
    for label, row in zip(labels(table), table.slice(0, _SHOWN).to_pylist(), strict=False):
        shown.add_row(
            Text(label),  # a plain string would be read as markup
            number(row, "estimate"),
            number(row, "standard_error"),
            interval(row),
        )
    screen.print(shown)
