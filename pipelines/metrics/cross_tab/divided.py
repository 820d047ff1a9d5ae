"""Cross-tabs that trust nobody: each user reports a cell of one table, randomised by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.counters.crosstabs import CrossTabs
from mechanisms.planner.search import Design
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.randomness import SecureRandom
from mechanisms.vector.divided_tables import DividedTables, TablesTask
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.cross_tab.dimensions import named
from pipelines.metrics.cross_tab.options import CrossTabOptions
from pipelines.metrics.cross_tab.tabulated import READING, Declared, Tabulated
from pipelines.metrics.metric import FRESH, Coins
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.terms import best_design, drowned
from pipelines.wording import covered
from transforms.encoders.rows import Absence, RowEncoder

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator


@dataclass(frozen=True, kw_only=True)
class DividedTab(Tabulated, Randomised):
    """Tables of one and of two columns, from users who are divided among them."""

    unstated = frozenset({"rows_per_user"})

    options: CrossTabOptions
    design: Design[DividedTables]

    @classmethod
    def resolve(
        cls,
        options: CrossTabOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        if not options.hides:
            raise RequestError(
                "--unusable: a value that is missing, or not declared, is one more value of each "
                "column here; leave it out"
            )
        declared = Declared.read(options, source, empty=False)
        require_randomised(options)
        least, design = best_design(options, TablesTask(declared.tabs), declared.telemetry.rows)
        return cls(
            options=options, telemetry=declared.telemetry, open_rng=open_rng, min_reports=least,
            design=design, dimensions=declared.dimensions,
        )  # fmt: skip

    @property
    def tabs(self) -> CrossTabs:
        return self.mechanism.tabs

    @property
    def error(self) -> float:
        """Of a cell's share at the least batch, in the root of the mean square."""
        return math.sqrt(self.design.error)

    @property
    def expected_error(self) -> str:
        return f"share ± {100 * self.error:.2g} %"

    @property
    def cautions(self) -> list[str]:
        n = max(self.min_reports if self.min_reports > 1 else self.answering_rows, 1)
        error = math.sqrt(self.mechanism.report_variance / n)
        return super().cautions + drowned(error, n, "all reports together")

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        parts = (dimension.category for dimension in self.dimensions)
        return {column: part.kind for part in parts for column in part.columns()}

    def encoder(self, coins: Coins = FRESH) -> RowEncoder:
        categories = tuple(dimension.category for dimension in self.dimensions)
        return RowEncoder(categories, None, Absence(hides=True))

    @property
    def fresh_only(self) -> str | None:
        return "the table is drawn anew for each report"

    def reported(self, estimate: Counted) -> tuple[int, int]:
        return estimate.messages, estimate.invalid

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        tabs, counts, answering = self.mechanism.plan, estimate.counts, self.answering_share
        finest, answered = (self.mechanism.finest(counts, share) for share in (answering, 1.0))
        answered = tabs.fitted(answered)
        error, sampling = (
            np.concatenate([array.ravel() for array in arrays])
            for arrays in (
                self.mechanism.errors(counts, answered), tabs.published(answered).values()
            )
        )  # fmt: skip
        # Who answers this metric is drawn: of all users, these are a sample.
        error = np.sqrt(error**2 + (1 - answering) * sampling) / answering
        fitted = tabs.fitted(finest)
        sure = self.options.confidence
        reaches = [normal_quantile(sure), normal_quantile(sure, error.size)]
        return self.table(tabs.published(finest), tabs.published(fitted), error, reaches, 0.0)

    # What is said of it.

    @property
    def neighbours(self) -> str:
        return f"one {self.unit}'s values, of all columns, are replaced by any others, or by none"

    @property
    def words(self) -> list[str]:
        many = len(self.mechanism.oracles)
        all_of = "Figures are of all {unit}s: of those who were asked, divided by their share."
        return [
            *[all_of.format(unit=self.unit)] * (self.answering_share < 1),
            f"Every {self.unit} reports a cell of one of {many:,} tables, drawn whatever its "
            "values are, and says of which; those that are published are made from all of them. A "
            "value that is missing, or not declared, is one more value, the last.",
        ]

    @property
    def request(self) -> dict[str, Any]:
        return super().request | self.description

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        mechanism = self.mechanism
        drawn = [
            {
                "table": ",".join(named(table, self.dimensions)),
                "share": share / sum(mechanism.shares),
            }
            for table, share in zip(mechanism.plan.measured, mechanism.shares, strict=True)
        ]
        return super().mechanism_statement | {"drawn": drawn}

    def own_statement(self, estimate: Counted) -> dict[str, Any]:
        return {
            "error": {
                "standard_error_of_a_cell": math.sqrt(
                    self.mechanism.report_variance * estimate.messages
                )
                / self.answering_share,
                "covers": covered(self.unit),
                "reading": READING,
            },
        }
