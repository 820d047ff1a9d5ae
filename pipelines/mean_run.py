"""One run of the mean job, from what was typed to what is shown at the end."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines import console, mean, release
from pipelines.console import rejects
from pipelines.errors import DONE, Caution, FailedError, WithheldError
from pipelines.mean_publish import PublishMean
from pipelines.mean_report import interval, labels, number
from pipelines.mean_result import TABLE
from pipelines.requests import request
from pipelines.run import beam_options, run_beam
from pipelines.wording import one_line
from transforms.progress import CHANGED, REPORTS, ROWS, WITHHELD

_SHOWN = 20


def run(asked: Mapping[str, Any], beam_arguments: list[str]) -> int:
    """Publish a mean, or one for each group, and show them.

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
    options = request(mean.MeanOptions, asked)
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = mean.prepare(options)
    for line in job.cautions:
        warnings.warn(line, Caution, stacklevel=1)
    screen = console.Screen()
    counted = run_beam(PublishMean(job), for_beam, screen, job.telemetry.rows)
    if counted is None:
        screen.print(
            "handed over; the release will appear in the output folder once the job has run"
        )
        return DONE
    if not release.holds_release(options.output):
        raise _unpublished(job, counted)
    written = release.read(options.output, TABLE)
    show(screen, pq.ParquetFile(io.BytesIO(written)).read(), options.confidence)
    for guarantee in dict.fromkeys(job.guarantees):
        screen.print(one_line(guarantee), highlight=False)
    page = f"report: {options.output}/report.html"
    screen.print(page, highlight=False, markup=False, soft_wrap=True)
    return DONE


def show(screen: Console, table: pa.Table, confidence: float) -> None:
    """The means, or the first of them, as a table."""
    grouped = "group" in table.column_names
    title = f"{min(_SHOWN, len(table))} of {len(table):,} groups" if grouped else None
    shown = Table(title=title)
    shown.add_column("group" if grouped else "")
    for heading in ("estimate", "± s.e.", f"{100 * confidence:g} % interval"):
        shown.add_column(heading, justify="right")
    for label, row in zip(labels(table), table.slice(0, _SHOWN).to_pylist(), strict=False):
        shown.add_row(
            Text(label),  # a plain string would be read as markup
            number(row["estimate"]),
            number(row["standard_error"]),
            interval(row),
        )
    screen.print(shown)


def _unpublished(job: mean.MeanJob, counted: Mapping[str, int]) -> Exception:
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
    if WITHHELD in counted:
        reports = counted.get(REPORTS, 0)
        told = f"{reports:,} reports came, fewer than --min-reports {least:,}"
        if job.options.groups_public:
            told = f"{reports:,} reports came, and no group has --min-reports {least:,} of them"
        elif job.scouts is not None:
            told = (
                f"{reports:,} reports came in two rounds, which need {job.scouts.min_reports:,} "
                f"and {least:,}"
            )
        return WithheldError(
            told
            + "".join(f"; {amount:,} rows: {name}" for name, amount in rejects(counted).items())
        )
    return FailedError(
        f"the job came to its end, but {folder} holds no release; if its workers write to disks "
        "of their own, name a folder that they share"
    )
