"""What stands behind FROM: the log, subqueries of its rows, declared values, one public table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from pipelines.compat.google_sql import offset_of
from pipelines.query.allowed import ROWS, refuse, require_only
from pipelines.query.public import PublicTable
from pipelines.query.rows import RowExpressions, RowValue, name_of, whole

_HOW = (
    "beside the log stand declared values, as in RIGHT JOIN UNNEST(['Oslo', 'Bern']) AS city USING "
    "(city), or one --public table, as in JOIN zones USING (zone)"
)
AMBIGUOUS = (
    "several tables have a column of this name: say whose, as in log.city with FROM ... AS log, or "
    "give what is joined another name"
)
"""Why a name without a table is refused."""
_FROM = "FROM is missing: name the log's files, as in FROM 'trips/*.parquet'"


@dataclass(frozen=True)
class RowTable:
    """Rows of a log, as a query sees them.

    Attributes:
        columns: name -> what it is; other names are columns of the log, if there are `others`.
        others: whether there are.
        called: what may stand before their names and a point.
        where: what must hold of a row.
        joined: name of a table that is joined -> its columns.
        shared: those that both sides of a join have, as USING says.
        declared: expression -> the values that it is joined with, and all of which are published.
        bare: name without a table -> where it stands, of columns that only a joined table may have.
    """

    columns: Mapping[str, RowValue]
    others: bool = False
    called: frozenset[str] = frozenset()
    where: tuple[RowValue, ...] = ()
    joined: Mapping[str, Mapping[str, RowValue]] = field(default_factory=dict)
    shared: Mapping[str, RowValue] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)
    bare: dict[str, int] = field(default_factory=dict)

    def column(self, node: exp.Column) -> RowValue:
        """As of `NameScope`."""
        name, table = node.name, node.table
        if isinstance(node.this, exp.Star) or table not in ("", *self.called, *self.joined):
            refuse(node, "no table of that name is there, or * is no column")
        if table in self.called:
            return self._of_log(node)
        if not table and name in self.shared:
            return self.shared[name]
        sides = [self.joined[table]] if table else self.joined.values()
        known = {columns[name] for columns in sides if name in columns}
        if table and not known:
            refuse(node, "the joined table has no such column")
        if not known:
            return self._of_log(node)
        if len(known) > 1 or (not table and name in self.columns):
            refuse(node, AMBIGUOUS)
        if not table and self.others:
            self.bare.setdefault(name, offset_of(node))
        return known.pop()

    def _of_log(self, node: exp.Column) -> RowValue:
        name = node.name
        if name in self.columns:
            return self.columns[name]
        if not self.others:
            refuse(node, "the subquery has no such column")
        if "`" in name or not name:
            refuse(node, "a column with a backquote in its name cannot be named: rename it")
        return RowValue(f"`{name}`", frozenset([name]), name)

    def call(self, node: exp.Expr) -> RowValue | None:
        """As of `NameScope`: there are no aggregates among rows."""
        return None

    def beside(self, called: Sequence[str], columns: Mapping[str, RowValue]) -> RowTable:
        """The same with the columns of a joined table."""
        return replace(self, joined={**self.joined, **dict.fromkeys(called, columns)})


class FromClause:
    """Reads FROM.

    Attributes:
        files: behind FROM, if they stand there.
        name: that stands there, else.
        seen: what was computed of rows, and where: the unit column may not be in it.
        places: as of `RowExpressions`.
    """

    def __init__(self, public: Mapping[str, PublicTable]) -> None:
        self.files: tuple[str, ...] = ()
        self.name = ""
        self.seen: list[tuple[RowValue, exp.Expr]] = []
        self.places: dict[str, int] = {}
        self._public, self._ctes, self._joined = public, dict[str, Any](), False

    def of(self, node: exp.Select) -> RowTable:
        """What WITH, FROM, its joins and WHERE say of the outermost query.

        Args:
            node: that query.

        Raises:
            SqlError: it is not answered.
        """
        for cte in getattr(node.args.get("with_"), "expressions", ()):
            if cte.alias in self._ctes:
                refuse(cte, "a CTE of that name is there already")
            self._ctes[cte.alias] = cte.this
        if node.args.get("from_") is None:
            refuse(node, _FROM)
        table = self._table(node.args["from_"].this)
        for inner in self._ctes.values():
            refuse(inner, "nobody names this CTE: leave it out")
        for join in node.args.get("joins") or ():
            table = self._join(table, join)
        return self._where(table, node)

    def _where(self, table: RowTable, node: exp.Select) -> RowTable:
        where = node.args.get("where")
        if where is None:
            return table
        row = RowExpressions(table, self.places).truth(where.this)
        self.seen.append((row, where))
        return replace(table, where=(*table.where, row))

    def _table(self, node: Any) -> RowTable:
        alias = frozenset([node.alias]) if node.alias else frozenset[str]()
        if isinstance(node, exp.Subquery):
            return self._rows(node.this, alias)
        if not isinstance(node, exp.Table):
            refuse(node)
        if node.name in self._ctes and isinstance(node.this, exp.Identifier):
            # Taken out meanwhile: a CTE that calls itself reads a second log.
            inner = self._ctes.pop(node.name)
            return self._rows(inner, alias or frozenset([node.name]))
        if self.files or self.name:
            refuse(node, "the log is there already, and is not joined with itself")
        if isinstance(node.this, exp.Literal):
            self.files = (node.this.this,)
        elif isinstance(node.this, exp.Identifier) and node.name not in self._public:
            self.name = node.name
        else:
            refuse(node, f"FROM names the log. {_HOW}")
        return RowTable({}, True, alias or frozenset([node.name]))

    def _rows(self, node: Any, called: frozenset[str]) -> RowTable:
        """A subquery: expressions of rows, and WHERE."""
        if not isinstance(node, exp.Select):
            refuse(node)
        require_only(node, *ROWS)
        if node.args.get("from_") is None:
            refuse(node, _FROM)
        inner = self._where(self._table(node.args["from_"].this), node)
        columns, every = dict[str, RowValue](), False
        for item in node.expressions:
            if isinstance(item, exp.Star):
                every = True
                continue
            name, value = named(item)
            if not name or name in columns:
                refuse(
                    item, "each column of a subquery has a name, and one of its own: x / 60 AS y"
                )
            columns[name] = RowExpressions(inner, self.places).row(value)
            if columns[name].plain is None:
                self.seen.append((columns[name], value))
        known = {**inner.columns, **columns} if every else columns
        return RowTable(known, every and inner.others, called, inner.where)

    def _join(self, table: RowTable, node: exp.Join) -> RowTable:
        side, kind = (node.args.get(name) or "" for name in ("side", "kind"))
        what: Any = node.this
        if kind not in ("", "INNER", "OUTER"):
            refuse(what, _HOW)
        called = _called(what)
        column, key = _keys(node, called)
        own = table.column(column)
        self.seen.append((own, what))
        if {*called} & {*table.called, *table.joined} - {""}:
            refuse(what, "a table of that name is there already: say AS and another")
        using = bool(node.args.get("using"))
        if own.plain == column.name and not using:  # the log has it
            table = replace(table, columns={**table.columns, column.name: own})
        if using or (key == column.name and side != "LEFT"):
            table = replace(table, shared={**table.shared, key: own})
        values = _declared(what, key)
        if values is not None:
            if side != "RIGHT":
                refuse(what, "declared values are joined by RIGHT JOIN: all of them are published")
            return self._declaring(table.beside(called, {key: own}), own, values, what)
        public = self._public.get(what.name) if isinstance(what, exp.Table) else None
        if public is None or self._joined or side not in ("", "LEFT", "RIGHT"):
            refuse(what, _HOW)
        self._joined = True
        known, columns = public.joined(key, own, what)
        if side == "RIGHT":
            table = self._declaring(table, own, public.values(key) or "", what)
        # LEFT JOIN keeps rows that the table has no key for, which is NULL there.
        there = RowValue(f"if({known.text}, {own.text}, null)", own.names)
        columns[key] = there if side == "LEFT" else own
        where = table.where if side else (*table.where, known)
        return replace(table.beside(called, columns), where=where)

    def _declaring(self, table: RowTable, own: RowValue, values: str, node: exp.Expr) -> RowTable:
        if own.text in table.declared:
            refuse(node, "the values of this column are declared already")
        return replace(table, declared={**table.declared, own.text: values})


def named(item: exp.Expr) -> tuple[str, Any]:
    """The name of an item of a select list, and what it is.

    Args:
        item: of the tree.
    """
    if isinstance(item, exp.Alias):
        return item.alias, item.this
    return (item.name if isinstance(item, exp.Column) else ""), item


def _called(node: Any) -> list[str]:
    """What a query calls something that it joins."""
    alias = node.args.get("alias")
    names = [] if alias is None else [one.name for one in (*alias.columns, alias.this) if one]
    return names or [node.name]


def _keys(node: exp.Join, called: Sequence[str]) -> tuple[exp.Column, str]:
    """(what a row has, the column joined to it) of USING (city), or of ON t.city = zones.name."""
    using, on = node.args.get("using") or [], node.args.get("on")
    if len(using) == 1 and on is None:
        return exp.column(exp.to_identifier(using[0].name, quoted=True)), using[0].name
    if isinstance(on, exp.EQ) and not using:
        for own, other in ((on.this, on.expression), (on.expression, on.this)):
            if not (isinstance(own, exp.Column) and isinstance(other, exp.Column)):
                continue
            if (other.table or other.name) in called and own.table not in called:
                return own, other.name
    refuse(node.this, _HOW)


def _declared(node: Any, key: str) -> str | None:
    """Values of a column that are written out; None of another table."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        inner = node.this  # SELECT DISTINCT city FROM UNNEST([...]) AS city
        require_only(inner, "expressions", "from_", "distinct")
        source = inner.args.get("from_")
        plain = [one.name for one in inner.expressions if isinstance(one, exp.Column)] == [key]
        if source is None or not plain or not isinstance(source.this, exp.Unnest):
            refuse(node, _HOW)
        return _declared(source.this, key)
    if not isinstance(node, exp.Unnest):
        return None
    if len(node.expressions) != 1 or _called(node) != [key]:
        refuse(node, "declared values have the column's name: UNNEST(['Oslo', 'Bern']) AS city")
    listed = node.expressions[0]
    if isinstance(listed, exp.Anonymous) and name_of(listed) == "GENERATE_ARRAY":
        ends = [whole(one) for one in listed.expressions]
        if len(ends) == 2 and None not in ends:
            return f"{ends[0]}..{ends[1]}"
    if not isinstance(listed, exp.Array) or not listed.expressions:
        refuse(
            node, "declared values are written out: UNNEST(['a', 'b']), or GENERATE_ARRAY(0, 23)"
        )
    return json.dumps([*_texts(listed)])


def _texts(node: exp.Array) -> Iterator[str]:
    for one in node.expressions:
        if isinstance(one, exp.Null):
            refuse(one, "NULL is a group where it has a name: IFNULL(city, 'none') AS city")
        number = whole(one)
        if isinstance(one, exp.Literal) and one.is_string:
            yield one.this
        elif isinstance(one, exp.Boolean):
            yield "true" if one.this else "false"
        elif number is not None:
            yield str(number)
        else:
            refuse(one, "a declared value is a text, a whole number or a truth")
