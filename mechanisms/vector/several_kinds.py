"""Exact laws of reports that consist of several independent parts, by their kinds."""

import math
from collections import Counter
from collections.abc import Mapping

from mechanisms.channel import Kinds
from mechanisms.vector.rows import LARGEST_LISTED


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
