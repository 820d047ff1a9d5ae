"""What people see of a release whose kind has no page of its own: its tables and its statement."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from pipelines.views import facts, pages
from pipelines.views.console import numbers_table
from pipelines.views.headline import chosen, head

_ROWS = 200
_SHOWN = 20  # on the screen


def page(tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
    """The report of a release.

    Args:
        tables: of the release, by file name.
        statement: its statement.
    """
    first = tables.get(chosen(statement)["table"])
    return pages.page(
        "pipelines.metrics",
        head(first, statement),
        tables="\n".join(_table(name, table) for name, table in tables.items()),
        promises=facts.promises(statement),
        exactly=facts.prose(statement["published_exactly"]),
        facts=facts.table(_facts(statement)),
    )


def show(screen: Console, tables: Mapping[str, pa.Table]) -> None:
    """The first rows of each table."""
    for name, table in tables.items():
        title = f"{min(_SHOWN, len(table))} of {len(table):,} rows of {name}"
        shown = numbers_table((), table.column_names, title)
        for row in table.slice(0, _SHOWN).to_pylist():
            # A plain string would be read as markup.
            shown.add_row(*(Text(facts.cell(value)) for value in row.values()))
        screen.print(shown)


def _table(name: str, table: pa.Table) -> str:
    """The first rows of a table, as HTML."""
    heads = "".join(f"<th>{html.escape(column)}</th>" for column in table.column_names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(facts.cell(v))}</td>" for v in row.values()) + "</tr>\n"
        for row in table.slice(0, _ROWS).to_pylist()
    )
    return (
        f"<h2>{html.escape(name)}</h2>\n"
        '<div class="scroll" tabindex="0" role="region" aria-label="the numbers">'
        f'\n<table class="numbers">\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table>\n</div>"
    )


def _facts(statement: Mapping[str, Any]) -> list[facts.Fact]:
    """What the statement holds, as pairs for a table."""
    return [
        *facts.mechanism(statement),
        *facts.counted(statement),
        ("neighbours", statement["neighbours"]),
        facts.made_with(statement),
    ]
