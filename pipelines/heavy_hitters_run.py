"""One run of the search for frequent strings, from what was typed to what is shown at the end."""

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

from pipelines import console, heavy_hitters, release
from pipelines.console import rejects
from pipelines.errors import DONE, Caution, FailedError, WithheldError
from pipelines.heavy_hitters_report import labels
from pipelines.requests import request
from pipelines.run import beam_options, run_beam
from pipelines.wording import one_line
from transforms.progress import CHANGED, REPORTS, ROWS

_SHOWN = 20


def run(asked: Mapping[str, Any], beam_arguments: list[str]) -> int:
    """Publish the frequent strings, and show the top of them.

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
    options = request(heavy_hitters.HeavyHittersOptions, asked)
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = heavy_hitters.prepare(options)
    for line in job.cautions:
        warnings.warn(line, Caution, stacklevel=1)
    screen = console.Screen()
    screen.print(job.prospect, highlight=False, soft_wrap=True)
    counted = run_beam(heavy_hitters.PublishHeavyHitters(job), for_beam, screen, job.telemetry.rows)
    if counted is None:
        screen.print(
            "handed over; the release will appear in the output folder once the job has run"
        )
        return DONE
    if not release.holds_release(options.output):
        raise _unpublished(job, counted)
    written = release.read(options.output, heavy_hitters.TABLE)
    show_top(screen, pq.ParquetFile(io.BytesIO(written)).read(), options.confidence)
    for guarantee in dict.fromkeys((job.plan.design.release, job.plan.design.local)):
        screen.print(one_line(guarantee), highlight=False)
    page = f"report: {options.output}/report.html"
    screen.print(page, highlight=False, markup=False, soft_wrap=True)
    return DONE


def show_top(screen: Console, table: pa.Table, confidence: float) -> None:
    """The most frequent strings, as a table."""
    if not len(table):
        screen.print("no string stands out")
        return
    shown = Table(title=f"the {min(_SHOWN, len(table))} most frequent of {len(table):,} strings")
    shown.add_column("string")
    for heading in ("share %", "± s.e.", f"{100 * confidence:g} % interval"):
        shown.add_column(heading, justify="right")
    top = table.slice(0, _SHOWN)
    for label, row in zip(labels(top), top.to_pylist(), strict=True):
        shown.add_row(
            Text(label),  # a plain string would be read as markup
            f"{100 * row['estimate']:.3f}",
            f"{100 * row['standard_error']:.3f}",
            f"{100 * row['lower']:.3f} to {100 * row['upper']:.3f}",
        )
    screen.print(shown)


def _unpublished(job: heavy_hitters.HeavyHittersJob, counted: Mapping[str, int]) -> Exception:
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
