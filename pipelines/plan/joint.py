"""The joint account of a plan's metrics: shares are proportions of a budget that all of them keep.

Epsilons that add up to the plan's would waste most of it: a unit is in all metrics, and the chance
that every one of them reveals much at once is far below delta. The accountant that the ledger
composes releases by says how much all epsilons can grow together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scipy.optimize import brentq

from mechanisms.channel import Guarantee
from mechanisms.privacy.search import gaussian_mu
from pipelines.errors import RequestError
from pipelines.ledger.accounting import downward, fits, summed, total
from pipelines.ledger.entries import Budget, Loss
from pipelines.metrics.metric import Metric
from pipelines.plan.document import Plan
from pipelines.plan.profiles import profile_of

_NEAR = 0.015  # of the plan's epsilon: what the joint one may leave unused
_INSIDE = 0.997  # of an estimate is taken, whose error may lie on either side
_ROUNDS = 8  # one is usual
_USUAL_DELTA = 1e-6  # of a metric, where the plan says nothing; for a first guess
_DIGITS = 4  # of a scale: parties must come to the same whatever their machines' last bits

Metrics = tuple[Metric, ...]


def losses_of(metrics: Sequence[Metric]) -> tuple[Loss, ...]:
    """What each metric's release reveals, as a ledger keeps it.

    Raises:
        ValueError: one of them promises nothing.
    """
    promised = [metric.promises[0] for metric in metrics]
    return tuple(map(Loss.of, promised, map(profile_of, metrics, promised)))


def joint(plan: Plan, metrics: Sequence[Metric]) -> Guarantee:
    """What holds for a unit that is in every metric.

    Raises:
        ValueError: one of them promises nothing.
    """
    losses = losses_of(metrics)
    return losses[0].guarantee if len(losses) == 1 else total(losses, _budget(plan, losses).delta)


def settled(plan: Plan, resolve: Callable[[float], Metrics]) -> Metrics:
    """The metrics of a plan, with epsilons as large as the plan's allows for all of them together.

    Args:
        plan: what they share.
        resolve: by how much all their shares of epsilon grow, at least 1 -> the metrics.

    Raises:
        RequestError: a metric cannot be served as the plan says.
    """
    # No metric's own epsilon is above the plan's.
    most = downward(1 / max(plan.shares.values()), _DIGITS)
    # Without a delta losses add up. Permanent noise costs what single reports reveal, however many
    # metrics hide in a crowd, so larger ones would cost more.
    if plan.permanent is not None or not (most > 1 and _usual_delta(plan) > 0):
        return resolve(1.0)
    try:
        found = _largest(plan, resolve, _guess(plan, most), most)
    except (RequestError, ValueError):  # said of the shares as they were written, if it is wrong
        found = None
    return resolve(1.0) if found is None else found


def _largest(
    plan: Plan, resolve: Callable[[float], Metrics], scale: float, most: float
) -> Metrics | None:
    """The metrics at nearly the largest scale that the budget holds; None if none is known."""
    best: Metrics | None = None
    low, high = 1.0, math.inf
    for _ in range(_ROUNDS):
        metrics = resolve(scale)
        losses = losses_of(metrics)
        budget = _budget(plan, losses)
        spent = total(losses, budget.delta).epsilon
        if fits(losses, budget):
            # Of metrics that something else keeps small there is nothing left to be had.
            capped = best is not None and losses == losses_of(best)
            best, low = metrics, scale
            if capped or scale == most or spent >= (1 - _NEAR) * plan.epsilon:
                break
        else:
            high = scale
        scale = _corrected(scale, spent, budget)
        scale = min(most, scale if low < scale < high else (low + min(high, most)) / 2)
        scale = downward(scale, _DIGITS)
        if scale <= low:
            break
    return best


def _budget(plan: Plan, losses: Sequence[Loss]) -> Budget:
    """What all losses must keep together: where the plan names no delta, the sum of theirs."""
    delta = summed(losses).delta if plan.delta is None else plan.delta
    return Budget(epsilon=plan.epsilon, delta=delta)


def _corrected(scale: float, spent: float, budget: Budget) -> float:
    """Where the budget would be spent, if losses were normal and their deviations as epsilons."""
    if not 0 < spent < math.inf:
        return math.nan
    wanted = gaussian_mu(budget.epsilon, budget.delta)
    return _INSIDE * scale * wanted / gaussian_mu(spent, budget.delta)


def _guess(plan: Plan, most: float) -> float:
    """A scale at which normal losses of these shares nearly fill the budget."""
    shuffled = [plan.model_of(metric) == "shuffle" for metric in plan.metrics]
    delta = _usual_delta(plan)

    def excess(scale: float) -> float:
        parts = zip(plan.shares.values(), shuffled, strict=True)
        deviations = (
            # Randomised response loses epsilon either way: that is its deviation.
            gaussian_mu(scale * share * plan.epsilon, share * delta) if mixed
            else scale * share * plan.epsilon
            for share, mixed in parts
        )  # fmt: skip
        return math.hypot(*deviations) - gaussian_mu(plan.epsilon, delta)

    if not excess(most) > 0:
        return most
    scale = brentq(excess, 1.0, most) if excess(1.0) < 0 else 1.0
    return max(1.0, downward(_INSIDE * scale, _DIGITS))


def _usual_delta(plan: Plan) -> float:
    """The plan's delta, or what its metrics take by default."""
    shuffled = sum(plan.model_of(metric) == "shuffle" for metric in plan.metrics)
    return _USUAL_DELTA * shuffled if plan.delta is None else plan.delta
