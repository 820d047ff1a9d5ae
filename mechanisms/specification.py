"""What a client needs of a mechanism that it has no planner for: every number that is no formula.

`docs/appendix/wire.md` says what to do with them, draw by draw. A mechanism that a device may run
in another language says its own by `Mechanism.specification`. These are records of JSON: integers
that may pass 2^53 are decimal strings, for not every reader keeps longer ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Union


def decimals(numbers: Iterable[int]) -> list[str]:
    """Integers that may be long.

    >>> decimals([0, 1 << 64])
    ['0', '18446744073709551616']
    """
    return [str(int(number)) for number in numbers]


@dataclass(frozen=True, kw_only=True)
class KAryResponseSpecification:
    """The value itself, or with some probability any other one.

    Attributes:
        inputs: how many values.
        order: q, how many codes; usually as many.
        miss: of 2^64 words, how many stand for one given wrong code.
    """

    channel: Literal["k-ary response"] = "k-ary response"
    inputs: int
    order: int
    miss: str


@dataclass(frozen=True, kw_only=True)
class LinearHashSpecification:
    """A random linear form on the digits of the value, and its randomised symbol.

    Attributes:
        inputs: how many values.
        order: q, of the field.
        polynomial: that products are taken modulo, of the field with 2^k elements; None if q is an
            odd prime.
        digits: t, of a value in base q.
        miss: as of `KAryResponseSpecification`, for a symbol.
    """

    channel: Literal["linear hash"] = "linear hash"
    inputs: int
    order: int
    polynomial: int | None
    digits: int
    miss: str


@dataclass(frozen=True, kw_only=True)
class ProjectiveGeometrySpecification:
    """A point of a projective space, likelier on the value's hyperplane.

    Attributes:
        inputs, order, polynomial: as of `LinearHashSpecification`.
        digits: t, homogeneous coordinates of a point.
        on: how many words stand for one given point on the hyperplane.
        off: how many for one off it.
    """

    channel: Literal["projective geometry"] = "projective geometry"
    inputs: int
    order: int
    polynomial: int | None
    digits: int
    on: str
    off: str


@dataclass(frozen=True, kw_only=True)
class SlidingWindowSpecification:
    """A window over the codes, whose position a coin chooses between two.

    Attributes:
        cells: N; inputs are the grid points 0 .. N.
        steps: the window has positions 0 .. steps.
        width: how many codes it holds.
        outside: of 2^64 words, how many stand for one given code outside the window.
        inside: how many for one inside it.
        lower: of each input, the position below it.
        chance: of each input, of 2^64 words how many choose the next position.
    """

    channel: Literal["sliding window"] = "sliding window"
    cells: int
    steps: int
    width: int
    outside: str
    inside: str
    lower: list[int]
    chance: list[str]


@dataclass(frozen=True, kw_only=True)
class WithUnusableSpecification:
    """A mechanism for numbers, and for not having one: one more input, and one more code.

    Attributes:
        number: what randomises numbers.
        chance: of 2^64 words, how many make a number's report say "unusable".
        shift: how far to the right of a word its column stands, in what an unusable value draws.
        threshold: of each column, the heights below which its own code is drawn.
        alias: of each column, the code above.
    """

    channel: Literal["with unusable"] = "with unusable"
    number: SlidingWindowSpecification
    chance: str
    shift: int
    threshold: list[str]
    alias: list[int]


@dataclass(frozen=True, kw_only=True)
class DummiesSpecification:
    """The value among a random number of uniform dummies.

    Attributes:
        inputs: how many values, and how many codes.
        first: the least number of dummies.
        ends: of the integers below 2^128, where those of each number of dummies end, but for the
            last one's.
    """

    channel: Literal["dummies"] = "dummies"
    inputs: int
    first: int
    ends: list[str]


@dataclass(frozen=True, kw_only=True)
class CounterLevel:
    """Counters of one kind.

    Attributes:
        slots: how many of them a report raises, empty slots included.
        counters: how many there are.
    """

    slots: int
    counters: int


@dataclass(frozen=True, kw_only=True)
class NumberUnits:
    """Numbers that are added up.

    Attributes:
        low, high: what a total is clipped to.
        origin: from which it is told.
        bound: how far from the origin it may lie.
        units: how many of them the bound has.
        sign: -1 where all totals lie below the origin.
    """

    low: float
    high: float
    origin: float
    bound: float
    units: int
    sign: int


Digits = Literal["whole", "signed", "lifted", "ends", "moments"]
"""Of totals that are at least 0; with counters of their own for negative ones; with negative ones
lifted by the least; told from both ends; likewise, with their squares."""


@dataclass(frozen=True, kw_only=True)
class GroupTotals:
    """How many rows a unit has of each of its groups, or what their numbers add up to.

    Attributes:
        groups: how many there are.
        most_groups: how many a unit may have.
        most: the largest total, in units.
        digits: which counters tell of a total: see `docs/appendix/wire.md`.
        least: the smallest total, in units, where negative ones are lifted; else 0.
        weights: of the digits of a total.
        numbers: how totals are clipped; None where rows are counted.
        averaged: whether a total is divided by the rows.
        present: whether a level of its own counts all units.
        beside: what else is told of the unit, by the places of its counters.
    """

    raises: Literal["totals"] = "totals"
    groups: int
    most_groups: int
    most: int
    digits: Digits
    least: int
    weights: list[int]
    numbers: NumberUnits | None
    averaged: bool
    present: bool
    beside: list[str]


@dataclass(frozen=True, kw_only=True)
class TreePath:
    """The path to the bin of one row, drawn uniformly; the bin after the last is for no number.

    Attributes:
        bins: how many there are.
        sizes: of each level, how many bins a node holds.
    """

    raises: Literal["path"] = "path"
    bins: int
    sizes: list[int]


@dataclass(frozen=True, kw_only=True)
class CountersSpecification:
    """Which counters a unit raises; nothing is randomised, and every slot is sealed.

    Attributes:
        levels: in the order of their slots.
        unit: what is raised.
    """

    channel: Literal["counters"] = "counters"
    levels: list[CounterLevel]
    unit: GroupTotals | TreePath


Channel = Union[  # noqa: UP007 - a name that pydantic reads on Python 3.10 as well
    KAryResponseSpecification,
    LinearHashSpecification,
    ProjectiveGeometrySpecification,
    SlidingWindowSpecification,
    WithUnusableSpecification,
    DummiesSpecification,
    CountersSpecification,
]
