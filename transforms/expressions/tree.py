"""What an expression is made of.

What is wrong with an expression.
"""

from collections.abc import Iterator
from dataclasses import dataclass


class ExpressionError(Exception):
    """An expression cannot be: in words of our own, which name columns and positions, never values.

    Attributes:
        why: without the position.
        position: of the sign in the expression, from 1 on.
        unknown: the column that there is none of, if that is wrong.
    """

    def __init__(self, why: str, position: int, unknown: str | None = None) -> None:
        super().__init__(f"{why}, at position {position}")
        self.why, self.position, self.unknown = why, position, unknown


@dataclass(frozen=True)
class Column:
    """What a row holds in a column."""

    name: str
    position: int


@dataclass(frozen=True)
class Literal:
    """A value that is written out: a text, a number, a truth or null."""

    value: str | int | float | bool | None
    position: int


@dataclass(frozen=True)
class Call:
    """A function, or a sign, of other expressions.

    Attributes:
        names: of the last arguments, where they are named.
    """

    name: str
    arguments: "tuple[Expression, ...]"
    position: int
    names: tuple[str, ...] = ()


Expression = Column | Literal | Call


def columns(tree: Expression) -> Iterator[Column]:
    """The columns in an expression, in the order in which they stand."""
    if isinstance(tree, Column):
        yield tree
    elif isinstance(tree, Call):
        for argument in tree.arguments:
            yield from columns(argument)
