"""The mean among the kinds of metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.scalar import ScalarMean
from pipelines import release
from pipelines.console import numbers_table
from pipelines.kinds import Kind, Prediction
from pipelines.metrics.mean.job import MeanJob, prepare
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.mean.publish import MeanRoad
from pipelines.metrics.mean.report import interval, labels, number
from pipelines.metrics.mean.result import TABLE
from transforms.progress import REPORTS, WITHHELD

_SHOWN = 20


def show(screen: Console, table: pa.Table, confidence: float) -> None:
    """The means, or the first of them, as a table."""
    grouped = "group" in table.column_names
    title = f"{min(_SHOWN, len(table))} of {len(table):,} groups" if grouped else None
    headings = ("estimate", "± s.e.", f"{100 * confidence:g} % interval")
    shown = numbers_table(("group" if grouped else "",), headings, title)
    for label, row in zip(labels(table), table.slice(0, _SHOWN).to_pylist(), strict=False):
        shown.add_row(
            Text(label),  # a plain string would be read as markup
            number(row["estimate"]),
            number(row["standard_error"]),
            interval(row),
        )
    screen.print(shown)


def too_few(job: MeanJob, counted: Mapping[str, int]) -> str | None:
    """That a round or every group was too small; None if the release was not withheld."""
    if WITHHELD not in counted:
        return None
    reports, least = counted.get(REPORTS, 0), job.min_reports
    if job.options.groups_public:
        return f"{reports:,} reports came, and no group has --min-reports {least:,} of them"
    if job.scouts is not None:
        return (
            f"{reports:,} reports came in two rounds, which need {job.scouts.min_reports:,} "
            f"and {least:,}"
        )
    return f"{reports:,} reports came, fewer than --min-reports {least:,}"


def show_release(screen: Console, job: MeanJob) -> None:
    """The means of a release."""
    show(screen, release.read_table(job.options.output, TABLE), job.options.confidence)


def predicted(job: MeanJob) -> Prediction:
    """The standard error of the mean at the least batch, whatever the numbers are."""
    design, inner = job.design, job.design.mechanism
    if isinstance(inner, KeyValue):  # groups of equal size
        worst = inner.worst_variance(1 / inner.groups)
    elif isinstance(inner, ScalarMean):
        worst = inner.worst_variance
    else:
        raise TypeError(f"{type(inner).__name__} estimates no mean")
    error = math.sqrt(worst / job.min_reports)
    half = 1.0 if job.bounds is None else job.bounds.half
    return Prediction(design.name, f"mean ± {error * half:.3g} at most", design.bits)


def declared(options: MeanOptions) -> tuple[str, ...]:
    """The file of groups, if there is one."""
    return () if options.groups is None else (options.groups,)


KIND = Kind(
    "mean",
    MeanOptions,
    prepare,
    MeanRoad,
    show_release,
    too_few,
    predicted=predicted,
    files=declared,
)
