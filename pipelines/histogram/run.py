"""One run of the histogram job, from what was typed to what is shown at the end."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from pipelines import console, release
from pipelines.errors import DONE
from pipelines.histogram import job as histogram
from pipelines.publishing import carry_out, conclude
from pipelines.requests import request
from pipelines.run import beam_options


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
    screen = console.Screen()
    if not carry_out(job, histogram.PublishHistogram(job), for_beam, screen):
        return DONE
    table = pq.ParquetFile(io.BytesIO(release.read(options.output, histogram.TABLE))).read()
    console.show_top(screen, table, 10, options.confidence)
    conclude(job, screen)
    return DONE
