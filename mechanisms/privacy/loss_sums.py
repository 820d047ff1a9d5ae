"""What independent releases tell together: sums of privacy losses, between certified bounds.

Losses are put on a lattice and convolved by Fourier transforms. For the upper bound they dominate
the true ones (`loss_lattice.dominating`); for the lower bound they are rounded by dice, and a test
looks at their sum: what a test tells apart is lost. Either errs by the square of the step. Laws
are tilted, P(s) e^(theta s), so that the sums that decide a delta are the likely ones and rounding
errors are relative to them; what wraps around is bounded by moments.

Source: Doroshenko et al., "Connect the dots: tighter discrete approximations of privacy loss
    distributions", PoPETs 2022, Algorithm 1; Zhu, Dong, Wang, AISTATS 2022, Proposition 8.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mechanisms.privacy.divergence import require_loss
from mechanisms.privacy.loss_lattice import Lattice, Losses, dominating, larger, losses, rounded
from mechanisms.privacy.tilted_sum import REACH, STEEPEST, TiltedSum
from mechanisms.privacy.two_bins import BinLaw

_UNIT = 2.0**-53
_LARGEST = 1e303  # of a scale, beyond which it may have been cut
CELLS = 1 << 17
"""Lattice steps in the width of a sum."""
COARSE = 1 << 14
"""The same for searches and for whole curves: bounds are bounds, some 1e-4 of a delta farther."""

_FINE = 0.05  # of one loss's standard deviation: splitting adds 1/2400 to its variance


class RepeatedLoss(NamedTuple):
    """Equal, independent releases.

    Attributes:
        law: what is seen of one, `occupied` against `free`.
        times: how many there are.
        instead: another pair that each of them may be of; then only the upper bound counts.
    """

    law: BinLaw
    times: int
    instead: BinLaw | None = None


@dataclass(frozen=True, eq=False)
class LossSum:
    """The loss of independent releases about the same user.

    Attributes:
        parts: the releases, at least one.
        cells: lattice steps in the width of the sum; fewer are faster, and brackets wider.

    >>> coin = BinLaw(np.array([0.75, 0.25]), np.array([0.25, 0.75]))
    >>> lower, upper = LossSum([RepeatedLoss(coin, 1)]).delta(0.0)
    >>> bool(lower <= 0.5 <= upper < 0.5 + 1e-9)
    True
    """

    parts: Sequence[RepeatedLoss]
    cells: int = CELLS

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) around the hockey-stick divergence of the first laws from the second.

        Args:
            epsilon: at least 0, in nats.
        """
        upper = self.upper(epsilon)
        return min(self.lower(epsilon), upper), upper

    def upper(self, epsilon: float) -> float:
        """The upper end of `delta`."""
        require_loss(epsilon)
        shown = self._shown[1]
        if shown >= 1:
            return 1.0
        # What laws hide or do not know of their ratios, counted as if it told all of it.
        given = [law for p in self.parts for law in (p.law, p.instead or p.law)]
        relative = max(law.relative for law in given) + 16 * _UNIT
        blunt = self._count * (max(law.hidden for law in given) + 2.02 * relative)
        threshold = min(epsilon, STEEPEST) - blunt
        sums = TiltedSum.around(self._above, self._step, threshold, self.cells)
        over = sums.loss > threshold
        worth = sums.scale[over] * -np.expm1(threshold - sums.loss[over])
        bounded = float((sums.mass[over] + sums.error) @ worth) + sums.missed(threshold)
        blurred = sum(p.times * p.law.distance for p in self.parts)
        total = (shown + bounded) * (1 + self._count * relative + 1e-12)
        return min(1.0, total + blurred * (1 + math.exp(min(epsilon, STEEPEST))))

    def lower(self, epsilon: float) -> float:
        """The lower end of `delta`: how well a test of the sum does."""
        require_loss(epsilon)
        if epsilon > STEEPEST:
            return 0.0
        shown = self._shown[0]
        if shown >= 1:
            return 1.0
        one, other = (tuple((pair[i], times) for pair, times in self._below) for i in (0, 1))
        first = TiltedSum.around(one, self._step, epsilon, self.cells)
        # The second law is e^-loss times the first one: so tilted they look alike.
        second = TiltedSum(other, self._step, first.tilt + 1, first.places, self.cells)
        odds = math.exp(epsilon)
        known = np.maximum(first.scale, second.scale) < _LARGEST / odds
        yes = np.where(known, first.scale, 0.0) * (first.mass - first.error)
        no = odds * np.where(known, second.scale, 0.0) * (second.mass + second.error)
        gains = np.where(known, yes - no, -math.inf)
        tests = gains[::-1].cumsum()[::-1]  # "the sum is here or above, in this window"
        best = int(tests.argmax())
        wrapped = first.wrapped * float(first.scale[best])
        relative = max(p.law.relative for p in self.parts) + 4 * _UNIT
        slack = (self._count * relative + 1e-12) * float((yes + no)[best:].sum())
        gained = max(float(tests[best]) - wrapped - slack, 0.0)
        unknown = sum(p.times * (p.law.distance + p.law.missing) for p in self.parts)
        return max(shown * (1 - 1e-12) + gained - unknown * (1 + odds), 0.0)

    @cached_property
    def _count(self) -> int:
        return sum(part.times for part in self.parts)

    @cached_property
    def _losses(self) -> list[list[Losses]]:
        """Of each part, and of what it may be instead."""
        return [
            [losses(law) for law in (part.law, part.instead) if law is not None]
            for part in self.parts
        ]

    @cached_property
    def _shown(self) -> tuple[float, float]:
        """(lower, upper) chance that at least one release gives its user away."""
        below = [ways[0].unbounded for ways in self._losses]
        above = [
            max(way.unbounded + way.faint for way in ways) + part.law.missing
            for part, ways in zip(self.parts, self._losses, strict=True)
        ]
        return self._any(below), self._any(above)

    def _any(self, chances: list[float]) -> float:
        """1 - the chance that none of the independent events happens."""
        if max(chances) >= 1:
            return 1.0
        logs = (p.times * math.log1p(-c) for p, c in zip(self.parts, chances, strict=True))
        return -math.expm1(math.fsum(logs))

    @cached_property
    def _step(self) -> float:
        """Fine enough for the sum, and for what the splitting of each loss adds to it."""
        variance, likely = 0.0, 0.0
        for part, ways in zip(self.parts, self._losses, strict=True):
            loss, first = ways[0].loss, ways[0].first
            weighted = first * loss
            variance += part.times * float((weighted * loss).sum() - weighted.sum() ** 2)
            likely = likely or abs(float(loss[first.argmax()]))
        spread = math.sqrt(max(variance, 0.0)) or 1.0
        step = min(2 * REACH * spread / self.cells, _FINE * spread / math.sqrt(self._count))
        # Losses of Laplace and Gaussian noise are multiples of the likeliest; then none is split.
        return likely / math.ceil(likely / step) if likely > step else step

    @cached_property
    def _above(self) -> tuple[tuple[Lattice, int], ...]:
        """Laws of losses that dominate the parts'."""
        rows = zip(self.parts, self._losses, strict=True)
        return tuple((self._dominating(ways), part.times) for part, ways in rows)

    def _dominating(self, ways: list[Losses]) -> Lattice:
        laws = [dominating(way, self._step) for way in ways]
        ends = [way.unbounded + way.faint for way in ways]
        return laws[0] if len(laws) == 1 else larger(laws[0], laws[1], ends, self._step)

    @cached_property
    def _below(self) -> tuple[tuple[tuple[Lattice, Lattice], int], ...]:
        """Rounded losses, under the first laws and under the second."""
        rows = zip(self.parts, self._losses, strict=True)
        return tuple((rounded(ways[0], self._step), part.times) for part, ways in rows)
