"""What a release of means holds: its table and its statement, in the units of the bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Counts
from mechanisms.mean.group_means import group_means
from mechanisms.mean.intervals import MeanEstimate, estimate_mean
from mechanisms.mean.scalar import ScalarMean
from transforms.collect_counts import Counted
from transforms.encoders.bounds import Bounds
from transforms.scout import Chosen

if TYPE_CHECKING:
    from pipelines.metrics.mean.metric import Mean

TABLE = "mean.parquet"


def mean_table(metric: Mean, bounds: Bounds, counted: Counted) -> pa.Table | None:
    """The published table, or None if no group may be published.

    One mean has one row: estimate (inside the bounds), unbiased (before it was moved there),
    standard_error, lower and upper of its interval, n. Public groups have a row each, with nulls
    where reports are too few. Private groups have `ratio` in the place of `unbiased` (the quotient
    of two unbiased sums, null where no user may be in the group), and share and
    share_standard_error in the place of n, which nobody knows.
    """
    options, public = metric.options, metric.public
    worst = options.interval == "worst"
    if metric.groups is None:
        parts, labels = [counted.counts], {}
    elif public is None:
        return _private(metric, bounds, counted.counts)
    else:
        parts, labels = list(public.parts(counted.counts)), {"group": metric.groups.groups.labels()}
    least, confidence = metric.min_reports, options.confidence
    means = [_estimated(metric.inner, part, confidence, worst, least) for part in parts]
    if all(mean is None for mean in means):
        return None
    return pa.table(labels | _columns(means, bounds))


def _estimated(
    mechanism: ScalarMean, counts: Counts, confidence: float, worst: bool, least: int
) -> MeanEstimate | None:
    """One mean, or None if it stands on too few reports."""
    if counts.sum() < max(least, 1):
        return None
    return estimate_mean(mechanism, counts, confidence, worst)


def _columns(means: list[MeanEstimate | None], bounds: Bounds) -> dict[str, pa.Array]:
    """Means on the scale of [-1, 1] as columns in the units of the bounds."""
    rows = [_row(mean, bounds) if mean is not None else {} for mean in means]
    kinds = {
        "estimate": pa.float64(), "standard_error": pa.float64(), "lower": pa.float64(),
        "upper": pa.float64(), "unbiased": pa.float64(), "n": pa.int64(),
    }  # fmt: skip
    return {
        name: pa.array([row.get(name) for row in rows], kind)  # what is missing is null
        for name, kind in kinds.items()
    }


def _row(mean: MeanEstimate, bounds: Bounds) -> dict[str, float]:
    unbiased = bounds.unscale(mean.unbiased)
    return {
        "estimate": min(max(unbiased, bounds.low), bounds.high),
        "standard_error": mean.standard_error * bounds.half,
        "lower": max(bounds.unscale(mean.lower), bounds.low),
        "upper": min(bounds.unscale(mean.upper), bounds.high),
        "unbiased": unbiased,
        "n": mean.n,
    }


def _private(metric: Mean, bounds: Bounds, counts: Counts) -> pa.Table:
    """The table of private groups."""
    if metric.groups is None:
        raise TypeError("there are no groups")
    options = metric.options
    means = group_means(metric.inner, counts, options.confidence, options.interval == "worst")

    def scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(bounds.low + (values + 1) * bounds.half)

    ratio = scaled(means.ratio)
    columns = {
        "estimate": np.clip(ratio, bounds.low, bounds.high),
        "standard_error": means.standard_error * bounds.half,
        "lower": np.clip(scaled(means.lower), bounds.low, bounds.high),
        "upper": np.clip(scaled(means.upper), bounds.low, bounds.high),
        "ratio": ratio,
        "share": means.share,
        "share_standard_error": means.share_error,
    }
    # Where there is no number, there is a null.
    return pa.table(
        {"group": metric.groups.groups.labels()}
        | {name: pa.array(column, from_pandas=True) for name, column in columns.items()}
    )


def neighbours(metric: Mean) -> str:
    """Which two inputs the promises make hard to tell apart."""
    unit = metric.options.unit
    if metric.groups is None:
        return f"one {unit}'s number is replaced by any other finite number"
    if metric.options.groups_public:
        return (
            f"one {unit}'s number is replaced by any other finite number; the group stays as it is"
        )
    return f"one {unit}'s group and number are replaced by any other group and number"


def published_exactly(metric: Mean) -> str:
    """What the promises do not cover."""
    whose = " of each group," if metric.options.groups_public else ","
    return f"the number of reports{whose} of rows read and of rejects by reason"


def words(metric: Mean) -> list[str]:
    """What a reader must know beside the promises."""
    lines = []
    if metric.options.groups_public:
        lines.append(
            "Groups are public: every report says in the clear which group it belongs to, and the "
            "promises are about numbers alone. In the shuffle model they hold in each group that "
            f"is published, for it has {metric.min_reports:,} reports or more."
        )
    elif metric.groups is not None:
        lines.append(
            "Groups are as private as numbers: a report hides both together, and nobody knows how "
            "many users are in a group; the shares are estimates."
        )
    if metric.scouts is not None:
        least = metric.scouts.min_reports
        lines.append(
            "Bounds were chosen by a first round: one user in ten, drawn by a coin, told privately "
            "how large a number is, to the next power of two, and the others were averaged. "
            "Nobody took part in both rounds, so nobody's promise is spent twice. The first round "
            f"was planned for {least:,} reports or more, the second for {metric.min_reports:,}. "
            "Numbers that few users hold may lie outside these bounds and are then clipped, which "
            "intervals do not cover."
        )
    return lines


def bounds_statement(metric: Mean, chosen: Chosen) -> dict[str, Any]:
    """What numbers were clipped to, and how that was decided."""
    bounds = chosen.known
    statement: dict[str, Any] = {"low": bounds.low, "high": bounds.high, "how": "declared"}
    if metric.scouts is not None:
        design = metric.scouts.design
        statement |= {
            "how": "chosen privately by a first round of other users",
            "outside_aimed_at": metric.scouts.rule.outside,
            "share_that_may_hide_in_a_bin_outside": chosen.hidden,
            "reports": chosen.n,
            "min_reports": metric.scouts.min_reports,
            "mechanism": {
                "name": design.name,
                "source": design.source,
                "constants": design.mechanism.constants(),
            },
            "guarantees": {"release": design.release.as_dict(), "local": design.local.as_dict()},
        }
    return statement


def error_statement(metric: Mean, bounds: Bounds) -> dict[str, Any]:
    """How far off a mean may be, and what that covers."""
    unit = metric.options.unit
    covers = (
        "Standard errors and intervals cover the randomisation of the reports, rounding included. "
        "They hold for the mean of the numbers that were reported, clipped to the bounds"
    )
    covers += "." if unit == "row" else f", one drawn for each {unit}."
    statement: dict[str, Any] = {"interval": metric.options.interval, "covers": covers}
    if metric.groups is None or metric.options.groups_public:
        worst = metric.inner.worst_variance**0.5 * bounds.half
        statement["worst_standard_deviation_of_a_report"] = worst
    else:
        statement["covers"] = covers + (
            " The mean of a group is a quotient: its standard error is the delta method's, its "
            "interval Fieller's, and where the group may be empty that is all between the bounds."
        )
    return statement
