"""report.html of a trained model: one page, self-contained."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

from mechanisms.channel import Floats
from pipelines.train.curve import Curve, Point
from pipelines.train.schema import Schema
from pipelines.views import facts, pages
from pipelines.views.headline import head
from pipelines.views.pictures import AxisScale, Chart

_ROWS = 200  # of the table of weights
_COLUMNS = 12
_WIDE = 48  # characters of a name that are shown


def page(schema: Schema, layers: list[Floats], curve: Curve, statement: Mapping[str, Any]) -> bytes:
    """The page of a release.

    Args:
        schema: the columns.
        layers: of the model; the table shows the weights of the first.
        curve: how the run went.
        statement: the release's.
    """
    names = [*schema.features.names[:-1], "(intercept)"]
    table = layers[0][:_ROWS, :_COLUMNS]
    title = f"{schema.target.column}: {statement['model']['kind']}"
    lead = f"Fitted to {used(statement)} rows."
    verdict = statement["error"]["verdict"]  # that has a section of its own
    promised = [text for text in statement["in_words"] if text != verdict]
    return pages.page(
        "pipelines.train",
        head(None, {**statement, "title": title, "in_words": promised}, lead),
        curve=_section(curve, statement),
        columns=html.escape(", ".join(schema.columns[:20])) + (", …" if len(names) > 20 else ""),
        heads="".join(f"<th>{html.escape(head)}</th>" for head in _heads(schema, layers)),
        weights="".join(_row(*pair) for pair in zip(names[:_ROWS], table, strict=True)),
        shown=_shown(layers),
        facts=facts.table(_facts(statement)),
    )


def used(statement: Mapping[str, Any]) -> str:
    """How many rows were used, as far as that is told.

    >>> used({"n": 1500}), used({"n": 1500, "n_standard_error": 30.2})
    ('1,500', 'about 1,500 (± 30)')
    """
    if "n_standard_error" not in statement:
        return f"{statement['n']:,}"
    return f"about {statement['n']:,} (± {statement['n_standard_error']:,.2g})"


def _heads(schema: Schema, layers: list[Floats]) -> list[str]:
    """What the columns of the table of weights are."""
    width = layers[0].shape[1]
    if len(layers) > 1:
        heads = [f"unit {place + 1}" for place in range(width)]
    elif width > 1 and schema.classes is not None:
        heads = [str(label) for label in schema.classes]
    else:
        heads = ["weight"]
    return heads[:_COLUMNS]


def _shown(layers: list[Floats]) -> str:
    """What of the weights is left out, in words."""
    rows, columns = layers[0].shape
    line = "" if len(layers) == 1 else f"The first of {len(layers)} layers. "
    if rows > _ROWS or columns > _COLUMNS:
        line += f"{min(rows, _ROWS)} of {rows:,} inputs, {min(columns, _COLUMNS)} of {columns:,} "
        line += "columns; <code>model.json</code> has all. "
    return line


def _section(curve: Curve, statement: Mapping[str, Any]) -> str:
    """The learning curve with its words, or that there is none."""
    known = [point for point in curve if point.error is not None]
    error = statement["error"]
    verdict = html.escape(error["verdict"])
    if not known:
        return (
            f'<p class="note">{verdict} How well it does was not measured: name public rows with '
            "--validation.</p>"
        )
    last = known[-1]
    words = (
        f"<h2>How well it does</h2>\n<p><strong>{verdict}</strong></p>\n"
        f"<p>{html.escape(error['measure'])} of the published model: "
        f"{last.error:.5g} (between {last.lower:.5g} and {last.upper:.5g}), on "
        f"{html.escape(error['measured_on'])}.</p>"
    )
    if len(known) == 1:
        return words
    return (
        f'{words}\n<figure class="scroll" role="img" '
        f'aria-label="The learning curve">\n'
        f"{_chart(known, error['measure'], statement['model']['step_name'])}\n</figure>"
    )


def _chart(curve: list[Point], measure: str, step_name: str) -> str:
    """Errors with error bars, as inline SVG."""
    steps = [point.step for point in curve]
    errors, lower, upper = (
        np.array([getattr(point, name) for point in curve], float)
        for name in ("error", "lower", "upper")
    )
    chart = Chart(AxisScale.over(steps), AxisScale.over(errors, lower, upper, [0.0]))
    chart.area(steps, lower, upper, "band")
    chart.line(steps, errors)
    chart.points(steps, errors)
    return chart.svg(measure, step_name)


def _row(name: str, weights: Floats) -> str:
    cells = "".join(f"<td>{weight:.4g}</td>" for weight in weights)
    return f"<tr><th>{html.escape(facts.shortened(name, _WIDE))}</th>{cells}</tr>\n"


def _facts(statement: Mapping[str, Any]) -> list[facts.Fact]:
    """What the statement holds, as pairs for a table."""
    request, model = statement["request"], statement["model"]
    return [
        ("model", f"{model['kind']}, {model['parameters']:,} parameters"),
        ("method", request["method"]),
        *(
            (name.replace("_", " "), facts.noise(value) if name == "noise" else facts.word(value))
            for name, value in statement["training"].items()
        ),
        ("rows used", used(statement)),
        *_counted(statement),
        ("neighbours", statement["neighbours"]),
        facts.made_with(statement),
    ]


def _counted(statement: Mapping[str, Any]) -> list[facts.Fact]:
    """What was read, and what could not be used, where that is published."""
    said = []
    if "rows_read" in statement:
        said.append(("rows read", f"{statement['rows_read']:,}"))
    if rejects := statement.get("rejects"):
        left_out = ", ".join(f"{name}: {amount:,}" for name, amount in rejects.items())
        said.append(("rows left out", left_out))
    return said
