"""What the clients of a metric run, and why some metrics cannot be left to clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mechanisms.channel import Mechanism
from mechanisms.frequency.several_messages import SeveralMessages
from pipelines.plan.metrics import Prepared

_RUN: Mapping[str, Callable[[Any], Any]] = {
    "histogram": lambda job: job.design.mechanism,
    "heavy-hitters": lambda job: job.plan.protocol.levels,
    "mean": lambda job: job.mechanism,
    "distribution": lambda job: job.fitted.design.mechanism,
    "vector-mean": lambda job: job.mechanism if job.picked is None else job.picked,
}


def unparted(metric: Prepared) -> str | None:
    """Why clients cannot make a metric's reports out of sight of its collector; None if they can.

    Args:
        metric: ready to run.
    """
    if getattr(metric.job.options, "choose_bounds", False):
        return "with choose_bounds the second round's clients wait for what the first's have said"
    mechanism = _RUN[metric.kind.name](metric.job)
    if not isinstance(mechanism, Mechanism):
        return "its noise is added to exact counts, which somebody has to see"
    sent = getattr(metric.job, "messages", mechanism.messages)
    if sent != 1 or isinstance(mechanism, SeveralMessages):  # whose mean may well be 1
        return "its users send several messages, and only who has counted users can decode them"
    return None


def mechanism_of(metric: Prepared) -> Mechanism:
    """What each client runs, once for one message.

    Args:
        metric: one that can be parted.
    """
    mechanism: Mechanism = _RUN[metric.kind.name](metric.job)
    return mechanism
