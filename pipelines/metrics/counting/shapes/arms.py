"""An experiment's totals: a unit moves those of one arm, and of one bin, alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.counters.arms import ArmCounters
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.rows import fine_steps
from mechanisms.mean.effects import Noise
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
    """Counters of arms and bins."""

    rows_of_a_user = "all rows of its arm: any of them for a rate, all together for a number"

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, ArmReporting]:
        options, outcomes = statistic.options, statistic.outcomes
        numbers = sum(one.bounds is not None for one in outcomes)
        rates = len(outcomes) - numbers
        target = options.usual, options.epsilon or 1.0, options.delta or DELTA
        steps = fine_steps(2 * numbers, rates, *target) if numbers else 1
        bins = len(statistic.edges) + 2 if statistic.edges else 1
        counters = ArmCounters(len(statistic.arms), bins, rates, numbers, steps)
        reporting = ArmReporting(counters, outcomes, statistic.edges)
        design = meeting(options, counters.levels, reporting.sides, parts=counters.parts)
        return design, reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        """Of a total of the first outcome, and of the number of units."""
        counters = release.reporting.counters
        unit = 1.0 if counters.rates else 1 / counters.steps
        of_level = partial(FigureError.of_level, release.design)
        return Accuracy(of_level(1, 1, unit=unit), of_level(0, 1))

    def evidence(self, release: ByCounters, estimate: Counted) -> ArmEvidence:
        counters, design = release.reporting.counters, release.design
        found = counters.totals(design.centred(estimate.counts))
        scale = [1.0] * (1 + bool(counters.rates)) + [1 / counters.steps] * 2
        noises = [Noise.of(design.level_law(i), scale[i]) for i in range(len(counters.levels))]
        return ArmEvidence(
            found.units.ravel(), np.empty(0), release.accuracy, partial(beside, release, estimate),
            found=found, noises=tuple(noises), rounding=1 / counters.steps**2,
        )  # fmt: skip

    def influence(self, release: ByCounters) -> float:
        """Of the number of units with an outcome, or, in halves of its range, of a number."""
        return 1.0


ARMS = _Arms()
