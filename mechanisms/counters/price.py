"""What a footprint costs: the joint privacy loss of all counters that one user may change.

Under *add or remove* a user raises up to so many counters of each level, or no longer does; the
worst is the whole footprint. Under *replace* others are lowered as well. Which counters these are
does not matter, for all of a level have one law.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, get_args

import numpy as np

from mechanisms.channel import Neighbours
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.loss_lattice import turned
from mechanisms.privacy.loss_sums import CELLS, COARSE, LossSum, RepeatedLoss
from mechanisms.privacy.search import around, gaussian_epsilon, private_end
from mechanisms.privacy.two_bins import BinLaw

_LARGEST_EPSILON = 512.0  # a loss that is no guarantee any more
_TOLERANCE = 1e-6


def require_neighbours(neighbours: str) -> None:
    """Refuse neighbours that have no meaning here."""
    if neighbours not in get_args(Neighbours):
        known = " or ".join(get_args(Neighbours))
        raise ValueError(f"neighbours must be {known}, not {neighbours!r}")


def changes(slots: int, counters: int, neighbours: Neighbours) -> int:
    """How many counters may differ between neighbours.

    Args:
        slots: how many a user raises at the most.
        counters: of how many.
        neighbours: as above.
    """
    return slots if neighbours == "add or remove" else min(2 * slots, counters)


class Charge(NamedTuple):
    """Counters of one law that a user may change.

    Attributes:
        law: what is seen of one that is raised, and of one that is not.
        slots: k, the most that one user raises.
        counters: how many there are.
    """

    law: BinLaw
    slots: int
    counters: int

    def changes(self, neighbours: Neighbours) -> int:
        """How many of them may differ between neighbours."""
        return changes(self.slots, self.counters, neighbours)

    def repeated(self, releases: int) -> "Charge":
        """The same of so many releases, of which a user is in all."""
        return self._replace(slots=releases * self.slots, counters=releases * self.counters)

    @property
    def mirrored(self) -> bool:
        """Whether raising a counter and lowering one show the same."""
        return np.array_equal(self.law.occupied, self.law.free[::-1])

    def sides(self, raised: int, lowered: int) -> list[RepeatedLoss]:
        """So many raised and so many lowered."""
        if self.mirrored:
            return [RepeatedLoss(self.law, raised + lowered)]
        both = (RepeatedLoss(self.law, raised), RepeatedLoss(turned(self.law), lowered))
        return [part for part in both if part.times]

    def worst(self) -> list[RepeatedLoss]:
        """All changes of a replacement: an upper end where it is open which way each one goes."""
        if self.mirrored or self.counters >= 2 * self.slots:
            return self.sides(self.slots, self.changes("replace") - self.slots)
        return [RepeatedLoss(self.law, self.counters, turned(self.law))]


@dataclass(frozen=True, eq=False)
class Price:
    """The privacy loss of all counters together.

    Attributes:
        charges: the counters, at least one kind of them.
        neighbours: which two inputs are to look alike.
        cells: as in `LossSum`.

    >>> from mechanisms.counters.noise import Laplace
    >>> price = Price([Charge(Laplace(14, 1.0).seen(), 1, 1)], "add or remove")
    >>> round(price.epsilon(1e-6)[1], 6)
    1.0
    """

    charges: Sequence[Charge]
    neighbours: Neighbours
    cells: int = CELLS

    def __post_init__(self) -> None:
        require_neighbours(self.neighbours)
        if not (self.charges and all(1 <= c.slots <= c.counters for c in self.charges)):
            raise ValueError("there must be counters, and a user must raise 1 to all of each kind")

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) around delta, for the worst pair of neighbours.

        Args:
            epsilon: at least 0, in nats.
        """
        upper = self.upper(epsilon)
        return min(max(one.lower(epsilon) for one in self._shown), upper), upper

    def upper(self, epsilon: float) -> float:
        """The upper end of `delta`, at half its cost."""
        return max(one.upper(epsilon) for one in self._bounds)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """(lower, upper) around the epsilon at which a delta is met; the upper end met it.

        Args:
            delta: in (0, 1).
        """
        met = self.met(delta)
        if met == math.inf:
            shown = self.delta(_LARGEST_EPSILON)[0] > delta
            return (_LARGEST_EPSILON if shown else 0.0), math.inf

        def least(epsilon: float) -> float:
            return self.delta(epsilon)[0]

        near = met * (1 - 1e-3)
        return min(private_end(least, delta, met, 0.0, near, _TOLERANCE)[1], met), met

    def met(self, delta: float, tolerance: float = _TOLERANCE) -> float:
        """The upper end of `epsilon`, at half its cost; infinite if there is none.

        Args:
            delta: in (0, 1).
            tolerance: how far above the least it may be, relative.
        """
        require_delta(delta)
        if not self.upper(_LARGEST_EPSILON) <= delta:
            return math.inf
        spread = sum(c.changes(self.neighbours) * _chi_square(c.law) for c in self.charges)
        guess = min(max(gaussian_epsilon(math.sqrt(spread), delta), 1e-6), _LARGEST_EPSILON / 2)
        return private_end(self.upper, delta, _LARGEST_EPSILON, 0.0, guess, tolerance)[0]

    def profile(
        self, epsilon: float, added: Callable[[float], float] = lambda epsilon: 0.0
    ) -> PrivacyLoss:
        """The whole curve from above, for whoever composes it with other releases.

        Args:
            epsilon: around which it is to be sharp.
            added: epsilon -> what else there is of delta.
        """
        own = self.upper(epsilon)
        epsilons = around(epsilon, min(max(own, 1e-300), 0.4))
        coarse = replace(self, cells=COARSE)
        deltas = [(own if e == epsilon else coarse.upper(e)) + added(e) for e in epsilons]
        return PrivacyLoss.from_profile(epsilons, deltas)

    @cached_property
    def _bounds(self) -> list[LossSum]:
        """Sums of losses of which the largest is no less than any pair of neighbours loses."""
        if self.neighbours == "add or remove":
            return self._shown
        worst = [part for charge in self.charges for part in charge.worst()]
        return [LossSum(worst, self.cells)]

    @cached_property
    def _shown(self) -> list[LossSum]:
        """Pairs of neighbours that there are."""
        sides = [(c.slots, c.changes(self.neighbours) - c.slots) for c in self.charges]
        ways = [sides, [(lowered, raised) for raised, lowered in sides]]
        if all(c.mirrored for c in self.charges):
            ways = ways[:1]  # the other way round shows the same
        return [
            LossSum(
                [
                    part
                    for charge, (up, down) in zip(self.charges, way, strict=True)
                    for part in charge.sides(up, down)
                ],
                self.cells,
            )
            for way in ways
        ]


def _chi_square(law: BinLaw) -> float:
    """How far apart two laws are where both know what is seen: for a first guess."""
    shared = law.free > 0
    gap = (law.occupied - law.free)[shared]
    return float((gap * gap / law.free[shared]).sum())
