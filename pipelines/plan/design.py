"""What a plan has come to on this machine, so that parties who disagree on it find out.

The plan is the request; `mechanism: auto` and everything else that it leaves open is settled
by the planner of the hushbeam that reads it. What reports carry covers both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mechanisms.wire.fingerprint import (
    Json,
    agreed,
    described,
    described_loss,
    of_design,
    of_window,
)
from pipelines.metrics.metric import Metric
from pipelines.plan.document import PlanDocument
from pipelines.plan.metrics import mark, public_seed

_OF_WINDOW = "of the window"  # in the place of a seed that is drawn from the plan and the window


def design_of(plan: PlanDocument, window: str, metric: Metric) -> Json:
    """What a metric has come to: its mechanism, its parameters, its codes and what they promise.

    The window's own random draws are left out, being settled by the plan.

    Args:
        plan: what is collected.
        window: for which its public randomness was drawn.
        metric: one of the plan.
    """
    design = {
        "name": metric.name,
        "kind": metric.kind,
        "made": described(metric.protection.made),
        "local": described_loss(metric.guarantees[1]),
    }
    if metric.part is not None:
        design["asked"] = described([metric.part.first, metric.part.last])
    return _without(str(public_seed(plan, window)), design)


def mark_of_design(plan: PlanDocument, window: str, metrics: Sequence[Metric]) -> bytes:
    """The fingerprint of a plan and of what it has come to; the same in every window.

    Args:
        plan: what is collected.
        window: any; that of the metrics.
        metrics: all of the plan, or those that the fingerprint is to be of.

    Returns:
        16 bytes.
    """
    designs = [design_of(plan, window, metric) for metric in metrics]
    return of_design(mark(plan), agreed(designs))


def mark_of_reports(plan: PlanDocument, window: str, metrics: Sequence[Metric]) -> bytes:
    """What reports of one window carry: a report of another is dropped like one of another plan.

    A client and a shuffler that speak of different windows would draw different hashes, a report
    of yesterday must not be sent again today, and a code means nothing to who has resolved the
    plan to another mechanism.

    Returns:
        16 bytes.
    """
    return of_window(mark_of_design(plan, window, metrics), window)


def _without(seed: str, part: Any) -> Json:
    """A description with a name in the place of the window's seed."""
    if isinstance(part, dict):  # JSON's own shapes
        return {name: _without(seed, value) for name, value in part.items()}
    if isinstance(part, list):
        return [_without(seed, value) for value in part]
    leaf: Json = _OF_WINDOW if part == seed else part
    return leaf
