"""The columns of cross-tabs: their values, the coarser levels of these, and the tables by name."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import pyarrow as pa

from mechanisms.counters.axes import Axis, Table
from mechanisms.counters.crosstabs import MOST_WAYS
from pipelines.errors import RequestError
from pipelines.logs import inputs
from transforms.encoders.attributes import Category
from transforms.encoders.domain import DeclaredValues


@dataclass(frozen=True)
class Dimension:
    """A column.

    Attributes:
        category: the column and its values; whatever has none of them is one more, the last.
        names: of its levels, the coarsest first; the column itself is the last.
        groups: the groups of each coarser level; the last, of what has no value, left out.
        axis: which belongs to which.
    """

    category: Category
    names: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    axis: Axis

    def labels(self, level: int) -> pa.Array:
        """(groups,) of a level; null for what has none of the values."""
        coarser = level <= len(self.groups)
        labels = pa.array(self.groups[level - 1]) if coarser else self.category.domain.labels()
        return pa.concat_arrays([labels, pa.nulls(1, labels.type)])


def read_dimensions(
    columns: Sequence[str],
    domains: Sequence[str],
    hierarchies: Sequence[str],
    telemetry: inputs.Telemetry,
) -> tuple[Dimension, ...]:
    """The columns, held against the files.

    Args:
        columns: their names.
        domains: "COLUMN=FILE" or "COLUMN=LOW..HIGH" each.
        hierarchies: "COLUMN=FILE" each.
        telemetry: the files.

    Raises:
        RequestError: a column lacks its values, or has them twice; a file cannot be read, or
            values do not fit; two levels have one name.
    """
    declared: dict[str, tuple[str, str]] = {}
    for flag, words in (("--domains", domains), ("--hierarchies", hierarchies)):
        for word in words:
            column, equals, path = word.partition("=")
            if not (column and equals and path):
                raise RequestError(f"{flag} must be COLUMN=FILE, as in city=cities.txt: {word!r}")
            if column in declared:
                raise RequestError(f"{flag}: {column!r} has its values already; once is enough")
            declared[column] = flag, path
    if unknown := [column for column in declared if column not in columns]:
        flag = declared[unknown[0]][0]
        raise RequestError(f"{flag}: {unknown[0]!r} is none of --columns; name it there, too")
    dimensions = []
    for column in columns:
        kind = telemetry.column_type(column, "--columns")
        if column not in declared:
            raise RequestError(
                f"--domains: the values of {column!r} are missing; declare them, as in "
                f"{column}=values.txt"
            )
        flag, path = declared[column]
        read = _flat if flag == "--domains" else _hierarchy
        try:
            dimensions.append(read(column, path, kind))
        except RequestError as error:
            raise RequestError(_refusal(flag, column, error)) from None
    names = [name for dimension in dimensions for name in dimension.names]
    if twice := [name for name in names if names.count(name) > 1]:
        raise RequestError(f"--columns, --hierarchies: {twice[0]!r} is named twice; rename a level")
    return tuple(dimensions)


def read_tables(words: Sequence[str], dimensions: Sequence[Dimension]) -> tuple[Table, ...]:
    """The tables that are asked for; all of one and two columns, if nobody names any.

    Args:
        words: a name, or two or three with commas between.
        dimensions: the columns.

    Raises:
        RequestError: a name is unknown, or two are of one column, or a table comes twice.
    """
    places = {
        name: (column, level)
        for column, dimension in enumerate(dimensions)
        for level, name in enumerate(dimension.names, 1)
    }
    if not words:
        two = (pair for pair in combinations(places.values(), 2) if pair[0][0] != pair[1][0])
        return (*((place,) for place in places.values()), *two)
    tables = []
    for word in words:
        names = word.split(",")
        if unknown := [name for name in names if name not in places]:
            raise RequestError(
                f"--tables: {unknown[0]!r} is neither a column nor a level; there are: "
                f"{', '.join(places)}"
            )
        table = tuple(sorted(places[name] for name in names))
        if len(table) > MOST_WAYS or len({column for column, _ in table}) < len(table):
            raise RequestError(f"--tables: {word} must be one, two or three different columns")
        if table in tables:
            raise RequestError(f"--tables: {word} is named twice; once is enough")
        tables.append(table)
    return tuple(tables)


def _flat(column: str, path: str, kind: pa.DataType) -> Dimension:
    """A column without coarser levels."""
    domain = inputs.read_domain(path, kind, other=False, least=1)
    return Dimension(Category(column, domain), (column,), (), Axis((domain.size + 1,)))


def _hierarchy(column: str, path: str, kind: pa.DataType) -> Dimension:
    """A column with coarser levels; what has no value is a group of its own on every level."""
    try:
        head, *rows = [*csv.reader(inputs.domain_lines(path).to_pylist(), strict=True)] or [[]]
    except csv.Error:
        raise RequestError(f"{path} is no CSV file") from None
    _require_rows(path, column, head, rows)
    values, *groups = (tuple(dict.fromkeys(names)) for names in zip(*rows, strict=True))
    domain = DeclaredValues(values)
    inputs.require_fitting(domain, kind)
    parents = []
    for finer, (below, above) in enumerate(pairwise((values, *groups))):
        place = {name: i for i, name in enumerate(above)}
        parent = {row[finer]: place[row[finer + 1]] for row in rows}
        parents.append((*(parent[name] for name in below), len(above)))
    sizes = tuple(len(level) + 1 for level in (values, *groups))
    axis = Axis(sizes[::-1], tuple(parents[::-1]))
    return Dimension(Category(column, domain), tuple(head[::-1]), tuple(groups[::-1]), axis)


def _require_rows(path: str, column: str, head: list[str], rows: list[list[str]]) -> None:
    if not (len(head) >= 2 and head[0] == column):
        raise RequestError(
            f"the first line of {path} must name the column and then its coarser levels, as in "
            f"{column},region,country"
        )
    if not rows:
        raise RequestError(f"{path} declares no value")
    seen: list[dict[str, str]] = [{} for _ in head[1:]]
    values: set[str] = set()
    for number, row in enumerate(rows, 2):
        if len(row) != len(head) or not all(row):
            raise RequestError(f"line {number} of {path} must have {len(head)} entries, none empty")
        if row[0] in values:
            raise RequestError(f"line {number} of {path} repeats a value; keep one of them")
        values.add(row[0])
        for known, own, above, name in zip(seen, row, row[1:], head, strict=False):
            if known.setdefault(own, above) != above:
                raise RequestError(
                    f"line {number} of {path} gives its {name} another parent than a line before; "
                    "tell the two apart by their names"
                )


def _refusal(flag: str, column: str, error: RequestError) -> str:
    """What is wrong with a domain, of this option's column."""
    return f"{flag}: {column!r}: {str(error).removeprefix('--domain: ')}"
