"""What all rows of a unit share: the one that it raises, in parts, where whole numbers add up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.counters.levels import Layout, Slots
from mechanisms.randomness import RandomSource
from transforms.encoders.block import NUMBERED


def shared(
    users: NDArray[np.int64], n: int, parts: int, rng: RandomSource
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """What each row has of its unit's one, which all of a unit's rows share alike.

    Where parts cannot be alike some rows have one more, drawn uniformly: of one part one row has
    it. So what any set of a unit's rows have has a variance of 1 / (4 parts) at the most, for it
    is that of a draw without replacement.

    Args:
        users: (rows,) 0 .. n - 1.
        n: how many units there are.
        parts: into how many a one is divided.
        rng: the generator of this process.

    Returns:
        (rows,) whole numbers, which add up to `parts` for each unit that has a row; and of which
        row each is.

    >>> from mechanisms.randomness import SeededRandom
    >>> shared(np.array([0, 1, 0]), 2, 5, SeededRandom(0))[0].tolist()
    [2, 3, 5]
    """
    order = np.lexsort((rng.words(users.size), users))
    many = np.bincount(users, minlength=n)
    place = np.arange(users.size) - np.repeat(np.cumsum(many) - many, many)
    of = np.repeat(many, many)
    return (place + 1) * parts // of - place * parts // of, order


def added_up(
    users: NDArray[np.int64], cells: NDArray[np.int64], n: int, parts: int, rng: RandomSource
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(k,) each: the cells that some row has, and what all rows of it have of their units' ones."""
    amounts, order = shared(users, n, parts, rng)
    places, of = np.unique(cells[order], return_inverse=True)
    totals = np.zeros(places.size, np.int64)
    np.add.at(totals, of, amounts)
    return places, totals


def counted(
    layout: Layout, sets: Sequence[Slots], totals: Slots, beside: Sequence[int]
) -> Messages:
    """(k, w) what is added to counters, as words: a row for each cell, and one for what was lost.

    Args:
        layout: of the levels, the last of which is beside the statistic's.
        sets: for each other level (cells,) the counter of each cell.
        totals: (cells,) what is added to them.
        beside: how many units lost something, for each counter of the last level.
    """
    *starts, last = layout.starts[:-1]
    width = max(len(sets), len(beside))
    words: NDArray[Any] = np.zeros((totals.size + 1, width), NUMBERED)
    words["code"] = layout.nulls[0]
    for i, (start, places) in enumerate(zip(starts, sets, strict=True)):
        words["code"][:-1, i], words["times"][:-1, i] = start + places, totals
    words["code"][-1, : len(beside)] = last + np.arange(len(beside))
    words["times"][-1, : len(beside)] = beside
    return words
