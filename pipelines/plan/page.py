"""report.html of a plan's release: what was published, and what all of it promises together."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.views import pages


def page(names: Sequence[str], metrics: Mapping[str, Any], statement: Mapping[str, Any]) -> bytes:
    """The first page of a release.

    Args:
        names: of all metrics, in the order of the plan.
        metrics: the statements of those that were published, by name.
        statement: of the whole release.
    """
    plan = statement["plan"]
    return pages.page(
        "pipelines.plan",
        collection=html.escape(plan["collection"]),
        version=plan["version"],
        window=html.escape(plan["window"]),
        fingerprint=plan["fingerprint"],
        created=statement["created"],
        rows="".join(_row(name, metrics.get(name)) for name in names),
        promises="".join(f"<p>{html.escape(text)}</p>" for text in statement["in_words"]),
    )


def _row(name: str, said: Mapping[str, Any] | None) -> str:
    """One metric, with a link to its page if it has one."""
    shown = html.escape(name)
    if said is None:
        return f'<tr><th>{shown}</th><td colspan="4">withheld: too few reports</td></tr>\n'
    promised = said["guarantees"]["release"]
    return (
        f'<tr><th><a href="{shown}/report.html">{shown}</a></th>'
        f"<td>{html.escape(said['release'])}</td><td>{_number(said)}</td>"
        f"<td>{promised['epsilon']:.4g}</td><td>{promised['delta']:.2g}</td></tr>\n"
    )


def _number(said: Mapping[str, Any]) -> str:
    """How many reports a metric stands on, where that is published."""
    return f"{said['n']:,}" if "n" in said else "hidden"
