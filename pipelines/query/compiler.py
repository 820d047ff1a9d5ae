"""A query as metrics of a plan, and what is made of what they publish."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from math import prod
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from pipelines.compat.google_sql import SqlError, parsed, place_of
from pipelines.errors import RequestError
from pipelines.logs.inputs import read_domain
from pipelines.metrics import registry
from pipelines.metrics.options import DiscoveryOptions
from pipelines.query.aggregates import (
    TOTALS,
    Aggregate,
    Aggregates,
    column_of,
    is_aggregate,
    top_counted,
    with_single_quantiles,
)
from pipelines.query.allowed import refuse, require_allowed
from pipelines.query.answer import QueryResult, ResultColumn
from pipelines.query.clause import PUBLIC, THRESHOLD, QueryTerms, with_clause
from pipelines.query.rows import RowExpressions, RowValue, name_of, used_as, whole
from pipelines.query.tables import FromClause, named
from transforms.expressions.tree import ExpressionError
from transforms.expressions.view import ViewError

_MOST_GROUPS = 1_000_000
_MOMENTS = {"mean", "variance"}  # of which the latter publishes the former, too, at its price
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
_DECLARED = "declare it by RIGHT JOIN UNNEST(['a', 'b']) AS {0} USING ({0}), or --groups {0}=FILE"
_ALL = f"all declared groups are published: leave {THRESHOLD} out, or do not declare them"
_TWO = "two columns that nobody declared are grouped by at the most: declare all, or CONCAT them"
_MOST_UNDECLARED = 2
UNIT_ALONE = (
    "the unit column stands in COUNT(DISTINCT ...) alone: it is not grouped by, compared, joined "
    "or computed with"
)
"""Why an expression that reads it is refused."""


@dataclass(frozen=True)
class Compiled:
    """A query, ready for a plan.

    Attributes:
        metrics: of the plan.
        answer: what is made of what they publish.
        files: behind FROM, if they stand there.
        table: the name behind FROM, else.
        terms: what the query and what stands beside it say together.
        unbounded: expression -> its name, of those whose bounds a first round has yet to choose.
        where: what must hold of every row.
        types: column -> its type, as it is used.
    """

    metrics: tuple[Mapping[str, Any], ...]
    answer: QueryResult
    files: tuple[str, ...]
    table: str
    terms: QueryTerms
    unbounded: Mapping[str, str]
    where: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)


class _Group(NamedTuple):
    """A column that is grouped by: what it is called, what it is, and its values if declared."""

    label: str
    text: str
    column: str
    values: str | None
    labels: tuple[Any, ...] | None


def compiled(text: str, terms: QueryTerms, where: str = "query", name: str = "query") -> Compiled:
    """What a query comes to.

    Args:
        text: of the query.
        terms: what stands beside it.
        where: it stands, for refusals.
        name: of its answer; where it is another than usual, names of its metrics begin with it.

    Raises:
        RequestError: it is not answered: one line with its place, which quotes no value.
    """
    try:
        tree = with_single_quantiles(parsed(text))
        require_allowed(tree)
        return _Compiler(terms, name, text, where).query(tree)
    except SqlError as error:
        raise RequestError(f"{where}, {place_of(text, error.offset)}: {error}") from None
    except RecursionError:
        raise RequestError(f"{where}: it is nested too deeply") from None


class _Compiler:
    """Walks over one query; in HAVING and ORDER BY, what names and aggregates stand for."""

    def __init__(self, terms: QueryTerms, name: str, text: str, where: str) -> None:
        self._terms, self._name, self._text, self._where = terms, name, text, where
        self._sources = FromClause(terms.public)
        self._derived: dict[str, str] = {}
        self._metrics: dict[str, Aggregate] = {}
        self._figures: list[ResultColumn] = []
        self._columns: dict[str, str] = {}  # of the answer: name -> g0, g1, .. or f0, f1, ..

    def query(self, node: Any) -> Compiled:
        """All of it.

        Args:
            node: whose nodes are all allowed.
        """
        if not isinstance(node, exp.Select):
            refuse(node, "one SELECT is a query")
        node = top_counted(node, self._terms.unit)
        if (distinct := node.args.get("distinct")) is not None:
            refuse(distinct, "SELECT DISTINCT publishes rows: GROUP BY declared values")
        sources = self._sources
        table = sources.of(node)
        terms = self._terms = with_clause(self._terms, node.args.get("hint"), table)
        self._of_rows, items = RowExpressions(table, sources.places), _items(node)
        groups = self._groups = self._grouped(node, items, table.declared)
        if table.declared.keys() - {one.text for one in groups}:
            refuse(node, "declared values are of a column that GROUP BY names")
        size = prod(len(one.labels) for one in groups if one.labels is not None)
        if size > _MOST_GROUPS:
            refuse(node, f"{size:,} groups are more than the {_MOST_GROUPS:,} there may be")
        size = 0 if self._undeclared else size
        self._aggregates = Aggregates(self._of_rows, terms, size, self._derived, sources.seen)
        self._columns = {name: self._item(name, item) for name, item in items}
        if not any(one[0] == "f" for one in self._columns.values()):
            refuse(node, "an aggregate is missing, as in COUNT(*): no rows are published")
        ending = self._ending(node)
        answer = QueryResult(
            self._name, tuple((one.label, one.labels) for one in groups), tuple(self._figures),
            tuple(self._columns.values()), self._text, self._where, tuple(sources.places.items()),
            tuple(table.bare.items()), **ending,
        )  # fmt: skip
        if len({*answer.names}) < len(answer.names):
            refuse(node, "two columns of the answer, or of its errors, have one name: say AS")
        try:
            answer.require_sense()
        except (ViewError, ExpressionError):
            at = node.args.get("having") or node.args["order"]
            refuse(at, "HAVING and ORDER BY compare numbers with figures, and texts with labels")
        for row, part in sources.seen:
            if terms.reads_unit(row):
                refuse(part, UNIT_ALONE)
        where = tuple(one.text for one in table.where)
        metrics, unbounded = self._as_metrics(where), self._aggregates.unbounded
        return Compiled(
            metrics, answer, sources.files, sources.name, terms, unbounded, where,
            used_as(node, table.joined),
        )  # fmt: skip

    def _grouped(
        self, node: exp.Select, items: Sequence[tuple[str, Any]], declared: Mapping[str, str]
    ) -> list[_Group]:
        made: list[_Group] = []
        for one in getattr(node.args.get("group"), "expressions", ()):
            label, value = _by(one, items)
            if any(map(is_aggregate, (*value.walk(), *(x for name, x in items if name == label)))):
                refuse(one, "GROUP BY takes values of rows, and no aggregate")
            row, known = self._of_rows.row(value), self._terms.groups
            if self._terms.reads_unit(row):
                refuse(one, UNIT_ALONE)
            values = declared.get(row.text) or known.get(label) or row.values
            values = values or known.get(row.plain or "")
            column = column_of(row, self._derived, label)
            if any(column == before.column for before in made):
                refuse(one, "GROUP BY names this column twice")
            if values is None:
                made.append(_Group(label or column, row.text, column, None, None))
                continue
            try:
                domain = read_domain(values, pa.null(), other=False, least=1)
            except RequestError as error:
                refuse(one, str(error).replace("--domain", "declared values"))
            labels = domain.labels().to_pylist()
            if all(isinstance(one, str) and _WHOLE.fullmatch(one) for one in labels):
                labels = [int(one) for one in labels]  # as they are sorted and compared
            made.append(_Group(label or column, row.text, column, values, tuple(labels)))
        free = [one for one in made if one.values is None]
        if why := _mixed(len(free), len(made), self._terms.strategy):
            refuse(node.args["group"].expressions[0], why.format((free or made)[0].label))
        return made

    @property
    def _undeclared(self) -> bool:
        """Whether groups are found in the log."""
        return any(one.values is None for one in self._groups)

    def _item(self, name: str, node: Any) -> str:
        """A column of the answer."""
        if is_aggregate(node):
            return self._figure(node, name)
        if (parts := _quotient(node)) is not None:
            if parts[0] == parts[1]:
                refuse(node, "a figure over itself is 1: divide two figures")
            over = tuple(self._figures[int(self._figure(part, "")[1:])] for part in parts)
            meaning = " over ".join(one.meaning for one in over)
            self._figures.append(ResultColumn(name, "", "ratio", (), meaning, over=over))
            return f"f{len(self._figures) - 1}"
        if any(map(is_aggregate, node.walk())):
            why = "an aggregate stands alone, or as in SUM(a) / COUNT(*): compute afterwards"
            refuse(node, why)
        return self._group(node, "an answer has aggregates, and columns that GROUP BY names")

    def _group(self, node: exp.Expr, why: str) -> str:
        text = self._of_rows.row(node).text
        place = next((i for i, one in enumerate(self._groups) if one.text == text), None)
        if place is None:
            refuse(node, why)
        return f"g{place}"

    def _figure(self, node: exp.Expr, label: str) -> str:
        """An aggregate among the figures; what is there already is priced once.

        Args:
            node: the aggregate.
            label: what it is called; nothing of one that is looked at alone.
        """
        statistic = self._aggregates.statistic(node)
        if self._undeclared and not issubclass(registry.options(statistic.kind), DiscoveryOptions):
            line = _DECLARED.format(self._groups[0].label)
            refuse(node, f"{name_of(node)} is of groups that are declared: {line}")
        if self._undeclared and len(self._groups) > 1 and statistic.quantiles:
            refuse(node, "quantiles are of groups of one column: CONCAT them, or declare them")
        for name, one in self._metrics.items():
            kinds = {one.kind, statistic.kind}
            if one.options == statistic.options and (len(kinds) == 1 or kinds == _MOMENTS):
                both = one.quantiles + statistic.quantiles
                self._metrics[name] = one._replace(kind=max(kinds), quantiles=both)
                break
        else:
            own = f"{self._name}-{label}" if self._name != "query" else label
            name = re.sub(r"[^a-z0-9_-]+", "-", own.lower()).strip("-_")[:50] or "figure"
            others = (f"{name}-{place}" for place in count(1))
            name = next(one for one in chain([name], others) if one not in self._metrics)
            self._metrics[name] = statistic
        kind = statistic.table or statistic.kind
        known = label, name, kind, statistic.quantiles, statistic.meaning, statistic.sample
        figure = ResultColumn(*known)
        for place, other in enumerate(self._figures):
            if label in ("", other.label) and replace(other, label=label) == figure:
                return f"f{place}"
        self._figures.append(figure)
        return f"f{len(self._figures) - 1}"

    def _as_metrics(self, where: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
        common: dict[str, Any] = {"derive": dict(self._derived)} if self._derived else {}
        if self._groups:
            by = [f"{one.column}={one.values}" for one in self._groups if one.values]
            drop = {"undeclared": "drop"} if by else {}
            common |= {"group": by or [one.column for one in self._groups], **drop}
        metrics = []
        for name, statistic in self._metrics.items():
            must = [*where, *statistic.options.get("where", ())]
            own = {**statistic.options, **common, **({"where": must} if must else {})}
            if levels := sorted({*statistic.quantiles}):
                one = len(levels) == 1 and not self._undeclared  # drawn by ranks, if that is nearer
                own |= {"quantile": levels[0]} if one else {
                    "quantiles": ",".join(map(repr, levels))
                }  # fmt: skip
            metrics.append({"name": name, "kind": statistic.kind, **own})
        return tuple(metrics)

    # What is done with what is published.

    def column(self, node: exp.Column) -> RowValue:
        """As of `NameScope`: a column of the answer, as `QueryResult` calls it."""
        known = None if node.table else self._columns.get(node.name)
        why = "HAVING and ORDER BY look at what is published alone"
        return RowValue(known or self._group(node, why))

    def call(self, node: exp.Expr) -> RowValue | None:
        """As of `NameScope`: an aggregate, which is priced and published."""
        return RowValue(self._figure(node, "")) if is_aggregate(node) else None

    def _ending(self, node: exp.Select) -> dict[str, Any]:
        """As `QueryResult` has it."""
        of_published, made = RowExpressions(self), dict[str, Any]()
        if (having := node.args.get("having")) is not None:
            made["having"] = of_published.row(having.this).text
        if (order := node.args.get("order")) is not None:
            made["order"] = tuple(self._ordered(one, of_published) for one in order.expressions)
        for name in ("limit", "offset"):
            part = node.args.get(name)
            number = None if part is None else whole(part.expression)
            if part is not None and (number is None or number < 0):
                refuse(part, f"{name.upper()} is a whole number from 0 on")
            made |= {} if number is None else {name: number}
        return made

    def _ordered(self, node: Any, of_published: RowExpressions) -> tuple[str, bool]:
        """An expression over what is published, and whether the largest comes first."""
        down, columns = bool(node.args.get("desc")), [*self._columns.values()]
        if not isinstance(node.this, exp.Literal):
            return of_published.row(node.this).text, down
        return _at(node.this, columns, "ORDER BY"), down


def _mixed(undeclared: int, groups: int, strategy: str) -> str:
    """Why columns are not grouped by; empty if they are."""
    if not undeclared:
        return _ALL * (groups > 0 and strategy == THRESHOLD)
    if strategy == PUBLIC:
        return f"{PUBLIC} are declared: {_DECLARED}"
    if undeclared < groups:
        return f"the values of all columns are declared, or of none: {_DECLARED}"
    return _TWO * (groups > _MOST_UNDECLARED)


def _at(node: Any, columns: Sequence[Any], what: str) -> Any:
    """The column of an answer at a place that is written as a number."""
    place = whole(node)
    if place is None or not 1 <= place <= len(columns):
        refuse(node, f"{what} has no such column of the answer")
    return columns[place - 1]


def _items(node: exp.Select) -> list[tuple[str, Any]]:
    """(name, what it is) of a select list."""
    items: list[tuple[str, Any]] = []
    for item in node.expressions:
        name, value = named(item)
        if not name and isinstance(value, exp.Anonymous):
            column = value.find(exp.Column)
            name = "_".join([name_of(value).lower(), *([] if column is None else [column.name])])
        name = name or f"f{len(items)}_"
        if name in [one for one, _ in items]:
            refuse(item, "two columns of the answer have one name: say AS and another")
        items.append((name, value))
    return items


def _quotient(node: Any) -> list[exp.Expr] | None:
    """The two totals of a quotient of them; None of anything else."""
    node = node.unnest()
    called = isinstance(node, exp.Anonymous) and name_of(node) == "SAFE_DIVIDE"
    parts = node.expressions if called else [node.args.get("this"), node.args.get("expression")]
    if not (called or isinstance(node, exp.Div)) or len(parts) != 2:
        return None
    totals = [part.unnest() for part in parts]
    return totals if all(is_aggregate(one) and name_of(one) in TOTALS for one in totals) else None


def _by(node: Any, items: Sequence[tuple[str, Any]]) -> tuple[str, Any]:
    """(what it is called, what it is) of a column that is grouped by."""
    if isinstance(node, exp.Literal):
        label, value = _at(node, items, "GROUP BY")
        return label, value
    called = node.name if isinstance(node, exp.Column) else ""
    for name, value in items:
        if value == node or (called == name and not node.table and not is_aggregate(value)):
            return name, value
    return called, node
