"""What users contribute: which groups they have, how much of each, and no more than they may."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats
from mechanisms.counters.levels import Slots
from mechanisms.randomness import RandomSource


class Contributions(NamedTuple):
    """What some users may contribute.

    Attributes:
        groups: (n, k) distinct groups of each user, and -1 where there is none.
        amounts: (n, k) how many rows it has of each, or what their numbers add up to.
        rows: (n, k) how many rows it has of each.
        cut: (n,) whether it has more groups than it may.
    """

    groups: Slots
    amounts: NDArray[Any]
    rows: Slots
    cut: NDArray[np.bool_]

    @classmethod
    def of_rows(cls, groups: Slots, numbers: Floats | None = None) -> "Contributions":
        """Of users who have one row each.

        Args:
            groups: (n,) of the rows, at least 0.
            numbers: (n,) of each, NaN for a row that contributes nothing; else rows are counted.
        """
        used = np.ones(groups.size, np.bool_) if numbers is None else ~np.isnan(numbers)
        rows: NDArray[Any] = used.astype(np.int32)[:, None]
        amounts = rows if numbers is None else np.where(used, numbers, 0.0)[:, None]
        kept: NDArray[Any] = np.where(used, groups, -1).astype(np.int32)[:, None]
        return cls(kept, amounts, rows, np.zeros(groups.size, np.bool_))

    @classmethod
    def drawn(
        cls, users: Slots, groups: Slots, n: int, k: int, rng: RandomSource, numbers: Floats | None
    ) -> "Contributions":
        """At most k rows of each user, drawn uniformly where there are more, each for itself.

        Args:
            users, groups, n, rng: as of `pairs`.
            k: how many rows a user may have; its groups may then be the same.
            numbers: (rows,) of each; else rows are counted.
        """
        order = np.lexsort((rng.words(users.size), users))
        owner = users[order]
        place = np.arange(owner.size) - np.searchsorted(owner, owner)
        kept = place < k
        where, order = (owner[kept], place[kept]), order[kept]
        kinds, rows = np.full((n, k), -1, np.int64), np.zeros((n, k), np.int64)
        kinds[where], rows[where] = groups[order], 1
        amounts: NDArray[Any] = rows
        if numbers is not None:
            amounts = np.zeros((n, k))
            amounts[where] = numbers[order]
        return cls(kinds, amounts, rows, np.bincount(users, minlength=n) > k)

    @property
    def averages(self) -> Floats:
        """(n, k) what a row of each group is on average; 0 where there is none."""
        return np.asarray(self.amounts / np.maximum(self.rows, 1))

    def at_most(self, most: int) -> "Contributions":
        """The same with so many rows of a group at the most; the rest is cut.

        With 1 users are counted, of whom further rows of a group say nothing more.
        """
        beyond = (self.amounts > most).any(axis=1) & (most > 1)
        return self._replace(amounts=np.minimum(self.amounts, most), cut=self.cut | beyond)


class Pairs(NamedTuple):
    """What users contribute, a pair of a user and one of its groups after the other.

    Attributes:
        users: (pairs,) ascending.
        places: (pairs,) 0, 1, .. among those of each user.
        groups: (pairs,)
        amounts: (pairs,) how many rows the user has of it, or what their numbers add up to.
        rows: (pairs,) how many rows it has of it.
        cut: (n,) whether a user has more groups than it may.
    """

    users: Slots
    places: Slots
    groups: Slots
    amounts: NDArray[Any]
    rows: Slots
    cut: NDArray[np.bool_]

    def placed(self, k: int) -> Contributions:
        """The same with k places for each user, which has no more groups."""
        shape, where = (self.cut.size, k), self.users * k + self.places
        groups, rows = np.full(shape, -1), np.zeros(shape, np.int64)
        amounts = np.zeros(shape, self.amounts.dtype)
        for column, own in ((groups, self.groups), (amounts, self.amounts), (rows, self.rows)):
            column.ravel()[where] = own
        return Contributions(groups, amounts, rows, self.cut)


def pairs(
    users: ArrayLike,
    groups: ArrayLike,
    n: int,
    k: int,
    rng: RandomSource,
    numbers: Floats | None = None,
) -> Pairs:
    """At most k groups of each user, drawn uniformly where there are more.

    Args:
        users: (rows,) 0 .. n - 1.
        groups: (rows,) of each row, at least 0.
        n: how many users there are.
        k: how many groups a user may have.
        rng: draws the groups.
        numbers: (rows,) that are added up; without them rows are counted.

    """
    kinds = np.asarray(groups)
    size = int(kinds.max(initial=0)) + 1
    # Words of 32 bits, where they suffice, are sorted and divided at half the price.
    word = np.min_scalar_type(n * size)
    keys = np.asarray(users).astype(word) * word.type(size) + kinds.astype(word)
    if (keys[1:] < keys[:-1]).any():  # not yet by users and groups
        if numbers is None:
            keys = np.sort(keys)
        else:
            order = stable_order(keys, n * size)
            keys, numbers = keys.take(order), numbers.take(order)
    new = begins(keys)
    first = np.flatnonzero(new)
    if numbers is not None:
        # One after the other, as they came: a sum of doubles hangs on that.
        sums, again = numbers.take(first), np.flatnonzero(~new)
        np.add.at(sums, again - np.arange(1, again.size + 1), numbers.take(again))
    keys = keys.take(first)
    owner = (keys // word.type(size)).astype(np.int64)
    have = np.bincount(owner, minlength=n)
    owner, place, chosen = _chosen(have, k, rng)
    kinds = (keys.take(chosen) % word.type(size)).astype(np.int64)
    rows = np.append(first, new.size).take(chosen + 1) - first.take(chosen)
    amounts: NDArray[Any] = rows if numbers is None else sums.take(chosen)
    return Pairs(owner, place, kinds, amounts, rows, have > k)


def _chosen(have: Slots, k: int, rng: RandomSource) -> tuple[Slots, Slots, Slots]:
    """Which pairs stay, of users who have so many one after the other: k of each at the most.

    The first k steps of a shuffle of Fisher and Yates for all users at once, so that nothing is
    drawn for what does not stay: to sort by random keys took three times as long.

    Returns:
        Whose each of them is, which of its user's it is, and where it stands.
    """
    starts, kept = np.cumsum(have) - have, np.minimum(have, k)
    stay = np.arange(int(have.sum()))
    cut = np.flatnonzero(have > k)
    first, left = starts.take(cut), have.take(cut).astype(np.uint64)
    for step in range(k if cut.size else 0):
        one = first + step
        other = one + rng.below(left - np.uint64(step)).astype(np.int64)
        stay[one], stay[other] = stay.take(other), stay.take(one)
    owner = np.repeat(np.arange(have.size), kept)
    within = np.arange(owner.size) - (np.cumsum(kept) - kept).take(owner)
    return owner, within, stay.take(starts.take(owner) + within)


def begins(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) where a row differs from the one before it, in any of some columns; the first does."""
    new = np.ones(columns[0].size, np.bool_)
    np.not_equal(columns[0][1:], columns[0][:-1], out=new[1:])
    for column in columns[1:]:
        new[1:] |= column[1:] != column[:-1]
    return new


def stable_order(keys: NDArray[Any], end: int) -> NDArray[np.intp]:
    """`np.argsort(keys, kind="stable")` of numbers 0 .. end - 1, at a fifth of its time.

    Where keys and places fit into a word, words are sorted, with vector instructions.
    """
    bits = keys.size.bit_length()
    if (end - 1).bit_length() + bits > 64:
        return np.argsort(keys, kind="stable")
    words = keys.astype(np.uint64) << np.uint64(bits) | np.arange(keys.size, dtype=np.uint64)
    words.sort()
    return (words & np.uint64((1 << bits) - 1)).view(np.intp)
