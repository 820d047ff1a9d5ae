"""What a release of means holds: its table and its statement, in the units of the bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.mean.group_means import GroupMeans
from mechanisms.mean.intervals import MeanEstimate
from mechanisms.mean.poisoned import quotient_reach
from pipelines.logs.numbers import moment_of
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.views.selected import LOWER, UPPER
from transforms.encoders.bounds import Bounds

TABLE = "mean.parquet"

_SCOUTED = ", within bounds that lies in the first round may have chosen"
_OF_GROUPS = " (that of the group which is moved most; `by_group` has them all)"


def mean_table(
    parts: Sequence[Counts],
    labels: Mapping[str, pa.Array],
    estimate: Callable[[Counts, float], MeanEstimate],
    bounds: Bounds,
    least: int,
    confidence: float,
) -> pa.Table | None:
    """The published table of one mean, or of public groups; None if none may be published.

    A row for each part: estimate (inside the bounds), unbiased (before it was moved there),
    standard_error, lower and upper of its interval, n; nulls where reports are too few. Among
    groups also lower_simultaneous and upper_simultaneous, of intervals that cover all groups'
    means together.

    Args:
        parts: the counts of messages of each.
        labels: the columns that name them.
        estimate: what counts say with a confidence, on the scale of [-1, 1].
        bounds: what numbers were clipped to.
        least: the fewest reports that a mean stands on.
        confidence: of the intervals.
    """

    def estimated(confidence: float) -> list[MeanEstimate | None]:
        enough = max(least, 1)
        return [estimate(part, confidence) if part.sum() >= enough else None for part in parts]

    means = estimated(confidence)
    if all(mean is None for mean in means):
        return None
    columns = _columns(means, bounds)
    if labels:
        wider = estimated(joint(confidence, len(parts)))
        columns |= _simultaneous(_columns(wider, bounds))
    return pa.table({**labels, **columns})


def moments(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of the table says of when, where numbers are seconds since 1970."""
    names = ("estimate", "lower", "upper")
    said = {name: row[name] and moment_of(row[name]) for name in names}
    return ({"group": row["group"]} if "group" in row else {}) | said


def joint(confidence: float, comparisons: int) -> float:
    """Of each of several intervals that are to cover together (Bonferroni).

    >>> round(joint(0.95, 10), 4)
    0.995
    """
    return 1 - (1 - confidence) / comparisons


def poisoning(
    averages: tuple[Floats, Floats],
    honest: Floats,
    forgeries: Floats | None,
    bounds: Bounds,
    scouted: bool,
) -> Poisoning:
    """How far liars can move means: no farther than the bounds are apart.

    Args:
        averages: what each mean is the quotient of, as it was published.
        honest: (k, 2) what values add to them.
        forgeries: (k, 2) what made-up reports do; None if nobody can make any.
        bounds: what numbers were clipped to.
        scouted: whether other reports chose the bounds.
    """

    def moved(reports: Floats) -> Floats:
        return bounds.half * np.minimum(quotient_reach(averages, reports, LIARS), 2.0)

    lies, forged = moved(honest), None if forgeries is None else moved(forgeries)
    grouped = lies.ndim > 0
    by_group = {"lies": lies.tolist(), "forged": None if forged is None else forged.tolist()}
    return Poisoning(
        "the mean of a group" if grouped else "the mean",
        float(lies.max()),
        None if forged is None else float(forged.max()),
        more=_OF_GROUPS * grouped + _SCOUTED * scouted,
        beside={"by_group": by_group} if grouped else {},
    )


def _simultaneous(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """The ends of intervals, under the names that they have where they cover all groups."""
    return {LOWER: columns["lower"], UPPER: columns["upper"]}


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
    row = {
        "lower": max(bounds.unscale(mean.lower), bounds.low),
        "upper": min(bounds.unscale(mean.upper), bounds.high),
        "n": mean.n,
    }
    if math.isnan(unbiased):  # of nobody who can be seen to have a number there is no mean
        return row
    return row | {
        "estimate": min(max(unbiased, bounds.low), bounds.high),
        "standard_error": mean.standard_error * bounds.half,
        "unbiased": unbiased,
    }


def group_table(
    labels: Mapping[str, pa.Array], means: GroupMeans, wider: GroupMeans, bounds: Bounds
) -> pa.Table:
    """The published table of private groups.

    As that of public ones, but for `ratio` in the place of `unbiased` (the quotient of two unbiased
    sums, null where no user may be in the group), and share and share_standard_error in the place
    of n, which nobody knows. Means of groups without a label are left out.

    Args:
        labels: the columns that name them.
        means: of each group.
        wider: the same, with intervals that cover all groups together.
        bounds: what numbers were clipped to.
    """
    named = slice(len(labels["group"]))
    means, wider = (GroupMeans(*(column[named] for column in x)) for x in (means, wider))

    def scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(bounds.low + (values + 1) * bounds.half)

    ratio = scaled(means.ratio)
    columns = {
        "estimate": np.clip(ratio, bounds.low, bounds.high),
        "standard_error": means.standard_error * bounds.half,
        "lower": np.clip(scaled(means.lower), bounds.low, bounds.high),
        "upper": np.clip(scaled(means.upper), bounds.low, bounds.high),
        LOWER: np.clip(scaled(wider.lower), bounds.low, bounds.high),
        UPPER: np.clip(scaled(wider.upper), bounds.low, bounds.high),
        "ratio": ratio,
        "share": means.share,
        "share_standard_error": means.share_error,
    }
    # Where there is no number, there is a null.
    numbers = {name: pa.array(column, from_pandas=True) for name, column in columns.items()}
    return pa.table({**labels, **numbers})
