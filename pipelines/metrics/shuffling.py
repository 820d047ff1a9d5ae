"""What becomes of reports between clients and collector: what is added, and what is let through."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pipelines.metrics.content import MetricReports

if TYPE_CHECKING:
    from transforms.elements.conservation import Shuffled
    from transforms.shuffle.shuffle import Shuffle


class Shuffling(NamedTuple):
    """The shuffler of a metric, or what one job does in its place.

    Attributes:
        passed: what is let through.
        step: takes the clients' reports to those that the collector has.
        unfused: why one job cannot count reports as they come; None if it can.
    """

    passed: Shuffled
    step: Callable[[MetricReports], MetricReports]
    unfused: str | None


def unshuffled(codes: int) -> Shuffling:
    """Of exact numbers, which nobody but the job sees.

    Args:
        codes: how many a message may have.
    """
    from transforms.elements.conservation import Batches, Shuffled, leaving

    passed = Shuffled(0, Batches(codes))  # nobody draws dummies

    def step(reports: MetricReports) -> MetricReports:
        return reports._replace(flow=(*reports.flow, leaving(reports.messages, passed.batches)))

    return Shuffling(passed, step, "nothing is shuffled where the job adds its own noise")


def untouched(why: str) -> Shuffling:
    """Of what nobody but the job sees any of.

    Args:
        why: one job cannot count reports as they come.
    """
    from transforms.elements.conservation import Batches, Shuffled

    return Shuffling(Shuffled(0, Batches(1 << 64)), lambda reports: reports, why)


def mixed(reports: MetricReports, shuffle: Shuffle | None) -> MetricReports:
    """The messages shuffled, if anything shuffles them.

    Args:
        reports: of the clients.
        shuffle: what does.
    """
    if shuffle is None:
        return reports
    shuffle.users, shuffle.flow = reports.users, reports.sums
    return reports._replace(messages=reports.messages | "Shuffle" >> shuffle)
