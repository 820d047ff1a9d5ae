"""One report of a cell of one table, drawn for each unit: tables that nobody is trusted with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.planner.search import Design
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.vector.divided_tables import DividedTables, TablesTask
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.metric import FRESH, Coins
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.reports.by_reports import ByReports
from pipelines.metrics.statistics.cross_tab import TableEvidence, ravelled
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.terms import (
    answering_rows,
    answering_share,
    best_design,
    drowned,
    rows_needed,
)
from pipelines.wording import covered
from transforms.encoders.rows import RowEncoder

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted


@dataclass(frozen=True, kw_only=True)
class TablesByReports(ByReports):
    """Tables from units who are divided among them."""

    design: Design[DividedTables]

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        statistic, rows = given.statistic, rows_needed(given.statistic.options, given.telemetry)
        least, design = best_design(statistic.options, TablesTask(statistic.tabs), rows)
        return cls(**given.fields, min_reports=least, design=design)

    @property
    def expected_error(self) -> str:
        """Of a cell's share at the least batch, in the root of the mean square."""
        return f"share ± {100 * math.sqrt(self.design.error):.2g} %"

    @property
    def cautions(self) -> list[str]:
        n = max(self.min_reports if self.min_reports > 1 else answering_rows(self), 1)
        error = math.sqrt(self.mechanism.report_variance / n)
        return super().cautions + drowned(error, n, "all reports together")

    def encoder(self, coins: Coins = FRESH) -> RowEncoder:
        return self.statistic.encoder

    @property
    def fresh_only(self) -> str | None:
        return "the table is drawn anew for each report"

    def reported(self, estimate: Counted) -> tuple[int, int]:
        return estimate.messages, estimate.invalid

    def evidence(self, estimate: Counted) -> TableEvidence:
        tabs, counts, answering = self.statistic.tabs, estimate.counts, answering_share(self)
        finest, answered = (self.mechanism.finest(counts, share) for share in (answering, 1.0))
        answered = tabs.fitted(answered)
        error = ravelled(self.mechanism.errors(counts, answered))
        # Who answers this metric is drawn: of all users, these are a sample.
        sampling = (1 - answering) * ravelled(tabs.published(answered).values())
        return TableEvidence.of(
            tabs, finest, self._accuracy(estimate),
            deviations=np.sqrt(error**2 + sampling) / answering,
            reach=partial(normal_quantile, self.options.confidence),
        )  # fmt: skip

    def _accuracy(self, estimate: Counted) -> Accuracy:
        error = math.sqrt(self.mechanism.report_variance * estimate.messages)
        return Accuracy(FigureError(None, error / answering_share(self)))

    # What is said of it.

    @property
    def neighbours(self) -> str:
        return f"one {self.unit}'s values, of all columns, are replaced by any others, or by none"

    @property
    def words(self) -> list[str]:
        many = len(self.mechanism.oracles)
        all_of = (
            f"Figures are of all {self.unit}s: of those who were asked, divided by their share."
        )
        return [
            *[all_of] * (answering_share(self) < 1),
            f"Every {self.unit} reports a cell of one of {many:,} tables, drawn whatever its "
            "values are, and says of which; those that are published are made from all of them. A "
            "value that is missing, or not declared, is one more value, the last.",
        ]

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        shares = self.mechanism.shares
        drawn = [
            {"table": ",".join(self.statistic.named(table)), "share": share / sum(shares)}
            for table, share in zip(self.mechanism.plan.measured, shares, strict=True)
        ]
        return super().mechanism_statement | {"drawn": drawn}

    def own_statement(self, estimate: Counted) -> dict[str, Any]:
        error = self._accuracy(estimate).total.standard_error
        terms = self.statistic.wording.errors
        said = {"covers": covered(self.unit), "reading": terms.reading}
        return {"error": {terms.key: error, **said}}
