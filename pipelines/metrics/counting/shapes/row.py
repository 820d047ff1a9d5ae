"""Totals of all numbers of rows: digits of each number, and who has it, told from both ends."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.design import Counters
from mechanisms.counters.rows import RowCounters, RowNoise, RowTotals, digits_for
from mechanisms.mean.fieller import RatioEstimate, quotients
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.wire.report import MOST_SLOTS
from pipelines.errors import RequestError
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.options import DELTA
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import beside
from pipelines.metrics.counting.shapes.whole_rows import WholeRows
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.row_evidence import RowEvidence, RowFigures
from pipelines.metrics.unusable.share import Share
from transforms.encoders.attributes import categorical, width
from transforms.encoders.reports import RowReporting

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted


class DigitRow(WholeRows):
    """The numbers of a row, and its categories."""

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, RowReporting]:
        options, attributes = statistic.options, statistic.attributes
        numbers, sizes = width(attributes), tuple(c.size for c in categorical(attributes))
        target = options.epsilon or 1.0, options.delta or DELTA
        digits = options.digits or digits_for(numbers, len(sizes), options.usual, *target)
        while True:
            reporting = RowReporting(RowCounters(numbers, (1 << digits) - 1, sizes))
            design = cast(Counters, meeting(options, reporting.rows.levels, reporting.sides))
            if not sealed or _sealable(design):
                return design, reporting
            digits -= 1
            if not digits or options.digits:
                raise RequestError(_too_many(design))

    def accuracy(self, release: ByCounters) -> Accuracy:
        rows, design = release.reporting.rows, cast(Counters, release.design)
        weights = [1 << place for place in range(rows.steps.bit_length())]
        try:
            law = design.dummies.error_law(weights, 2)
        except ValueError:  # too long to tabulate: it is all but normal
            total = FigureError(None, rows.noise(design.variances).sum)
        else:
            total = FigureError(law, math.sqrt(law.var()), unit=1 / rows.steps)
        return Accuracy(total, total, coin=float(rows.rounding(np.array(1))))

    def evidence(self, release: ByCounters, estimate: Counted) -> RowEvidence:
        rows, confidence = release.reporting.rows, float(release.options.confidence)
        noise = rows.noise(release.design.variances)
        totals = rows.sums(release.design.centred(estimate.counts)[:-1])

        def absent(confidence: float) -> list[Share]:
            if not getattr(rows, "each", True):  # nobody counts who has which
                return []
            return _absent(totals, noise, release.accuracy.total, confidence)

        known = totals.sums, totals.counts, release.accuracy, partial(beside, release, estimate)
        means = Evidence(*known).means
        alone, together = means(confidence), means(confidence ** (1 / totals.sums.size))
        errors = np.full_like(totals.counts, release.accuracy.people)
        total, several = release.accuracy.total, max(sum(rows.sizes), 1)
        far = _far(total, confidence), _far(total, confidence ** (1 / several))
        return RowEvidence(
            *known, numbers=_figures(alone, together, -1, totals.counts, errors),
            categories=tuple(_shares(values, totals.rows, noise, *far) for values in totals.values),
            absent=absent, present=(totals.rows, noise.rows),
        )  # fmt: skip

    def influence(self, release: ByCounters) -> float:
        """Of a sum, in halves of the distance of bounds, or of a category's count."""
        rows = release.reporting.rows
        return float(max(rows.numbers, len(rows.sizes))) if release.collects else 1.0

    def settled(self, release: ByCounters) -> dict[str, Any]:
        return {"digits": release.reporting.rows.steps.bit_length()}


def _figures(
    alone: RatioEstimate, together: RatioEstimate, low: int, units: Floats, errors: Floats
) -> RowFigures:
    """Quotients with their intervals; all that can be lies in low .. 1."""

    def ends(ratio: RatioEstimate) -> tuple[Floats, Floats]:
        return np.clip(ratio.lower, low, 1), np.clip(ratio.upper, low, 1)

    estimate, intervals = np.clip(alone.ratio, low, 1), (ends(alone), ends(together))
    return RowFigures(estimate, alone.ratio, alone.error, *intervals, units, errors, {})


def _shares(values: Floats, rows: float, noise: RowNoise, far: float, farther: float) -> RowFigures:
    """The shares of a category's values among all units, as reports have them."""
    own, all_rows = values[:-1], np.full(values.size - 1, rows)
    errors = noise.value, noise.rows
    alone, together = (quotients(own, all_rows, *errors, reach) for reach in (far, farther))
    return _figures(alone, together, 0, own, np.full_like(own, noise.value))


def _far(total: FigureError, confidence: float) -> float:
    """How many standard errors an interval of a share reaches."""
    # Heavier tails than a normal law's count for all; those of large noise are normal.
    return max(total.far(confidence), normal_quantile(confidence))


def _absent(
    totals: RowTotals, noise: RowNoise, total: FigureError, confidence: float
) -> list[Share]:
    """The shares of units without each number, and without each category."""
    parts = [(count, noise.sum) for count in totals.counts.tolist()]
    some = math.hypot(noise.rows, noise.value)
    parts += [(totals.rows - float(values[-1]), some) for values in totals.values]
    # All hold together, and so do the two counts behind each.
    far = _far(total, 1 - (1 - confidence) / len(parts) / 2)
    return [
        Share.of_counts((totals.rows - count, far * (noise.rows + error)), (count, far * error))
        for count, error in parts
    ]


def _sealable(design: Counters) -> bool:
    """Whether words that are sealed one by one may be so many."""
    few = design.dummies.number(design.levels) <= MOST_SEALED
    return few and design.layout.types.size <= MOST_SLOTS


def _too_many(design: Counters) -> str:
    """Why a row cannot be sealed, and how many messages it might have; of a digit a number."""
    slots, number = design.layout.types.size, design.dummies.number(design.levels)
    # Numbers of counters and of dummies on each grow: by the power 3/2 together.
    most = min(int(slots * min(1.0, (0.95 * MOST_SEALED / number) ** (2 / 3))), MOST_SLOTS)
    return (
        f"clients seal {slots:,} messages each, and the shuffler {number:,} dummies one by one "
        f"where it may seal {MOST_SEALED:,}: some {most:,} messages would do: have fewer numbers "
        "or --digits, or leave it to `hushbeam run`"
    )


ROW = DigitRow()
