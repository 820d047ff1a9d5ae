"""How often each value occurs in a population's random subsets, without drawing the subsets.

The counts depend on each other, since every subset has its fixed size, but not on who drew what:
taking the values one after the other, it is enough to know how many users have how many members
yet to place. Of users who have r to place among L remaining values, each places one on the next
value with probability r / L. Users differ in the value that is their own, which the uniform part
of their subset leaves out; until that value's turn comes, nothing tells them apart, so its
holders are a random choice from all who still wait for theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts
from mechanisms.randomness import SeededRandom


def subset_counts(histogram: Counts, size: int, keep: float, rng: SeededRandom) -> Counts:
    """The counts of subset selection reports of a simulated population.

    Time grows as domain_size sqrt(size), whatever the number of users.

    Args:
        histogram: (d,) int64, how many users hold each value; fewer than 10^9 in all.
        size: members of each user's subset, in 1 .. d - 1.
        keep: the probability that a subset holds its user's own value.
        rng: repeatable randomness.

    Returns:
        (d,) int64, the number of subsets that hold each value: their joint law, exact up to the
        rounding of numpy's binomial and hypergeometric generators.

    Raises:
        ValueError: a number of users is negative, or there are too many.
    """
    d, source = histogram.size, rng.generator()
    n = int(histogram.sum())
    truthful = int(source.binomial(n, keep))
    # Users by how many others they have yet to place (`least` + position) in three rows: own value
    # to come and not in the subset; to come and in it; past.
    least, pool = size - 1, np.array([[0, n - truthful], [truthful, 0], [0, 0]])
    counts = np.zeros(d, np.int64)
    for value, holders in enumerate(histogram.tolist()):
        chosen = source.multivariate_hypergeometric(pool[:2].ravel(), holders).reshape(2, -1)
        pool[:2] -= chosen
        # Users whose own value is yet to come have one value fewer to place others on.
        others_left = np.array([[d - 1 - value], [d - 1 - value], [d - value]])
        chance = (least + np.arange(pool.shape[1])) / np.maximum(others_left, 1)
        placed = source.binomial(pool, np.minimum(chance, 1.0))
        counts[value] = chosen[1].sum() + placed.sum()
        pool -= placed
        pool[2] += chosen.sum(axis=0)
        least, pool = _trimmed(least - 1, _one_fewer(pool, placed))
    return counts


def _one_fewer(stay: NDArray[np.int64], placed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those who placed a member move one position down, to a column put in front."""
    none = np.zeros((3, 1), np.int64)
    return np.hstack([none, stay]) + np.hstack([placed, none])


def _trimmed(least: int, pool: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """Without the empty columns at either end."""
    occupied = np.flatnonzero(pool.any(axis=0))
    if not occupied.size:
        return 0, pool[:, :1]
    first, last = int(occupied[0]), int(occupied[-1])
    return least + first, pool[:, first : last + 1]
