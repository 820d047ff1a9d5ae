"""The average row among the kinds of metrics."""

from __future__ import annotations

import math

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines import release
from pipelines.kinds import Kind, Prediction
from pipelines.mean.report import interval, number
from pipelines.vector_mean.job import VectorMeanJob, VectorMeanOptions, prepare
from pipelines.vector_mean.publish import VectorMeanRoad
from pipelines.vector_mean.result import TABLE
from transforms.perturb_rows import SHORTENED
from transforms.progress import live

_SHOWN = 20


def show(screen: Console, table: pa.Table, confidence: float) -> None:
    """The first coordinates, as a table."""
    shrunk = "shrunk" in table.column_names
    shown = Table(title=f"{min(_SHOWN, len(table))} of {len(table):,} coordinates")
    shown.add_column("coordinate")
    headings = ["estimate", "± s.e.", f"{100 * confidence:g} % interval"]
    for heading in [*headings, *(["shrunk"] if shrunk else [])]:
        shown.add_column(heading, justify="right")
    for row in table.slice(0, _SHOWN).to_pylist():
        cells = [number(row["estimate"]), number(row["standard_error"]), interval(row)]
        cells += [number(row["shrunk"])] if shrunk else []
        shown.add_row(Text(row["coordinate"]), *cells)  # a plain string would be read as markup
    screen.print(shown)


def show_release(screen: Console, job: VectorMeanJob) -> None:
    """The average row of a release."""
    show(screen, release.read_table(job.options.output, TABLE), job.options.confidence)
    long = live().get(SHORTENED, 0)
    if long:
        told = f"{long:,} rows were longer than --radius and were shortened; nobody else is told"
        screen.print(told, highlight=False)


def predicted(job: VectorMeanJob) -> Prediction:
    """The standard error of a coordinate at the least batch, whatever the rows are."""
    error = math.sqrt(job.worst_variance / max(job.min_reports, 2))
    told = f"coordinate ± {100 * error / 2:.2g} % of the distance of its bounds"
    return Prediction(job.design.name, told, job.design.bits * float(job.messages))


def declared(options: VectorMeanOptions) -> tuple[str, ...]:
    """What was declared of categories, and the prior, if they are files."""
    categories = (text.partition("=")[2] for text in options.category)
    prior = () if options.prior is None else (options.prior,)
    return (*categories, *prior)


def foretold(job: VectorMeanJob) -> str:
    """How far off a coordinate will be at the most, and whether that is worth the while."""
    reports = job.min_reports if job.options.user_column is not None else job.telemetry.rows
    error = math.sqrt(job.worst_variance / max(reports, 2))
    told = (
        f"a coordinate's standard error will be at most {error:.3g} with {reports:,} reports, its "
        "bounds being -1 and 1"
    )
    if error > 1:
        told += ": noise drowns every single one; have more reports or fewer coordinates"
    return told


KIND = Kind(
    "vector-mean",
    VectorMeanOptions,
    prepare,
    VectorMeanRoad,
    show_release,
    predicted=predicted,
    files=declared,
    foretold=foretold,
)
