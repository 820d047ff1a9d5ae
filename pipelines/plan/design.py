"""What a plan has come to on this machine, so that parties who disagree on it find out.

The plan says what is asked; `mechanism: auto` and everything else that it leaves open is settled
by the planner of the hushbeam that reads it. What reports carry covers both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mechanisms.wire.design import described, described_loss
from mechanisms.wire.fingerprint import Json, of_design, of_window
from pipelines.plan.document import Plan
from pipelines.plan.metrics import Prepared, mark, public_seed

_OF_WINDOW = "of the window"  # in the place of a seed that is drawn from the plan and the window

# What a kind's codes come from and are decoded by, beyond what the plan says itself.
_MADE: Mapping[str, Callable[[Any], Any]] = {
    "histogram": lambda job: job.design.mechanism,
    "heavy-hitters": lambda job: (job.plan.protocol, job.plan.protocol.levels),
    "mean": lambda job: (job.mechanism, job.scouts and job.scouts.design.mechanism),
    "distribution": lambda job: (job.fitted.design.mechanism, job.fitted.rounding),
    "vector-mean": lambda job: (job.mechanism, job.picked),
}


def design_of(plan: Plan, metric: Prepared) -> Json:
    """What a metric has come to: its mechanism, its parameters, its codes and what they promise.

    The window's own random draws are left out, being settled by the plan.

    Args:
        plan: what is collected.
        metric: ready to run.
    """
    told = {
        "name": metric.name,
        "kind": metric.kind.name,
        "made": described(_MADE[metric.kind.name](metric.job)),
        "local": described_loss(metric.job.guarantees[1]),
    }
    return _without(str(public_seed(plan, metric.window)), told)


def mark_of_design(plan: Plan, metrics: Sequence[Prepared]) -> bytes:
    """The fingerprint of a plan and of what it has come to; the same in every window.

    Args:
        plan: what is collected.
        metrics: all of the plan, or those that the fingerprint is to be of.

    Returns:
        16 bytes.
    """
    return of_design(mark(plan), [design_of(plan, metric) for metric in metrics])


def mark_of_reports(plan: Plan, window: str, metrics: Sequence[Prepared]) -> bytes:
    """What reports of one window carry: a report of another is dropped like one of another plan.

    A client and a shuffler that speak of different windows would draw different hashes, a report
    of yesterday must not be sent again today, and a code means nothing to who has resolved the
    plan to another mechanism.

    Returns:
        16 bytes.
    """
    return of_window(mark_of_design(plan, metrics), window)


def _without(seed: str, told: Any) -> Json:
    """A description with a name in the place of the window's seed."""
    if isinstance(told, dict):
        return {name: _without(seed, each) for name, each in told.items()}
    if isinstance(told, list):
        return [_without(seed, each) for each in told]
    found: Json = _OF_WINDOW if told == seed else told
    return found
