"""Rows of numbers: what vector mechanisms refuse, and what they say of their batches.

Exact laws of reports that consist of several independent parts, by their kinds.
"""

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats, Kinds, require_integer

LARGEST_DIMENSION = 1 << 20
LARGEST_LISTED = 1 << 20  # reports of which `weights` makes a table

_SLACK = 1e-9  # by which rounding may make a row longer than the radius

ACCOUNTING = (
    "numerical accountant: the privacy blanket (Balle, Bell, Gascon, Nissim 2019, Lemma 5.3) of "
    "what a user reports, whichever coordinates differ, tails added"
)
"""How shuffled batches of rows are accounted for, as a statement says it."""


def require_dimension(dimension: int) -> None:
    """Refuse a dimension that is not an integer number of coordinates, or of too many."""
    require_integer("dimension", dimension, 1, LARGEST_DIMENSION)


def require_radius(radius: float) -> None:
    """Refuse a length that is not a positive, finite number (NaN included)."""
    if not 0 < radius < math.inf:
        raise ValueError(f"radius must be a positive, finite number, not {radius}")


def require_listed(reports: int) -> None:
    """Refuse to list more reports than a table of `weights` holds."""
    if not reports <= LARGEST_LISTED:
        raise ValueError(
            f"there are more than {LARGEST_LISTED} reports, too many to list; `kinds` has their "
            "laws in closed form"
        )


def equal_share(epsilon: float, parts: int) -> float:
    """The largest double of which so many together do not exceed epsilon, or the one below it.

    >>> equal_share(1.0, 3) * 3 <= 1.0
    True
    """
    share = epsilon / parts
    # A quotient rounded up would let so many parts exceed epsilon by a hair.
    while Fraction(share) * parts > Fraction(epsilon):
        share = float(np.nextafter(share, 0))
    return share


def rows_of_numbers(values: ArrayLike, dimension: int) -> NDArray[Any]:
    """Rows as a matrix, or a ValueError that quotes none of them.

    Args:
        values: (n, dimension) numbers.
        dimension: how many numbers a row must have.

    Returns:
        (n, dimension) integers or floats; what is in them has not been looked at.

    Raises:
        ValueError: rows are of unequal or other length, or hold what is no number.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"values must be rows of {dimension} numbers each") from None
    if array.size and array.dtype.kind not in "iuf":
        raise ValueError(f"values must be rows of {dimension} numbers each, not {array.dtype}")
    if array.ndim != 2 or array.shape[1] != dimension:
        raise ValueError(
            f"values must be rows of {dimension} numbers each, not of shape {array.shape}"
        )
    return array


def rows_in_cube(values: ArrayLike, dimension: int) -> NDArray[Any]:
    """`rows_of_numbers`, all of them in [-1, 1].

    Raises:
        ValueError: as `rows_of_numbers`, or some row holds another number, or none. The message
            says how many rows do.
    """
    array = rows_of_numbers(values, dimension)
    if array.size and not (-1 <= array.min() and array.max() <= 1):
        inside = np.count_nonzero(((array >= -1) & (array <= 1)).all(axis=1))
        raise ValueError(
            f"{len(array) - inside} of {len(array)} rows hold values that lie outside [-1, 1]"
        )
    return array


def shortened(values: ArrayLike, radius: float) -> Floats:
    """Rows, those that are longer than a radius made as long as it.

    Args:
        values: (n, d) finite numbers.
        radius: the most a row may measure, positive and finite.

    Returns:
        (n, d) float64.

    >>> shortened([[3.0, 4.0], [0.3, 0.4]], radius=1.0).round(2).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    require_radius(radius)
    rows = np.asarray(values, np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows * (radius / np.maximum(lengths, radius))[:, None])


def lifted(rows: NDArray[Any], radius: float) -> Floats:
    """Rows as unit vectors in one dimension more: (row, sqrt(radius^2 - |row|^2)) / radius.

    Args:
        rows: (n, d) numbers.
        radius: a length that no row exceeds.

    Returns:
        (n, d + 1) float64.

    Raises:
        ValueError: rows are longer, or hold what is no number. The message tells how many.

    >>> lifted(np.array([[3.0, 0.0]]), 5.0).tolist()
    [[0.6, 0.0, 0.8]]
    """
    rows = rows / radius
    squares = np.einsum("ij,ij->i", rows, rows)
    admitted = np.count_nonzero(squares <= (1 + _SLACK) ** 2)
    if admitted < len(rows):
        raise ValueError(
            f"{len(rows) - admitted} of {len(rows)} rows are longer than radius, or hold what "
            "is no number"
        )
    rest = np.sqrt(np.maximum(1 - squares, 0))
    return np.concatenate([rows, rest[:, None]], axis=1)


def chosen(
    sums: list[Mapping[tuple[int, int], int]], kinds: Kinds, times: int, most: int
) -> list[Mapping[tuple[int, int], int]]:
    """What reports of several coordinates come to when more coordinates may be chosen.

    Args:
        sums: entry i: the kinds of reports of i of the coordinates so far, and how many there are.
        kinds: those of one more coordinate.
        times: how many more coordinates there are, all with these kinds.
        most: the largest number of coordinates that matters.

    Returns:
        As `sums`, for all coordinates.

    Raises:
        ValueError: there are too many kinds to enumerate.

    >>> chosen([{(1, 1): 1}], {(2, 1): 1, (1, 2): 1}, times=3, most=1)[1]
    Counter({(2, 1): 3, (1, 2): 3})
    """
    powers: list[Mapping[tuple[int, int], int]] = [{(1, 1): 1}]
    for _ in range(min(times, most)):
        powers.append(_product(powers[-1], kinds))
    joined: list[Mapping[tuple[int, int], int]] = []
    for size in range(min(len(sums) - 1 + times, most) + 1):
        entry: Counter[tuple[int, int]] = Counter()
        for added in range(max(0, size - len(sums) + 1), min(size, len(powers) - 1) + 1):
            # Coordinates with the same cells are interchangeable, so sets of them are counted, not
            # listed.
            ways = math.comb(times, added)
            for kind, count in _product(sums[size - added], powers[added]).items():
                entry[kind] += ways * count
        joined.append(entry)
    return joined


def _product(one: Mapping[tuple[int, int], int], more: Kinds) -> Mapping[tuple[int, int], int]:
    """Kinds of two independent parts of a report together."""
    if not len(one) * len(more) <= LARGEST_LISTED:
        raise ValueError(f"more than {LARGEST_LISTED} kinds of reports are too many to enumerate")
    kinds: Counter[tuple[int, int]] = Counter()
    for (a, b), count in one.items():
        for (c, d), times in more.items():
            kinds[a * c, b * d] += count * times
    return kinds
