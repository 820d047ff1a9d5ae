"""Aggregates of a query, each as a statistic of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from sqlglot import exp

from pipelines.compat.google_sql import offset_of
from pipelines.query.allowed import REFUSED, refuse
from pipelines.query.clause import QueryTerms
from pipelines.query.rows import RowExpressions, RowValue, literal, name_of, whole
from transforms.encoders.undeclared import UNDECLARED

PER_GROUP, PER_ROW = "contribution_bounds_per_group", "contribution_bounds_per_row"
_TABLES = dict.fromkeys(("VARIANCE", "VAR_SAMP", "VAR_POP"), "variance")
_TABLES |= dict.fromkeys(("STDDEV", "STDDEV_SAMP", "STDDEV_POP"), "deviation")
_NUMBERS = {"SUM": "sum", "AVG": "mean"} | dict.fromkeys(_TABLES, "variance")
_QUANTILES = ("PERCENTILE_CONT", "PERCENTILE_DISC", "APPROX_QUANTILES")
TOTALS = ("COUNT", "COUNTIF", "SUM")
AGGREGATES = ("COUNT", "COUNTIF", *_NUMBERS, *_QUANTILES)
_MOST_PARTS = 100
_UNCHOSEN = (0.0, 1.0)  # stand in until a first round has chosen


class Aggregate(NamedTuple):
    """What an aggregate compiles to.

    Attributes:
        kind: of a metric.
        options: of it, but for groups and what must hold of all rows.
        meaning: in words.
        quantiles: of a distribution, those that are asked.
        table: of a variance, that which is asked.
        sample: whether it is that of a sample.
    """

    kind: str
    options: Mapping[str, Any]
    meaning: str
    quantiles: tuple[float, ...] = ()
    table: str = ""
    sample: bool = False


class Aggregates:
    """Takes calls to statistics.

    Attributes:
        of_rows: takes arguments to expressions of rows.
        derived: name -> expression, of columns that statistics are of.
        seen: as of `FromClause`.
        unbounded: those whose bounds a first round has yet to choose.
    """

    def __init__(
        self, of_rows: RowExpressions, terms: QueryTerms, groups: int, derived: dict[str, str],
        seen: list[tuple[RowValue, exp.Expr]],
    ) -> None:  # fmt: skip
        self.of_rows, self._terms, self._groups = of_rows, terms, groups
        self.derived, self.seen, self.unbounded = derived, seen, dict[str, str]()

    def statistic(self, node: exp.Expr) -> Aggregate:
        """What a call asks.

        Args:
            node: as of `is_aggregate`.

        Raises:
            SqlError: it is not answered; with its place, and what is.
        """
        name = name_of(node)
        named = [one for one in node.expressions if isinstance(one, exp.Kwarg)]
        plain = [one for one in node.expressions if one not in named]
        per, bounds = _bounds(named)
        if len(plain) != 1 + (name in _QUANTILES):
            refuse(node, f"{name} takes {1 + (name in _QUANTILES)} values beside its bounds")
        if name in _NUMBERS:
            return self._number(node, name, plain[0], per, bounds)
        if name in _QUANTILES:
            return self._quantiles(node, name, plain, per, bounds)
        if isinstance(plain[0], exp.Distinct):
            return self._units(node, plain[0], bounds)
        return self._count(node, name, plain[0], per, bounds)

    def _count(
        self, node: exp.Expr, name: str, what: Any, per: str, bounds: Sequence[float]
    ) -> Aggregate:
        where: dict[str, Any] = {}
        if not (isinstance(what, exp.Star) and name == "COUNT"):
            text = self._row(what, name == "COUNTIF").text
            where = {"where": [text if name == "COUNTIF" else f"{text} is not null"]}
        if per == PER_ROW:
            refuse(node, f"a row counts once: bound a count by {PER_GROUP} => (0, 10)")
        if not bounds:
            call = f"{name}({'x' if where else '*'}, {PER_GROUP} => (0, 10))"
            return Aggregate("count", where | self._by_row(node, call), "rows")
        low, high = bounds
        if low != 0 or type(high) is not int:
            refuse(node, f"a count is bounded from 0 on, by a whole number: {PER_GROUP} => (0, 10)")
        if self._terms.unit is None:
            return Aggregate("count", where, "rows")
        words = f"each user's rows of a group, {high} at the most"
        return Aggregate("count", where | {"per_value": high} | self._by_group(), words)

    def _units(self, node: exp.Expr, what: exp.Distinct, bounds: Sequence[float]) -> Aggregate:
        (column,), unit = what.expressions, self._terms.unit
        plain = isinstance(column, exp.Column) and self.of_rows.row(column).plain
        if unit is None or plain != unit:
            refuse(node, "units alone are counted distinctly: COUNT(DISTINCT ...) of --user-column")
        if bounds not in ((), (0, 1)):
            refuse(node, "a unit counts once: leave its bounds out")
        most = self._terms.most_groups or self._terms.rows
        return Aggregate("count", {"per_value": 1} | self._by_group(most), "users")

    def _number(
        self, node: exp.Expr, name: str, what: Any, per: str, bounds: Sequence[float]
    ) -> Aggregate:
        call, row = f"{name}(x, {PER_GROUP} => (low, high))", self._row(what)
        if not bounds:
            bounds = self._chosen(node, row, call)
            # As COUNT(*) without bounds: each row for itself, where it is said how many count.
            per = PER_ROW if self._terms.rows and not self._terms.private else PER_GROUP
            if name == "SUM" and per == PER_GROUP and self._terms.unit is not None:
                refuse(node, f"rows have chosen bounds, and a user's sum other ones: write {call}"
                       + " or say --rows-per-user 10" * (not self._terms.private))  # fmt: skip
        options = {"column": self._column(what, row), "bounds": "{!r},{!r}".format(*bounds)}
        spread: dict[str, Any] = {"table": _TABLES.get(name, "")}
        spread["sample"] = name in _TABLES and not name.endswith("_POP")
        if per == PER_ROW or self._terms.unit is None:
            options |= self._by_row(node, call, bounded=True)
            return Aggregate(_NUMBERS[name], options, "rows, clipped", **spread)
        added = "added up" if name == "SUM" else "averaged"
        words = f"each user's rows of a group, {added} and then clipped"
        return Aggregate(_NUMBERS[name], options | self._by_group(), words, **spread)

    def _quantiles(
        self, node: exp.Expr, name: str, plain: Sequence[Any], per: str, bounds: Sequence[float]
    ) -> Aggregate:
        row, call = self._row(plain[0]), f"{name}(x, n, {PER_ROW} => (low, high))"
        if per == PER_GROUP:
            refuse(node, f"a quantile is of rows: write {call}")
        bounds = bounds or self._chosen(node, row, call)
        share, parts = literal(plain[1]), whole(plain[1])
        if name != "APPROX_QUANTILES":
            if share is None or not 0 < share < 1:
                refuse(plain[1], "a quantile lies between 0 and 1, as in 0.5")
            shares = [float(share)]
        else:
            if parts is None or not 2 <= parts <= _MOST_PARTS:
                refuse(plain[1], f"a whole number of parts is needed, 2 to {_MOST_PARTS}")
            # Without the ends, which are one row's values each.
            shares = [round(i / parts, 12) for i in range(1, parts)]
        options = {"column": self._column(plain[0], row), "bounds": "{!r},{!r}".format(*bounds)}
        users = self._terms.unit is not None
        of = "rows, those of a user counted together as one" if users else "rows"
        if self._groups != 1:
            of += " in each of its groups" * users
            options |= self._by_group(self._terms.most_groups or self._terms.rows)
        return Aggregate("distribution", options, f"{of}, clipped", tuple(shares))

    def _row(self, node: Any, truth: bool = False) -> RowValue:
        row = self.of_rows.truth(node) if truth else self.of_rows.row(node)
        self.seen.append((row, node))
        return row

    def _column(self, node: Any, row: RowValue) -> str:
        return column_of(row, self.derived, node.name if isinstance(node, exp.Column) else "")

    def _chosen(self, node: exp.Expr, row: RowValue, call: str) -> tuple[float, float]:
        """The bounds that a first round has chosen, or will choose."""
        known = self._terms.bounds
        if known is None or known is False:
            _implicit(node, call + ", or say --choose-bounds" * (known is None))
        if row.text not in known:
            self.unbounded[row.text] = row.plain or row.text
            self.of_rows.places.setdefault(f"magnitude({row.text})", offset_of(node))
        return known.get(row.text, _UNCHOSEN)

    def _by_group(self, most: int | None = None) -> dict[str, Any]:
        """How many groups of a unit count."""
        if self._terms.unit is None:
            return {}
        return {
            "rows_per_user": min(
                most or self._terms.most_groups or 1, self._groups or UNDECLARED.size
            )
        }

    def _by_row(self, node: exp.Expr, call: str, bounded: bool = False) -> dict[str, Any]:
        """That each row counts for itself, and how many of a unit do."""
        if self._terms.unit is None:
            return {}
        if self._terms.rows is None or (self._terms.private and not bounded):
            _implicit(node, call + " or say --rows-per-user 10" * (not self._terms.private))
        return {"by_row": True, "rows_per_user": self._terms.rows}


def column_of(row: RowValue, derived: dict[str, str], label: str = "") -> str:
    """The column of a plan that an expression is.

    Args:
        row: the expression.
        derived: name -> expression of those that are derived; it grows.
        label: what a person calls it.
    """
    if row.plain is not None and "=" not in row.plain and row.plain == row.plain.strip():
        return row.plain
    known = next((name for name, text in derived.items() if text == row.text), None)
    name = known or f"{label.replace('=', ' ').strip() or 'expression'} of the query"
    while known is None and name in derived:
        name += "'"
    derived[name] = row.text
    return name


def top_counted(node: exp.Select, unit: str | None) -> exp.Select:
    """SELECT APPROX_TOP_COUNT(x, n) as what it stands for: x and its count, the n largest first.

    Args:
        node: the outermost query.
        unit: the column of units, whose number is counted; else that of rows.
    """
    (item, *others) = node.expressions or [node]
    call = item.this if isinstance(item, exp.Alias) else item
    if others or not isinstance(call, exp.Anonymous) or name_of(call) != "APPROX_TOP_COUNT":
        return node
    rows = exp.Star() if unit is None else exp.Distinct(expressions=[exp.column(unit, quoted=True)])
    counted, made = exp.Anonymous(this="COUNT", expressions=[rows]), node.copy()
    if len(call.expressions) != 2 or any(node.args.get(one) for one in ("group", "order", "limit")):
        refuse(call, REFUSED["APPROX_TOP_COUNT"])
    value, number = (one.copy() for one in call.expressions)
    if not (whole(number) or 0) > 0:
        refuse(number, "APPROX_TOP_COUNT(x, n) takes a whole number n from 1 on")
    made.set("expressions", [exp.alias_(value, "value"), exp.alias_(counted, "count")])
    made.set("group", exp.Group(expressions=[value.copy()]))
    order = exp.Ordered(this=exp.column("count"), desc=True)
    made.set("order", exp.Order(expressions=[order]))
    made.set("limit", exp.Limit(expression=number))
    return made


def with_single_quantiles(tree: exp.Expr) -> exp.Expr:
    """Of APPROX_QUANTILES(x, n)[OFFSET(k)], the k-th alone: PERCENTILE_DISC(x, k / n).

    Args:
        tree: of a whole query, which is changed.

    Raises:
        SqlError: it is an end, which is one row's value, or beyond.
    """
    for node in [*tree.find_all(exp.Bracket)]:
        call, places = node.this, node.expressions
        parts, place = whole([*call.expressions, None, None][1]), whole(places[0])
        if name_of(call) != "APPROX_QUANTILES" or len(places) != 1 or not parts:
            refuse(node)
        place = -1 if place is None else place - node.args.get("offset", 0)
        if not 0 < place < parts:
            refuse(node, f"a quantile of {parts} is at OFFSET(1) to OFFSET({parts - 1})")
        call.set("this", "PERCENTILE_DISC")
        call.expressions[1].replace(exp.Literal.number(repr(round(place / parts, 12))))
        node.replace(call)
    return tree


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a call is answered by a statistic.

    Args:
        node: of the tree.
    """
    return isinstance(node, exp.Anonymous) and name_of(node) in AGGREGATES


def _bounds(named: Sequence[Any]) -> tuple[str, tuple[float, ...]]:
    """Which bounds an aggregate names, and they; nothing where it names none."""
    for one in named:
        name, pair = one.this.name.lower(), one.expression
        if name not in (PER_GROUP, PER_ROW) or len(named) > 1:
            refuse(one, f"one argument has a name here: {PER_GROUP}, or {PER_ROW}")
        ends = [literal(end) for end in pair.expressions] if isinstance(pair, exp.Tuple) else []
        bounds = tuple(end for end in ends if end is not None)
        if not (len(ends) == len(bounds) == 2 and bounds[0] < bounds[1]):
            refuse(one, f"bounds are two numbers, the lower one first: {name} => (0, 100)")
        return name, bounds
    return "", ()


def _implicit(node: exp.Expr, call: str) -> NoReturn:
    """Refuse bounds that nobody has declared."""
    refuse(node, f"bounds are public knowledge, and not taken from the data: write {call}")
