"""What a release of means holds: its table and its statement, in the units of the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.catalog import registrations
from mechanisms.channel import Counts
from mechanisms.mean.group_means import group_means
from mechanisms.mean.intervals import MeanEstimate, estimate_mean
from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.systems import find
from pipelines.numbers import counted as counted_exactly
from pipelines.numbers import statement_head, versions
from transforms.collect_counts import Counted
from transforms.encode_numbers import Bounds
from transforms.scout import Chosen

if TYPE_CHECKING:
    from pipelines.metrics.mean.job import MeanJob

TABLE = "mean.parquet"


def mean_table(job: MeanJob, bounds: Bounds, counted: Counted) -> pa.Table | None:
    """The published table, or None if no group may be published.

    One mean has one row: estimate (inside the bounds), unbiased (before it was moved there),
    standard_error, lower and upper of its interval, n. Public groups have a row each, with nulls
    where reports are too few. Private groups have `ratio` in the place of `unbiased` (the quotient
    of two unbiased sums, null where no user may be in the group), and share and
    share_standard_error in the place of n, which nobody knows.
    """
    mechanism, options = job.mechanism, job.options
    worst = options.interval == "worst"
    if isinstance(mechanism, KeyValue):
        return _private(job, mechanism, bounds, counted.counts)
    if isinstance(mechanism, PublicGroups):
        found = [
            _estimated(mechanism.mechanism, part, options.confidence, worst, job.min_reports)
            for part in mechanism.parts(counted.counts)
        ]
        if not any(each is not None for each in found):
            return None
        return pa.table({"group": _labels(job)} | _columns(found, bounds))
    if not isinstance(mechanism, ScalarMean):
        raise TypeError(f"{type(mechanism).__name__} estimates no mean")
    found = [_estimated(mechanism, counted.counts, options.confidence, worst, job.min_reports)]
    return pa.table(_columns(found, bounds))


def _labels(job: MeanJob) -> pa.Array:
    if job.groups is None:
        raise TypeError("there are no groups")
    return job.groups.groups.labels()


def _estimated(
    mechanism: ScalarMean, counts: Counts, confidence: float, worst: bool, least: int
) -> MeanEstimate | None:
    """One mean, or None if it stands on too few reports."""
    if counts.sum() < max(least, 1):
        return None
    return estimate_mean(mechanism, counts, confidence, worst)


def _columns(found: list[MeanEstimate | None], bounds: Bounds) -> dict[str, pa.Array]:
    """Means on the scale of [-1, 1] as columns in the units of the bounds."""
    rows = [_row(each, bounds) if each is not None else {} for each in found]
    kinds = {
        "estimate": pa.float64(), "standard_error": pa.float64(), "lower": pa.float64(),
        "upper": pa.float64(), "unbiased": pa.float64(), "n": pa.int64(),
    }  # fmt: skip
    return {
        name: pa.array([row.get(name) for row in rows], kind)  # what is missing is null
        for name, kind in kinds.items()
    }


def _row(found: MeanEstimate, bounds: Bounds) -> dict[str, float]:
    unbiased = bounds.unscale(found.unbiased)
    return {
        "estimate": min(max(unbiased, bounds.low), bounds.high),
        "standard_error": found.standard_error * bounds.half,
        "lower": max(bounds.unscale(found.lower), bounds.low),
        "upper": min(bounds.unscale(found.upper), bounds.high),
        "unbiased": unbiased,
        "n": found.n,
    }


def _private(job: MeanJob, mechanism: KeyValue, bounds: Bounds, counts: Counts) -> pa.Table:
    """The table of private groups."""
    options = job.options
    found = group_means(mechanism, counts, options.confidence, options.interval == "worst")

    def scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(bounds.low + (values + 1) * bounds.half)

    ratio = scaled(found.ratio)
    columns = {
        "estimate": np.clip(ratio, bounds.low, bounds.high),
        "standard_error": found.standard_error * bounds.half,
        "lower": np.clip(scaled(found.lower), bounds.low, bounds.high),
        "upper": np.clip(scaled(found.upper), bounds.low, bounds.high),
        "ratio": ratio,
        "share": found.share,
        "share_standard_error": found.share_error,
    }
    # Where there is no number, there is a null.
    return pa.table(
        {"group": _labels(job)}
        | {name: pa.array(column, from_pandas=True) for name, column in columns.items()}
    )


def mean_statement(
    job: MeanJob, chosen: Chosen, counted: Counted, tallies: Mapping[str, int]
) -> dict[str, Any]:
    """What was asked, what was done, and what it guarantees."""
    options, design, bounds = job.options, job.design, chosen.bounds
    if bounds is None:
        raise ValueError("there is no mean without bounds")
    n = int(counted.counts.sum()) + chosen.n
    head = statement_head("mean", job.guarantees, [*_words(job), *job.cautions], job.min_reports)
    return head | {
        "neighbours": _neighbours(job),
        **counted_exactly(n, counted.invalid + chosen.invalid, tallies),
        "published_exactly": _exact(job),
        "asked": {
            "column": options.column,
            "user_column": options.user_column,
            "unit": options.unit,
            "bounds": None if options.choose_bounds else list(bounds),
            "group_by": options.group_by,
            "groups": None if job.groups is None else f"{job.groups.groups.size:,} declared groups",
            "groups_public": options.groups_public,
            "choose_bounds": options.choose_bounds,
            "model": options.model,
            "epsilon": options.epsilon,
            "delta": design.target.delta,
            "epsilon_local": options.epsilon_local,
            "min_reports": job.min_reports,
            "mechanism": options.mechanism,
            "cells": options.cells,
            "interval": options.interval,
            "confidence": options.confidence,
        },
        "bounds": _bounds(job, bounds, chosen),
        "mechanism": {
            "name": design.name,
            "source": registrations()[design.name].source,
            "constants": _constants(job),
            "messages_per_user": 1.0,
            "bits_per_message": max(1, (job.mechanism.codes - 1).bit_length()),
        },
        "error": _error(job, bounds),
        "versions": versions(),
    }


def _constants(job: MeanJob) -> dict[str, Any]:
    constants = dict(job.design.mechanism.constants())
    if job.groups is not None:
        constants["groups"] = job.groups.groups.size
    return constants


def _neighbours(job: MeanJob) -> str:
    unit = job.options.unit
    if job.groups is None:
        return f"one {unit}'s number is replaced by any other finite number"
    if job.options.groups_public:
        return (
            f"one {unit}'s number is replaced by any other finite number; the group stays as it is"
        )
    return f"one {unit}'s group and number are replaced by any other group and number"


def _exact(job: MeanJob) -> str:
    each = " of each group," if job.options.groups_public else ","
    return f"the number of reports{each} of rows read and of rejects by reason"


def _words(job: MeanJob) -> list[str]:
    """What a reader must know beside the promises."""
    words = []
    if job.options.groups_public:
        words.append(
            "Groups are public: every report says in the clear which group it belongs to, and the "
            "promises are about numbers alone. In the shuffle model they hold in each group that "
            f"is published, for it has {job.min_reports:,} reports or more."
        )
    elif job.groups is not None:
        words.append(
            "Groups are as private as numbers: a report hides both together, and nobody knows how "
            "many users are in a group; the shares are estimates."
        )
    if job.scouts is not None:
        least = job.scouts.min_reports
        words.append(
            "Bounds were chosen by a first round: one user in ten, drawn by a coin, told privately "
            "how large a number is, to the next power of two, and the others were averaged. "
            "Nobody took part in both rounds, so nobody's promise is spent twice. The first round "
            f"was planned for {least:,} reports or more, the second for {job.min_reports:,}. "
            "Numbers that few users hold may lie outside these bounds and are then clipped, which "
            "intervals do not cover."
        )
    return words


def _bounds(job: MeanJob, bounds: Bounds, chosen: Chosen) -> dict[str, Any]:
    """What numbers were clipped to, and how that was decided."""
    told: dict[str, Any] = {"low": bounds.low, "high": bounds.high, "how": "declared"}
    if job.scouts is not None:
        design = job.scouts.design
        told |= {
            "how": "chosen privately by a first round of other users",
            "outside_aimed_at": job.scouts.rule.outside,
            "share_that_may_hide_in_a_bin_outside": chosen.hidden,
            "reports": chosen.n,
            "min_reports": job.scouts.min_reports,
            "mechanism": {
                "name": design.name,
                "source": find(design.name).source,
                "constants": design.mechanism.constants(),
            },
            "guarantees": {"release": design.release.as_dict(), "local": design.local.as_dict()},
        }
    return told


def _error(job: MeanJob, bounds: Bounds) -> dict[str, Any]:
    """How far off a mean may be, and what that covers."""
    inner, unit = job.design.mechanism, job.options.unit
    covers = (
        "Standard errors and intervals cover the randomisation of the reports, rounding included. "
        "They hold for the mean of the numbers that were reported, clipped to the bounds"
    )
    covers += "." if unit == "row" else f", one drawn for each {unit}."
    told: dict[str, Any] = {"interval": job.options.interval, "covers": covers}
    if isinstance(inner, ScalarMean):
        told["worst_standard_deviation_of_a_report"] = inner.worst_variance**0.5 * bounds.half
    else:
        told["covers"] = covers + (
            " The mean of a group is a quotient: its standard error is the delta method's, its "
            "interval Fieller's, and where the group may be empty that is all between the bounds."
        )
    return told
