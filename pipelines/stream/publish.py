"""One window's release, once: within the budget, and never over an earlier one."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.errors import WithheldError
from pipelines.ledger.rules import BudgetExceeded, InProgressError
from pipelines.ledger.spans import Span
from pipelines.metrics.metric import Metric
from pipelines.plan.run import release_window
from pipelines.plan.target import ReleaseTarget
from pipelines.request import answers
from pipelines.stream.release import Backlog
from pipelines.stream.windows import Streamed
from transforms.windows import SECOND


def enough(streamed: Streamed, backlog: Mapping[str, Backlog]) -> bool:
    """Whether any metric has its least batch."""
    return any(
        metric.min_reports <= backlog[metric.name].reports
        for metric in streamed.metrics
        if metric.name in backlog
    )


def publish(
    streamed: Streamed,
    start: int,
    first: int,
    release: Callable[[Sequence[Metric], ReleaseTarget], beam.PTransform],
    for_beam: PipelineOptions,
) -> bool:
    """Publish a window, unless that was done before.

    Args:
        streamed: the plan.
        start: of the window, in microseconds.
        first: of the first window that was added to it, or its own.
        release: (metrics, target) -> from nothing to the release.
        for_beam: Beam's options.

    Returns:
        Whether there is a release now; False if its reports were too few.

    Raises:
        BudgetExceeded: the ledger does not cover it.
        InProgressError: another process makes this very release.
        FailedError: it failed; nothing was published.
    """

    def pipeline(metrics: Sequence[Metric], target: ReleaseTarget) -> beam.PTransform:
        dated = target.telling(stream=_span(streamed, start, first))
        return release(metrics, dated)

    name = streamed.windows.name(start)
    try:
        # What a single run shows is too much for a stream.
        with contextlib.redirect_stdout(io.StringIO()), answers.apart():
            release_window(
                streamed.plan, name, lambda _, window: streamed.job(window), pipeline,
                lambda: for_beam,
                Span(start=_moment(first), until=_moment(start + streamed.windows.length)),
            )  # fmt: skip
    except (BudgetExceeded, InProgressError):
        raise
    except WithheldError:
        return False
    return True


def _span(streamed: Streamed, start: int, first: int) -> dict[str, Any]:
    """What time a release is about."""
    windows = streamed.windows
    until = start + windows.length
    names = [windows.name(moment) for moment in range(first, until, windows.length)]
    return {"from": _iso(first), "until": _iso(until), "windows": names}


def _iso(moment: int) -> str:
    """A moment, to the second."""
    return _moment(moment).isoformat(timespec="seconds")


def _moment(moment: int) -> datetime:
    return datetime.fromtimestamp(moment // SECOND, timezone.utc)
