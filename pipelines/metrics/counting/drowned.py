"""Whether noise drowns what is counted, and which request would do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.errors import RequestError
from pipelines.request.options import flag

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters

_ROUNDS = 8  # of a search for how many users do; two are usual
_DIGITS = 2  # of that number


class Typical(NamedTuple):
    """A figure of a release, as far as it is known beforehand.

    Attributes:
        figure: what it is if all units are alike, and each has one row.
        error: its standard error.
    """

    figure: float
    error: float

    @property
    def drowned(self) -> bool:
        """Whether noise is larger than what it hides."""
        return self.error > self.figure > 0


def typical_of(metric: ByCounters) -> Typical | None:
    """What a figure and its error may be expected to be; None if nobody knows how many units are.

    Args:
        metric: ready to run.
    """
    if metric.options.expected is None:
        return None
    forecast = metric.statistic.forecast(metric.accuracy, metric.expected)
    return Typical(forecast.figure, forecast.noise)


def drowned(metric: ByCounters) -> list[str]:
    """That noise drowns what is released, and which k, b or n would do; nothing if it does not.

    Args:
        metric: ready to run.
    """
    typical = typical_of(metric)
    if typical is None or not typical.drowned:
        return []
    remedies = [*_smaller(metric), *_users(metric, typical), "a larger epsilon"]
    alone = " and have one row each" * any(_bounds(metric).values())
    return [
        f"noise drowns what is released: with {metric.expected:,} {metric.unit}s a figure is "
        f"{typical.figure:.3g} if all are alike{alone}, and its standard error "
        f"{typical.error:.3g}; what would do: {', or '.join(remedies)}"
    ]


def _bounds(metric: ByCounters) -> dict[str, int]:
    """The numbers above 1 that bound what a unit contributes: k and b."""
    bounds = {name: getattr(metric.options, name, 1) for name in ("rows_per_user", "per_value")}
    return {name: most for name, most in bounds.items() if most > 1}


def _asking(metric: ByCounters, changes: dict[str, Any]) -> ByCounters:
    """The same for another request, of which neither columns nor domains are others."""
    return replace(metric, options=metric.options.model_copy(update=changes)).redesigned()


def _does(metric: ByCounters, changes: dict[str, Any]) -> bool:
    """Whether noise leaves something of the same request with changes."""
    try:
        other = typical_of(_asking(metric, changes))
    except RequestError:
        return False
    return other is not None and not other.drowned


def _smaller(metric: ByCounters) -> list[str]:
    """The largest k, and the largest b, that would do; of neither alone, both."""
    bounds, flags = _bounds(metric), []
    for name, most in bounds.items():
        largest = _largest(most, lambda x, name=name: _does(metric, {name: x}))  # type: ignore[misc]
        flags += [f"{flag(name)} {largest:,}"] * (largest > 0)
    if flags or len(bounds) < 2:
        return flags
    one = {"per_value": 1}
    largest = _largest(bounds["rows_per_user"], lambda k: _does(metric, {"rows_per_user": k} | one))
    return [f"--rows-per-user {largest:,} and --per-value 1"] * (largest > 0)


def _largest(most: int, does: Callable[[int], bool]) -> int:
    """The largest number below one that does not do; 0 if none does."""
    low, high = 0, most  # of what does, and of what does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if does(middle) else (low, middle)
    return low


def _users(metric: ByCounters, typical: Typical) -> list[str]:
    """About how many units would do."""
    expected = metric.expected
    for _ in range(_ROUNDS):
        # More of them may have noise of their own: their numbers are rounded to finer units.
        expected = _upward(expected * typical.error / typical.figure)
        changes = {"expected": expected}
        if metric.options.enrolled is not None:
            changes["enrolled"] = max(expected, metric.options.enrolled)
        try:
            other = typical_of(_asking(metric, changes))
        except RequestError:
            return []
        if other is None or not other.drowned:
            return [f"{expected:,} {metric.unit}s"]
        typical = other
    return []


def _upward(number: float) -> int:
    """To so many digits, rounded up."""
    step = 10 ** max(0, math.floor(math.log10(number)) + 1 - _DIGITS)
    return math.ceil(number / step) * step
