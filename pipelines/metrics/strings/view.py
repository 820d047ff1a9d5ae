"""What people see of a search for strings: its page, and a table on the screen."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from pipelines.views import facts, pages, selected
from pipelines.views.console import numbers_table
from pipelines.views.digits import percent
from pipelines.views.headline import head

_ROWS = 200
_SHOWN = 20  # on the screen
_WIDE = 48  # characters of a string that are shown
_LONGER = "… (and longer)"
_SCALE = 200  # width of a full bar, in pixels


def labels(table: pa.Table) -> list[str]:
    """The strings as people can read them: what is not printable escaped, cut ones marked.

    A string comes out of the reports of strangers: shown as it is on a terminal or on a page, it
    could be a command to either.
    """
    pairs = zip(table["value"].to_pylist(), table["whole"].to_pylist(), strict=True)
    return [_readable(value) + ("" if whole else _LONGER) for value, whole in pairs]


def _readable(value: str) -> str:
    """A string in printable characters, shortened; the empty one by a name."""
    if not value:
        return "(empty)"
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    return facts.shortened(text, _WIDE)


def page(table: pa.Table, statement: Mapping[str, Any]) -> bytes:
    """The report of a release.

    Args:
        table: the release's table.
        statement: the release's statement.
    """
    top = table.slice(0, _ROWS)
    request = statement["request"]
    largest = max(top[selected.UPPER].to_pylist(), default=1.0)
    rows = zip(labels(top), top.to_pylist(), strict=True)
    return pages.page(
        "pipelines.metrics.strings",
        head(table, statement),
        unit=html.escape(request["unit"]),
        strings=f"{len(table):,}",
        confidence=f"{100 * request['confidence']:g} %",
        false_strings=f"{request['false_strings']:g}",
        candidates=f"{statement['search']['candidates']:,}",
        prospect=facts.prose(statement["search"]["prospect"]),
        promises=facts.promises(statement),
        facts=facts.table(_facts(statement)),
        rows="".join(_row(label, row, largest) for label, row in rows),
        listed=len(top),
    )


def _row(label: str, row: Mapping[str, Any], largest: float) -> str:
    """One string with its bar, the interval as a line across the bar's end."""
    lower, upper = selected.ends(row)
    ends = [_SCALE * max(share, 0.0) / largest for share in (row["estimate"], lower, upper)]
    bar = (
        f'<svg class="picture" width="{_SCALE + 4}" height="14" role="img" aria-hidden="true">'
        f'<rect y="1" width="{ends[0]:.1f}" height="12" class="bar"/>'
        f'<line x1="{ends[1]:.1f}" x2="{ends[2]:.1f}" y1="7" y2="7" '
        'class="arm"/></svg>'
    )
    error = row["standard_error"]
    shares = f"<td>{percent(row['estimate'], error)}</td><td>{percent(error, error)}</td>"
    interval = f"<td>{percent(lower, error)} to {percent(upper, error)}</td>"
    return f'<tr><th class="code">{html.escape(label)}</th>{shares}{interval}<td>{bar}</td></tr>\n'


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the statement holds, as pairs for a table."""
    request, search = statement["request"], statement["search"]
    steps = "+".join(map(str, search["steps"]))
    return [
        ("system", f"{request['system']}, levels of {steps} symbols"),
        *facts.mechanism(statement, "reports of the buckets"),
        ("alphabet", request["alphabet"]),
        ("symbols looked at", str(request["max_length"])),
        *facts.counted(statement),
        ("seed of the public hash", str(search["public_seed"])),
        facts.made_with(statement),
    ]


def show(screen: Console, table: pa.Table, confidence: float) -> None:
    """The most frequent strings, as a table."""
    if not len(table):
        screen.print("no string stands out of the noise")
        return
    headings = ("share %", "± s.e.", f"{100 * confidence:g} % interval of all together")
    title = f"the {min(_SHOWN, len(table))} most frequent of {len(table):,} strings"
    shown = numbers_table(("string",), headings, title)
    top = table.slice(0, _SHOWN)
    for label, row in zip(labels(top), top.to_pylist(), strict=True):
        shown.add_row(
            Text(label),  # a plain string would be read as markup
            *(percent(row[name], row["standard_error"]) for name in ("estimate", "standard_error")),
            " to ".join(percent(end, row["standard_error"]) for end in selected.ends(row)),
        )
    screen.print(shown)
