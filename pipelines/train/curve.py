"""The learning curve: how wrong the model is after how many steps, and how well that is known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mechanisms.channel import Counts
from mechanisms.mean.intervals import estimate_mean
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.postprocess.intervals import normal_quantile
from transforms.train_curve import Scored


class Point(NamedTuple):
    """How wrong the model is at one moment; what nobody knows is None.

    Attributes:
        step: after how many steps, or epochs.
        n: the rows or reports it stands on.
        error: mean squared error in units of the target, or the share of wrong classes.
        standard_error: of it.
        lower: end of an interval.
        upper: its other end.
    """

    step: int
    n: int
    error: float | None = None
    standard_error: float | None = None
    lower: float | None = None
    upper: float | None = None


Curve = list[Point]


def curve_table(curve: Curve) -> pa.Table:
    """curve.parquet."""
    kinds = [pa.int64()] * 2 + [pa.float64()] * 4
    return pa.table(
        {
            name: pa.array([point[place] for point in curve], kind)
            for place, (name, kind) in enumerate(zip(Point._fields, kinds, strict=True))
        }
    )


def public_curve(steps: list[int], scored: Scored, unit: float, confidence: float) -> Curve:
    """The curve on public rows; its intervals are about other rows of the same kind.

    Args:
        steps: of the models, ascending.
        scored: what public rows say.
        unit: what an error of 1 is on the scale of the target.
        confidence: of the intervals.
    """
    reach, n, curve = normal_quantile(confidence), scored.n, []
    sums, spreads = scored.sums[: len(steps)], scored.squares[: len(steps)]  # then comes the rest
    for step, total, squares in zip(steps, sums, spreads, strict=True):
        mean = float(total) / n
        # A difference of large squares may come out a little below 0.
        spread = math.sqrt(max(float(squares) / n - mean * mean, 0.0) / n)
        if not math.isfinite(mean + spread):  # a model that has gone astray may be that wrong
            curve.append(Point(step, n))
            continue
        ends = max(mean - reach * spread, 0.0), mean + reach * spread
        curve.append(Point(step, n, *(unit * number for number in (mean, spread, *ends))))
    return curve


def noisy_point(
    step: int, n: int, error: float, variance: float, unit: float, confidence: float
) -> Point:
    """How wrong a model is on average on the rows that it was fitted to, as noise lets it be told.

    Args:
        step: of the model.
        n: the rows.
        error: an unbiased estimate, on the scale on which no error is above 1.
        variance: of it.
        unit: what an error of 1 is on the scale of the target.
        confidence: of the interval.
    """
    spread = math.sqrt(variance)
    reach, middle = normal_quantile(confidence) * spread, min(max(error, 0.0), 1.0)
    ends = max(min(error - reach, middle), 0.0), min(max(error + reach, middle), 1.0)
    return Point(step, n, *(unit * number for number in (middle, spread, *ends)))


def private_curve(
    steps: list[int],
    mechanism: PublicGroups[ScalarMean],
    counts: Counts,
    least: int,
    unit: float,
    confidence: float,
) -> Curve:
    """The curve from reports of users held back; points of too few reports have no error.

    Args:
        steps: of the models that were reported on, ascending.
        mechanism: of the reports, its first groups for a model each.
        counts: of the reports.
        least: the fewest reports that a point may stand on.
        unit: what an error of 1 is on the scale of the target.
        confidence: of the intervals.
    """
    curve = []
    # What else was asked comes behind.
    for step, part in zip(steps, mechanism.parts(counts)[: len(steps)], strict=True):
        n = int(np.sum(part))
        if n < max(least, 1):
            curve.append(Point(step, n))
            continue
        mean = estimate_mean(mechanism.mechanism, part, confidence)
        # Errors travel as 2 error - 1.
        middle = min(max((mean.unbiased + 1) / 2, 0.0), 1.0)
        ends = (mean.lower + 1) / 2, (mean.upper + 1) / 2
        point = (middle, mean.standard_error / 2, *ends)
        curve.append(Point(step, n, *(unit * number for number in point)))
    return curve
