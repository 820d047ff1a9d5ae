"""Totals of groups that nobody declared: which of them are published, and the noise of what is.

A unit with n of up to k groups adds a weight to each, 1 / sqrt(n) or 1 / n, and perhaps a number.
The job adds noise to both totals of each group that somebody has, and publishes those whose noisy
weight is above a threshold.

What holds: groups that others have, too, move by a loss of some delta_1, as those of `JobTotals`.
The t that a unit has alone are there with it only, each published with probability p. So with
P = 1 - (1 - p)^t, in both directions, delta(epsilon) <= P + (1 - P) delta_1(epsilon): an outcome
without groups of its own has the law (1 - P) X in one input and X' in the other, those of what
others have, and X' - e^epsilon (1 - P) X is (1 - P) (X' - e^epsilon X) + P X'. The worst case is
over n and t: the more are its own, the less moves of the others.

Source: Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin, "Differentially private set union", ICML
    2020, weighted Gaussian and weighted Laplace. There delta is halved between P and delta_1; here
    both are looked at together, and weights are whole numbers, rounded down.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Floats, Guarantee, Neighbours, require_epsilon, require_integer
from mechanisms.counters.job_noise import Law, Moves, moved
from mechanisms.counters.levels import Level, Portion, require_portions, require_unit
from mechanisms.counters.noise import recorded
from mechanisms.counters.price import require_neighbours
from mechanisms.heavy_hitters.crowds import MOST
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import RandomSource
from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum
from mechanisms.sampling.rounded_gaussian import RoundedGaussian

_GRID = 1 << 14  # weights of a hundred groups are rounded by 0.02 %, and draws are off by 1e-8
_EVERY, _STEP = 64, 1.05  # numbers of groups that are looked at one by one, and then in ranges
# Of delta, for groups that a unit has alone: no epsilon makes up for it, so where many releases are
# paid for together it adds up, and noise has what is left. A threshold is 3 % higher for it.
_ALONE = 1 / 2
_ASIDE = 1e-3  # of delta, for a unit with a few groups of its own among many others
_PARTS = 1 << 30  # of a nat: epsilons are rounded down to so many
_POINTS, _FAR = 300, 9.0  # of a profile, and how many deviations of a loss it goes


class PublishedGroups(NamedTuple):
    """Of m groups: which are published, and noisy weights and totals of these alone."""

    kept: NDArray[np.bool_]
    weights: NDArray[np.int64]
    totals: NDArray[np.int64]


@dataclass(frozen=True)
class GroupSelection:
    """Groups, the noise of their weights and of their totals, and what holds.

    Attributes:
        most_groups: k, how many of a unit count.
        selection: of the noise of weights: Laplace noise goes with weights 1 / n, Gaussian with
            1 / sqrt(n).
        threshold: the largest weight that is not published.
        parts: what is added to the totals of a group, if there are any: several alike to as many
            levels of a tree.
        laws: of the noise of these, all of them one.
        rows: of how many rows a unit adds it, once for each, and perhaps to the same group.
        neighbours: which inputs look alike.
        epsilon: of all that is published, in nats.
        delta: of the same; the chance that a group of one unit alone is there is part of it.
        unit: as of `JobTotals`.

    >>> found = GroupSelection.meeting(100, "add or remove", epsilon=1.0, delta=1e-5)
    >>> round(found.threshold / found.grid, 1), round(found.limit(1)), round(found.limit(100))
    (20.0, 25, 248)
    """

    most_groups: int
    selection: Law
    threshold: int
    parts: tuple[Portion, ...]
    laws: tuple[Law, ...]
    rows: int
    neighbours: Neighbours
    epsilon: float
    delta: float
    unit: float | None = None

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        require_neighbours(self.neighbours)
        require_unit(self.unit)
        require_integer("rows", self.rows, 1)
        require_integer("most_groups", self.most_groups, 1, MOST)
        require_integer("threshold", self.threshold, 0)
        require_portions(self.parts)
        if len(self.parts) != len(self.laws) or len({*self.laws}) > 1:
            raise ValueError("totals of a group have one law of noise")

    @classmethod
    def meeting(
        cls,
        most_groups: int,
        neighbours: Neighbours,
        epsilon: float,
        delta: float,
        parts: tuple[Portion, ...] = (),
        rows: int = 1,
        share: float = 0.5,
        releases: int = 1,
    ) -> "GroupSelection":
        """The totals that meet a target, and the threshold, by whichever law does better.

        Args:
            most_groups, neighbours, epsilon, delta, parts, rows: as above.
            share: of squared moves, or of epsilon, for the weights.
            releases: of how many releases the price is counted as one.

        Raises:
            ValueError: an argument is out of range, or the target out of reach.
        """
        if not 0 < share < 1:
            raise ValueError(f"the share of the selection must lie in (0, 1), not {share}")
        require_delta(delta)
        common = parts, most_groups, rows, neighbours, epsilon, delta
        share = share if parts else 1.0
        made = [_least(common, share, law) for law in (ExactGeometric(1, 1), RoundedGaussian(1.0))]
        if not (made := [design for design in made if design]):
            raise ValueError(
                f"epsilon {epsilon:g} at delta {delta:g} is out of reach for groups that nobody "
                "declared: have more of either, or let fewer of a user count"
            )
        # Losses of Laplace noise add up, of Gaussian noise their squares do.
        return min(made, key=lambda design: design._cost * releases ** (1 + design.divides))

    @property
    def grid(self) -> int:
        """The weight of a unit with one group."""
        return 1 if self.most_groups == 1 else _GRID

    @property
    def divides(self) -> bool:
        """Whether weights are 1 / n, and not its root."""
        return isinstance(self.selection, ExactGeometric)

    def weights(self, groups: ArrayLike) -> NDArray[np.int64]:
        """What units add to the weight of each of their groups, by how many these are."""
        n = np.asarray(groups, np.int64)
        if self.divides:
            return self.grid // n
        # The root of a whole number below 2^53, rounded down: one too many would square to more.
        roots = np.sqrt((self.grid**2 // n).astype(np.float64)).astype(np.int64)
        return roots - (roots * roots * n > self.grid**2)

    # ---- what holds ----------------------------------------------------------------------------

    @property
    def _moved(self) -> list[tuple[Any, Moves]]:
        """(noise, how far a unit moves what it is added to), of weights and of totals."""
        k, several = self.most_groups, 1 + (self.neighbours == "replace")
        weights = Moves(k * several, 1, self.grid * several, self.grid**2 * several)
        slots = k if self.rows == 1 else 1  # of a row, which is of one group
        totals = [
            moved([Level(slots, 2 * k)] * part.levels, part, self.neighbours).times(self.rows)
            for part in self.parts
        ]
        return [*zip((self.selection, *self.laws), (weights, *totals), strict=True)]

    def _unit(self) -> tuple[Floats, list[Floats]]:
        """Over how many groups a unit has, and has alone: P, and which part of each moves."""
        least, most = _ranges(self.most_groups)
        n, t = np.tril_indices(least.size)
        chance = np.minimum(self._passing(self.weights(least))[n], 1 - 1e-12)
        # The first row is a unit that has none alone; of others all but the fewest that may be.
        alone = np.append(0.0, -np.expm1(most[t] * np.log1p(-chance)))
        left, of = most[n] - least[t], (most[n], self.most_groups)
        weights, totals = (np.append(1.0, left / whole) for whole in of)
        if self.rows > 1:  # which may all be of one group
            totals = np.ceil(totals)
        if self.neighbours == "replace":  # whoever comes in its place has all that others have
            weights = totals = np.ones_like(weights)
        return alone, [weights, *[totals] * len(self.parts)]

    def _passing(self, weights: NDArray[np.int64]) -> Floats:
        """The probability that a group of one unit is published, by its weight there."""
        law, above = self.selection, self.threshold + 1 - weights
        if isinstance(law, ExactGeometric):
            slope = float(law.decay)
            tail = np.exp(-slope * np.maximum(above, 0)) / (1 + math.exp(-slope))
            return np.where(above > 0, tail, 1.0)
        passing = scipy.special.ndtr(-(above - 0.5) / law.sigma) * math.exp(law.slack)
        return np.asarray(np.minimum(passing, 1.0))

    def deltas(self, epsilons: ArrayLike) -> Floats:
        """(m,) an upper bound of delta at each of (m,) epsilons, in both directions."""
        (alone, parts), ends = self._unit(), np.asarray(epsilons, np.float64)[:, None]
        rows = [(law, m, part) for (law, m), part in zip(self._moved, parts, strict=False)]
        if self.divides:
            lost = sum(part * float(law.decay * m.all) for law, m, part in rows)
            shown = (lost > ends * (1 + 1e-15)).astype(np.float64)
        else:
            slack = 1e-12 + sum(m.totals * law.slack for law, m, _ in rows)
            mu = np.sqrt(sum(part * m.squares / law.sigma**2 for law, m, part in rows))
            mu, left = np.maximum(mu, 1e-9), ends - slack
            with np.errstate(over="ignore"):
                less = np.exp(left + scipy.special.log_ndtr(-mu / 2 - left / mu))
            shown = np.maximum(scipy.special.ndtr(mu / 2 - left / mu) - less, 0.0)
            shown = np.minimum(shown * math.exp(slack) * (1 + 1e-9), 1.0)
        worst = (alone + (1 - alone) * shown).max(axis=1) * (1 + 1e-9)
        return np.asarray(np.minimum(worst, 1.0))

    @cached_property
    def guarantee(self) -> Guarantee:
        """What holds against who sees the groups and their totals.

        Raises:
            ValueError: the noise is too small for what is claimed, or the threshold too low.
        """
        if not self.deltas([self.epsilon])[0] <= self.delta:
            raise ValueError(
                f"this does not meet epsilon {self.epsilon} at delta {self.delta}: see `meeting`"
            )
        return Guarantee(
            "central", self.epsilon, self.delta, "user",
            "closed form: noise on weights and totals, and a threshold; delta covers that a group "
            f"of one unit alone passes it ({self.neighbours})", self.neighbours,
        )  # fmt: skip

    def profile(self) -> PrivacyLoss:
        """The curve that a ledger composes; under add or remove, that of a replacement with it."""
        own = self._curve()
        if self.neighbours == "replace":
            return own
        return replace(own, apart=replace(self, neighbours="replace")._curve())

    def _curve(self) -> PrivacyLoss:
        """The bound of delta at some epsilons, that which is claimed among them."""
        if self.divides:
            ends = np.array([sum(float(law.decay * m.all) for law, m in self._moved)])
        else:
            mu = math.sqrt(sum(m.squares / law.sigma**2 for law, m in self._moved))
            ends = np.linspace(0, mu**2 / 2 + _FAR * mu, _POINTS)
        ends = np.unique(np.append(ends * (1 + 1e-12), self.epsilon))
        return PrivacyLoss.from_profile(ends, self.deltas(ends))

    # ---- the job -------------------------------------------------------------------------------

    def publish(self, weights: ArrayLike, totals: ArrayLike, rng: RandomSource) -> PublishedGroups:
        """Noise on (m,) weights and (m, L) totals of groups that somebody has, drawn once."""
        noisy = np.asarray(weights, np.int64) + self.selection.draw(np.size(weights), rng)
        kept, exact = noisy > self.threshold, np.array(totals, np.int64)
        for law in self.laws[:1]:
            exact[kept] += law.draw(exact[kept].size, rng).reshape(-1, exact.shape[1])
        return PublishedGroups(kept, noisy[kept], exact[kept])

    # ---- what is known of its errors, as of `JobTotals` ----------------------------------------

    messages = 0.0  # what units contribute never leaves the job
    number = 0  # there are no dummies
    codes = 1  # nor counters

    def limit(self, groups: int = 1) -> float:
        """How many units, of so many groups each, all but surely get a group published."""
        need = self.threshold + 1 + self.selection.isf(MISSED)
        return float(need / self.weights(groups))

    @property
    def _cost(self) -> float:
        """What is to be small: how many units a group takes, and noise, of users of sqrt(k)."""
        spread = math.sqrt(self.law.var()) if self.laws else 1.0
        return self.limit(math.isqrt(self.most_groups)) * spread

    @property
    def law(self) -> Law:
        """Of the noise of totals; of weights, where these are all that there is."""
        return self.laws[0] if self.laws else self.selection

    @property
    def column_variance(self) -> float:
        """Of a total."""
        return self.law.var()

    @property
    def variances(self) -> list[float]:
        """Of totals of each part, and of what stands beside them elsewhere: nothing."""
        return [*(law.var() for law in self.laws), 0.0]

    @property
    def lifts(self) -> list[int]:
        """How far one unit raises a total of each level, at the most."""
        parts = [part for part in self.parts for _ in range(part.levels)]
        return [max(part.high, -part.low) * self.rows for part in parts]

    def error_law(self, columns: int = 1, taken: int = 0) -> Law | IntegerNoise:
        """The exact law of the error of so many totals, as of `JobTotals`."""
        del taken
        law = self.law
        return law if columns == 1 else weighted_sum([(law.first, law.pmf, 1)] * columns)

    @property
    def constants(self) -> dict[str, Any]:
        """What the noise is, for statements."""
        said = {"threshold": self.threshold / self.grid, "grid": self.grid, "rows": self.rows}
        noise = recorded((self.selection, *self.laws))
        return said | {"parts": [list(part) for part in self.parts], "noise": noise}


def _ranges(most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where ranges of the numbers 1 .. most begin and end: of one number each, then longer ones."""
    ends = [*range(1, min(most, _EVERY) + 1)]
    while ends[-1] < most:
        ends.append(min(int(ends[-1] * _STEP) + 1, most))
    last = np.array(ends, np.int64)
    return np.append(1, last[:-1] + 1), last


@lru_cache(maxsize=256)  # it is asked for again wherever a plan is looked at
def _least(common: tuple[Any, ...], share: float, like: Law) -> GroupSelection | None:
    """The totals with noise like some and the least threshold that meet a target, if any do."""
    (parts, k, *said), kind = common, type(like)
    shape = GroupSelection(k, like, 0, parts, (like,) * len(parts), *said)
    neighbours, epsilon, delta = said[1:]
    aside, slack, laws = _ALONE if neighbours == "replace" else _ASIDE, 0.0, list[Law]()
    moves = [m for _, m in shape._moved]
    own = [(1 - share) / max(len(parts), 1)] * len(parts)
    shares = [*zip((share, *own), moves, strict=True)]
    try:
        if kind is ExactGeometric:
            spent = [int(epsilon * part * _PARTS * (1 - 1e-9)) for part, _ in shares]
            pairs = zip(spent, moves, strict=True)
            laws = [ExactGeometric.falling(Fraction(part, _PARTS) / m.all) for part, m in pairs]
        for _ in range(3 * (kind is RoundedGaussian)):  # what a draw is off by goes with the noise
            mu = gaussian_mu(epsilon - slack, delta * (1 - aside)) * (1 - 1e-6)
            noise = [RoundedGaussian(math.sqrt(m.squares / part) / mu) for part, m in shares]
            slack = 1.1 * sum(m.totals * law.slack for law, m in zip(noise, moves, strict=True))
            laws = [*noise]
    except ValueError:
        return None
    made = replace(shape, selection=laws[0], laws=tuple(laws[1:]))
    low, high = 0, int(made.grid + 64 * math.sqrt(made.selection.var()))  # rarer than any delta

    def met(threshold: int) -> bool:
        design = replace(made, threshold=threshold)
        alone = design._unit()[0].max()
        return bool(alone <= delta * _ALONE and design.deltas([epsilon])[0] <= delta)

    if not met(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle + 1, high)
    return replace(made, threshold=low)
