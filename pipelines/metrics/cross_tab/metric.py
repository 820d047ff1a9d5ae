"""`hushbeam cross-tab`: how many there are of each value of several columns, and of each pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.crosstabs import CrossTabs
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_counted, require_drawn
from pipelines.metrics.counting.rowwise import RowWise
from pipelines.metrics.cross_tab.options import CrossTabOptions
from pipelines.metrics.cross_tab.tabulated import READING, Declared, Tabulated
from transforms.encoders.reports import TabReporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator


@dataclass(frozen=True, kw_only=True)
class CrossTab(Tabulated, RowWise):
    """Tables of one and of two columns, from counters."""

    figure = " of a cell, on average,"
    unstated = frozenset({"rows_per_user"})

    options: CrossTabOptions
    reporting: TabReporting
    min_reports: int = 0

    @classmethod
    def resolve(
        cls,
        options: CrossTabOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        declared = Declared.read(options, source, empty=True)
        require_drawn(options)
        require_counted(options)
        if options.delta == 0:
            raise RequestError("--delta: dummies need more than 0; leave it out for the default")
        reporting = TabReporting(declared.tabs)
        return cls(
            options=options, telemetry=declared.telemetry, open_rng=open_rng, reporting=reporting,
            design=_designed(options, reporting), dimensions=declared.dimensions,
            attributes=tuple(dimension.category for dimension in declared.dimensions),
        )  # fmt: skip

    def redesigned(self) -> Self:
        return replace(self, design=_designed(self.options, self.reporting, self.sealed))

    @property
    def tabs(self) -> CrossTabs:
        """The tables."""
        return self.reporting.rows

    @property
    def unit_error(self) -> float:
        return self.error**2

    @cached_property
    def error(self) -> float:
        """Of a cell of the tables that are asked for, in the root of the mean square."""
        return math.sqrt(np.square(self._standard_errors[1:]).mean())

    @property
    def _cells(self) -> int:
        return sum(map(self.tabs.cells, self.tabs.asked))

    @property
    def _typical(self) -> Typical:
        return Typical(self.expected * len(self.tabs.asked) / self._cells, self.error)

    @property
    def expected_error(self) -> str:
        return f"cell ± {self.error:.3g}"

    @property
    def influence(self) -> float:
        """Of a cell: one that lies may raise others in each table that tells it."""
        if self.by_devices:
            return float(sum(self.design.lifts))
        return float(len(self.tabs.levels)) if self.collects else 1.0

    @cached_property
    def _standard_errors(self) -> Floats:
        """(figures,) of the total, and then of each cell of each table."""
        tables = ((), *self.tabs.asked)
        variances = (self.tabs.variances(table, self.design.variances).ravel() for table in tables)
        return np.sqrt(np.concatenate([*variances]))

    # The collector.

    def totals(self, counts: Any) -> Floats:
        raise TypeError("tables are no total")

    def errors(self) -> result.FigureError:
        return result.FigureError(None, self.error)

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        tabs, centred = self.tabs, self.design.centred(estimate.counts)
        finest = tabs.estimate(centred, self.design.variances)
        unbiased, fitted = tabs.published(finest), tabs.published(tabs.fitted(finest))
        reaches = [self.far(1), self.far(self._standard_errors.size)]
        # Noise of a few units goes in steps: an interval reaches over half a one more.
        return self.table(unbiased, fitted, self._standard_errors, reaches, 0.5)

    # What is said of it.

    @property
    def request(self) -> dict[str, Any]:
        return super(Counting, self).request | self.description | {"delta": self.design.delta}

    @property
    def error_statement(self) -> dict[str, Any]:
        return {
            "standard_error_of_a_cell": self.error,
            "covers": "the noise of the dummies"
            + ("; of each user one row, drawn uniformly" if self.unit == "user" else ""),
            "reading": READING,
        }

    @property
    def words(self) -> list[str]:
        whose = "One row of each user, drawn uniformly among all of its rows," * (
            self.unit == "user"
        )
        many = len(self.tabs.levels)
        return [
            f"{whose or 'Every row'} raises a cell of each of {many:,} tables, from which those "
            "that are published are made; a value that is missing, or not declared, is one more "
            "value, the last."
        ]


def _designed(
    options: CrossTabOptions, reporting: TabReporting, sealed: bool = False
) -> NoisyCounters:
    """The counters of the tables.

    Raises:
        RequestError: the target is out of reach, or takes more dummies than may be sealed.
    """
    most = {"most_dummies": MOST_SEALED} if sealed else {}
    return meeting(options, reporting.levels, (), sealed, **most)
