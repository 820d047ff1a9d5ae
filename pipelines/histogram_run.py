"""One run of the histogram job, from what was typed to what is shown at the end."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from pipelines import console, histogram, release
from pipelines.console import rejects
from pipelines.errors import DONE, Caution, FailedError, WithheldError
from pipelines.requests import request
from pipelines.run import beam_options, run_beam
from pipelines.wording import one_line
from transforms.progress import CHANGED, REPORTS, ROWS


def run(asked: Mapping[str, Any], beam_arguments: list[str]) -> int:
    """Publish a histogram, and show the top of it.

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
    options = request(histogram.HistogramOptions, asked)
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = histogram.prepare(options)
    for line in job.cautions:
        warnings.warn(line, Caution, stacklevel=1)
    screen = console.Screen()
    counted = run_beam(histogram.PublishHistogram(job), for_beam, screen, job.telemetry.rows)
    if counted is None:
        screen.print(
            "handed over; the release will appear in the output folder once the job has run"
        )
        return DONE
    if not release.holds_release(options.output):
        raise _unpublished(job, counted)
    table = pq.ParquetFile(io.BytesIO(release.read(options.output, histogram.TABLE))).read()
    console.show_top(screen, table, 10, options.confidence)
    for guarantee in dict.fromkeys((job.design.release, job.design.local)):
        screen.print(one_line(guarantee), highlight=False)
    page = f"report: {options.output}/report.html"
    screen.print(page, highlight=False, markup=False, soft_wrap=True)
    return DONE


def _unpublished(job: histogram.HistogramJob, counted: Mapping[str, int]) -> Exception:
    """Why a job that came to its end has published nothing."""
    if not counted:
        return FailedError(
            f"the job came to its end, but {job.options.output} holds no release, and its runner "
            "cannot be asked why; too few reports may have come"
        )
    if CHANGED in counted:
        return FailedError(
            f"the files changed while they were read: {counted.get(ROWS, 0):,} rows came, and "
            f"their footers had told of {job.telemetry.rows:,}; run again when they are at rest"
        )
    reports = counted.get(REPORTS, 0)
    if reports < job.min_reports:
        return WithheldError(
            f"{reports:,} reports came, fewer than --min-reports {job.min_reports:,}"
            + "".join(f"; {amount:,} rows: {name}" for name, amount in rejects(counted).items())
        )
    return FailedError(
        f"the job came to its end, but {job.options.output} holds no release; if its workers "
        "write to disks of their own, name a folder that they share"
    )
