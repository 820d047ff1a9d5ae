"""An experiment's totals: a unit moves those of one arm, and of one bin, alone."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.counters.arms import ArmCounters
from mechanisms.counters.choose import NoisyCounters
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.counting.options import DELTA
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import Shape, beside
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.experiment import ArmEvidence
from transforms.encoders.arms import ArmReporting

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted


class _Arms(Shape):
    rows_of_a_user = "all rows of its arm: any of them for a rate, all together for a number"

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, ArmReporting]:
        options, edges, outcomes = statistic.options, statistic.edges, statistic.outcomes
        hows, bins = [one.how for one in outcomes], len(edges) + 2 if edges else 1
        rates, columns = hows.count("rate"), hows.count("quantile")
        counters = ArmCounters.fine(
            len(statistic.arms), bins, rates, len(outcomes) - rates - columns, options.usual,
            options.epsilon or 1.0, options.delta or DELTA, columns,
        )  # fmt: skip
        reporting = ArmReporting(counters, statistic.outcomes, edges)
        design = meeting(options, counters.levels, reporting.sides, parts=counters.parts)
        return design, reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        """Of a total of the first outcome, and of the number of units."""
        counters, design = release.reporting.counters, release.design
        unit = 1.0 if counters.rates else 1 / counters.steps
        others = FigureError.of_level(design, 0, 1)
        if counters.flat == 1:  # quantiles alone: of a number below, half of all
            below = counters.below_variances(0.5, design.variances)
            return Accuracy(FigureError(None, math.sqrt(below.mean())), others)
        return Accuracy(FigureError.of_level(design, 1, 1, unit=unit), others)

    def evidence(self, release: ByCounters, estimate: Counted) -> ArmEvidence:
        counters, design = release.reporting.counters, release.design
        totals = counters.totals(design.centred(estimate.counts), design.variances)
        return ArmEvidence(
            totals.units.ravel(), np.empty(0), release.accuracy, partial(beside, release, estimate),
            arm_totals=totals,
            noises=counters.noises(design.variances), rounding=1 / counters.steps**2,
            below_noise=partial(counters.below_variances, variances=design.variances),
        )  # fmt: skip

    def influence(self, release: ByCounters) -> float:
        """Of the number of units with an outcome, or, in halves of its range, of a number."""
        return 1.0


ARMS = _Arms()
