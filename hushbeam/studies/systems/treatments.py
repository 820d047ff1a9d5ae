"""What becomes of an estimated row: shrinking, a factor, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hushbeam.studies.populations.rows import RowPopulation
from mechanisms.channel import Floats
from mechanisms.papers.rphm import MultiRphm
from mechanisms.planner.rows import Prediction
from mechanisms.postprocess import shrinkage


class TreatedEstimate(NamedTuple):
    """What becomes of an estimate.

    Attributes:
        estimate: (d,).
        factor: by which it was multiplied, or its distance from a target.
        shortened: how many rows were longer than what the mechanism takes, which cuts them off.
    """

    estimate: Floats
    factor: float
    shortened: int = 0


@dataclass(frozen=True)
class Treatment:
    """What the collector does with an unbiased estimate.

    Attributes:
        publish: ((d,) estimate, (d,) variances as reports show them) -> what is published.
        error: (what is expected of the mechanism, its rows) -> the same after the treatment; a
            shrinking is taken for the best one, an oracle's.
        biased: whether it is for mechanisms that are biased.
    """

    publish: Callable[[Floats, Floats], TreatedEstimate]
    error: Callable[[Prediction, RowPopulation], float | None]
    biased: bool = False


def _as_it_is(estimate: Floats, variance: Floats) -> TreatedEstimate:
    return TreatedEstimate(estimate, 1.0)


def _to_zero(estimate: Floats, variance: Floats) -> TreatedEstimate:
    moved = shrinkage.to_prior(estimate, variance)
    return TreatedEstimate(moved.estimate, moved.factor)


def _to_mean(estimate: Floats, variance: Floats) -> TreatedEstimate:
    moved = shrinkage.to_mean(estimate, variance)
    return TreatedEstimate(moved.estimate, moved.factor)


def _by_share(estimate: Floats, variance: Floats) -> TreatedEstimate:
    factor = _share(estimate.size)
    return TreatedEstimate(factor * estimate, factor)


def _debiased(estimate: Floats, variance: Floats) -> TreatedEstimate:
    factor = 1 / _share(estimate.size)
    return TreatedEstimate(factor * estimate, factor)


def _error(prediction: Prediction, rows: RowPopulation) -> float:
    return prediction.error


def _error_to_zero(prediction: Prediction, rows: RowPopulation) -> float | None:
    # James and Stein's estimator leaves two coordinates as they are, and towards their mean three.
    return prediction.to_zero if rows.d > 2 else prediction.error


def _error_to_mean(prediction: Prediction, rows: RowPopulation) -> float | None:
    return prediction.to_mean if rows.d > 3 else prediction.error


def _error_by_share(prediction: Prediction, rows: RowPopulation) -> float:
    share = _share(rows.d)
    return (1 - share) ** 2 * rows.mean_square_of_means + share**2 * prediction.error


def _error_debiased(prediction: Prediction, rows: RowPopulation) -> float:
    square, share = rows.mean_square_of_means, _share(rows.d)
    noise = prediction.error - (1 - share) * square
    # What is cut off at -1 and 1 falls short of the mean; by Stein's lemma for normal coordinates
    # their product is the mean square times the share of numbers that are cut off.
    beyond = math.erfc(1 / math.sqrt(2 * rows.mean_square))
    return (1 / share - 1) * square * (1 - 2 * beyond) + noise / share**2


def _share(dimension: int) -> float:
    """q / d as the paper of Multi-RPHM has it."""
    return MultiRphm(1.0, dimension, max(1, round(0.3 * dimension))).kept


TREATMENTS: Mapping[str, Treatment] = {
    "": Treatment(_as_it_is, _error),
    "zero": Treatment(_to_zero, _error_to_zero),
    "mean": Treatment(_to_mean, _error_to_mean),
    "share": Treatment(_by_share, _error_by_share),
    "debiased": Treatment(_debiased, _error_debiased, biased=True),
}
"""What may stand after the name of a mechanism."""
