"""What randomises each unit's contribution by itself, whatever the statistic is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.metrics import registry
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.of_statistic import Ingredients, OfStatistic
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.statistics.labels import label_columns, with_labels
from pipelines.wording import ONE_QUANTILE

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.metrics.statistics.statistic import Workload


@dataclass(frozen=True, kw_only=True)
class ByReports(OfStatistic, Randomised):
    """A statistic of which each unit sends one randomised report; how is said by its workload."""

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        """As of `ByCounters.require`."""
        require_randomised(options)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        """As of `ByCounters.objection`."""
        if work.shape in _UNTOLD:
            return _UNTOLD[work.shape]
        if work.shape == "cells" and work.people == "nobody":
            return "how many units report is published exactly: ask for shares or a mean"
        if work.squares:
            return "one report tells a number, and its square is needed beside"
        return "one report tells one value of a unit" if _several(work) else None

    @classmethod
    def option(cls, options: Any) -> str:
        """As of `ByCounters.option`."""
        return f"--drawn-by {options.drawn_by}"

    @classmethod
    def of(cls, given: Ingredients) -> ByReports:
        """The release of a statistic; as of `ByCounters.of`."""
        made: type[ByReports] = registry.imported(_of_workload(given.statistic.workload))
        return made.of(given)

    @property
    def request(self) -> dict[str, Any]:
        return super().request | dict(self.statistic.wording.request)

    @property
    def declared(self) -> dict[str, pa.Table]:
        if self.statistic.workload.shape != "cells":
            return {}
        labels = label_columns(self.heading.labels, self.statistic.domains)
        rows = max((len(column) for column in labels.values()), default=1)
        return dict.fromkeys(self.heading.figures, with_labels(labels, {"estimate": [0.0] * rows}))


_UNTOLD = {
    "quantile": ONE_QUANTILE,
    "arms": "arms are compared by exact totals to which the job adds noise: let the job draw",
    "days": "one report tells one value, and many days of a user are needed",
    "steps": "one report tells one row, and the order of all rows of a user is needed",
    "strings": "strings that nobody declared are no values to report",
}


def _several(work: Workload) -> bool:
    """Whether a unit has several cells of one table."""
    return work.shape == "cells" and work.most_groups > 1


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
