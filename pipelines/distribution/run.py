"""One run of the distribution job, from what was typed to what is shown at the end."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from rich.console import Console
from rich.table import Table

from pipelines import console, release
from pipelines.distribution import job as distribution
from pipelines.distribution.report import number, percent
from pipelines.distribution.result import QUANTILES
from pipelines.errors import DONE
from pipelines.publishing import carry_out, conclude
from pipelines.requests import request
from pipelines.run import beam_options

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
    screen = console.Screen()
    if not carry_out(job, distribution.PublishDistribution(job), for_beam, screen):
        return DONE
    quantiles = pq.ParquetFile(io.BytesIO(release.read(options.output, QUANTILES))).read()
    statement = json.loads(release.read(options.output, release.STATEMENT))
    show(screen, quantiles, statement["mean"], options.confidence)
    conclude(job, screen)
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
