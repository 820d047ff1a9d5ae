"""`hushbeam size --bounds`: what each way to a sum and to a mean costs, as the commands have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from rich.table import Table

from pipelines.errors import RequestError
from pipelines.logs.inputs import UNREAD, Source
from pipelines.logs.numbers import read_bounds
from pipelines.metrics import registry
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.design import designed
from pipelines.metrics.counting.options import SPLIT_MIX
from pipelines.metrics.options import JOB
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.mean import Mean
from pipelines.metrics.statistics.sum import Sum
from pipelines.metrics.statistics.variance import Variance
from pipelines.request import answers
from pipelines.request.requests import Neighbours, request
from pipelines.size.question import OUT_OF_REACH, SENT, PlannerQuestion, empty

_CAPTION = (
    "the job's noise: one job reads the rows, and adds noise to exact totals; error: standard "
    "error in the units of the bounds, and in ranges, rounding included, of a mean that lies "
    "halfway between their middle and an end; bytes: of a user, each message sealed by itself, "
    "which one job does not do; three parties: digits share noise less, for dummies are sealed, "
    "too; devices, {split}: all users are enrolled devices; one report: how many take part is "
    "published"
)


class _Way(NamedTuple):
    """One way to a statistic."""

    statistic: str
    name: str
    options: Mapping[str, Any]
    then: Callable[[Any], Any] = lambda metric: metric

    def metric(self, log: Mapping[str, Any]) -> Any:
        """The metric of a release.

        Raises:
            RequestError: the target is out of reach.
        """
        options = request(registry.options(self.statistic), {**log, **self.options})
        return self.then(resolve(options, Source(UNREAD)))


def table(question: PlannerQuestion, limits: str, users: int) -> Table:
    """A row for each way.

    Args:
        question: the terms.
        limits: the bounds, as they were typed.
        users: how many have a number.

    Raises:
        RequestError: bounds are none.
    """
    bounds = read_bounds(limits)
    made = empty(
        f"sum, mean and spread of a number in {bounds.low:g} .. {bounds.high:g}, {users:,} users, "
        f"{question.terms}",
        _CAPTION.format(split=SPLIT_MIX),
        "", "", "messages", "bytes", "dummies", "error", "ranges", texts=2,
    )  # fmt: skip
    log = {"input": ["-"], "output": "-", "column": "number", "bounds": limits,
           "epsilon": question.epsilon, "delta": question.delta}  # fmt: skip
    for way in _ways(question.neighbours, users):
        place = {"statistic": way.statistic, "way": way.name}
        try:
            metric = way.metric(log)
        except RequestError:
            answers.add("rows", {**place, "refused": OUT_OF_REACH})
            made.add_row(way.statistic, way.name, OUT_OF_REACH)
            continue
        messages, error = metric.protection.messages, metric.error
        by_shuffler = getattr(metric, "counters", None) is not None and not metric.by_devices
        dummies = metric.design.number if by_shuffler else None
        ranges = error / (2 * bounds.half)
        cost = {"messages": messages, "bytes": SENT * messages, "dummies": dummies}
        answers.add("rows", {**place, **cost, "error": error, "ranges": ranges})
        made.add_row(
            way.statistic, way.name, f"{messages:,.4g}", f"{SENT * messages:,.0f}",
            "" if dummies is None else f"{dummies:,}", f"{error:.3g}", f"{ranges:.3g}",
        )  # fmt: skip
    return made


def _ways(neighbours: Neighbours, n: int) -> Iterator[_Way]:
    """Every way, sums first."""
    drawn = {"neighbours": neighbours, "expected": n, "drawn_by": "shuffler"}
    enrolled = drawn | {"enrolled": n}
    devices, split = enrolled | {"drawn_by": "devices"}, enrolled | {"mechanism": SPLIT_MIX}
    for name in (Sum.kind, Mean.kind, Variance.kind):
        yield _Way(name, "the job's noise", drawn | {"drawn_by": JOB})
        yield _Way(name, "correlated dummies", drawn)
        yield _Way(name, "same, three parties", drawn, ByCounters.divided)
        yield _Way(name, "independent dummies", drawn, _alone)
        yield _Way(name, "devices' dummies", devices)
        if name != Variance.kind:
            yield _Way(name, SPLIT_MIX, split)
    yield _Way("mean", "one report", {"min_reports": n})


def _alone(metric: ByCounters) -> ByCounters:
    """The same without noise that digits share."""
    return replace(metric, design=designed(metric.options, metric.reporting, correlated=False))
