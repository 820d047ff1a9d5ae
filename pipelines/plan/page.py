"""report.html of a plan's release: what was published, and what all of it promises together."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.views import pages
from pipelines.views.digits import digits
from pipelines.views.largest import largest
from pipelines.views.pictures import bars

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
    return pages.page(
        "pipelines.plan",
        collection=html.escape(plan["collection"]),
        version=plan["version"],
        window=html.escape(plan["window"]),
        fingerprint=plan["fingerprint"],
        created=statement["created"],
        rows="".join(
            _row(name, metrics.get(name), tables.get(name), name in shares) for name in names
        ),
        pictures="".join(
            _picture(name, tables[name])
            for name in names
            if name in tables and "low" not in tables[name].column_names
        ),
        promises="".join(f"<p>{html.escape(text)}</p>" for text in statement["in_words"]),
    )


def _row(
    name: str, said: Mapping[str, Any] | None, table: pa.Table | None, unusable: bool = False
) -> str:
    """One metric, with a link to its page if it has one."""
    shown = html.escape(name)
    if said is None:
        why = "nearly no value can be used" if unusable else "too few reports"
        return f'<tr><th>{shown}</th><td colspan="5">withheld: {why}</td></tr>\n'
    promised = said["guarantees"]["release"]
    return (
        f'<tr><th><a href="{shown}/report.html">{shown}</a></th>'
        f"<td>{html.escape(said['release'])}</td><td>{_figure(table)}</td><td>{_number(said)}</td>"
        f"<td>{promised['epsilon']:.4g}</td><td>{promised['delta']:.2g}</td></tr>\n"
    )


def _figure(table: pa.Table | None) -> str:
    """The one figure of a metric, with its error; of several, how many there are."""
    if table is None or len(table) != 1:
        return "" if table is None else f"{len(table):,}, see its page"
    (row,) = table.to_pylist()
    percent = 100 if row["figure"] == "share" else 1
    value, error = (
        None if x is None else percent * x for x in (row["estimate"], row["standard_error"])
    )
    unit = " %" if percent > 1 else f" {html.escape(row['figure'])}"
    spread = "" if error is None else f" ± {digits(error, error)}"
    return f"{digits(value, error)}{spread}{unit}"


def _picture(name: str, table: pa.Table) -> str:
    """The largest figures of a metric that has several."""
    if len(table) < 2:
        return ""
    top = largest(table, _BARS)
    drawn = bars(top.labels, top.estimates, [top.lower, top.upper], top.legend, top.unit)
    said = f"the {len(top.labels)} largest of {len(table):,} figures of {html.escape(name)}"
    link = f'<a href="{html.escape(name)}/report.html">{html.escape(name)}</a>'
    return f'<h2>{link}</h2>\n<figure role="img" aria-label="{said}">\n{drawn}\n</figure>\n'


def _number(said: Mapping[str, Any]) -> str:
    """How many reports a metric stands on, where that is published."""
    return f"{said['n']:,}" if "n" in said else "hidden"
