"""What noisy counters would give in the place of randomised reports: said where people decide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines.errors import RequestError
from pipelines.logs.inputs import Source
from pipelines.metrics.counting.options import JOB_TRUSTED
from pipelines.metrics.metric import Metric
from pipelines.metrics.options import JOB, EitherOptions
from pipelines.metrics.permanent import promises
from pipelines.metrics.resolving import resolve
from pipelines.metrics.terms import answering_rows


def instead(metric: Metric) -> str | None:
    """How exact counters of the same price would be, in a few words.

    Args:
        metric: as it was asked.

    Returns:
        Their expected error; None where there are none, or they hold no such promise.
    """
    options = metric.options
    reports = isinstance(options, EitherOptions) and not options.hides_presence
    if not (
        reports
        and options.counted
        and metric.protection.model == "shuffle"
        and metric.permanent is None
    ):
        return None
    released = promises(metric)[0]
    counted = options.model_copy(update={"drawn_by": JOB})
    kept = options.model_fields_set - counted.idle - counted.meaningless
    request: dict[str, Any] = {name: getattr(options, name) for name in kept}
    request |= {"drawn_by": JOB, "epsilon": released.epsilon, "delta": released.delta}
    units = metric.min_reports or answering_rows(metric)
    if units:
        request["expected"] = units
    try:
        return resolve(type(options)(**request), Source(metric.telemetry, 0)).expected_error
    except (RequestError, ValueError):
        return None


def said(metrics: Iterable[Metric]) -> list[str]:
    """A line for each of those that could do with counters, under what holds for all of them.

    Args:
        metrics: as they were asked.
    """
    alternatives = [(metric.name, instead(metric)) for metric in metrics]
    lines = [
        f"  {name}: {error}" if name else f"  {error}" for name, error in alternatives if error
    ]
    return [f"{JOB_TRUSTED}:", *lines] if lines else []
