"""Heavy hitters among the kinds of metrics."""

from __future__ import annotations

import math

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from pipelines import release
from pipelines.console import numbers_table
from pipelines.kinds import Kind, Prediction
from pipelines.metrics.heavy_hitters.job import HeavyHittersJob, prepare
from pipelines.metrics.heavy_hitters.options import HeavyHittersOptions
from pipelines.metrics.heavy_hitters.publish import HeavyHittersRoad
from pipelines.metrics.heavy_hitters.report import labels
from pipelines.metrics.heavy_hitters.result import TABLE

_SHOWN = 20


def show_top(screen: Console, table: pa.Table, confidence: float) -> None:
    """The most frequent strings, as a table."""
    if not len(table):
        screen.print("no string stands out")
        return
    headings = ("share %", "± s.e.", f"{100 * confidence:g} % interval")
    title = f"the {min(_SHOWN, len(table))} most frequent of {len(table):,} strings"
    shown = numbers_table(("string",), headings, title)
    top = table.slice(0, _SHOWN)
    for label, row in zip(labels(top), top.to_pylist(), strict=True):
        shown.add_row(
            Text(label),  # a plain string would be read as markup
            f"{100 * row['estimate']:.3f}",
            f"{100 * row['standard_error']:.3f}",
            f"{100 * row['lower']:.3f} to {100 * row['upper']:.3f}",
        )
    screen.print(shown)


def show(screen: Console, job: HeavyHittersJob) -> None:
    """The most frequent strings of a release."""
    show_top(screen, release.read_table(job.options.output, TABLE), job.options.confidence)


def predicted(job: HeavyHittersJob) -> Prediction:
    """The share from which a string is sure to be found."""
    limit = job.plan.detection_limit
    told = "nothing is sure to be found" if limit == math.inf else f"finds {100 * limit:.2g} %"
    bits = (job.plan.protocol.levels.codes - 1).bit_length()
    return Prediction(job.plan.design.name, told, bits)


KIND = Kind(
    "heavy-hitters",
    HeavyHittersOptions,
    prepare,
    HeavyHittersRoad,
    show,
    predicted=predicted,
    foretold=lambda job: str(job.prospect),
)
