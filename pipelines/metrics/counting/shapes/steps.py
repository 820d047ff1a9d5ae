"""The furthest steps of users: each raises one counter, and figures add up those behind."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.counters.choose import NoisyCounters
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import Shape
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.funnel import StepEvidence, reached_of
from transforms.encoders.steps import StepReporting

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted


class _Steps(Shape):
    """Counters of segments and steps."""

    rows_of_a_user = "all, in the order of their times"

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, StepReporting]:
        reporting = StepReporting(*statistic.size, within=statistic.within)
        return meeting(statistic.options, reporting.levels, (), sealed), reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        """Of how many of a segment, or of everybody, have begun."""
        steps = release.statistic.size[0]
        return Accuracy(FigureError.of_level(release.design, 0, steps, least=0))

    def evidence(self, release: ByCounters, estimate: Counted) -> StepEvidence:
        steps, segments = release.statistic.size
        (counts,) = release.design.centred(estimate.counts)
        counters = counts.reshape(segments, steps)
        sum_error = partial(FigureError.of_level, release.design, 0, least=0)
        known = reached_of(counters).ravel(), np.empty(0), release.accuracy, lambda *_: None
        return StepEvidence(*known, counters=counters, sum_error=sum_error)

    def influence(self, release: ByCounters) -> float:
        summed = release.by_devices and not release.sealed  # dummies of all that is added up
        return float(release.design.lifts[0] * (release.statistic.size[0] if summed else 1))


STEPS = _Steps()
