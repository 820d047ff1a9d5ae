"""The histogram among the kinds of metrics."""

from __future__ import annotations

import math

from rich.console import Console

from pipelines import console, release
from pipelines.kinds import Kind, Prediction
from pipelines.metrics.histogram.job import HistogramJob, prepare
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.histogram.publish import HistogramRoad
from pipelines.metrics.histogram.result import TABLE


def show(screen: Console, job: HistogramJob) -> None:
    """The largest shares, as a table."""
    table = release.read_table(job.options.output, TABLE)
    console.show_top(screen, table, 10, job.options.confidence)


def predicted(job: HistogramJob) -> Prediction:
    """The standard error of a share, at the least batch."""
    design, n = job.design, job.min_reports
    error = math.sqrt(design.mechanism.variance(0.0, n))
    told = f"share ± {100 * error:.2g} %"
    return Prediction(design.name, told, design.bits * max(1.0, design.messages))


KIND = Kind(
    "histogram",
    HistogramOptions,
    prepare,
    HistogramRoad,
    show,
    predicted=predicted,
    files=lambda options: (options.domain,),
)
