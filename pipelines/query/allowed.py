"""What a query may be made of: every node of its tree, and the arguments that it may have."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from pipelines.compat.google_sql import SqlError, offset_of

ROWS = ("expressions", "from_", "where")
"""What a subquery or a CTE may have."""

# Node -> the arguments that the compiler looks at, or that change nothing. Of a node that is not
# here, or has another argument, nothing is compiled.
ALLOWED: dict[type[exp.Expr], tuple[str, ...]] = {
    **dict.fromkeys([
        exp.Add, exp.And, exp.Dot, exp.EQ, exp.Extract, exp.GT, exp.GTE, exp.Is, exp.Kwarg, exp.LT,
        exp.LTE, exp.Mul, exp.NEQ, exp.Or, exp.Sub,
    ], ("this", "expression")),
    **dict.fromkeys([
        exp.Boolean, exp.DataType, exp.From, exp.Having, exp.Neg, exp.Not, exp.Paren, exp.Var,
        exp.Where,
    ], ("this",)),
    **dict.fromkeys([
        exp.Distinct, exp.Group, exp.Hint, exp.Order, exp.Tuple, exp.With
    ], ("expressions",)),
    **dict.fromkeys([exp.Alias, exp.CTE, exp.Subquery, exp.Table], ("this", "alias")),
    **dict.fromkeys([exp.Limit, exp.Offset], ("expression",)),
    **dict.fromkeys([exp.Null, exp.Star], ()),
    exp.Anonymous: ("this", "expressions"), exp.Array: ("expressions", "struct_name_inheritance"),
    exp.AtTimeZone: ("this", "zone"), exp.Between: ("this", "low", "high"),
    exp.Case: ("this", "ifs", "default"), exp.Cast: ("this", "to"), exp.Column: ("this", "table"),
    exp.Div: ("this", "expression", "typed", "safe"), exp.Identifier: ("this", "quoted"),
    exp.If: ("this", "true", "false"), exp.In: ("this", "expressions"),
    exp.Join: ("this", "side", "kind", "using", "on"), exp.Literal: ("this", "is_string"),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Select: (
        *ROWS, "joins", "group", "having", "order", "limit", "offset", "with_", "hint", "distinct",
    ),
    exp.TableAlias: ("this", "columns"), exp.TryCast: ("this", "to", "safe"),
    exp.Unnest: ("expressions", "alias"),
}  # fmt: skip

_NO_WINDOW = "window functions see single rows: there are none here"
_NO_SET = "set operations are not answered: query one log, by a glob of files"
_NO_VALUE = "a subquery stands behind FROM or in a CTE alone, and is no value"
_NO_ROWS = "rows are not unnested here"
_NO_LEVELS = "ROLLUP, CUBE and GROUPING SETS are not answered: ask one query for each level"
_OUTERMOST = "it stands in the outermost query alone"
_QUANTILE = "ask PERCENTILE_CONT(x, {}, contribution_bounds_per_row => (low, high))"
# By the name of a node, or of an argument.
_WHY = {
    "Window": _NO_WINDOW, "windows": _NO_WINDOW, "qualify": "QUALIFY: " + _NO_WINDOW,
    "Union": _NO_SET, "Intersect": _NO_SET, "Except": _NO_SET, "Exists": _NO_VALUE,
    "sample": "a sample of the log is no statistic: leave TABLESAMPLE out",
    "Subquery": _NO_VALUE, "Select": _NO_VALUE, "query": _NO_VALUE, "Lateral": _NO_ROWS,
    "laterals": _NO_ROWS, "Unnest": _NO_ROWS, "unnest": _NO_ROWS,
    "rollup": _NO_LEVELS, "cube": _NO_LEVELS, "grouping_sets": _NO_LEVELS,
    "Star": "name the columns and aggregates: * stands in COUNT(*) alone",
    "Distinct": "DISTINCT stands in COUNT(DISTINCT unit) alone",
    "distinct": "SELECT DISTINCT would publish the values of rows: GROUP BY declared values",
    "Like": "LIKE is not computed here: REGEXP_CONTAINS(x, 'pattern') is",
    "having": f"HAVING: {_OUTERMOST}", "order": f"ORDER BY: {_OUTERMOST}",
    "limit": f"LIMIT: {_OUTERMOST}", "offset": f"OFFSET: {_OUTERMOST}",
    "group": f"GROUP BY: {_OUTERMOST}", "with_": f"WITH: {_OUTERMOST}",
    "hint": f"the clause of privacy: {_OUTERMOST}", "joins": f"a join: {_OUTERMOST}",
    "all": "GROUP BY ALL is not answered: name the columns",
    "db": "a table has one name, and the log's files stand in quotes: FROM 'trips/*.parquet'",
    "recursive": "a CTE does not call itself",
    "Bracket": "brackets stand behind a quantile alone: APPROX_QUANTILES(x, 100)[OFFSET(95)]",
}  # fmt: skip
REFUSED = {
    "ANY_VALUE": "ANY_VALUE would publish one row's value: GROUP BY it, declared",
    "ARRAY_AGG": "ARRAY_AGG would publish rows: ask COUNT(*) GROUP BY declared values",
    "STRING_AGG": "STRING_AGG would publish rows: ask COUNT(*) GROUP BY declared values",
    "MIN": f"MIN is one row's value: {_QUANTILE.format('0.01')}",
    "MAX": f"MAX is one row's value: {_QUANTILE.format('0.99')}",
    "APPROX_COUNT_DISTINCT": "units alone are counted distinctly: COUNT(DISTINCT unit)",
    "APPROX_TOP_COUNT": "APPROX_TOP_COUNT(x, n) stands alone, without GROUP BY: it is one table",
    "RAND": "RAND draws anew for each row: nothing random is computed here",
    "UNNEST": _NO_ROWS,
} | {
    name: f"{name} needs a statistic that is not answered yet: ask COUNT, SUM or AVG"
    for name in ("APPROX_TOP_SUM", "CORR", "COVAR_POP", "COVAR_SAMP")
}  # fmt: skip
"""Functions, and why they are none here."""


def refuse(node: exp.Expr, why: str = "") -> NoReturn:
    """Say why a node cannot stand where it stands, and where that is.

    Args:
        node: of the tree.
        why: in words; by default what is known of its kind.

    Raises:
        SqlError: always.
    """
    kind = type(node).__name__
    raise SqlError(why or _WHY.get(kind, f"{kind.upper()} is not answered here"), offset_of(node))


def require_allowed(tree: exp.Expr) -> None:
    """Refuse a tree with a node, or an argument of one, that nobody compiles.

    Args:
        tree: of a whole query.

    Raises:
        SqlError: there is one.
    """
    for node in tree.walk():
        if type(node) not in ALLOWED:
            refuse(node)
        require_only(node, *ALLOWED[type(node)])


def require_only(node: exp.Expr, *names: str) -> None:
    """Refuse a node with another argument than some.

    Args:
        node: of the tree.
        names: of the arguments that it may have.

    Raises:
        SqlError: it has another one.
    """
    for name, value in node.args.items():
        first = value[0] if isinstance(value, list) and value else value
        if first not in (None, False, []) and name not in names:
            at = first if isinstance(first, exp.Expr) else node
            refuse(at, _WHY.get(name, f"{name.strip('_').upper()} cannot stand here"))
