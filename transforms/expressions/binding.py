"""A tree held against the columns it is about: each type is right before a row is read."""

from __future__ import annotations

import pyarrow as pa

from mechanisms.nearest import meant
from transforms.expressions.errors import ExpressionError
from transforms.expressions.functions import FUNCTIONS
from transforms.expressions.tree import Call, Column, Expression, Literal
from transforms.expressions.values import (
    NUMBER,
    OTHER,
    TEXT,
    TRUTH,
    Bound,
    column_values,
    kind_of,
    whole_literal,
)

_LITERALS = {bool: TRUTH, float: NUMBER, str: TEXT, type(None): OTHER}


def bind(tree: Expression, schema: pa.Schema) -> Bound:
    """An expression over columns of these types.

    Raises:
        ExpressionError: a column is missing, a function is not known, or a type is wrong.
    """
    if isinstance(tree, Literal):
        if type(tree.value) is int and (whole := whole_literal(tree.value)):
            return whole
        kind = _LITERALS[type(tree.value)]
        scalar = pa.scalar(tree.value, kind)
        return Bound(kind, lambda _: scalar, tree.value)
    if isinstance(tree, Column):
        return _column(tree, schema)
    known = FUNCTIONS.get(tree.name)
    if known is None:
        raise ExpressionError(
            _unknown(f"no function {tree.name!r}", tree.name, [*_named()]), tree.position
        )
    return known.bind(known.ordered(tree, [bind(argument, schema) for argument in tree.arguments]))


def require_known(tree: Expression) -> None:
    """Refuse a function that there is none of, without a look at any column."""
    if isinstance(tree, Call):
        if tree.name not in FUNCTIONS:
            bind(Call(tree.name, (), tree.position), pa.schema([]))
        for argument in tree.arguments:
            require_known(argument)


def _column(tree: Column, schema: pa.Schema) -> Bound:
    if schema.get_field_index(tree.name) < 0:  # none, or more than one
        # What there is instead is for those to say who know which names are no cells.
        why = f"there is no one column {tree.name!r}"
        raise ExpressionError(why, tree.position, tree.name)
    name = tree.name
    return Bound(kind_of(schema.field(name).type), lambda batch: column_values(batch.column(name)))


def _unknown(what: str, name: str, names: list[str]) -> str:
    return f"there is {what}" + (meant(name, names) or f"; there are: {', '.join(names)}")


def _named() -> list[str]:
    return [name for name in FUNCTIONS if name.isidentifier() and "(" in FUNCTIONS[name].usage]
