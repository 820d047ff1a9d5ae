"""The table that a query asks for, of what its statistics have published."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from rich.table import Table

from pipelines.releases.statement import parquet
from pipelines.views import pages
from pipelines.views.console import Screen
from pipelines.views.digits import digits, spread
from pipelines.views.headline import FIRST, LARGEST, Headline, headline
from transforms.expressions.view import View

_TABLES = {"distribution": "quantiles.parquet"}
_MOST_SHOWN = 100  # rows on a screen and on a page
_MOST_FIRST = 3  # figures of one row
_KNOWN = {"estimate": "", **{name: f"_{name}" for name in ("standard_error", "lower", "upper")}}


@dataclass(frozen=True)
class ResultColumn:
    """A column of figures.

    Attributes:
        label: what it is called; empty of one that HAVING or ORDER BY alone look at.
        metric: that publishes it.
        kind: of that.
        quantiles: of a distribution, those that are asked.
        meaning: what it is of, in words.
    """

    label: str
    metric: str
    kind: str
    quantiles: tuple[float, ...] = ()
    meaning: str = ""

    @property
    def labels(self) -> list[str]:
        """One a column of the table."""
        if len(self.quantiles) < 2:
            return [self.label]
        return [f"{self.label}_{i}" for i in range(1, len(self.quantiles) + 1)]

    @property
    def table(self) -> str:
        """The file that holds it."""
        return f"{self.metric}/{_TABLES.get(self.kind, f'{self.kind}.parquet')}"


@dataclass(frozen=True)
class QueryResult:
    """What is made of published figures: no row of the log is looked at.

    Attributes:
        name: of the query.
        groups: (label, values) of each column that is grouped by.
        figures: those that are selected, and those that are looked at beside.
        columns: ("group" or "figure", which) of the table.
        text: of the query.
        having: what must hold of a row of the table, over g0, g1, .. and f0, f1, ..
        order: (expression over these, whether the largest comes first).
        limit: how many rows; None for all.
        offset: how many are left out before them.
    """

    name: str
    groups: tuple[tuple[str, tuple[Any, ...]], ...]
    figures: tuple[ResultColumn, ...]
    columns: tuple[tuple[str, int], ...]
    text: str = ""
    having: str | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def selects(self) -> bool:
        """Whether figures say which rows are shown: then all intervals hold together."""
        return self.having is not None or (bool(self.order) and self.limit is not None)

    @property
    def names(self) -> list[str]:
        """Of the columns of the table."""
        shown = [self.figures[i].labels for kind, i in self.columns if kind == "figure"]
        ends = ("", "_standard_error", "_lower", "_upper")
        named = [f"{label}{end}" for labels in shown for label in labels for end in ends]
        return [*(self.groups[i][0] for kind, i in self.columns if kind == "group"), *named]

    def table(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The table, each figure with its error and its interval.

        Args:
            tables: "metric/file" -> what was published.
        """
        rows = [*product(*(values for _, values in self.groups))]
        labels = [pa.array(column) for column in zip(*rows, strict=True)] if self.groups else []
        figures = [self._columns(one, tables[one.table]) for one in self.figures]
        wide = {f"g{i}": column for i, column in enumerate(labels)}
        wide |= {f"f{i}": columns[0]["estimate"] for i, columns in enumerate(figures)}
        batch = pa.RecordBatch.from_pydict(wide)
        made: dict[str, Any] = {}
        for kind, place in self.columns:
            if kind == "group":
                made[self.groups[place][0]] = labels[place]
                continue
            for label, columns in zip(self.figures[place].labels, figures[place], strict=True):
                names = {
                    name: label if name == "estimate" else f"{label}_{name}" for name in columns
                }
                made |= {names[name]: column for name, column in columns.items()}
        return pa.table(made).take(self._chosen(batch))

    def _columns(self, figure: ResultColumn, table: pa.Table) -> list[dict[str, pa.Array]]:
        """Column -> (groups,) of each column of figures."""
        if figure.quantiles:
            places = [int(np.argmin(np.abs(np.array(table["p"]) - p))) for p in figure.quantiles]
            parts = [table.slice(place, 1) for place in places]
        else:
            parts = [table]
        together = "_simultaneous" if self.selects else ""
        made = []
        for part in parts:
            named = {"estimate": "estimate"}
            if not figure.quantiles:  # which have intervals alone
                named["standard_error"] = "standard_error"
            for end in ("lower", "upper"):
                known = f"{end}{together}" in part.column_names
                named[end] = f"{end}{together}" if known else end
            made.append({
                name: part[column].combine_chunks()
                for name, column in named.items()
                if column in part.column_names
            })  # fmt: skip
            if figure.kind == "count":  # as floats in the columns that all kinds share
                made[-1]["estimate"] = made[-1]["estimate"].cast(pa.int64())
        return made

    def _chosen(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows are shown, in their order."""
        view = self._view()
        names = [f"o{i}" for i in range(len(self.order))]
        seen = view.seen(batch, {*batch.schema.names, *names})
        kept = np.flatnonzero(view.holds(seen))
        for name, (_, down) in reversed([*zip(names, self.order, strict=True)]):
            kept = kept[_sorted(seen.column(name).take(pa.array(kept)), down)]
        end = None if self.limit is None else self.offset + self.limit
        return pa.array(kept[self.offset : end], pa.int64())

    def require_sense(self) -> None:
        """Hold HAVING and ORDER BY against the types of what they look at.

        Raises:
            ViewError, ExpressionError: they do not fit.
        """
        kinds = {f"g{i}": pa.array(values).type for i, (_, values) in enumerate(self.groups)}
        kinds |= {f"f{i}": pa.float64() for i in range(len(self.figures))}
        self._view().schema(pa.schema([*kinds.items()]))

    def _view(self) -> View:
        order = [(f"o{i}", text) for i, (text, _) in enumerate(self.order)]
        return View.read(order, () if self.having is None else (self.having,))

    # What is shown.

    def of_files(self, files: Mapping[str, bytes]) -> pa.Table | None:
        """The table of a release; None if some of its figures were withheld.

        Args:
            files: name -> content.
        """
        needed = {figure.table for figure in self.figures}
        if not needed <= files.keys():
            return None
        return self.table({name: pq.read_table(io.BytesIO(files[name])) for name in needed})

    def files(self, table: pa.Table) -> dict[str, bytes]:
        """The table as files."""
        text = io.BytesIO()
        pyarrow.csv.write_csv(table, text)
        return {f"{self.name}.parquet": parquet(table), f"{self.name}.csv": text.getvalue()}

    def rows(self, table: pa.Table) -> tuple[list[str], list[list[str]]]:
        """Headings and cells, each figure with its error to the same digit."""
        heads: list[str] = []
        columns: list[list[str]] = []
        part = table.slice(0, _MOST_SHOWN)
        for kind, place in self.columns:
            labels = [self.groups[place][0]] if kind == "group" else self.figures[place].labels
            for label in labels:
                heads.append(label if kind == "group" else f"{label} ±")
                columns.append(
                    ["" if one is None else str(one) for one in part[label].to_pylist()]
                    if kind == "group"
                    else _with_errors(part, label)
                )
        return heads, [list(row) for row in zip(*columns, strict=True)]

    def show(self, table: pa.Table, screen: Screen) -> None:
        """Print it."""
        heads, rows = self.rows(table)
        shown = Table()
        for head in heads:
            shown.add_column(
                head, justify="right" if head.endswith("±") else "left", overflow="fold"
            )
        for row in rows:
            shown.add_row(*row)
        screen.print(shown)
        if len(table) > len(rows):
            screen.say(f"and {len(table) - len(rows):,} more rows")

    def page(self, table: pa.Table) -> str:
        """It as a part of a page."""
        heads, rows = self.rows(table)
        labels = len([*takewhile(lambda column: column[0] == "group", self.columns)])
        meanings = {one.label: one.meaning for one in self.figures if one.label}
        said = "; ".join(f"{label}: {meaning}" for label, meaning in meanings.items())
        more = f"; and {len(table) - len(rows):,} more rows" if len(table) > len(rows) else ""
        return (
            pages.boxed("the answer", heads, rows, labels)
            + f'<p class="note">{html.escape(said)}{more}.</p>\n'
        )

    @property
    def title(self) -> str:
        """What the table holds, by the names of its columns."""
        groups = [label for label, _ in self.groups]
        return ", ".join(self._labels) + f" by {', '.join(groups)}" * bool(groups)

    @property
    def _labels(self) -> list[str]:
        """The columns of figures that are shown."""
        shown = (self.figures[at].labels for kind, at in self.columns if kind == "figure")
        return [label for labels in shown for label in labels]

    def headline(self, table: pa.Table, statement: Mapping[str, Any]) -> Headline:
        """The figures that come first: of one row its first ones, of more those of one column.

        Args:
            table: of the query.
            statement: of the release.
        """
        names = [self.groups[at][0] for kind, at in self.columns if kind == "group"]
        if len(table) > 1 and not names:
            return Headline([], "", "")  # nothing says whose they are
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        values = pa.array([" · ".join(map(str, row)) for row in rows], pa.string())
        of = {"value": values if names else pa.nulls(len(table), pa.string())}
        means = {label for one in self.figures if one.kind == "mean" for label in one.labels}
        whose = {"value": names[0]} if len(names) == 1 else {}
        order = {"table": "", "rows": FIRST if self.order else LARGEST}
        first = []
        for label in self._labels[: 1 if len(table) > 1 else _MOST_FIRST]:
            known = {name: f"{label}{end}" for name, end in _KNOWN.items()}
            known = {name: column for name, column in known.items() if column in table.column_names}
            figures = pa.table(of | {name: table[column] for name, column in known.items()})
            kind = "mean" if label in means else "sum"
            said = {**statement, "labels": whose, "figures": {"": kind}, "headline": order}
            one = headline(figures, said)
            first.append(one._replace(lines=[line._replace(unit=label) for line in one.lines]))
        return Headline([line for one in first for line in one.lines], first[0].which, "")


def _sorted(values: pa.Array, down: bool) -> np.ndarray:
    """(n,) the stable order of values; as in GoogleSQL nulls are the least."""
    order = pc.rank(values, "ascending", null_placement="at_start", tiebreaker="dense").to_numpy()
    return np.argsort(-order.astype(np.int64) if down else order, kind="stable")


def _with_errors(table: pa.Table, label: str) -> list[str]:
    """Figures and how far off they are: by their standard errors, or else by their intervals."""
    numbers = table[label].to_pylist()
    name = f"{label}_standard_error"
    if name in table.column_names:
        errors: Sequence[Any] = table[name].to_pylist()
    else:
        ends = (table[f"{label}_{end}"].to_pylist() for end in ("lower", "upper"))
        errors = [spread(*both) for both in zip(*ends, strict=True)]
    return [_with_error(number, error) for number, error in zip(numbers, errors, strict=True)]


def _with_error(number: float | None, error: float | None) -> str:
    if number is None:
        return "none"
    shown = digits(number, error)
    return f"{shown} ± {digits(error, error)}" if error else shown
