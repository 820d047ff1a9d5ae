"""One run of the search for frequent strings, from what was typed to what is shown at the end."""

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
from pipelines.heavy_hitters import job as heavy_hitters
from pipelines.heavy_hitters.report import labels
from pipelines.publishing import carry_out, conclude
from pipelines.requests import request
from pipelines.run import beam_options

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
    screen = console.Screen()
    screen.print(job.prospect, highlight=False, soft_wrap=True)
    if not carry_out(job, heavy_hitters.PublishHeavyHitters(job), for_beam, screen):
        return DONE
    written = release.read(options.output, heavy_hitters.TABLE)
    show_top(screen, pq.ParquetFile(io.BytesIO(written)).read(), options.confidence)
    conclude(job, screen)
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
