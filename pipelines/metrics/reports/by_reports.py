"""What randomises each unit's contribution by itself, whatever the statistic is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mechanisms.randomness import SecureRandom
from pipelines.logs.inputs import ALONE, Source, Telemetry
from pipelines.metrics import registry
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.of_statistic import OfStatistic
from pipelines.metrics.randomised import Randomised

if TYPE_CHECKING:
    from pipelines.metrics.statistics.statistic import Workload
    from transforms.elements.blocks import Generator


@dataclass(frozen=True, kw_only=True)
class ByReports(OfStatistic, Randomised):
    """A statistic of which each unit sends one randomised report; how is said by its workload."""

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        """As of `ByCounters.require`."""
        require_randomised(options)

    @classmethod
    def of(
        cls,
        statistic: Any,
        telemetry: Telemetry,
        open_rng: Generator = SecureRandom,
        source: Source = ALONE,
    ) -> ByReports:
        """The release of a statistic; as of `ByCounters.of`.

        Args:
            statistic: held against its input.
            telemetry: the files.
            open_rng: opens generators on workers.
            source: what public randomness comes from.
        """
        made: type[ByReports] = registry.imported(_of_workload(statistic.workload))
        return made.of(statistic, telemetry, open_rng, source)


_SHARES = "pipelines.metrics.reports.shares:SharesByReports"
_MEANS = "pipelines.metrics.reports.means:MeansByReports"
_BY_SHAPE = {
    "prefixes": "pipelines.metrics.reports.bins:BinsByReports",
    "tables": "pipelines.metrics.reports.tables:TablesByReports",
    "row": "pipelines.metrics.reports.rows:RowsByReports",
}


def _of_workload(work: Workload) -> str:
    """Where the reports are that serve a workload."""
    if work.shape != "cells":
        return _BY_SHAPE[work.shape]
    return _SHARES if work.amount is None else _MEANS
