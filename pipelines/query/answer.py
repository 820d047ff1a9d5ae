"""The table that a query asks for, of what its statistics have published."""

from __future__ import annotations

import html
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from rich.table import Table
from rich.text import Text

from mechanisms.mean.fieller import quotients
from pipelines.compat.google_sql import place_of
from pipelines.errors import RequestError
from pipelines.metrics.first_round import ChosenBounds
from pipelines.metrics.statistics.labels import group_names, value_names
from pipelines.query.tables import AMBIGUOUS
from pipelines.releases.statement import parquet
from pipelines.storage.table_files import harmless
from pipelines.views import pages
from pipelines.views.console import Screen
from pipelines.views.digits import digits, spread
from pipelines.views.facts import value_label
from pipelines.views.headline import FIRST, LARGEST, MISSING, Headline, headline
from transforms.expressions.view import View

_MOST_SHOWN = 100  # rows on a screen and on a page
_ENDS = ("", "_standard_error", "_lower", "_upper")
_FAR = 3  # standard errors of a number of rows that a sample's interval allows for
_MOST_FIRST = 3  # figures of one row
_KNOWN = {"estimate": "", **{name: f"_{name}" for name in ("standard_error", "lower", "upper")}}


@dataclass(frozen=True)
class ResultColumn:
    """A column of figures.

    Attributes:
        label: what it is called; empty of one that HAVING or ORDER BY alone look at.
        metric: that publishes it.
        kind: of that; of a variance its table; "ratio" of two others.
        quantiles: of a distribution, those that are asked.
        meaning: what it is of, in words.
        sample: whether a variance is that of a sample.
        over: of a ratio, what is divided and by what.
    """

    label: str
    metric: str
    kind: str
    quantiles: tuple[float, ...] = ()
    meaning: str = ""
    sample: bool = False
    over: tuple[ResultColumn, ...] = ()

    @property
    def labels(self) -> list[str]:
        """One a column of the table."""
        if len(self.quantiles) < 2:
            return [self.label]
        return [f"{self.label}_{i}" for i in range(1, len(self.quantiles) + 1)]

    @property
    def ends(self) -> tuple[str, ...]:
        """What stands behind a label: quantiles have intervals alone."""
        return (_ENDS[0], *_ENDS[2:]) if self.quantiles else _ENDS

    @property
    def tables(self) -> list[str]:
        """The files that hold it."""
        own = f"{self.metric}/{'quantiles' if self.quantiles else self.kind}.parquet"
        return [own] if not self.over else [name for one in self.over for name in one.tables]


@dataclass(frozen=True)
class QueryResult:
    """What is made of published figures: no row of the log is looked at.

    Attributes:
        name: of the query.
        groups: (label, values) of each column that is grouped by; None of all where nobody has
            declared them: groups are then those that all statistics have found.
        figures: those that are selected, and those that are looked at beside.
        columns: of the table: g0, g1, .. of the groups, f0, f1, .. of the figures.
        text: of the query.
        origin: where the query stands, for refusals.
        stands: (expression of a row, where it stands in the query), parts before wholes.
        bare: (column of a joined table that is named alone, where), which the log must lack.
        having: what must hold of a row of the table, over g0, g1, .. and f0, f1, ..
        order: (expression over these, whether the largest comes first).
        limit: how many rows; None for all.
        offset: how many are left out before them.
        chosen: bounds that a first round has chosen, if one has.
    """

    name: str
    groups: tuple[tuple[str, tuple[Any, ...] | None], ...]
    figures: tuple[ResultColumn, ...]
    columns: tuple[str, ...]
    text: str = ""
    origin: str = "query"
    stands: tuple[tuple[str, int], ...] = ()
    bare: tuple[tuple[str, int], ...] = ()
    having: str | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0
    chosen: ChosenBounds | None = None

    @property
    def places(self) -> list[tuple[str, str]]:
        """(where it stands, as people count; expression), of `stands`."""
        return [(f"{self.origin}, {place_of(self.text, at)}", text) for text, at in self.stands]

    def require_clear(self, names: Collection[str]) -> None:
        """Refuse a name without a table that the log has, too.

        Args:
            names: of the log's columns.

        Raises:
            RequestError: there is one; with its place.
        """
        for name, at in self.bare:
            if name in names:
                raise RequestError(f"{self.origin}, {place_of(self.text, at)}: {AMBIGUOUS}")

    @property
    def selects(self) -> bool:
        """Whether figures say which rows are shown: then all intervals hold together."""
        return self.having is not None or (bool(self.order) and self.limit is not None)

    @property
    def names(self) -> list[str]:
        """Of the columns of the table."""
        groups = [self.groups[int(one[1:])][0] for one in self.columns if one[0] == "g"]
        figures = [self.figures[int(one[1:])] for one in self.columns if one[0] == "f"]
        return groups + [f"{x}{end}" for one in figures for x in one.labels for end in one.ends]

    def table(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The table, each figure with its error and its interval.

        Args:
            tables: "metric/file" -> what was published.
        """
        rows, tables = self._rows(tables)
        made = {
            f"g{i}": {label: pa.array([row[i] for row in rows], _type_of(values))}
            for i, (label, values) in enumerate(self.groups)
        }
        for i, one in enumerate(self.figures):
            parts = [tables[name] for name in one.tables]
            made[f"f{i}"] = self._ratio(one, parts) if one.over else self._columns(one, *parts)
        first = {place: next(iter(columns.values())) for place, columns in made.items()}
        shown = {name: one for place in self.columns for name, one in made[place].items()}
        return pa.table(shown).take(self._chosen(pa.RecordBatch.from_pydict(first)))

    def _rows(self, tables: Mapping[str, pa.Table]) -> tuple[list[Any], Mapping[str, pa.Table]]:
        """The groups, and tables with a row for each of them."""
        known = [values for _, values in self.groups if values is not None]
        if len(known) == len(self.groups):
            return [*product(*known)], tables
        places: dict[str, dict[Any, list[int]]] = {}
        for one in (part for figure in self.figures for part in figure.over or (figure,)):
            names = (value_names if one.kind == "count" else group_names)(self.groups)
            for file in one.tables:
                columns = (tables[file][name].to_pylist() for name in names)
                places[file] = {}
                for i, key in enumerate(zip(*columns, strict=True)):  # a quantile after the other
                    places[file].setdefault(key, []).append(i)
        first, *others = places.values()
        rows = [key for key in first if all(key in one for one in others)]
        parts = {
            name: tables[name].take(pa.array([i for key in rows for i in one[key]], pa.int64()))
            for name, one in places.items()
        }
        return rows, parts

    def _columns(self, figure: ResultColumn, table: pa.Table) -> dict[str, pa.Array]:
        """Name -> (groups,) of the columns of a figure, its estimates first."""
        parts, made = [table], dict[str, pa.Array]()
        if figure.quantiles:
            known = np.array(table["p"])
            levels = figure.quantiles  # of no group that was found, no row
            nearest = [known[np.argmin(np.abs(known - p))] for p in levels if known.size] or levels
            parts = [table.filter(pa.array(known == p)) for p in nearest]
        for label, part in zip(figure.labels, parts, strict=True):
            for end in figure.ends:
                together = f"{end[1:]}_simultaneous" if self.selects else ""
                name = together if together in part.column_names else end[1:] or "estimate"
                if name in part.column_names:
                    made[label + end] = part[name].combine_chunks()
            if figure.sample:
                made |= _of_sample(made, label, part, figure.kind == "deviation")
            if figure.kind == "count":  # as floats in the columns that all kinds share
                made[label] = made[label].cast(pa.int64())
        return made

    def _ratio(self, figure: ResultColumn, tables: Sequence[pa.Table]) -> dict[str, pa.Array]:
        """The columns of a quotient of two figures, whose noises are independent."""
        parts = [[*self._columns(one, table).values()]
                 for one, table in zip(figure.over, tables, strict=True)]  # fmt: skip
        (a, a_error, _, a_most), (b, b_error, _, b_most) = np.array(parts, np.float64)
        # As far as their own intervals reach, of the one that reaches farther.
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.fmax(np.fmax((a_most - a) / a_error, (b_most - b) / b_error), 0)
        ratios = quotients(a, b, a_error, b_error, far, most=np.inf)
        counted = all(one.kind == "count" for one in figure.over)
        lower = np.maximum(ratios.lower, 0) if counted else ratios.lower
        columns = zip(_ENDS, (ratios.ratio, ratios.error, lower, ratios.upper), strict=True)
        return {figure.label + end: pa.array(x, mask=~np.isfinite(x)) for end, x in columns}

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
        kinds = {f"g{i}": _type_of(values) for i, (_, values) in enumerate(self.groups)}
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
        needed = {name for figure in self.figures for name in figure.tables}
        if not needed <= files.keys():
            return None
        return self.table({name: pq.read_table(io.BytesIO(files[name])) for name in needed})

    def files(self, table: pa.Table) -> dict[str, bytes]:
        """The table as files."""
        text = io.BytesIO()
        pyarrow.csv.write_csv(harmless(table), text)
        return {f"{self.name}.parquet": parquet(table), f"{self.name}.csv": text.getvalue()}

    def rows(self, table: pa.Table) -> tuple[list[str], list[list[str]]]:
        """Headings and cells, each figure with its error to the same digit."""
        part, columns = table.slice(0, _MOST_SHOWN), dict[str, list[str]]()
        for kind, place in ((one[0], int(one[1:])) for one in self.columns):
            if kind == "g":
                label = self.groups[place][0]
                values = part[label].to_pylist()
                columns[label] = [*map(_group_label, values)]
            else:
                labels = self.figures[place].labels
                columns |= {f"{label} ±": _with_errors(part, label) for label in labels}
        return [*columns], [list(row) for row in zip(*columns.values(), strict=True)]

    def show(self, table: pa.Table, screen: Screen) -> None:
        """Print it."""
        (heads, rows), shown = self.rows(table), Table()
        for head in heads:
            shown.add_column(
                Text(head), justify="right" if head.endswith("±") else "left", overflow="fold"
            )
        for row in rows:
            shown.add_row(*map(Text, row))  # a plain string would be read as markup
        screen.print(shown)
        if len(table) > len(rows):
            screen.say(f"and {len(table) - len(rows):,} more rows")

    def page(self, table: pa.Table) -> str:
        """It as a part of a page."""
        heads, rows = self.rows(table)
        labels = len([*takewhile(lambda column: column[0] == "g", self.columns)])
        said = {one.label: f"{one.label}: {one.meaning}" for one in self.figures if one.label}
        more = f"; and {len(table) - len(rows):,} more rows" if len(table) > len(rows) else ""
        words = [
            f"{'; '.join(said.values())}{more}.",
            *([self.chosen.words] if self.chosen else []),
        ]
        note = "".join(f'<p class="note">{html.escape(one)}</p>\n' for one in words)
        return pages.boxed("the answer", heads, rows, labels) + note

    @property
    def title(self) -> str:
        """What the table holds, by the names of its columns."""
        groups = [label for label, _ in self.groups]
        return ", ".join(self._labels) + f" by {', '.join(groups)}" * bool(groups)

    @property
    def _labels(self) -> list[str]:
        """The columns of figures that are shown."""
        shown = (self.figures[int(one[1:])].labels for one in self.columns if one[0] == "f")
        return [label for labels in shown for label in labels]

    def headline(self, table: pa.Table, statement: Mapping[str, Any]) -> Headline:
        """The figures that come first: of one row its first ones, of more those of one column.

        Args:
            table: of the query.
            statement: of the release.
        """
        names = [self.groups[int(one[1:])][0] for one in self.columns if one[0] == "g"]
        if len(table) > 1 and not names:
            return Headline([], "", "")  # nothing says whose they are
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        values = pa.array([" · ".join(map(_group_label, row)) for row in rows], pa.string())
        of = {"value": values if names else pa.nulls(len(table), pa.string())}
        kinds = {"mean", "variance", "deviation", "ratio"}
        means = {label for one in self.figures if one.kind in kinds for label in one.labels}
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


def _group_label(value: Any) -> str:
    """A group's value in words; where it is missing, nobody takes it for a text."""
    return MISSING if value is None else value_label(str(value))


def _of_sample(
    columns: Mapping[str, pa.Array], label: str, table: pa.Table, root: bool
) -> dict[str, pa.Array]:
    """Variances, or their roots, of samples: n / (n - 1) times as large."""
    unit = "rows" if "rows" in table.column_names else "users"
    n, error = (table[name].to_numpy() for name in (unit, f"{unit}_standard_error"))
    made, power = {}, 0.5 if root else 1
    for end, away in zip(_ENDS, (0, 0, _FAR, -_FAR), strict=True):
        many = np.maximum(n + away * error, 2)  # of one there is no sample's variance
        made[label + end] = pa.array(columns[label + end] * (many / (many - 1)) ** power)
    return made


def _type_of(values: Sequence[Any] | None) -> pa.DataType:
    """Of a column of groups; texts where nobody declared them."""
    return pa.string() if values is None else pa.array(values).type


def _sorted(values: pa.Array, down: bool) -> np.ndarray:
    """(n,) the stable order of values; as in GoogleSQL nulls are the least."""
    order = pc.rank(values, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    order[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.argsort(-order if down else order, kind="stable")


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
