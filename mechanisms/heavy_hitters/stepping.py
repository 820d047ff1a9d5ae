"""The steps and the division of the users with which the least frequent strings are found.

For a string of a given frequency each level needs some number of users, which depends on where
the level begins and ends alone. So the best steps are a shortest path, and the least frequency is
the one at which that path needs as many users as there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.heavy_hitters.schedule import MISSED, Schedule, Search, row_tail

ROWS, LAST_ROWS = 4, 6  # groups at each level, and at the last: more gain next to nothing

LARGEST_EXTENSION = 1 << 22  # ways to go on that are held in memory
_LARGEST_LEVEL = 1 << 24  # candidates of a level: a second's work
_PARTS = 1 << 12  # into which the users are divided


def best_schedule(code: PrefixCode, oracle: FrequencyOracle, n: int, search: Search) -> Schedule:
    """The schedule with the least detection limit, on a normal approximation.

    Args:
        code: of the strings.
        oracle: of the buckets.
        n: how many users are expected.
        search: what is followed.
    """
    low, high = 1e-9, 1.0  # at 1 nothing is found, and the least bad steps are still wanted
    best = _best_path(code, oracle, high, search)
    while high / low > 1 + 1e-3:
        middle = math.sqrt(low * high)
        path = _best_path(code, oracle, middle, search)
        if path.users <= n:
            best, high = path, middle
        else:
            low = middle
    return best.schedule


def symbol_by_symbol(code: PrefixCode) -> Schedule:
    """One symbol a level, all groups alike.

    Source: Bassily, Nissim, Stemmer, Thakurta, "Practical locally private heavy hitters", NIPS
        2017 (TreeHist), over any alphabet. The last level has three hashes, since a single one
        cannot tell a string from those that share its bucket.
    """
    levels = code.max_length
    return Schedule((1,) * levels, (1,) * (levels - 1) + (3,), (1,) * levels)


@dataclass(frozen=True)
class _Path:
    """Levels, how many users each of their groups needs, and how many all of them need."""

    steps: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    groups: tuple[float, ...] = ()
    users: float = 0.0

    def then(self, step: int, rows: int, group: float) -> _Path:
        """The path with one more level."""
        total = self.users + rows * group
        return _Path((*self.steps, step), (*self.rows, rows), (*self.groups, group), total)

    @property
    def schedule(self) -> Schedule:
        shares = (1,) * len(self.steps)
        if 0 < self.users < math.inf:
            parts = np.rint(_PARTS * np.array(self.groups) / self.users).astype(int)
            shares = tuple(np.maximum(parts, 1).tolist())
        return Schedule(self.steps, self.rows, shares)


def _best_path(
    code: PrefixCode, oracle: FrequencyOracle, frequency: float, search: Search
) -> _Path:
    """The levels that need fewest users for strings of a frequency."""
    levels = 0
    while True:  # how much each level may miss depends on how many there are
        need = _need(oracle, frequency, MISSED / max(levels, 1))
        path = _shortest_path(code, search, need)
        if len(path.steps) <= levels:
            return path
        levels = len(path.steps)


Need = Callable[[float, int], float]


def _need(oracle: FrequencyOracle, frequency: float, missed: float) -> Need:
    """How many users a group needs, given how rarely chance may get as far and how many groups."""
    noise = math.sqrt(float(oracle.variance(0.0, 1)))
    spread = math.sqrt(float(oracle.variance(frequency, 1)) + frequency * (1 - frequency))
    safety = -float(special.ndtri(missed))

    def need(tail: float, rows: int) -> float:
        if tail >= 1:
            return 0.0
        allowed = row_tail(tail, rows, frequency, oracle.domain_size)
        if not allowed > 0:
            return math.inf
        reach = max(-float(special.ndtri(allowed)), 0.0) * noise
        return float(((reach + safety / math.sqrt(rows) * spread) / frequency) ** 2)

    return need


def _shortest_path(code: PrefixCode, search: Search, need: Need) -> _Path:
    """The levels that need fewest users together."""

    @cache
    def users(step: int, first: bool, last: bool) -> float | None:
        """How many each group of a level needs; None if it has more candidates than can be held."""
        growing, complete = code.growth(step, last)
        parents = 1 if first else search.beam
        ways = growing + complete
        if step > 1 and (ways > LARGEST_EXTENSION or ways * parents > _LARGEST_LEVEL):
            return None
        if last:
            return need(min(1.0, search.false_strings / (complete * parents)), LAST_ROWS)
        return need(search.followed(growing * parents), ROWS)

    best = [_Path()]
    for end in range(1, code.max_length + 1):
        last = end == code.max_length
        ways = []
        # Dynamic programming: the best way to a prefix length is the best way to a shorter one and
        # a step.
        for step in range(1, end + 1):
            group = users(step, step == end, last)
            if group is None:
                break
            ways.append(best[end - step].then(step, LAST_ROWS if last else ROWS, group))
        best.append(min(ways, key=lambda path: path.users))
    return best[-1]
