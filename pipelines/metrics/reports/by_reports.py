"""What randomises each unit's contribution by itself, whatever the statistic is of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mechanisms.randomness import SecureRandom
from pipelines.logs.inputs import ALONE, Source, Telemetry
from pipelines.metrics import registry
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.statistics.evidence import Evidence

if TYPE_CHECKING:
    from typing_extensions import Self

    from pipelines.metrics.statistics.statistic import Workload
    from transforms.elements.blocks import Generator


@dataclass(frozen=True, kw_only=True)
class ByReports(Randomised):
    """A statistic of which each unit sends one randomised report; how is said by its workload.

    Attributes:
        statistic: what is asked.
    """

    statistic: Any

    @classmethod
    def resolve(
        cls, options: Any, source: Source = ALONE, open_rng: Generator = SecureRandom
    ) -> Self:
        made: Self = registry.find_for(options).resolve(options, source, open_rng)
        return made

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        """As of `ByCounters.require`."""
        require_randomised(options)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        """As of `ByCounters.objection`."""
        if work.shape in ("days", "strings"):
            return _UNTOLD[work.shape]
        if work.shape == "cells" and work.people == "nobody":
            return "how many units report is published exactly: ask for shares or a mean"
        return "one report tells one value of a unit" if _several(work) else None

    @classmethod
    def option(cls, options: Any) -> str:
        """As of `ByCounters.option`."""
        return f"--model {options.drawn_by}"

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

    @property
    def kind(self) -> str:  # type: ignore[override]
        return str(self.statistic.kind)

    @property
    def unstated(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(self.statistic.unstated)

    def published_in(self, folder: str, window: str) -> Self:
        made = super().published_in(folder, window)  # a statistic reads what it shows from there
        return replace(made, statistic=replace(made.statistic, options=made.options))

    def evidence(self, estimate: Any) -> Evidence:
        """What is known of a batch.

        Args:
            estimate: of the collector.
        """
        raise NotImplementedError

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return dict(self.statistic.line_types)

    @property
    def labelled(self) -> dict[str, str]:
        return dict(self.statistic.labelled)

    @property
    def figures(self) -> dict[str, str]:
        return dict(self.statistic.files)

    @property
    def title(self) -> str:
        return str(self.statistic.title)

    @property
    def headline(self) -> dict[str, str]:
        return dict(self.statistic.headline) or super().headline

    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        return dict(self.statistic.tables(self.evidence(estimate)))

    @property
    def request(self) -> dict[str, Any]:
        return super().request | dict(self.statistic.request)


_UNTOLD = {
    "days": "one report tells one value, and many days of a user are needed",
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
