"""report.html of a plan's release: what was published, and what all of it promises together."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.views import pages
from pipelines.views.headline import MIDDLE, chosen, head, headline, title
from pipelines.views.largest import largest
from pipelines.views.pictures import bars
from pipelines.wording import upward

_BARS = 5


def page(
    names: Sequence[str],
    metrics: Mapping[str, Any],
    statement: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    shares: Collection[str] = (),
) -> bytes:
    """The first page of a release.

    Args:
        names: of all metrics, in the order of the plan.
        metrics: the statements of those that were published, by name.
        statement: of the whole release.
        tables: the first table of each, with the columns that all kinds share.
        shares: names of those of which nothing but the share of unusable values is published.
    """
    plan = statement["plan"]
    lead = f"Window {html.escape(plan['window'])}, version {plan['version']} of the plan."
    return pages.page(
        "pipelines.plan",
        head(None, {**statement, "title": plan["collection"]}, lead),
        fingerprint=plan["fingerprint"],
        rows="".join(
            _row(name, metrics.get(name), tables.get(name), name in shares) for name in names
        ),
        pictures="".join(
            _picture(name, tables[name])
            for name in names
            if name in tables and chosen(metrics[name])["rows"] != MIDDLE
        ),
    )


def _row(
    name: str, said: Mapping[str, Any] | None, table: pa.Table | None, unusable: bool = False
) -> str:
    """One metric, with a link to its page if it has one."""
    shown = html.escape(name)
    if said is None:
        why = "nearly no value can be used" if unusable else "too few reports"
        return f'<tr><th>{shown}</th><td colspan="4">withheld: {why}</td></tr>\n'
    promised = said["guarantees"]["release"]
    epsilon, delta = upward(promised["epsilon"], 4), upward(promised["delta"], 2)
    return (
        f'<tr><th><a href="{shown}/report.html">{shown}</a></th>'
        f"<td>{html.escape(title(said))}</td><td>{_figure(table, said)}</td>"
        f"<td>{epsilon:g}</td><td>{delta:g}</td></tr>\n"
    )


def _figure(table: pa.Table | None, said: Mapping[str, Any]) -> str:
    """The figure of a metric that comes first, and among how many."""
    figure = headline(table, said)
    if not figure.lines:
        return html.escape(figure.which)
    line, many = figure.lines[0], len(table or ())
    of = f" ({many - 1:,} more)" if many > 1 else ""
    return html.escape(" ".join(part for part in (line.number, line.unit, line.label) if part) + of)


def _picture(name: str, table: pa.Table) -> str:
    """The largest figures of a metric that has several."""
    if len(table) < 2:
        return ""
    top = largest(table, _BARS)
    drawn = bars(top.labels, top.estimates, [top.lower, top.upper])
    said = f"the {len(top.labels)} largest of {len(table):,} figures of {html.escape(name)}"
    link = f'<a href="{html.escape(name)}/report.html">{html.escape(name)}</a>'
    return (
        f'<h2>{link}</h2>\n<figure aria-label="{said}">\n{drawn}\n'
        f'<figcaption class="note">{said[:1].upper()}{said[1:]}: {top.legend}</figcaption>\n'
        "</figure>\n"
    )
