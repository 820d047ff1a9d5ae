"""Funnels as counters: the furthest of several steps that a user has reached, in their order.

Every user raises one counter at the most, that of the furthest step, so the noise is that of one
count. How many reached a step is the sum of its counter and of those behind it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats

MOST = 16
"""Steps that a funnel may have."""


def furthest(
    users: NDArray[np.int64],
    times: Floats,
    masks: NDArray[np.int64],
    n: int,
    within: float = math.inf,
) -> NDArray[np.int64]:
    """The furthest step of each user.

    A user reaches a step with a row that holds it and lies after the row of the step before; all
    rows of one moment are one row. Every row that holds step 1 may be the beginning, and the one
    counts from which the user comes farthest within the time.

    For each row and step the latest beginning is kept from which the step was reached by then:
    whatever an earlier one still reaches in time, a later one reaches, too. So a maximum that runs
    along the rows tries all beginnings, in as many passes as there are steps.

    Args:
        users: (rows,) 0 .. n - 1, in any order.
        times: (rows,) finite.
        masks: (rows,) of which bit k says whether a row holds step k + 1.
        n: how many users there are.
        within: how long after the beginning a row may be, in the unit of times.

    Returns:
        (n,) 0 of who has not begun.

    >>> users, masks = np.zeros(4, np.int64), np.array([0b01, 0b01, 0b11, 0b10])
    >>> times = np.array([0.0, 9.0, 9.0, 12.0])
    >>> [int(furthest(users, times, masks, 1, within)[0]) for within in (np.inf, 3.0, 2.0)]
    [2, 2, 1]
    """
    far = np.zeros(n, np.int64)
    order = np.lexsort((times, users))
    users, times, masks = users[order], times[order], masks[order]
    if not users.size:
        return far
    another = np.r_[True, (users[1:] != users[:-1]) | (times[1:] != times[:-1])]
    moments = np.flatnonzero(another)
    bits = np.bitwise_or.reduceat(masks, moments)
    users, times = users[moments], times[moments]
    place = np.arange(users.size)
    first = np.searchsorted(users, users)  # of each row, the first one of its user
    begun = np.where(bits & 1, place, -1)  # the beginning, by its place, of who gets here now
    for step in range(1, MOST + 1):
        latest = np.maximum.accumulate(begun)
        reached = latest >= first  # for before it are beginnings of other users
        if not reached.any():
            break
        far[users[reached]] = step
        before = np.r_[-1, latest[:-1]]
        near = times - times[np.maximum(before, 0)] <= within
        begun = np.where(near & (bits >> step & 1 > 0), before, -1)
    return far
