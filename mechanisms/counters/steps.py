"""Funnels as counters: the furthest of several steps that a user has reached, in their order.

Every user raises one counter at the most, that of the furthest step, so the noise is that of one
count. How many reached a step is the sum of its counter and of those behind it. How long users took
from step to step is counted beside: a user raises one more counter for each step after the first.
"""

import math

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats

MOST = 16
"""Steps that a funnel may have."""


def moments(
    users: NDArray[np.int64],
    times: Floats,
    masks: NDArray[np.int64],
    n: int,
    steps: int,
    within: float = math.inf,
) -> Floats:
    """When each user reached each step.

    A user reaches a step with the first row that holds it and lies after the row of the step
    before; all rows of one moment are one row. Every row that holds step 1 may be the beginning:
    the one counts from which the user comes farthest within the time, and of several the first.

    Args:
        users: (rows,) 0 .. n - 1, in any order.
        times: (rows,) finite.
        masks: (rows,) of which bit k says whether a row holds step k + 1.
        n: how many users there are.
        steps: how many steps there are.
        within: how long after the beginning a row may be, in the unit of times.

    Returns:
        (n, steps) times, NaN of steps that were not reached.

    >>> users, masks = np.zeros(4, np.int64), np.array([0b01, 0b01, 0b11, 0b10])
    >>> times = np.array([0.0, 9.0, 9.0, 12.0])
    >>> [moments(users, times, masks, 1, 2, within)[0].tolist() for within in (np.inf, 3.0, 2.0)]
    [[0.0, 9.0], [9.0, 12.0], [0.0, nan]]
    """
    reached = np.full((n, steps), np.nan)
    order = np.lexsort((times, users))
    users, times, masks = users[order], times[order], masks[order]
    if not users.size:
        return reached
    another = np.r_[True, (users[1:] != users[:-1]) | (times[1:] != times[:-1])]
    rows = np.flatnonzero(another)
    bits = np.bitwise_or.reduceat(masks, rows)
    users, times = users[rows], np.append(times[rows], np.nan)  # and that of no row
    none = rows.size
    begun = np.flatnonzero(bits & 1)
    at, path = begun, [begun]
    for step in range(1, steps):  # all beginnings go on together
        holds = np.where(bits >> step & 1 > 0, np.arange(none), none)
        after = np.r_[np.minimum.accumulate(holds[::-1])[::-1][1:], none, none]
        at = after[at]
        own = users[np.minimum(at, none - 1)] == users[begun]  # else it is a row of another user
        at = np.where(own & (times[at] - times[begun] <= within), at, none)
        path.append(at)
    places = np.stack(path, axis=1)
    far = (places < none).sum(axis=1)
    best = np.lexsort((begun, -far, users[begun]))
    whose, first = np.unique(users[begun[best]], return_index=True)
    reached[whose] = times[places[best[first]]]
    return reached
