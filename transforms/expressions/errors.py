"""What is wrong with an expression."""

from __future__ import annotations


class ExpressionError(Exception):
    """An expression cannot be: in words of our own, which name columns and positions, never values.

    Attributes:
        position: of the sign in the expression, from 1 on.
    """

    def __init__(self, why: str, position: int) -> None:
        super().__init__(f"{why}, at position {position}")
        self.position = position
