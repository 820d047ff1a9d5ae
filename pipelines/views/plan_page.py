"""The first page of a plan's release: its metrics, each with its figure and its price."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.releases import schema
from pipelines.views import pages
from pipelines.views.drawing import largest
from pipelines.views.headline import MIDDLE, Headline, chosen, head, headline, title
from pipelines.wording import plain, upward

_BARS, _FIRST = 5, 3  # of a metric; of metrics whose figures stand at the top


def page(
    names: Sequence[str],
    metrics: Mapping[str, Any],
    statement: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    shares: Collection[str] = (),
    answers: Sequence[str] = (),
    only: tuple[str, Headline] | None = None,
) -> bytes:
    """The first page of a release.

    Args:
        names: of all metrics, those that were published first.
        metrics: the statements of those that were published, by name.
        statement: of the whole release.
        tables: the first table of each, with the columns that all kinds share.
        shares: names of those of which nothing but the share of unusable values is published.
        answers: to queries, as HTML.
        only: title and figures of a query, where there is no plan but that.
    """
    plan = statement["plan"]
    lead = f"Window {html.escape(plan['window'])}, version {plan['version']} of the plan."
    name, first = plan["collection"], _first_figures(names, metrics, tables)
    if only is not None:
        lead, (name, first) = "", only
    heads = "".join(f'<th scope="col">{name}</th>' for name in _HEADS)
    rows = "".join(_row(n, metrics.get(n), tables.get(n), n in shares) for n in names)
    drawn = "".join(
        _picture(name, tables[name], metrics[name])
        for name in names
        if name in tables and chosen(metrics[name])["rows"] != MIDDLE
    )
    return pages.whole(
        head(None, {**statement, "title": name}, lead, first=first),
        drawn * (not lead)
        + "".join(answers)
        + '<div class="scroll" tabindex="0" role="region" aria-label="the metrics">\n'
        f'<table class="whole">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n'
        f"</table>\n</div>\n{drawn * bool(lead)}"
        f'<p class="note">Fingerprint of the plan: <code>{plan["fingerprint"]}</code></p>\n'
        + pages.files(()),
    )


def _first_figures(
    names: Sequence[str], metrics: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> Headline:
    """The first figure of the first metrics that have one."""
    first = ((name, headline(tables.get(name), metrics[name])) for name in names if name in metrics)
    lines = [(name, one.lines[0]) for name, one in first if one.lines]
    named = [one._replace(label=f"{name} · {one.label}".rstrip(" ·")) for name, one in lines]
    which = f"the first {_FIRST} of {len(named)} metrics" if len(named) > _FIRST else ""
    return Headline(named[:_FIRST], which, "")


_HEADS = ("metric", "figure", "what", "epsilon", "delta")


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
        f"<td>{_figure(table, said)}</td><td>{html.escape(title(said))}</td>"
        f"<td>{epsilon:g}</td><td>{plain(delta)}</td></tr>\n"
    )


def _figure(table: pa.Table | None, said: Mapping[str, Any]) -> str:
    """The figure of a metric that comes first, and among how many."""
    figure = headline(table, said)
    if not figure.lines:
        return html.escape(figure.which)
    line, many = figure.lines[0], len(table or ())
    of = f" ({many - 1:,} more)" if many > 1 else ""
    return html.escape(" ".join(part for part in (line.number, line.unit, line.label) if part) + of)


def _picture(name: str, table: pa.Table, said: Mapping[str, Any]) -> str:
    """The largest figures of a metric that has several."""
    if not (picture := largest(schema.own(table), said, _BARS)):
        return ""
    link = f'<a href="{html.escape(name)}/report.html">{html.escape(title(said))}</a>'
    return f"<h2>{link}</h2>\n{picture}"
