"""One run of the mean job, from what was typed to what is shown at the end."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines import console, release
from pipelines.errors import DONE
from pipelines.mean import job as mean
from pipelines.mean.publish import PublishMean
from pipelines.mean.report import interval, labels, number
from pipelines.mean.result import TABLE
from pipelines.publishing import carry_out, conclude
from pipelines.requests import request
from pipelines.run import beam_options
from transforms.progress import REPORTS, WITHHELD

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
    screen = console.Screen()
    if not carry_out(job, PublishMean(job), for_beam, screen, too_few):
        return DONE
    written = release.read(options.output, TABLE)
    show(screen, pq.ParquetFile(io.BytesIO(written)).read(), options.confidence)
    conclude(job, screen)
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


def too_few(job: mean.MeanJob, counted: Mapping[str, int]) -> str | None:
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
