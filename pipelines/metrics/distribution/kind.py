"""The distribution among the kinds of metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from pipelines import release
from pipelines.kinds import Kind, Prediction
from pipelines.metrics.distribution.job import DistributionJob, prepare
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.distribution.publish import DistributionRoad
from pipelines.metrics.distribution.report import number, percent
from pipelines.metrics.distribution.result import QUANTILES

_SHOWN = 25  # quantiles


def show(
    screen: Console, quantiles: pa.Table, mean: Mapping[str, float], confidence: float
) -> None:
    """The quantiles and the mean, as a table."""
    shown = Table()
    shown.add_column("")
    for heading in ("estimate", f"{100 * confidence:g} % interval"):
        shown.add_column(heading, justify="right")
    for row in quantiles.slice(0, _SHOWN).to_pylist():
        _add(shown, f"{percent(row['p'])} quantile", row)
    _add(shown, "mean", mean)
    screen.print(shown)


def _add(shown: Table, name: str, row: Mapping[str, float]) -> None:
    interval = f"{number(row['lower'])} to {number(row['upper'])}"
    shown.add_row(name, number(row["estimate"]), interval)


def show_release(screen: Console, job: DistributionJob) -> None:
    """The quantiles and the mean of a release."""
    folder = job.options.output
    statement = json.loads(release.read(folder, release.STATEMENT))
    quantiles = release.read_table(folder, QUANTILES)
    show(screen, quantiles, statement["mean"], job.options.confidence)


def predicted(job: DistributionJob) -> Prediction:
    """The length of the limits of the cumulative distribution."""
    design = job.fitted.design
    told = f"share below ± {50 * job.fitted.expected_length:.2g} %"
    return Prediction(design.name, told, design.bits)


KIND = Kind(
    "distribution",
    DistributionOptions,
    prepare,
    DistributionRoad,
    show_release,
    predicted=predicted,
)
