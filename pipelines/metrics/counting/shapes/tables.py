"""Tables that share cells: a unit raises one cell of each table that has counters."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import far
from pipelines.metrics.counting.shapes.whole_rows import WholeRows
from pipelines.metrics.statistics.cross_tab import TableEvidence, ravelled
from pipelines.metrics.statistics.evidence import Accuracy
from transforms.encoders.reports import TabReporting

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted


class _Tables(WholeRows):
    """Counters of whole tables."""

    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, TabReporting]:
        reporting = TabReporting(statistic.tabs)
        most = {"most_dummies": MOST_SEALED} if sealed else {}
        return meeting(statistic.options, reporting.levels, (), sealed, **most), reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        """Of a cell of the tables that are asked for, in the root of the mean square."""
        return Accuracy(FigureError(None, math.sqrt(np.square(_deviations(release)[1:]).mean())))

    def evidence(self, release: ByCounters, estimate: Counted) -> TableEvidence:
        tabs, variances = release.statistic.tabs, release.design.variances
        finest = tabs.estimate(release.design.centred(estimate.counts), variances)
        # Noise of a few units goes in steps: an interval reaches over half a one more.
        return TableEvidence.of(
            tabs, finest, release.accuracy,
            deviations=_deviations(release), reach=partial(far, release), step=0.5,
        )  # fmt: skip

    def unit_error(self, release: ByCounters) -> float:
        return release.accuracy.total.standard_error**2

    def influence(self, release: ByCounters) -> float:
        """Of a cell: one that lies may raise others in each table that tells it."""
        if release.by_devices:
            return float(sum(release.design.lifts))
        return float(len(release.reporting.levels)) if release.collects else 1.0


TABLES = _Tables()


def _deviations(release: ByCounters) -> Floats:
    """(figures,) standard errors of the total, and then of each cell of each table."""
    tabs, design = release.statistic.tabs, release.design
    tables = ((), *tabs.asked)
    return np.sqrt(ravelled(tabs.variances(table, design.variances) for table in tables))
