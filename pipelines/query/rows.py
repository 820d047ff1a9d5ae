"""Expressions of SQL over a row, as those that a plan derives columns by."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from sqlglot import exp

from pipelines.compat.google_sql import offset_of
from pipelines.query.allowed import REFUSED, refuse
from transforms.expressions.parser import LONGEST


class RowValue(NamedTuple):
    """An expression over the columns of a log.

    Attributes:
        text: as a plan has it.
        names: the columns in it.
        plain: the column that it is, if it is one.
        values: what it may be, as `read_domain` has it, where that is public.
    """

    text: str
    names: frozenset[str] = frozenset()
    plain: str | None = None
    values: str | None = None


class NameScope(Protocol):
    """What names and calls stand for."""

    def column(self, node: exp.Column) -> RowValue:
        """What a name stands for."""

    def call(self, node: exp.Expr) -> RowValue | None:
        """What an aggregate stands for; None of what is a row's."""


TRUTHS = json.dumps(["false", "true"])
_COMPARED = {
    exp.EQ: "({} == {})", exp.NEQ: "({} != {})", exp.LT: "({} < {})", exp.LTE: "({} <= {})",
    exp.GT: "({} > {})", exp.GTE: "({} >= {})", exp.And: "({} and {})", exp.Or: "({} or {})",
    exp.Not: "(not {})",
}  # fmt: skip
_COMPUTED = {
    exp.Add: "({} + {})", exp.Sub: "({} - {})", exp.Mul: "({} * {})", exp.Div: "({} / {})",
    exp.Neg: "(-{})",
}  # fmt: skip
# Name of a function -> (the fewest and the most values that it takes, what it is here).
_FUNCTIONS: dict[str, tuple[int, int, str]] = {
    "LOWER": (1, 1, "lower({})"), "UPPER": (1, 1, "upper({})"), "TRIM": (1, 1, "trim({})"),
    "LENGTH": (1, 1, "length({})"), "SUBSTR": (2, 3, "substring({})"),
    "REGEXP_EXTRACT": (2, 2, "extract({})"), "ROUND": (1, 2, "round({})"),
    "REGEXP_CONTAINS": (2, 2, "(extract({}) is not null)"), "FLOOR": (1, 1, "bucket({}, 1)"),
    "ABS": (1, 1, "if({0} < 0, -{0}, {0})"), "IFNULL": (2, 2, "coalesce({})"),
    "COALESCE": (1, 100, "coalesce({})"), "NULLIF": (2, 2, "if({0} == {1}, null, {0})"),
    "SAFE_DIVIDE": (2, 2, "({0} / {1})"), "DATE": (1, 2, "day({})"),
    "TIMESTAMP_SECONDS": (1, 1, "epoch({}, 's')"), "TIMESTAMP_MILLIS": (1, 1, "epoch({}, 'ms')"),
    "TIMESTAMP_MICROS": (1, 1, "epoch({}, 'us')"),
    "PARSE_TIMESTAMP": (2, 2, "parse_time({1}, {0})"),
}  # fmt: skip
_OF_NUMBERS = {
    "SUM", "AVG", "PERCENTILE_CONT", "PERCENTILE_DISC", "APPROX_QUANTILES", "ROUND", "FLOOR", "ABS",
    "SAFE_DIVIDE", "TIMESTAMP_SECONDS", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "VARIANCE",
    "VAR_SAMP", "VAR_POP", "STDDEV", "STDDEV_SAMP", "STDDEV_POP",
}  # fmt: skip
FUNCTIONS = (*_FUNCTIONS, "IF", "EXTRACT", "CAST", "SAFE_CAST")
"""What rows are computed by, beside operators, CASE, IN, BETWEEN and IS NULL."""
# Part of a time -> (what it is here, its values where they are few).
_PARTS: dict[str, tuple[str, str | None]] = {
    "DATE": ("day({0})", None), "YEAR": ("year({0})", None), "ISOYEAR": ("iso_year({0})", None),
    "QUARTER": ("quarter({0})", "1..4"), "MONTH": ("month({0})", "1..12"),
    "DAY": ("monthday({0})", "1..31"), "DAYOFYEAR": ("yearday({0})", "1..366"),
    "DAYOFWEEK": ("if(weekday({0}) == 7, 1, weekday({0}) + 1)", "1..7"),  # Sunday is the first
    "ISOWEEK": ("iso_week({0})", "1..53"), "HOUR": ("hour({0})", "0..23"),
    "MINUTE": ("minute({0})", "0..59"), "SECOND": ("second({0})", "0..59"),
}  # fmt: skip
_MOST_PLACED = 1000  # signs: tables that are written out are longer
_TYPES = {
    exp.DType.BIGINT: "whole", exp.DType.DOUBLE: "number", exp.DType.TEXT: "text",
    exp.DType.BOOLEAN: "truth",
}  # fmt: skip


class RowExpressions:
    """Takes nodes of a tree that is allowed to expressions of rows.

    Args:
        scope: what names stand for.
        places: expression -> where it stands, parts before what they are parts of; it grows.
    """

    def __init__(self, scope: NameScope, places: dict[str, int] | None = None) -> None:
        self._scope, self.places = scope, {} if places is None else places

    def row(self, node: exp.Expr) -> RowValue:
        """The value of a row.

        Args:
            node: of the query's tree.

        Raises:
            SqlError: it is none; with its place.
        """
        made = self._scope.call(node)
        if made is None:
            made = _COMPILED.get(type(node), RowExpressions._refused)(self, node)
        if len(made.text) > LONGEST:  # a function of a function may double what it is given
            refuse(node, "an expression of a row is too long")
        if len(made.text) <= _MOST_PLACED:
            self.places.setdefault(made.text, offset_of(node))
        return made

    def truth(self, node: exp.Expr) -> RowValue:
        """The same of what holds of a row, or does not."""
        made = self.row(node)
        self.places.setdefault(f"not {made.text}", offset_of(node))
        return made

    def _refused(self, node: Any) -> RowValue:
        refuse(node)

    def _column(self, node: Any) -> RowValue:
        return self._scope.column(node)

    def _literal(self, node: Any) -> RowValue:
        if node.is_string:
            return RowValue(written(node.this))
        number = literal(node)
        if number is None or not math.isfinite(number):
            refuse(node, "a number is needed that doubles hold")
        return RowValue(repr(number))

    def _constant(self, node: Any) -> RowValue:
        if isinstance(node, exp.Null):
            return RowValue("null")
        return RowValue("true" if node.this else "false", values=TRUTHS)

    def _brackets(self, node: Any) -> RowValue:
        return self.row(node.this)

    def _formed(self, node: Any) -> RowValue:
        kind, other = type(node), node.args.get("expression")
        form = _COMPARED.get(kind) or _COMPUTED[kind]
        parts = (node.this,) if other is None else (node.this, other)
        return self._of(form, *parts, values=TRUTHS if kind in _COMPARED else None)

    def _is(self, node: Any) -> RowValue:
        other = node.expression
        if not isinstance(other, exp.Null | exp.Boolean):
            refuse(node, "IS takes NULL, TRUE or FALSE")
        form = "({} is null)"
        if isinstance(other, exp.Boolean):
            form = "coalesce({}, false)" if other.this else "coalesce(not {}, false)"
        return self._of(form, node.this, values=TRUTHS)

    def _in(self, node: Any) -> RowValue:
        if not node.expressions or any(_unwritten(one) for one in node.expressions):
            refuse(node, "IN takes values that are written out")
        places = ", ".join(["{}"] * len(node.expressions))
        return self._of(f"({{}} in ({places}))", node.this, *node.expressions, values=TRUTHS)

    def _between(self, node: Any) -> RowValue:
        parts = (node.args[name] for name in ("this", "low", "high"))
        return self._of("({0} >= {1} and {0} <= {2})", *parts, values=TRUTHS)

    def _if(self, node: Any) -> RowValue:
        return self._cases([(node.this, node.args["true"])], node.args.get("false"))

    def _case(self, node: Any) -> RowValue:
        given, pairs = node.args.get("this"), []
        for one in node.args["ifs"]:
            when = one.this if given is None else exp.EQ(this=given, expression=one.this)
            pairs.append((when, one.args["true"]))
        return self._cases(pairs, node.args.get("default"))

    def _cases(self, pairs: Sequence[tuple[Any, Any]], default: Any) -> RowValue:
        default = exp.Null() if default is None else default
        made = self.row(default)
        for when, then in reversed(pairs):
            made = _put("if({}, {}, {})", [self.row(when), self.row(then), made])
        results = [
            one for one in (*(then for _, then in pairs), default) if type(one) is not exp.Null
        ]
        if any(type(one) is not exp.Literal or not one.is_string for one in results):
            return made
        # What it can be is written in the query, and so is public.
        return made._replace(values=json.dumps([*dict.fromkeys(one.this for one in results)]))

    def _extract(self, node: Any) -> RowValue:
        moment, part = node.expression, node.name.upper()
        if part not in _PARTS:
            refuse(node, f"EXTRACT takes one of {', '.join(_PARTS)}")
        form, values = _PARTS[part]
        zoned = isinstance(moment, exp.AtTimeZone)
        parts = (moment.this, moment.args["zone"]) if zoned else (moment,)
        return self._of(form.format("{0}, {1}" if zoned else "{0}"), *parts, values=values)

    def _cast(self, node: Any) -> RowValue:
        kind = _TYPES.get(node.args["to"].this)
        if kind is None:
            refuse(node, "CAST takes INT64, FLOAT64, STRING and BOOL; DATE(t) is a timestamp's day")
        values = TRUTHS if kind == "truth" else None
        return self._of(f"cast({{}}, '{kind}')", node.this, values=values)

    def _call(self, node: Any) -> RowValue:
        name = name_of(node)
        if name not in _FUNCTIONS:
            known = f"{name} is no function of rows: there are {', '.join(FUNCTIONS)}"
            refuse(node, REFUSED.get(name, known))
        least, most, form = _FUNCTIONS[name]
        many = len(node.expressions)
        if not least <= many <= most:
            refuse(node, f"{name} takes {least} to {most} values, not {many}")
        if form.count("{}") == 1 and many > 1:
            form = form.replace("{}", ", ".join(["{}"] * many))
        values = TRUTHS if name == "REGEXP_CONTAINS" else None
        return self._of(form, *node.expressions, values=values)

    def _dot(self, node: Any) -> RowValue:
        """SAFE.: what fails on a row is null here anyway."""
        if node.this.name.upper() != "SAFE":
            refuse(node, "fields of structs are not known here: --derive a column")
        return self.row(node.expression)

    def _of(self, form: str, *parts: exp.Expr, values: str | None = None) -> RowValue:
        return _put(form, [self.row(part) for part in parts])._replace(values=values)


_COMPILED: dict[type[exp.Expr], Callable[[RowExpressions, Any], RowValue]] = {
    exp.Column: RowExpressions._column, exp.Literal: RowExpressions._literal,
    exp.Boolean: RowExpressions._constant, exp.Null: RowExpressions._constant,
    exp.Paren: RowExpressions._brackets, exp.Is: RowExpressions._is, exp.In: RowExpressions._in,
    exp.Between: RowExpressions._between, exp.If: RowExpressions._if,
    exp.Case: RowExpressions._case, exp.Extract: RowExpressions._extract,
    exp.Cast: RowExpressions._cast, exp.TryCast: RowExpressions._cast,
    exp.Anonymous: RowExpressions._call, exp.Dot: RowExpressions._dot,
    **dict.fromkeys([*_COMPARED, *_COMPUTED], RowExpressions._formed),
}  # fmt: skip


def used_as(tree: exp.Expr, joined: Collection[str]) -> dict[str, str]:
    """Column -> its type, as a query uses it: to compute, average or compare, or as a time.

    Args:
        tree: of the query.
        joined: tables whose columns are none of the log.
    """
    names, times = set[str](), set[str]()
    for node in tree.walk():
        parts = [*node.iter_expressions()]
        columns = (one for one in parts if isinstance(one, exp.Column))
        own = {one.name for one in columns if one.table not in joined}
        compared = isinstance(node, (*_COMPARED, exp.In, exp.Between))
        if (
            isinstance(node, (*_COMPUTED,))
            or (compared and any(literal(one) is not None for one in parts))
            or (isinstance(node, exp.Anonymous) and name_of(node) in _OF_NUMBERS)
        ):
            names |= own
        of_time = isinstance(node, exp.Anonymous) and name_of(node) == "DATE"
        if of_time or isinstance(node, exp.Extract | exp.AtTimeZone):
            times |= own
    return dict.fromkeys(sorted(names), "float") | dict.fromkeys(sorted(times), "timestamp")


def _put(form: str, parts: Sequence[RowValue]) -> RowValue:
    """Rows put into a form."""
    names = frozenset[str]().union(*(part.names for part in parts))
    return RowValue(form.format(*(part.text for part in parts)), names)


def _unwritten(node: exp.Expr) -> bool:
    return not isinstance(node, exp.Literal) and literal(node) is None


def name_of(node: exp.Expr) -> str:
    """Of a call, in capitals.

    Args:
        node: an Anonymous.
    """
    return str(node.this if isinstance(node.this, str) else node.name).upper()


def written(value: Any) -> str:
    """A value as expressions write it.

    Args:
        value: a text, a number, a truth or None.
    """
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return (
        "null" if value is None else str(value).lower() if value in (True, False) else repr(value)
    )


def whole(node: Any) -> int | None:
    """A whole number that is written out, perhaps below 0; None if it is none.

    Args:
        node: of the tree.
    """
    number: object = literal(node)
    return number if type(number) is int else None


def literal(node: Any) -> float | None:
    """The same of any number."""
    if isinstance(node, exp.Neg):
        inner = literal(node.this)
        return None if inner is None else -inner
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return int(node.this) if node.this.isdigit() else float(node.this)
    except (ValueError, OverflowError):
        return None
