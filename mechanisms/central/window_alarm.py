"""Whether a count is above a threshold, window by window, at one price: the sparse vector, kept.

A noisy threshold is drawn for the first window, and stays secret until one is above it. A unit may
be in every window: as long as all counts move one way, windows that are passed over cost nothing
(see `FirstAbove`). So epsilon is divided among alarms, and not among windows.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from mechanisms.central.exponential import FirstAbove
from mechanisms.channel import Guarantee, Neighbours, require_epsilon, require_integer
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import RandomSource
from mechanisms.running.totals import Contribution, TotalsState


@dataclass(frozen=True)
class WindowAlarm:
    """Alarms of the windows of a horizon; members are as of `RunningTotals` where not said.

    Attributes:
        epsilon: of all windows together, in nats.
        above: the public threshold: an alarm is of a window with more.
        horizon: how many windows there are.
        firings: how many may be above; then nothing more is looked at.
        most: by how much a unit raises the count of each window, at the most.

    Source: Lyu, Su, Li, "Understanding the sparse vector technique for differential privacy", VLDB
        2017, Algorithm 1; a new threshold for each alarm, whose losses add up.

    >>> from mechanisms.randomness import SeededRandom
    >>> alarm, rng = WindowAlarm(epsilon=40.0, above=100, horizon=3), SeededRandom(1)
    >>> quiet, state = alarm.added(alarm.begin(), [90], rng)
    >>> alarm.added(state, [120], rng)[0], quiet, alarm.over(state)
    ([1], [0], '')
    """

    epsilon: float
    above: int
    horizon: int
    firings: int = 1
    most: int = 1

    totals: ClassVar[int] = 1
    neighbours: ClassVar[Neighbours] = "add or remove"

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        for name in ("horizon", "firings", "most"):
            require_integer(name, getattr(self, name), 1)

    @cached_property
    def vector(self) -> FirstAbove:
        """What one alarm is drawn from."""
        return FirstAbove.of_epsilon(self.epsilon / self.firings * (1 - 1e-12), self.most)

    @property
    def delta(self) -> float:
        """Of all windows together: what the ends of the noise tables take, on either side."""
        return (1 + math.exp(self.epsilon)) * self.firings * self.vector.distance(self.horizon)

    def require_priced(self, epsilon: float, delta: float) -> None:
        """Refuse noise that is not what is paid for."""
        if not (self.epsilon <= epsilon and self.delta <= delta):
            raise ArithmeticError("the noise of an alarm is not what it is paid for")

    require_met = require_priced  # a promise, too

    def guarantee(self, epsilon: float, unit: str, condition: str = "") -> Guarantee:
        """What holds of all windows together."""
        alarms = f"each of {self.firings:,} alarms" if self.firings > 1 else "the one alarm"
        how = (
            "closed form: sparse vector (Lyu, Su, Li 2017, Algorithm 1) of counts that a unit "
            f"moves one way, with a threshold for {alarms}; delta is the mass at the ends of the "
            "noise tables"
        )
        return Guarantee("central", epsilon, self.delta, unit, how, "add or remove", condition)

    @property
    def profile(self) -> PrivacyLoss:
        """What all windows together reveal, at every epsilon."""
        return PrivacyLoss.from_guarantee(self.guarantee(self.epsilon, "record"))

    @property
    def contribution(self) -> Contribution:
        """A unit may be in all windows."""
        return Contribution(self.most, 1, self.horizon)

    @property
    def constants(self) -> dict[str, Any]:
        """What a statement says of it."""
        noises = self.vector.threshold_noise.epsilon, self.vector.query_noise.epsilon
        source = "Lyu, Su, Li 2017, Algorithm 1: a noisy threshold, kept until a window is above it"
        return {"name": "window-alarm", "epsilons": noises, "source": source}

    def standard_error(self, day: int, window: int | None = None) -> float:
        """Of the comparison, in any window."""
        return self.vector.standard_error

    def clear(self, risk: float) -> tuple[int, int]:
        """How far below the threshold all counts are, or above it one is, to be taken for it.

        Args:
            risk: of an alarm in any window of the horizon; of none in the one: by the exact law.
        """
        passes, places = self.vector.passes, range(1 << 40)
        quiet = bisect_left(places, 1 - risk, key=lambda away: passes(-away, 1, self.horizon))
        return quiet, bisect_left(places, -risk, key=lambda away: -passes(away, 1, 1))

    def begin(self) -> TotalsState:
        """Before the first window: `buffers` will hold the noisy threshold, `before` the alarms."""
        return TotalsState(0, (), (0,))

    def over(self, state: TotalsState) -> str:
        """What there are no more of; empty if another window can be looked at."""
        alarms = f"all alarms ({self.firings:,})" * (state.before[0] >= self.firings)
        return alarms or f"all {self.horizon:,} windows" * (state.day >= self.horizon)

    def added(
        self, state: TotalsState, numbers: Sequence[int], rng: RandomSource
    ) -> tuple[list[int], TotalsState]:
        """Whether one more window, of one exact count, is above: ([1 or 0], the state after it)."""
        if said := self.over(state):
            raise ValueError(f"{said} were drawn")
        drawn, noise = state.buffers, self.vector.threshold_noise
        drawn = drawn or ((int(noise.perturb([self.above + 1], rng)[0]),),)
        fired = int(self.vector.query_noise.perturb([*numbers], rng)[0]) >= drawn[0][0]
        kept = () if fired else drawn
        return [int(fired)], TotalsState(state.day + 1, kept, (state.before[0] + fired,))
