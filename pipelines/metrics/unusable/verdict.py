"""What a release says of itself where many values cannot be used, by the noisy share alone.

How many values of a log cannot be used is as private as they are: one row more or less shows in an
exact count, and in any decision by it. The share that a release publishes anyway is noisy, and what
is decided by it is post-processing: nobody learns more from the decision than from the share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pipelines.metrics.content import Content
from pipelines.metrics.unusable.share import ALL, MANY, SURE, Share
from pipelines.views import report
from pipelines.views.headline import FIRST

if TYPE_CHECKING:
    from pipelines.metrics.metric import Metric

TABLE = "unusable.parquet"
NO_USABLE = "no usable value"
"""The label of the one share of a metric of one column."""


_SHOWN = 3  # parts that a caution names

# Of a statement: what is no figure of the metric's own.
_KEPT = (
    "statement_version", "release", "release_id", "created", "in_words", "guarantees", "design",
    "neighbours", "published_exactly", "n", "rows_read", "rejects", "invalid_reports", "devices",
    "request", "mechanism", "versions",
)  # fmt: skip


class Verdict(NamedTuple):
    """What is said of a release for its share of values that cannot be used.

    Attributes:
        cautions: in words.
        withheld: why nothing but the share is published; None if all of it is.
        parts: what the share is of -> the share, where nothing else is published.
    """

    cautions: tuple[str, ...] = ()
    withheld: str | None = None
    parts: Mapping[str, Share] = {}


def verdict(metric: Metric, estimate: Any) -> Verdict:
    """Whether a reader is to be told of it; by the published share, and by nothing exact.

    Args:
        metric: that was estimated.
        estimate: of the collector.
    """
    # Reports tell of a row for which `where` does not hold what they tell of one without a value.
    narrows = bool(metric.options.view.where) and not metric.options.hides_presence
    # All intervals of a metric hold together.
    parts = metric.unusable_parts(estimate, SURE)
    others = tuple(metric.unusable_cautions(estimate, SURE))
    if not parts:
        return Verdict(others)
    if min(part.lower for part in parts.values()) > ALL:
        least = min(parts.values())
        said = (
            f"at least {100 * ALL:g} % of the {metric.unit}s have no value that can be used: the "
            f"noisy share is {least}, with {100 * SURE:g} % confidence"
        )
        if narrows:
            # Whoever asks of a few, and says so, gets what was asked for.
            among = "rows for which `where` does not hold among them"
            return Verdict((f"{said}, {among}; {_LOOK}", *others))
        why = (
            f"{said}, so that share alone is published. It was drawn with noise, so it is paid "
            f"for like all figures; {_LOOK}. If so many have none in truth, say so: "
            "`where: COLUMN is not null`"
        )
        return Verdict((), why, parts)
    if narrows:
        return Verdict(others)
    many = {name: part for name, part in parts.items() if part.lower > MANY}
    if not many:
        return Verdict(others)
    named = [f"{name or 'a noisy share'} {part}" for name, part in many.items()]
    more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
    return Verdict(
        (
            f"many of the {metric.unit}s have no value that can be used: "
            f"{', '.join(named[:_SHOWN])}{more}, with {100 * SURE:g} % confidence; {_LOOK}",
            *others,
        )
    )


_LOOK = "`hushbeam look LOG PLAN` shows the log's owner what its columns hold"


def cautioned(content: dict[str, Any], judgement: Verdict) -> dict[str, Any]:
    """A statement that begins with its cautions, if there are any."""
    if not judgement.cautions:
        return content
    words = [*judgement.cautions, *content["in_words"]]
    return content | {"in_words": words, "cautions": [*judgement.cautions]}


def share_alone(
    metric: Metric, statement: Mapping[str, Any], judgement: Verdict, confidence: float = SURE
) -> Content:
    """What is published of a metric of which nearly nothing can be used.

    Args:
        metric: of which.
        statement: of the whole release.
        judgement: with the reason.
        confidence: of the shares' intervals.
    """
    names, shares = [*judgement.parts], [*judgement.parts.values()]
    rows = {name: [getattr(share, name) for share in shares] for name in Share._fields}
    table = pa.table({"value": pa.array([name or NO_USABLE for name in names]), **rows})
    parts = {name: share._asdict() for name, share in judgement.parts.items()}
    treatment = {"treated": statement.get("unusable", {}).get("treated", "counted apart")}
    kept = {key: statement[key] for key in _KEPT if key in statement} | {
        "in_words": [str(judgement.withheld), *statement["in_words"]],
        "unusable": treatment | (parts[""] if [*parts] == [""] else {"parts": parts}),
        "confidence": confidence,
        "withheld": judgement.withheld,
        "figures": {TABLE: "share"},
        "title": metric.heading.title,
        "headline": {"table": TABLE, "rows": FIRST},
        report.OWN: report.page_words(),
    }
    page = report.page({TABLE: table}, kept)
    return Content({TABLE: table, "report.html": page}, kept, tuple(metric.shared_words))
