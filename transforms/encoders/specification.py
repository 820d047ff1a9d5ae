"""What takes values to the inputs of mechanisms, for clients: records of JSON.

An encoder that a device may run in another language says its own by `specification`.
"""

from dataclasses import dataclass
from typing import Literal, Union

MOST_VALUES = 4096  # that are listed; of more the hash is told, for whoever has the list


@dataclass(frozen=True, kw_only=True)
class DeclaredDomain:
    """The values of a domain, in the order of their cells.

    Attributes:
        declared: how many there are.
        other: whether all values outside have the cell after the last.
        low: the first of a range of integers, in decimals; None of a list.
        values: of a list, as text, if they are few.
        sha256: of a list, in hexadecimals: over each value's UTF-8 and a line feed after it.
    """

    declared: int
    other: bool
    low: str | None = None
    values: list[str] | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class ColumnOfDomain:
    """A column, and the values that it may hold."""

    column: str
    domain: DeclaredDomain


@dataclass(frozen=True, kw_only=True)
class ValuesSpecification:
    """Each value to its place in the domain.

    Attributes:
        unusable: the cell of values that are missing, or outside; None if they are not reported.
    """

    encoder: Literal["values"] = "values"
    column: str
    domain: DeclaredDomain
    unusable: int | None


@dataclass(frozen=True, kw_only=True)
class NumbersSpecification:
    """Each number, clipped, to a point of a grid, by a coin.

    Attributes:
        low, high: what numbers are clipped to, and the ends of the grid.
        cells: into how many the grid cuts them.
        unusable: as of `ValuesSpecification`, for what is missing or not finite.
        fill: the number in the place of those; None if there is none.
    """

    encoder: Literal["numbers"] = "numbers"
    column: str
    low: float
    high: float
    cells: int
    unusable: int | None
    fill: float | None


@dataclass(frozen=True, kw_only=True)
class BinsSpecification:
    """Each number, clipped, to its bin; what is missing or not finite to the one after the last."""

    encoder: Literal["bins"] = "bins"
    column: str
    low: float
    high: float
    bins: int


@dataclass(frozen=True, kw_only=True)
class GroupsSpecification:
    """Each row to its group, a value of each column; the last is of rows that lack one.

    Attributes:
        columns: none to several.
        number: a column of numbers that go with the group; None where rows are counted.
        whole: whether only whole numbers can be used.
    """

    encoder: Literal["groups"] = "groups"
    columns: list[ColumnOfDomain]
    number: str | None
    whole: bool


Encoder = Union[ValuesSpecification, NumbersSpecification, BinsSpecification, GroupsSpecification]  # noqa: UP007 - read by pydantic on Python 3.10, too
