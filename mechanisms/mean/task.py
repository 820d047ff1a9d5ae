"""The mean of numbers: a question to a population."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from mechanisms.frequency.hash_budget import largest_local_epsilon
from mechanisms.mean.scalar import ScalarMean, require_cells, require_slack
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.registry import Registration
from mechanisms.targets.rules import Target, Task, at

_Averaging = TypeVar("_Averaging", ScalarMean, WithUnusable)

LOCAL_CELLS, SHUFFLE_CELLS = 1024, 256


@dataclass(frozen=True)
class _Mean(Task[_Averaging]):
    """A mean of numbers in [-1, 1]."""

    cells: int | None = None

    name: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        if self.cells is not None:
            require_cells(self.cells)

    def require_delta(self, model: str, delta: float) -> None:
        """Refuse what no single report may have."""
        require_slack(delta)

    def grid(self, target: Target[Any]) -> int:
        """How many cells, where nobody said."""
        if self.cells is not None:
            return self.cells
        # Where a report spends much, its accountant's time goes by the number of codes.
        return SHUFFLE_CELLS if target.model == "shuffle" else LOCAL_CELLS

    def error(self, mechanism: _Averaging, n: int) -> float:
        """The largest mean squared error of the mean of n values, in squared units of a value."""
        return mechanism.worst_variance / n

    def offers(self, target: Target[Any]) -> Mapping[str, Any]:
        # In the local model a report spends delta too, if it can.
        delta = target.delta if target.model == "local" and target.delta > 0 else None
        return {"cells": self.grid(target), "delta": delta}

    def wanting(self, target: Target[Any]) -> Mapping[str, str]:
        advice = "name a --delta" if target.model == "local" else "use the local model"
        zero = f"which is 0 here in the {target.model} model"
        return {"delta": f"a delta of every single report, {zero}; {advice}"}

    def shortlist(
        self, target: Target[Any], candidates: Sequence[Registration]
    ) -> Sequence[Registration]:
        """The best at what k-ary response may spend in a shuffled batch.

        What a batch lets a report spend hardly depends on the family: the one whose accountant is
        the fastest ranks them all.
        """
        if target.rule != "shuffle":
            return candidates
        spend = largest_local_epsilon(*target.batch, self.grid(target) + 1, cap=target.cap)
        worst: dict[Registration, float] = {}
        for one in candidates:
            try:
                mechanism = at(one, target, min(spend, one.largest_epsilon))
            except ValueError:  # outside the range of this one, say
                continue
            worst[one] = mechanism.worst_variance
        return [min(worst, key=worst.__getitem__)] if worst else candidates


class MeanTask(_Mean[ScalarMean]):
    """The mean of numbers in [-1, 1] of users who all have one."""


class UsableMeanTask(_Mean[WithUnusable]):
    """The mean of numbers in [-1, 1] of users who have one, which is as private as the number."""

    def complete(self, mechanism: ScalarMean) -> WithUnusable:
        return WithUnusable(mechanism)
