"""report.html: one page, self-contained, that a person reads instead of the files beside it."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.text import Text

from pipelines.views import facts, pages, selected
from pipelines.views.console import numbers_table
from pipelines.views.digits import percent
from pipelines.views.headline import head
from pipelines.views.pictures import bars

OTHER_LABEL = "(any other value)"

# What the bars of the picture are, and how to read them, by what was done.
_POSTPROCESSED = {
    "uniform": (
        "the estimate, all values alike",
        "Nothing stands out of the noise: of all that was compared, shares that are all alike are "
        "estimated to be nearest to the truth, or not clearly farther from it.",
    ),
    "shrinkage": (
        "the estimate",
        "Moving all shares towards alike (James and Stein) before projecting them on nonnegative "
        "ones that add up to 1 makes the whole histogram more accurate and each single bar biased: "
        "large ones down, small ones up. The intervals belong to the unbiased estimate.",
    ),
    "empirical-bayes": (
        "the estimate",
        "Every share was moved to what such estimates usually come from, as all of them together "
        "show it: the whole histogram is more accurate, and each single bar biased towards its "
        "like. The intervals belong to the unbiased estimate.",
    ),
    "pop": (
        "the estimate",
        "Projecting on nonnegative shares that add up to 1 (POP) makes the whole histogram more "
        "accurate and each single bar slightly biased: large ones down, small ones up. The "
        "intervals belong to the unbiased estimate.",
    ),
    "none": (
        "the estimate, here the unbiased one",
        "The shares are as they were decoded: some may lie below 0, and they need not add up to 1.",
    ),
}

_BARS = 30  # more than these cannot be told apart in a picture
_ROWS = 50
_WIDE = 28  # characters of a value beside its bar


def page(table: pa.Table, statement: Mapping[str, Any]) -> bytes:
    """The report of a histogram release.

    Args:
        table: the release's table.
        statement: the release's statement.
    """
    top = largest(table, _ROWS)
    request = statement["request"]
    drawn, advice = _POSTPROCESSED[statement["postprocessing"]["taken"]]
    return pages.page(
        "pipelines.metrics.histogram",
        head(table, statement),
        n=f"{statement['n']:,}",
        unit=html.escape(request["unit"]),
        chart=chart(top.slice(0, _BARS), request["confidence"]),
        shown=min(_BARS, len(table)),
        domain=f"{len(table):,}",
        confidence=f"{request['confidence']:g}",
        remark=selected.remark(table),
        drawn=drawn,
        covers=facts.prose(statement["error"]["covers"]),
        advice=advice,
        promises=facts.promises(statement),
        facts=facts.table(_facts(statement)),
        rows="".join(_row(row) for row in top.to_pylist()),
        listed=len(top),
    )


def labels(table: pa.Table) -> list[str]:
    """The values as text, the bin for all others by a name of its own."""
    return [OTHER_LABEL if value is None else str(value) for value in table["value"].to_pylist()]


def largest(table: pa.Table, rows: int) -> pa.Table:
    """The rows with the largest estimates, largest first."""
    order = np.lexsort((-table["unbiased"].to_numpy(), -table["estimate"].to_numpy()))
    return table.take(pa.array(order[:rows]))


def chart(top: pa.Table, confidence: float, axis: str = "share of reports, %") -> str:
    """Bars with error bars, as inline SVG."""
    ends = [100 * top[name].to_numpy() for name in (selected.LOWER, selected.UPPER)]
    legend = f"estimate, {100 * confidence:g} % interval of all values together"
    short = [facts.shortened(label, _WIDE) for label in labels(top)]
    return bars(short, 100 * top["estimate"].to_numpy(), ends, legend, axis)


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the statement holds, as pairs for a table."""
    mechanism, request = statement["mechanism"], statement["request"]
    return [
        *facts.mechanism(statement),
        (
            "messages",
            f"{mechanism['messages_per_user']:.4g} a user on average, "
            f"{mechanism['bits_per_message']} bits each",
        ),
        *facts.counted(statement),
        ("declared domain", request["domain"]),
        ("values outside it", request["out_of_domain"]),
        ("after decoding", _postprocessed(statement)),
        ("standard error of a rare value", f"{statement['error']['standard_error_at_0']:.3g}"),
        facts.made_with(statement),
    ]


def _postprocessed(statement: Mapping[str, Any]) -> str:
    """What was done with the unbiased shares, and why."""
    taken, risks = statement["postprocessing"]["taken"], statement["postprocessing"]["risks"]
    if not risks:
        return str(taken)
    compared = ", ".join(f"{name} {math.sqrt(max(risk, 0.0)):.2g}" for name, risk in risks.items())
    return f"{taken}, of these by the error of a share that is estimated for each: {compared}"


def _row(row: Mapping[str, Any]) -> str:
    label = OTHER_LABEL if row["value"] is None else str(row["value"])
    error = row["standard_error"]
    shares = (percent(row[name], error) for name in ("estimate", "unbiased", "standard_error"))
    cells = "".join(f"<td>{share}</td>" for share in shares)
    interval = f"<td>{_interval(row)}</td>"
    return f"<tr><th>{html.escape(label)}</th>{cells}{interval}</tr>\n"


def _interval(row: Mapping[str, Any]) -> str:
    ends = (row[selected.LOWER], row[selected.UPPER])
    return " to ".join(percent(end, row["standard_error"]) for end in ends)


def show(screen: Console, table: pa.Table, rows: int, confidence: float) -> None:
    """The largest estimates, as a table."""
    interval = selected.heading(confidence, len(table))
    headings = ("share %", interval, "unbiased %", "± s.e.")
    title = f"the {min(rows, len(table))} largest of {len(table):,} values"
    shown = numbers_table(("value",), headings, title)
    order = table.sort_by([("estimate", "descending"), ("unbiased", "descending")])
    top = order.slice(0, rows)
    for label, row in zip(labels(top), top.to_pylist(), strict=True):
        shown.add_row(
            Text(label),  # a plain string would be read as markup
            percent(row["estimate"], row["standard_error"]),
            _interval(row),
            *(percent(row[name], row["standard_error"]) for name in ("unbiased", "standard_error")),
        )
    screen.print(shown)
    if remark := selected.remark(table):
        screen.print(remark, highlight=False)
