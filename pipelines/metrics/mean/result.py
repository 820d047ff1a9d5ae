"""What a release of means holds: its table and its statement, in the units of the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Counts
from mechanisms.mean.group_means import GroupMeans
from mechanisms.mean.intervals import MeanEstimate, estimate_mean
from mechanisms.mean.scalar import ScalarMean
from pipelines.views.selected import LOWER, UPPER
from transforms.encoders.bounds import Bounds

TABLE = "mean.parquet"


def mean_table(
    parts: Sequence[Counts],
    labels: Mapping[str, pa.Array],
    mechanism: ScalarMean,
    bounds: Bounds,
    least: int,
    confidence: float,
    worst: bool,
) -> pa.Table | None:
    """The published table of one mean, or of public groups; None if none may be published.

    A row for each part: estimate (inside the bounds), unbiased (before it was moved there),
    standard_error, lower and upper of its interval, n; nulls where reports are too few. Among
    groups also lower_simultaneous and upper_simultaneous, of intervals that cover all groups'
    means together.

    Args:
        parts: the counts of messages of each.
        labels: the columns that name them.
        mechanism: what perturbed the numbers.
        bounds: what they were clipped to.
        least: the fewest reports that a mean stands on.
        confidence: of the intervals.
        worst: whether these are wide enough for any numbers.
    """
    means = [_estimated(mechanism, part, confidence, worst, least) for part in parts]
    if all(mean is None for mean in means):
        return None
    columns = _columns(means, bounds)
    if labels:
        together = joint(confidence, len(parts))
        wider = [_estimated(mechanism, part, together, worst, least) for part in parts]
        columns |= _simultaneous(_columns(wider, bounds))
    return pa.table({**labels, **columns})


def joint(confidence: float, comparisons: int) -> float:
    """Of each of several intervals that are to cover together (Bonferroni).

    >>> round(joint(0.95, 10), 4)
    0.995
    """
    return 1 - (1 - confidence) / comparisons


def _simultaneous(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """The ends of intervals, under the names that they have where they cover all groups."""
    return {LOWER: columns["lower"], UPPER: columns["upper"]}


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


def group_table(
    labels: Mapping[str, pa.Array], means: GroupMeans, wider: GroupMeans, bounds: Bounds
) -> pa.Table:
    """The published table of private groups.

    As that of public ones, but for `ratio` in the place of `unbiased` (the quotient of two unbiased
    sums, null where no user may be in the group), and share and share_standard_error in the place
    of n, which nobody knows.

    Args:
        labels: the columns that name them.
        means: of each group.
        wider: the same, with intervals that cover all groups together.
        bounds: what numbers were clipped to.
    """

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
