"""What is wrong with an expression."""

from __future__ import annotations


class ExpressionError(Exception):
    """An expression cannot be: in words of our own, which name columns and positions, never values.

    Attributes:
        position: of the sign in the expression, from 1 on.
        unknown: the column that there is none of, if that is wrong.
    """

    def __init__(self, why: str, position: int, unknown: str | None = None) -> None:
        super().__init__(f"{why}, at position {position}")
        self.position, self.unknown = position, unknown
