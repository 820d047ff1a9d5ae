"""One run of the distribution job, from what was typed to what is shown at the end."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from rich.console import Console
from rich.table import Table

from pipelines import console, distribution, release
from pipelines.console import rejects
from pipelines.distribution_report import number, percent
from pipelines.distribution_result import QUANTILES
from pipelines.errors import DONE, Caution, FailedError, WithheldError
from pipelines.requests import request
from pipelines.run import beam_options, run_beam
from pipelines.wording import one_line
from transforms.progress import CHANGED, REPORTS, ROWS

_SHOWN = 25  # quantiles


def run(asked: Mapping[str, Any], beam_arguments: list[str]) -> int:
    """Publish a distribution, and show its quantiles and its mean.

    Args:
        asked: option -> what was typed.
        beam_arguments: what is for Beam.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too few reports came.
        FailedError: the job ended without a release.
    """
    options = request(distribution.DistributionOptions, asked)
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = distribution.prepare(options)
    for line in job.cautions:
        warnings.warn(line, Caution, stacklevel=1)
    screen = console.Screen()
    counted = run_beam(distribution.PublishDistribution(job), for_beam, screen, job.telemetry.rows)
    if counted is None:
        screen.print(
            "handed over; the release will appear in the output folder once the job has run"
        )
        return DONE
    if not release.holds_release(options.output):
        raise _unpublished(job, counted)
    quantiles = pq.ParquetFile(io.BytesIO(release.read(options.output, QUANTILES))).read()
    statement = json.loads(release.read(options.output, release.STATEMENT))
    show(screen, quantiles, statement["mean"], options.confidence)
    for guarantee in dict.fromkeys(job.guarantees):
        screen.print(one_line(guarantee), highlight=False)
    page = f"report: {options.output}/report.html"
    screen.print(page, highlight=False, markup=False, soft_wrap=True)
    return DONE


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


def _unpublished(job: distribution.DistributionJob, counted: Mapping[str, int]) -> Exception:
    """Why a job that came to its end has published nothing."""
    folder, least = job.options.output, job.min_reports
    if not counted:
        return FailedError(
            f"the job came to its end, but {folder} holds no release, and its runner cannot be "
            "asked why; too few reports may have come"
        )
    if CHANGED in counted:
        return FailedError(
            f"the files changed while they were read: {counted.get(ROWS, 0):,} rows came, and "
            f"their footers had told of {job.telemetry.rows:,}; run again when they are at rest"
        )
    reports = counted.get(REPORTS, 0)
    if reports < least:
        return WithheldError(
            f"{reports:,} reports came, fewer than --min-reports {least:,}"
            + "".join(f"; {amount:,} rows: {name}" for name, amount in rejects(counted).items())
        )
    return FailedError(
        f"the job came to its end, but {folder} holds no release; if its workers write to disks "
        "of their own, name a folder that they share"
    )
