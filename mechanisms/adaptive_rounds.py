"""Releases by a job of which each may depend on what those before it have published."""

from __future__ import annotations

from dataclasses import dataclass

from mechanisms.channel import AnyNeighbours, Guarantee, together
from mechanisms.counters.job_totals import JobTotals
from mechanisms.distribution.quantile_choice import QuantileChoice
from mechanisms.heavy_hitters.group_selection import GroupSelection


@dataclass(frozen=True)
class AdaptiveRounds:
    """What each round may cost is fixed before the first, and adds up.

    Attributes:
        rounds: each with the epsilon and delta that it may cost.

    Raises:
        ValueError: there is no round.

    Source: Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, Theorem B.1.

    >>> from mechanisms.counters.job_totals import JobTotals, Level
    >>> parts = [JobTotals.meeting([Level(1, 1)], "replace", x, 0.0) for x in (0.25, 0.75)]
    >>> AdaptiveRounds(tuple(parts)).guarantee.epsilon
    1.0
    """

    rounds: tuple[JobTotals | QuantileChoice | GroupSelection, ...]

    def __post_init__(self) -> None:
        if not self.rounds:
            raise ValueError("there must be a round at least")

    @property
    def neighbours(self) -> AnyNeighbours:
        """Those for which all rounds hold."""
        return self.guarantee.neighbours

    @property
    def guarantee(self) -> Guarantee:
        """What holds against who sees all rounds.

        Raises:
            ValueError: the noise of one is too small for what it may cost.
        """
        return together(one.guarantee for one in self.rounds)

    def require_met(self, epsilon: float, delta: float) -> None:
        """Refuse, by a ValueError, a promise that this noise is too small for."""
        met = self.guarantee
        # Sums of decimals end in other digits, whoever adds them up.
        if not (met.epsilon <= epsilon * (1 + 1e-9) and met.delta <= delta):
            raise ValueError(f"these rounds do not meet epsilon {epsilon} at delta {delta}")
