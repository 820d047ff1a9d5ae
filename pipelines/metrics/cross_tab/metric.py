"""`hushbeam cross-tab`: how many there are of each value of several columns, and of each pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from mechanisms.channel import Floats
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.crosstabs import MOST_DUMMIES, CrossTabs, Table
from mechanisms.randomness import SecureRandom
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics import schema
from pipelines.metrics.counting import result
from pipelines.metrics.counting import view as counting_view
from pipelines.metrics.counting.design import MOST_SEALED, meeting
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.rowwise import RowWise
from pipelines.metrics.cross_tab import view
from pipelines.metrics.cross_tab.dimensions import Dimension, named, read_dimensions, read_tables
from pipelines.metrics.cross_tab.options import CrossTabOptions
from transforms.encoders.reports import TabReporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.blocks import Generator
    from transforms.collect_counts import Counted

_READING = (
    "Each figure of `estimate` is the truth plus noise of a known law; where there is little, some "
    "lie below 0. It is made of all tables together, so tables agree, and sums of rows that should "
    "be another row are that row, to the last digit. `fitted` agrees likewise and is whole and "
    "never below 0, and so a little too large where there is little: for reading, and not for "
    "averages. That all tables together are those of one table of all columns is not promised."
)


@dataclass(frozen=True, kw_only=True)
class CrossTab(RowWise):
    """Tables of one and of two columns.

    Attributes:
        dimensions: the columns.
    """

    kind = "cross-tab"
    Options = CrossTabOptions
    figure = " of a cell, on average,"
    unstated = frozenset({"rows_per_user"})

    options: CrossTabOptions
    reporting: TabReporting
    dimensions: tuple[Dimension, ...]

    @classmethod
    def resolve(
        cls,
        options: CrossTabOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        if "rows_per_user" in options.model_fields_set:
            raise RequestError(
                "--rows-per-user: one row of a user counts here, drawn uniformly, or tables would "
                "not agree; leave it out"
            )
        telemetry = source.open(options, empty=True)
        columns = [name for word in options.columns for name in word.split(",")]
        dimensions = read_dimensions(columns, options.domains, options.hierarchies, telemetry)
        asked = read_tables(options.tables, dimensions)
        try:
            tabs = CrossTabs(tuple(dimension.axis for dimension in dimensions), asked)
        except ValueError as error:
            raise RequestError(f"--tables: {error}; name fewer") from None
        reporting = TabReporting(tabs)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, reporting=reporting,
            design=_designed(options, reporting), dimensions=dimensions,
            attributes=tuple(dimension.category for dimension in dimensions),
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
        each = (self.tabs.variances(table, self.design.variances).ravel() for table in tables)
        return np.sqrt(np.concatenate([*each]))

    # The collector.

    def totals(self, counts: Any) -> Floats:
        raise TypeError("tables are no total")

    def errors(self) -> result.Errors:
        return result.Errors(None, self.error)

    @property
    def figures(self) -> dict[str, str]:
        return {"cross-tab.parquet": f"{self.unit}s"}

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        tabs, centred = self.tabs, self.design.centred(estimate.counts)
        finest = tabs.estimate(centred, self.design.variances)
        unbiased, fitted = tabs.published(finest), tabs.published(tabs.fitted(finest))
        figures = np.concatenate([array.ravel() for array in unbiased.values()])
        error = self._standard_errors
        columns: dict[str, Any] = {"estimate": figures, "standard_error": error}
        for suffix, comparisons in (("", 1), ("_simultaneous", figures.size)):
            # Noise of a few units goes in steps: an interval reaches over half a one more.
            half = self.far(comparisons) * error + 0.5
            columns[f"lower{suffix}"] = np.maximum(figures - half, 0.0)
            # One that lies below all that can be reaches a standard error inwards.
            columns[f"upper{suffix}"] = np.maximum(figures + half, error)
        columns["fitted"] = np.concatenate([array.ravel() for array in fitted.values()])
        labels = [self._labels(table) for table in unbiased]
        head, tail = (
            {name: pa.chunked_array([part[name] for part in parts]) for name in parts[0]}
            for parts in zip(*labels, strict=True)
        )
        return {"cross-tab.parquet": pa.table(head | columns | tail)}

    def _labels(self, table: Table) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        """What each cell of a table is of: as people read it, and column by column."""
        cells, places = self.tabs.cells(table), np.indices(self.tabs.shape(table))
        own = {
            name: self.dimensions[column].labels(level).take(pa.array(place.ravel()))
            for name, (column, level), place in zip(
                named(table, self.dimensions), table, places, strict=True
            )
        }
        texts = [pc.fill_null(own[name].cast(pa.string()), view.OTHER) for name in own]
        value = pc.binary_join_element_wise(*texts, view.TIMES) if own else pa.array([view.ALL])
        group = view.TIMES.join(own) or view.ALL
        head = {"group": pa.repeat(group, cells), "value": value}
        return head, {
            column: own.get(name, pa.nulls(cells, kind)) for name, column, kind in self._names()
        }

    def _names(self) -> Iterator[tuple[str, str, pa.DataType]]:
        """(level, its column in the table, of which type)."""
        taken = {*schema.RELEASE.names, *schema.FIGURE.names, *result.COLUMNS}
        for dimension in self.dimensions:
            for level, name in enumerate(dimension.names, 1):
                column = result.free(name, taken)
                taken.add(column)
                yield name, column, dimension.labels(level).type

    # What is said of it.

    @property
    def request(self) -> dict[str, Any]:
        levels = [
            f"{name}: {len(dimension.labels(level)) - 1:,} declared values"
            for dimension in self.dimensions
            for level, name in enumerate(dimension.names, 1)
        ]
        return super(Counting, self).request | {
            "columns": [dimension.category.column for dimension in self.dimensions],
            "domains": levels,
            "hierarchies": [d.category.column for d in self.dimensions if d.groups],
            "tables": [",".join(named(table, self.dimensions)) for table in self.tabs.asked],
            "delta": self.design.delta,
        }

    @property
    def error_statement(self) -> dict[str, Any]:
        return {
            "standard_error_of_a_cell": self.error,
            "covers": "the noise of the dummies"
            + ("; of each user one row, drawn uniformly" if self.unit == "user" else ""),
            "reading": _READING,
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

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        (table,) = tables.values()
        labels = [
            (
                view.TIMES.join(named(each, self.dimensions)),
                [self.dimensions[column].labels(level) for column, level in each],
            )
            for each in self.tabs.asked
        ]
        figure = view.maps(table, labels, self.options.confidence)
        return counting_view.page(self.options.brief, view.plain(table), statement, figure)

    def show(self, screen: Console) -> None:
        table = schema.read_own(self.options.output, "cross-tab.parquet")
        counting_view.show(screen, view.plain(table), self.options.confidence)


def _designed(
    options: CrossTabOptions, reporting: TabReporting, sealed: bool = False
) -> NoisyCounters:
    """The counters of the tables.

    Raises:
        RequestError: the target is out of reach, or takes more dummies than there may be.
    """
    most = MOST_SEALED if sealed else MOST_DUMMIES
    return meeting(options, reporting.levels, (), sealed, most_dummies=most)
