"""The learning curve: how wrong the model is after how many steps, and how well that is known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.learning.baseline import Baseline, BaselineComparison
from mechanisms.postprocess.intervals import normal_quantile
from pipelines.views.digits import digits, three_digits


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


class Scored(NamedTuple):
    """What public rows say about several models.

    Attributes:
        n: how many rows there are.
        sums: (models + questions,) of the rows' errors, and then of their answers to what the best
            constant's error follows from.
        squares: (models + questions,) of the squares of the same.
    """

    n: int
    sums: Floats
    squares: Floats


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
    step: int, n: int, baseline: Baseline, averages: Floats, variance: float, unit: float,
    confidence: float,
) -> Point:  # fmt: skip
    """How wrong a model is on average on the rows that it was fitted to, as noise lets it be told.

    Args:
        step: of the model.
        n: the rows.
        baseline: what else was asked.
        averages: (1 + questions,) of errors as parts of the largest, and of the answers.
        variance: that noise gives each.
        unit: what an error of 1 is on the scale of the target.
        confidence: of the interval.
    """
    answers, reach = averages[1:], normal_quantile(confidence)
    share = AverageEstimate(
        baseline.usable(answers), math.sqrt(baseline.usable(np.full(answers.shape, variance)))
    )
    half = reach * math.sqrt(variance)
    error = AverageEstimate(float(averages[0]), math.sqrt(variance))
    return _judged(step, n, error, half, share, reach, unit * baseline.largest)


class AverageEstimate(NamedTuple):
    """An average, and its standard error."""

    value: float
    standard_error: float


def _judged(
    step: int, n: int, error: AverageEstimate, half: float, share: AverageEstimate, reach: float,
    largest: float,
) -> Point:  # fmt: skip
    """A point of rows of which some can be used: errors are held against the share of those.

    Args:
        step: of the model.
        n: rows, or reports.
        error: as a part of the largest, 0 of rows that cannot be used.
        half: of an interval of it.
        share: of rows that can be used.
        reach: standard errors of an interval.
        largest: error, on the scale of the target.
    """
    if not share.value > share.standard_error:
        return Point(step, n)
    ratio = error.value / share.value
    around = math.hypot(half, reach * ratio * share.standard_error) / share.value
    spread = math.hypot(error.standard_error, ratio * share.standard_error) / share.value
    middle = min(max(ratio, 0.0), 1.0)
    ends = max(min(ratio - around, middle), 0.0), min(max(ratio + around, middle), 1.0)
    return Point(step, n, *(largest * number for number in (middle, spread, *ends)))


UNKNOWN = "Whether this model errs less than the best constant does was not measured."


def verdict(comparison: BaselineComparison | None, measure: str) -> str:
    """What a comparison comes to, in a sentence.

    Args:
        comparison: of the published model, if there is one.
        measure: what its errors are.
    """
    if comparison is None:
        return UNKNOWN
    largest = comparison.largest
    model, constant = (min(max(error, 0.0), largest) for error in comparison[:2])
    difference, error = comparison.constant - comparison.model, comparison.standard_error
    if comparison.gained is None:
        return (
            "Noise hides whether this model errs less than the best constant does: their "
            f"{measure} differs by less than noise allows to see (standard error "
            f"{three_digits(error)})."
        )
    begins = "This model errs less" if difference > 0 else "Of no use: this model errs more"
    return (
        f"{begins} than the best constant does: its {measure} is about {digits(model, error)}, "
        f"that of the constant {digits(constant, error)}, and the noisy difference "
        f"{digits(abs(difference), error)} ± {digits(error, error)}."
    )


def of_public_rows(
    scored: Scored, baseline: Baseline, unit: float, confidence: float
) -> BaselineComparison | None:
    """A comparison on public rows, about other rows of the same kind."""
    places = slice(-1 - baseline.questions, None)
    means = scored.sums[places] / scored.n
    spreads = (scored.squares[places] / scored.n - means**2).clip(0) / scored.n
    means[0], spreads[0] = means[0] / baseline.largest, spreads[0] / baseline.largest**2
    return baseline.compared(means.tolist(), spreads.tolist(), unit, confidence)
