"""Days, or steps, of users: a user raises a counter of each level, and figures add some up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.counters.choose import NoisyCounters
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import Shape
from pipelines.metrics.funnel.options import TIMES_SHARE
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.summed import SumEvidence

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted


class _Days(Shape):
    """Counters of bitmaps of days."""

    rows_of_a_user = "those of each day"

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, Any]:
        options, reporting = statistic.options, statistic.reporting
        releases = getattr(options, "releases", options.together)
        design = meeting(options, reporting.levels, (), sealed, releases=releases)
        return design, reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        """Of how many were active in the longest span, or begun."""
        longest = release.statistic.longest
        columns = len(longest.cells)
        return Accuracy(FigureError.of_level(release.design, longest.level, columns, least=0))

    def evidence(self, release: ByCounters, estimate: Counted) -> SumEvidence:
        counts, shown = release.design.centred(estimate.counts), release.statistic.shown
        sums = [counts[one.level][list(one.cells)].sum() for one in shown]
        totals: Any = np.rint(sums).astype(np.int64)
        none = np.empty(0)
        sum_error = partial(FigureError.of_level, release.design, least=0)
        return SumEvidence(totals, none, release.accuracy, lambda *_: None, sum_error=sum_error)

    def influence(self, release: ByCounters) -> float:
        lifts = release.design.lifts
        if release.by_devices and not release.sealed:  # dummies of all that is added up
            return float(lifts[0] * len(release.statistic.longest.cells))
        return float(max(lifts))


class _Steps(_Days):
    """Counters of segments and the furthest steps, and beside them of times."""

    rows_of_a_user = "all, in the order of their times"

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, Any]:
        reporting = statistic.reporting
        own, sides = reporting.levels[:1], reporting.sides
        share = {"share": TIMES_SHARE} if sides else {}
        return meeting(statistic.options, own, sides, sealed, **share), reporting


DAYS, STEPS = _Days(), _Steps()
