"""`cross-tab`: how many there are of each value of several columns, and of each pair of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from typing_extensions import Self

from mechanisms.channel import Floats
from mechanisms.counters.axes import Table
from mechanisms.counters.crosstabs import CrossTabs
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting.result import clipped
from pipelines.metrics.cross_tab.dimensions import Dimension, read_dimensions, read_tables
from pipelines.metrics.cross_tab.options import CrossTabOptions
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import with_labels
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.views.headline import HEAT, OTHER, TOTAL
from transforms.encoders.rows import Absence, RowEncoder

_READING = (
    "Each figure of `estimate` is the truth plus noise of a known law; where there is little, some "
    "lie below 0. It is made of all tables together, so tables agree, and sums of rows that should "
    "be another row are that row, to the last digit. `fitted` agrees likewise and is whole and "
    "never below 0, and so a little too large where there is little: for reading, and not for "
    "averages. That all tables together are those of one table of all columns is not promised."
)
_OF_THREE = (
    " Of three columns `fitted` adds up to the table of the first two and to that of the third."
)
_TABLE = "cross-tab.parquet"
ALL, TIMES = "all", " × "


@dataclass(frozen=True, kw_only=True)
class TableEvidence(Evidence):
    """What is known of tables that share cells: of the total, and of each cell of each table.

    Attributes:
        deviations: (figures,) standard errors.
        fitted: (figures,) totals in whole numbers, none below 0.
        reach: of how many standard errors an interval is, where so many hold together.
        step: what it reaches beyond them, where noise goes in steps.
    """

    deviations: Floats
    fitted: NDArray[np.int64]
    reach: Callable[[int], float]
    step: float = 0.0

    @classmethod
    def of(
        cls, tabs: CrossTabs, finest: dict[Table, Floats], accuracy: Accuracy, **more: Any
    ) -> Self:
        """What follows of the finest tables, unbiased.

        Args:
            tabs: the tables that are published.
            finest: as of `CrossTabs.estimate`.
            accuracy: of the noise.
            **more: the other attributes.
        """
        totals, fitted = (
            ravelled(tabs.published(tables).values()) for tables in (finest, tabs.fitted(finest))
        )
        none = np.empty(0)
        return cls(totals, none, accuracy, lambda *_: None, fitted=fitted, **more)

    @property
    def errors(self) -> Floats:
        return self.deviations


@dataclass(frozen=True, kw_only=True)
class CrossTab(Statistic):
    """Tables of one and of two columns, which agree.

    Attributes:
        dimensions: the columns.
        tabs: the tables.
    """

    kind = "cross-tab"

    options: CrossTabOptions
    dimensions: tuple[Dimension, ...]
    tabs: CrossTabs

    @classmethod
    def read(
        cls, options: CrossTabOptions, source: inputs.Source
    ) -> tuple[CrossTab, inputs.Telemetry]:
        counted = options.hides_presence
        if counted and options.delta == 0:
            raise RequestError("--delta: dummies need more than 0; leave it out for the default")
        if not (counted or options.hides):
            raise RequestError(
                "--unusable: a value that is missing, or not declared, is one more value of each "
                "column here; leave it out"
            )
        telemetry = source.open(options, empty=counted)
        columns = [name for word in options.columns for name in word.split(",")]
        dimensions = read_dimensions(columns, options.domains, options.hierarchies, telemetry)
        tables = read_tables(options.tables, dimensions)
        three = any(len(table) > 2 for table in tables)
        if three and not counted:
            raise RequestError(
                "--tables: of three columns the job, a shuffler or devices hide who is counted; "
                "say --drawn-by, or name two columns"
            )
        try:
            tabs = CrossTabs(tuple(dimension.axis for dimension in dimensions), tables)
        except ValueError as error:
            raise RequestError(f"--tables: {error}; name fewer") from None
        return cls(options=options, dimensions=dimensions, tabs=tabs), telemetry

    @property
    def workload(self) -> Workload:
        tables = self.tabs.asked
        return Workload(1 + self._cells, most_groups=1 + len(tables), shape="tables")

    @property
    def _cells(self) -> int:
        return sum(map(self.tabs.cells, self.tabs.asked))

    @property
    def encoder(self) -> RowEncoder:  # type: ignore[override]
        categories = tuple(dimension.category for dimension in self.dimensions)
        return RowEncoder(categories, None, Absence(hides=True))

    @property
    def heading(self) -> Heading:
        figure = f"{self.options.unit}s"
        columns = (dimension.category.column for dimension in self.dimensions)
        headline = {"table": _TABLE, "rows": TOTAL, "picture": HEAT}
        title = f"{' × '.join(columns)}: {figure}"
        return Heading(title, {_TABLE: figure}, self._named(), headline)

    def columns(  # type: ignore[override]
        self, evidence: TableEvidence, confidence: float
    ) -> dict[str, Any]:
        figures, error = evidence.totals, evidence.errors
        columns = {"estimate": figures, "standard_error": error}
        for suffix, together in (("", 1), ("_simultaneous", error.size)):
            half = evidence.reach(together) * error + evidence.step
            # One that lies below all that can be reaches a standard error inwards.
            ends = clipped(figures - half, np.maximum(figures + half, error), figures, 0)
            columns[f"lower{suffix}"], columns[f"upper{suffix}"] = ends
        return columns | {"fitted": evidence.fitted}

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of a cell of the tables that are asked for; errors in the root of the mean square."""
        error = accuracy.total.standard_error
        figure = people * len(self.tabs.asked) / self._cells
        return Forecast(figure, error, error, f"cell ± {error:.3g}")

    # What is said of it.

    @property
    def wording(self) -> Wording:
        shared = self.options.shared
        users = self.options.unit == "user" and not shared
        drawn = "; of each user one row, drawn uniformly" * users
        errors = ErrorTerms(
            _READING + _OF_THREE * any(len(table) > 2 for table in self.tabs.asked),
            f"the noise of the dummies{drawn}", "standard_error_of_a_cell",
            " of a cell, on average,",
        )  # fmt: skip
        whose = "One row of each user, drawn uniformly among all of its rows," * users
        whose += "Each row of a user, all of which share its one alike," * shared
        words = (
            f"{whose or 'Every row'} raises a cell of each of {len(self.tabs.levels):,} tables, "
            "from which those that are published are made; a value that is missing, or not "
            "declared, is one more value, the last."
        )
        return Wording(errors, [words], self._request())

    def _request(self) -> dict[str, Any]:
        levels = [
            f"{name}: {len(dimension.labels(level)) - 1:,} declared values"
            for dimension in self.dimensions
            for level, name in enumerate(dimension.names, 1)
        ]
        return {
            "columns": [dimension.category.column for dimension in self.dimensions],
            "domains": levels,
            "hierarchies": [d.category.column for d in self.dimensions if d.groups],
            "tables": [",".join(self.named(table)) for table in self.tabs.asked],
        }

    def named(self, table: Table) -> Iterator[str]:
        """The names of a table's columns."""
        for column, level in table:
            yield self.dimensions[column].names[level - 1]

    # What is shown of it.

    def _named(self) -> dict[str, str]:
        # Whatever the log's columns are called, these are not called as any other of the table.
        names = (name for dimension in self.dimensions for name in dimension.names)
        return {f"column_{k}": name for k, name in enumerate(names, 1)}

    def _labels(self, table: Table) -> pa.Table:
        """What each cell of a table is of: as people read it, and column by column."""
        places = zip(table, np.indices(self.tabs.shape(table)), strict=True)
        own = {
            (column, level): self.dimensions[column].labels(level).take(pa.array(place.ravel()))
            for (column, level), place in places
        }
        cells, texts = self.tabs.cells(table), [array.cast(pa.string()) for array in own.values()]
        texts = [pc.fill_null(array, OTHER) for array in texts] or [pa.array([ALL])]
        columns = (
            own.get((column, level), pa.nulls(cells, dimension.labels(level).type))
            for column, dimension in enumerate(self.dimensions)
            for level in range(1, len(dimension.names) + 1)
        )
        group = TIMES.join(self.named(table)) or ALL
        return pa.table({
            "group": pa.repeat(group, cells),
            "value": pc.binary_join_element_wise(*texts, TIMES),
            **dict(zip(self._named(), columns, strict=True)),
        })  # fmt: skip

    def tables(self, evidence: TableEvidence) -> dict[str, pa.Table]:  # type: ignore[override]
        columns = self.columns(evidence, self.options.confidence)
        labels = pa.concat_tables(map(self._labels, ((), *self.tabs.asked)))
        parts = dict(zip(labels.column_names, labels.columns, strict=True))
        table, last = with_labels(parts, columns), [*self._named()]
        first = [name for name in table.column_names if name not in last]
        return {_TABLE: table.select([*first, *last])}


def ravelled(tables: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """(figures,) all cells of some tables, one table after the other."""
    return np.concatenate([table.ravel() for table in tables])
