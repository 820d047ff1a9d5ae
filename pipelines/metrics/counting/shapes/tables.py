"""Tables that share cells: a unit raises one cell of each table that has counters."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.crosstabs import CrossTabs
from mechanisms.counters.levels import Layout
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import (
    Shape,
    far,
    parts_of,
    portions,
    rounding_of,
)
from pipelines.metrics.counting.shapes.whole_rows import WholeRows
from pipelines.metrics.statistics.cross_tab import TableEvidence, ravelled
from pipelines.metrics.statistics.evidence import Accuracy
from transforms.encoders.reports import TabReporting

if TYPE_CHECKING:
    import apache_beam as beam

    from pipelines.metrics.counting.by_counters import ByCounters
    from transforms.collector.collect_counts import Counted
    from transforms.elements.chains import Chain
    from transforms.encoders.users import UserDigest
    from transforms.units.contributions import EncodedContributions


class _Tables(WholeRows):
    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, TabReporting]:
        parts = parts_of(statistic.options)
        reporting = TabReporting(statistic.tabs, parts=parts)
        more: dict[str, Any] = {"most_dummies": MOST_SEALED} if sealed else {}
        more |= portions(parts, len(reporting.levels))
        return meeting(statistic.options, reporting.levels, (), sealed, **more), reporting

    def contributions(
        self,
        release: ByCounters,
        tables: beam.PCollection,
        named: UserDigest | None,
        together: Layout | None = None,
    ) -> EncodedContributions:
        whose = Shape if release.parts > 1 else WholeRows
        return whose.contributions(self, release, tables, named, together)

    def chains(self, release: ByCounters, last: Chain) -> tuple[Chain, ...]:
        whose = Shape if release.parts > 1 else WholeRows
        return whose.chains(self, release, last)

    def accuracy(self, release: ByCounters) -> Accuracy:
        """Of a cell of the tables that are asked for, in the root of the mean square."""
        return Accuracy(FigureError(None, math.sqrt(np.square(_deviations(release)[1:]).mean())))

    def evidence(self, release: ByCounters, estimate: Counted) -> TableEvidence:
        tabs, variances = release.statistic.tabs, release.design.variances
        levels = [level / release.parts for level in release.design.centred(estimate.counts)]
        finest = tabs.estimate(levels, variances)
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
    noise = _noise(release.statistic.tabs, tuple(release.design.variances))
    return np.hypot(np.sqrt(noise) / release.parts, rounding_of(release))


@lru_cache(maxsize=8)  # a release needs them for what it foretells, and again for its figures
def _noise(tabs: CrossTabs, variances: tuple[float, ...]) -> Floats:
    return ravelled(tabs.variances(table, variances) for table in ((), *tabs.asked))
