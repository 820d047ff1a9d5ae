"""The histogram among the kinds of metrics."""

from __future__ import annotations

from rich.console import Console

from pipelines import console, release
from pipelines.histogram.job import HistogramJob, HistogramOptions, prepare
from pipelines.histogram.publish import HistogramRoad
from pipelines.histogram.result import TABLE
from pipelines.kinds import Kind


def show(screen: Console, job: HistogramJob) -> None:
    """The largest shares, as a table."""
    table = release.read_table(job.options.output, TABLE)
    console.show_top(screen, table, 10, job.options.confidence)


KIND = Kind(HistogramOptions, prepare, HistogramRoad, show)
