"""Which oracle over how many buckets finds the least frequent strings within a privacy target.

The steps and the division of the users with which the least frequent strings are found.

For a string of a given frequency each level needs some number of users, which depends on where
the level begins and ends alone. So the best steps are a shortest path, and the least frequency is
the one at which that path needs as many users as there are.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import special

from mechanisms.algebra.projective_space import ProjectiveSpace
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.projective_geometry import ProjectiveGeometry, best_shuffled, orders
from mechanisms.frequency.task import FrequencyTask
from mechanisms.heavy_hitters.levels import Levels
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import MISSED, Schedule, Search, row_tail
from mechanisms.planner import AUTO
from mechanisms.planner.search import Design, search
from mechanisms.privacy.budget import largest_local_epsilon
from mechanisms.privacy.pair_law import odds, odds_epsilon
from mechanisms.targets.rules import Target

ROWS, LAST_ROWS = 4, 6  # groups at each level, and at the last: more gain next to nothing

LARGEST_EXTENSION = 1 << 22  # ways to go on that are held in memory
_LARGEST_LEVEL = 1 << 24  # candidates of a level: a second's work
_PARTS = 1 << 12  # into which the users are divided
SYSTEMS = ("pem", "treehist")

_WIDTHS = (1 << 15, 1 << 16, 1 << 17, 1 << 18)
_LARGEST_STATE = 1 << 25  # counters: a quarter of a gigabyte
_WIDEST_BEAM = 1 << 12
_TYPICAL = 1e-3  # the frequency at which fields are compared


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

    def then(self, step: int, rows: int, group: float) -> "_Path":
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


@dataclass(frozen=True)
class FittedSearch:
    """A search that meets a privacy target.

    Attributes:
        design: the oracle and what it guarantees, which is what the whole search guarantees.
        protocol: what users run.
        search: what is followed, and what may be wrong.
        detection_limit: strings held by this share of the users are found with probability 0.9 or
            more; infinite if none is.
    """

    design: Design[FrequencyOracle]
    protocol: Protocol
    search: Search
    detection_limit: float


def fit(
    target: Target[FrequencyTask],
    code: PrefixCode,
    search: Search,
    seed: int,
    system: str = "pem",
    oracle: str = AUTO,
) -> FittedSearch:
    """The plan with the least detection limit.

    Args:
        target: what must hold; its n is the least batch, for which the levels are divided. Its
            domain size is replaced by the number of buckets.
        code: of the strings.
        search: what is followed, and what may be wrong. Where more prefixes than its beam holds
            may be frequent enough to be found, the beam is widened.
        seed: of the public hash.
        system: "pem", or "treehist": one symbol a level with one-bit Hadamard response.
        oracle: of the buckets, by its name in the catalogue, or "auto".

    Raises:
        ValueError: a name is unknown, or the target is out of reach.
    """
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {', '.join(SYSTEMS)}, not {system!r}")
    if target.model == "central":
        raise ValueError("model must be local or shuffle: users are divided before they report")
    name = "hadamard" if system == "treehist" and oracle == AUTO else oracle
    oracles = _oracles(replace(target, seed=seed), name)
    while True:
        plan = min(
            _plans(oracles, code, search, seed, symbol_by_symbol if system == "treehist" else None),
            key=lambda plan: plan.detection_limit,
        )
        # The chance survivors fill half of the beam, and half as many prefixes as there can be at
        # the limit should find room in it.
        if search.beam * plan.detection_limit >= 0.5 or search.beam >= _WIDEST_BEAM:
            return plan
        search = replace(search, beam=min(4 * search.beam, _WIDEST_BEAM))


def _plans(
    oracles: Sequence[Design[FrequencyOracle]],
    code: PrefixCode,
    search: Search,
    seed: int,
    fixed: Callable[[PrefixCode], Schedule] | None,
) -> list[FittedSearch]:
    """A plan for each oracle whose counters can be held."""
    plans, needed = [], math.inf
    for design in oracles:
        mechanism, n = design.mechanism, design.target.n
        schedule = fixed(code) if fixed else best_schedule(code, mechanism, n, search)
        counters = mechanism.codes * len(schedule.group_shares)
        if counters > _LARGEST_STATE:
            needed = min(needed, counters)
            continue
        limit = schedule.detection_limit(code, mechanism, n, search)
        plans.append(FittedSearch(design, Protocol(code, schedule, mechanism, seed), search, limit))
    if not plans:
        raise ValueError(
            f"a collector would need {needed:,} counters, more than {_LARGEST_STATE:,}; "
            "a smaller max_length, or another oracle, needs fewer"
        )
    return plans


def _oracles(target: Target[FrequencyTask], name: str) -> list[Design[FrequencyOracle]]:
    """Designs over different numbers of buckets."""
    oracles: list[Design[FrequencyOracle]] = []
    refusal = ValueError("there is no oracle")
    targets = [replace(target, task=replace(target.task, domain_size=width)) for width in _WIDTHS]
    if name == AUTO:
        spent = _spending(targets[0])  # goes by the field, whatever the width
        oracles = [Design(over, "projective", _compact_geometry(over, spent)) for over in targets]
    for over in targets:
        try:
            design = search(over, "grr" if name == AUTO else name)
            Levels(design.mechanism, (1,))  # refuses what cannot be run by levels
            oracles.append(design)
        except ValueError as error:  # too many counters over so many buckets, say
            refusal = error
    if not oracles:
        raise refusal
    return oracles


Spent = Callable[[int], float]


def _compact_geometry(target: Target[FrequencyTask], spent: Spent) -> ProjectiveGeometry:
    """Projective geometry response over a field whose space has few points to spare.

    The error is flat in the order of the field, and the state of a collector is not: it has a
    counter for each point, in each group.
    """
    width = target.task.domain_size
    # The least field for each number of digits: its space has the fewest points to spare.
    fields = {ProjectiveSpace.holding(width, q).digits: q for q in reversed(orders(width))}

    def error(q: int) -> float:
        return float(ProjectiveGeometry(spent(q), width, q).variance(_TYPICAL, 1))

    best = min(fields.values(), key=error)
    if target.rule == "local":
        return ProjectiveGeometry(target.spent, width, best)

    def family(epsilon: float) -> ProjectiveGeometry:
        return ProjectiveGeometry(epsilon, width, best)

    return family(largest_local_epsilon(*target.batch, family, best, target.cap))


def _spending(target: Target[FrequencyTask]) -> Spent:
    """About what a client may spend over each field."""
    if target.rule == "local":
        return lambda q: target.spent
    # While losses are nearly normal, a batch of n hides (r - 1)^2 / (r + q - 1) of an odds ratio
    # r over q symbols, whatever q is; the best field of all says how much that is.
    known = best_shuffled(target)
    budget = odds(known.epsilon, known.hash_range)
    return lambda q: min(odds_epsilon(budget, q), target.cap)
