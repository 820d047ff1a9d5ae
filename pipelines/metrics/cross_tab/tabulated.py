"""What a release of cross-tabs shows, whoever draws the noise: its table, its page, its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.counters.crosstabs import CrossTabs
from mechanisms.counters.details import Table
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting import result
from pipelines.metrics.cross_tab.dimensions import Dimension, named, read_dimensions, read_tables
from pipelines.metrics.cross_tab.options import CrossTabOptions
from pipelines.metrics.metric import Metric
from pipelines.views.headline import HEAT, TOTAL

TABLE = "cross-tab.parquet"

OTHER, ALL, TIMES = "(any other)", "all", " × "

READING = (
    "Each figure of `estimate` is the truth plus noise of a known law; where there is little, some "
    "lie below 0. It is made of all tables together, so tables agree, and sums of rows that should "
    "be another row are that row, to the last digit. `fitted` agrees likewise and is whole and "
    "never below 0, and so a little too large where there is little: for reading, and not for "
    "averages. That all tables together are those of one table of all columns is not promised."
)


class Declared(NamedTuple):
    """What is asked for, held against the files.

    Attributes:
        telemetry: the files.
        dimensions: the columns.
        tabs: the tables.
    """

    telemetry: inputs.Telemetry
    dimensions: tuple[Dimension, ...]
    tabs: CrossTabs

    @classmethod
    def read(cls, options: CrossTabOptions, source: inputs.Source, empty: bool) -> Declared:
        """The tables of a request.

        Args:
            options: of the request.
            source: the files.
            empty: whether there may be no rows.

        Raises:
            RequestError: something is wrong with it.
        """
        if "rows_per_user" in options.model_fields_set:
            raise RequestError(
                "--rows-per-user: one row of a user counts here, drawn uniformly, or tables would "
                "not agree; leave it out"
            )
        telemetry = source.open(options, empty=empty)
        columns = [name for word in options.columns for name in word.split(",")]
        dimensions = read_dimensions(columns, options.domains, options.hierarchies, telemetry)
        tables = read_tables(options.tables, dimensions)
        try:
            tabs = CrossTabs(tuple(dimension.axis for dimension in dimensions), tables)
        except ValueError as error:
            raise RequestError(f"--tables: {error}; name fewer") from None
        return cls(telemetry, dimensions, tabs)


@dataclass(frozen=True, kw_only=True)
class Tabulated(Metric):
    """A release of tables of one and of two columns.

    Attributes:
        dimensions: the columns.
    """

    kind = "cross-tab"
    Options = CrossTabOptions

    options: CrossTabOptions
    dimensions: tuple[Dimension, ...]

    @property
    def tabs(self) -> CrossTabs:
        """The tables."""
        raise NotImplementedError

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: f"{self.unit}s"}

    @property
    def title(self) -> str:
        columns = (dimension.category.column for dimension in self.dimensions)
        return f"{' × '.join(columns)}: {self.unit}s"

    @property
    def headline(self) -> dict[str, str]:
        return {"table": TABLE, "rows": TOTAL, "picture": HEAT}

    def table(
        self,
        unbiased: Mapping[Table, Floats],
        fitted: Mapping[Table, NDArray[Any]],
        error: Floats,
        reaches: Sequence[float],
        step: float,
    ) -> dict[str, pa.Table]:
        """What is published.

        Args:
            unbiased: the total, by an empty table, and each table.
            fitted: the same in whole numbers.
            error: (figures,) standard errors, in their order.
            reaches: of how many of them an interval is, alone and with all others.
            step: what an interval reaches beyond them, where noise goes in steps.
        """
        figures = np.concatenate([array.ravel() for array in unbiased.values()])
        columns: dict[str, Any] = {"estimate": figures, "standard_error": error}
        for suffix, reach in zip(("", "_simultaneous"), reaches, strict=True):
            half = reach * error + step
            # One that lies below all that can be reaches a standard error inwards.
            ends = result.clipped(figures - half, np.maximum(figures + half, error), figures, 0)
            columns[f"lower{suffix}"], columns[f"upper{suffix}"] = ends
        columns["fitted"] = np.concatenate([array.ravel() for array in fitted.values()])
        labels = [self._labels(table) for table in unbiased]
        head, tail = (
            {name: pa.chunked_array([part[name] for part in parts]) for name in parts[0]}
            for parts in zip(*labels, strict=True)
        )
        return {TABLE: pa.table(head | columns | tail)}

    def _labels(self, table: Table) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        """What each cell of a table is of: as people read it, and column by column."""
        cells, places = self.tabs.cells(table), np.indices(self.tabs.shape(table))
        own = {
            name: self.dimensions[column].labels(level).take(pa.array(place.ravel()))
            for name, (column, level), place in zip(
                named(table, self.dimensions), table, places, strict=True
            )
        }
        texts = [pc.fill_null(own[name].cast(pa.string()), OTHER) for name in own]
        value = pc.binary_join_element_wise(*texts, TIMES) if own else pa.array([ALL])
        group = TIMES.join(own) or ALL
        head = {"group": pa.repeat(group, cells), "value": value}
        return head, {
            column: own.get(name, pa.nulls(cells, kind))
            for column, (name, kind) in zip(self.labelled, self._levels(), strict=True)
        }

    def _levels(self) -> Iterator[tuple[str, pa.DataType]]:
        """Each column and coarser level, and of which type its values are."""
        for dimension in self.dimensions:
            for level, name in enumerate(dimension.names, 1):
                yield name, dimension.labels(level).type

    @property
    def labelled(self) -> dict[str, str]:
        # Whatever the log's columns are called, these are not called as any other of the table.
        return {f"column_{k}": name for k, (name, _) in enumerate(self._levels(), 1)}

    @property
    def description(self) -> dict[str, Any]:
        """What was asked of columns and tables."""
        levels = [
            f"{name}: {len(dimension.labels(level)) - 1:,} declared values"
            for dimension in self.dimensions
            for level, name in enumerate(dimension.names, 1)
        ]
        return {
            "columns": [dimension.category.column for dimension in self.dimensions],
            "domains": levels,
            "hierarchies": [d.category.column for d in self.dimensions if d.groups],
            "tables": [",".join(named(table, self.dimensions)) for table in self.tabs.asked],
        }
