"""Which row of a user stays: that of the least of random priorities; or several different ones."""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.counters.contributions import begins, pairs, stable_order
from mechanisms.randomness import RandomSource
from transforms.encoders.block import concatenated, taken
from transforms.encoders.strings import distinct

USERS, PRIORITIES = "users", "priorities"
_APPLIES, _CELLS = "applies", "cells"
_LAST = np.uint16(1 << 15)  # added to a priority, it comes after all without it
_BYTES = 1 << 22  # of rows read between two compactions of a bucket's state
_FEW_ALIKE = 4  # bits fewer than let two of as many users as rows be alike in every other bucket
_ROUNDS = 3  # in which rows look for a place of their user


class Chooser:
    """One row of each user, that of the least priority, however many rows come.

    Args:
        compact_at: bytes between two compactions, at the least.

    Attributes:
        came: how many rows it was told of.
    """

    def __init__(self, compact_at: int = _BYTES) -> None:
        self._compact_at, self.came = compact_at, 0
        self._parts: list[NDArray[np.void]] = []
        self._stayed = self._waiting = 0

    @property
    def size(self) -> int:
        """The bytes of rows that it holds."""
        return self._stayed + self._waiting

    def add(self, rows: NDArray[np.void], came: int) -> None:
        """Take more rows, with their priorities, chosen from so many."""
        self.came += came
        self._parts.append(rows)
        self._waiting += rows.nbytes
        # No fewer than have stayed: else many users are gone through again for every few rows.
        if self._waiting >= max(self._compact_at, self._stayed):
            self.rows()

    def rows(self) -> NDArray[np.void]:
        """Those that stay, each with the priority it drew: new ones favour late rows.

        Of a user whose least priority several rows have drawn all of these stay.
        """
        rows = concatenated(self._parts)
        if self._waiting:
            users, drawn = (np.ascontiguousarray(rows[name]) for name in (USERS, PRIORITIES))
            rows = taken(rows, _least_per_group(users, drawn))
        self._parts, self._stayed, self._waiting = [rows], rows.nbytes, 0
        return rows


def choose_one_per_user(
    pieces: Iterable[NDArray[np.void]], rng: RandomSource, compact_at: int = _BYTES
) -> NDArray[np.void]:
    """One uniformly chosen row of each user.

    Args:
        pieces: rows of one layout, in any split and order; at least one piece.
        rng: draws the priorities of rows that have none.
        compact_at: bytes read between two compactions, at the least.

    Returns:
        (users,) rows with their priorities, in no meaningful order.
    """
    chooser = Chooser(compact_at)
    for rows in pieces:
        chooser.add(_prioritised(rows, rng), rows.size)
    return _settled(chooser.rows(), rng)


def choose_distinct(rows: NDArray[np.void], most: int, rng: RandomSource) -> NDArray[np.void]:
    """Up to so many rows of each user, no two of one user with the same cells.

    Args:
        rows: of one layout, all of each user; those for which something does not hold that must
            are left out.
        most: of a user.
        rng: draws which of them stay of users who have more, each of their cells as likely.
    """
    if _APPLIES in (rows.dtype.names or ()):
        rows = rows[rows[_APPLIES]]
    columns = [*map(np.ascontiguousarray, np.atleast_2d(rows[_CELLS].T))]
    marks = reduce(np.bitwise_xor, columns)
    names, users, order = by_user(rows[USERS], marks)
    new = begins(users, *(column.take(order) for column in columns))
    if np.count_nonzero(new) > np.count_nonzero(begins(users, marks.take(order))):
        # A user has different cells of one mark, which may lie among each other.
        marks = distinct(np.stack(columns, axis=1))[1]
        names, users, order = by_user(rows[USERS], marks)
        new = begins(users, marks.take(order))
    chosen = pairs(users, np.cumsum(new) - 1, names.size, most, rng)
    return taken(rows, order.compress(new).take(chosen.groups))


def by_user(
    users: NDArray[np.uint64], beside: NDArray[Any]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.intp]]:
    """Rows of one bucket by their users, those of one user by what else there is of each.

    Args:
        users: (n,) digests.
        beside: (n,) integers, at least 0; those of one user that are equal stay as they came.

    Returns:
        (m,) the different users, ascending; (n,) which of them each row in that order is of; and
        (n,) the order.

    >>> by_user(np.array([7, 5, 7], np.uint64), np.array([1, 0, 0]))
    (array([5, 7], dtype=uint64), array([0, 1, 1]), array([1, 2, 0]))
    """
    users = np.ascontiguousarray(users)
    places, bits = users.size.bit_length(), int(beside.max(initial=0)).bit_length()
    # Of a digest the bits beyond what all share, as many as a word has room for.
    spread = int((users ^ users[:1]).max(initial=0)).bit_length()
    words, room = users << np.uint64(min(64 - spread, 63)), 64 - places
    # So many bits tell users of a bucket apart, or all but a few: one sort does, most of the time.
    if room - bits >= 2 * places - _FEW_ALIKE:
        keys = words >> np.uint64(64 - room + bits) << np.uint64(bits) | beside.astype(np.uint64)
        order = stable_order(keys, 1 << room)
        ordered = users.take(order)
        if not (ordered[1:] < ordered[:-1]).any():
            new = begins(ordered)
            return ordered.compress(new), np.cumsum(new) - 1, order
    order = stable_order(words >> np.uint64(64 - room), 1 << room)
    ordered = users.take(order)
    if (ordered[1:] < ordered[:-1]).any():
        order = np.argsort(users, kind="stable")
        ordered = users.take(order)
    new = begins(ordered)
    numbers = np.cumsum(new) - 1
    keys = numbers.astype(np.uint64) << np.uint64(bits) | beside.take(order).astype(np.uint64)
    order = order.take(stable_order(keys, int(numbers.size and numbers[-1] + 1) << bits))
    return ordered.compress(new), numbers, order


def _settled(rows: NDArray[np.void], rng: RandomSource) -> NDArray[np.void]:
    """One row of each user, of those that have drawn the same priority: they draw on."""
    users = np.ascontiguousarray(rows[USERS])
    one = _least_per_group(users, np.arange(rows.size, dtype=np.uint32))
    if one.size == rows.size:
        return rows
    tied = np.isin(users, np.delete(users, one))
    several = taken(rows, np.flatnonzero(tied))
    drawn = taken(several, _least_per_group(users[tied], rng.permutation(several.size)))
    return concatenated([taken(rows, np.flatnonzero(~tied)), drawn])


def _prioritised(rows: NDArray[np.void], rng: RandomSource) -> NDArray[np.void]:
    """Rows with priorities: those that they have, or new ones."""
    names = rows.dtype.names or ()
    if PRIORITIES in names:
        return rows
    ranked = np.empty(rows.size, [*((n, rows.dtype[n]) for n in names), (PRIORITIES, np.uint16)])
    for name in names:
        ranked[name] = rows[name]
    applies = rows[_APPLIES] if _APPLIES in names else None
    ranked[PRIORITIES] = priorities(rows.size, applies, rng)
    return ranked


def priorities(
    size: int, applies: NDArray[np.bool_] | None, rng: RandomSource
) -> NDArray[np.uint16]:
    """(n,) uniform words; those of rows for which something does not hold that must come last.

    Short ones, for they travel: a user's rows tie once in 65,536 pairs, and then they draw on.
    """
    drawn = (rng.words(size) >> np.uint64(48)).astype(np.uint16)
    if applies is None:
        return drawn
    return (drawn >> np.uint16(1)) + np.where(applies, np.uint16(0), _LAST)


def _least_per_group(
    groups: NDArray[np.uint64], keys: NDArray[np.unsignedinteger[Any]]
) -> NDArray[np.intp]:
    """Indices of the rows with the least key of each group; all of those that have the same one.

    Each group has a slot of a table, by some of its bits, and the last of those that share one owns
    it. Rows of the others look for a slot by further bits, and in the end are sorted: a third of
    the time that sorting all takes.
    """
    worst = keys.dtype.type(np.iinfo(keys.dtype).max)
    left, places = np.arange(groups.size), []
    for turn in range(_ROUNDS):
        size = 1 << left.size.bit_length()
        slots = ((groups >> np.uint64(16 * turn)) & np.uint64(size - 1)).view(np.intp)
        owner = np.empty(size, np.uint64)
        owner[slots] = groups
        owned = owner.take(slots) == groups
        least = np.full(size, worst)
        np.minimum.at(least, slots, np.where(owned, keys, worst))
        places.append(left.take(np.flatnonzero(owned & (least.take(slots) == keys))))
        others = np.flatnonzero(~owned)
        left, groups, keys = left.take(others), groups.take(others), keys.take(others)
    order = np.lexsort((keys, groups))
    groups, keys = groups.take(order), keys.take(order)
    first = np.searchsorted(groups, groups)
    return np.concatenate([*places, left.take(order[keys == keys.take(first)])])
