"""What a plan makes of rows before they are encoded: derived columns, and whom it is about.

A tree held against the columns it is about: each type is right before a row is read.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.nearest import meant
from transforms.expressions.functions import FUNCTIONS
from transforms.expressions.parser import parse
from transforms.expressions.registry import said
from transforms.expressions.tree import Call, Column, Expression, ExpressionError, Literal, columns
from transforms.expressions.values import (
    NUMBER,
    OTHER,
    TEXT,
    TRUTH,
    Bound,
    column_values,
    kind_of,
    whole,
    whole_literal,
)
from transforms.files.moments import tolerant

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
        raise ExpressionError(_unknown(tree.name), tree.position)
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
        why = (
            f"{'several columns' if tree.name in schema.names else 'no such column'}: {tree.name!r}"
        )
        raise ExpressionError(why, tree.position, tree.name)
    name = tree.name
    return Bound(kind_of(schema.field(name).type), lambda batch: column_values(batch.column(name)))


def _unknown(name: str) -> str:
    names = [one for one in FUNCTIONS if one.isidentifier() and "(" in FUNCTIONS[one].usage]
    return f"there is no function {name!r}" + (
        meant(name, names) or f"; there are: {', '.join(names)}"
    )


class ViewError(Exception):
    """An expression is wrong.

    Attributes:
        option: "derive" or "where".
        name: of the derived column, or empty.
        unknown: the column that there is none of, if that is wrong.
    """

    def __init__(self, option: str, name: str, why: ExpressionError) -> None:
        super().__init__(f"{name}: {why}" if name else str(why))
        self.option, self.name, self.unknown = option, name, why.unknown


@dataclass(frozen=True)
class View:
    """Rows as metrics see them.

    Attributes:
        derived: (name, expression), each over the file's columns and those derived before it.
        where: what must hold, all of it; null is no.

    >>> view = View.read([("short", "seconds < 60")], ["short"])
    >>> sorted(view.needed(["short"]))
    ['seconds']
    """

    derived: tuple[tuple[str, Expression], ...] = ()
    where: tuple[Expression, ...] = ()

    @classmethod
    def read(cls, derived: Iterable[tuple[str, str]], where: Iterable[str]) -> "View":
        """From texts.

        Raises:
            ViewError: one is no expression.
        """
        trees = tuple((name, _parsed("derive", name, text)) for name, text in derived)
        return cls(trees, tuple(_parsed("where", "", text) for text in where))

    def __bool__(self) -> bool:
        return bool(self.derived or self.where)

    def needed(self, names: Iterable[str]) -> frozenset[str]:
        """The columns of the file behind some that are asked for, and behind what must hold."""
        wanted = {*names} | {column.name for tree in self.where for column in columns(tree)}
        for name, tree in reversed(self.derived):
            if name in wanted:
                wanted = (wanted - {name}) | {column.name for column in columns(tree)}
        return frozenset(wanted)

    def derived_of(self, name: str) -> frozenset[str]:
        """The columns that are computed of one, by way of others too.

        >>> sorted(View.read([("m", "seconds / 60"), ("h", "m / 60")], ()).derived_of("seconds"))
        ['h', 'm']
        """
        names = {name}
        for own, tree in self.derived:
            if not names.isdisjoint(column.name for column in columns(tree)):
                names.add(own)
        return frozenset(names - {name})

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of a file, and the derived ones.

        Raises:
            ViewError: an expression does not fit them, or a name is taken.
        """
        for name, tree in self.derived:
            if name in schema.names:
                taken = ExpressionError("the file has a column of that name", 1)
                raise ViewError("derive", name, taken)
            schema = schema.append(pa.field(name, _kind("derive", name, tree, schema)))
        for tree in self.where:
            kind = _kind("where", "", tree, schema)
            if kind != TRUTH:
                wrong = ExpressionError(f"yes or no is needed: {said(tree, kind)}", tree.position)
                raise ViewError("where", "", wrong)
        return schema

    def seen(self, batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
        """A batch with the derived columns that are asked for, and those that they stand on.

        Args:
            batch: with the columns that are `needed`.
            names: that are asked for.
        """
        wanted = {*names} | {column.name for tree in self.where for column in columns(tree)}
        for name, tree in reversed(self.derived):
            if name in wanted:
                wanted |= {column.name for column in columns(tree)}
        for name, tree in ((name, tree) for name, tree in self.derived if name in wanted):
            batch = batch.append_column(name, _computed(tree, batch))
        return batch

    def holds(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """(n,) for which rows all that must hold does.

        Args:
            batch: as of `seen`.
        """
        matches = np.ones(batch.num_rows, np.bool_)
        for tree in self.where:
            truth = _computed(tree, batch).fill_null(False)
            matches &= truth.to_numpy(zero_copy_only=False)
        return matches


def _parsed(option: str, name: str, text: str) -> Expression:
    try:
        tree = parse(text)
        require_known(tree)
    except ExpressionError as error:
        raise ViewError(option, name, error) from None
    return tree


def _kind(option: str, name: str, tree: Expression, schema: pa.Schema) -> pa.DataType:
    try:
        return bind(tree, schema).kind
    except ExpressionError as error:
        raise ViewError(option, name, error) from None


def _computed(tree: Expression, batch: pa.RecordBatch) -> pa.Array:
    """(n,) values; null where Arrow cannot tell one, as of a text that is no UTF-8."""
    kind, values, _ = bind(tree, batch.schema)
    places = pa.array(np.arange(batch.num_rows))

    def step(part: pa.Array) -> pa.Array:
        start = part[0].as_py() if len(part) else 0
        rows = batch.slice(start, len(part))
        return whole(values(rows), rows, kind)

    return tolerant(step, places, kind)
