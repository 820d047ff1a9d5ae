"""The average row among the kinds of metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from pipelines import release
from pipelines.console import numbers_table
from pipelines.kinds import Kind, Prediction
from pipelines.metrics.mean.report import interval, number
from pipelines.metrics.vector_mean.job import VectorMeanJob, prepare
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from pipelines.metrics.vector_mean.publish import VectorMeanRoad
from pipelines.metrics.vector_mean.result import FREQUENCIES, TABLE
from transforms.attributes import categorical
from transforms.perturb_rows import SHORTENED
from transforms.progress import live

_SHOWN = 20
_LARGEST = 5  # shares of each category


def show(screen: Console, table: pa.Table, confidence: float) -> None:
    """The first coordinates, as a table."""
    shrunk = ["shrunk"] if "shrunk" in table.column_names else []
    headings = ["estimate", "± s.e.", f"{100 * confidence:g} % interval", *shrunk]
    title = f"{min(_SHOWN, len(table))} of {len(table):,} coordinates"
    shown = numbers_table(("coordinate",), headings, title)
    for row in table.slice(0, _SHOWN).to_pylist():
        cells = [number(row["estimate"]), number(row["standard_error"]), interval(row)]
        cells += [number(row["shrunk"]) for _ in shrunk]
        shown.add_row(Text(row["coordinate"]), *cells)  # a plain string would be read as markup
    screen.print(shown)


def show_shares(screen: Console, table: pa.Table, confidence: float, path: str) -> None:
    """The largest shares of each category, as a table, and where all of them are."""
    attributes = table["attribute"].unique().to_pylist()
    headings = ("share %", "± s.e.", f"{100 * confidence:g} % interval")
    told = f"{min(_SHOWN, len(attributes))} of {len(attributes):,} categories"
    title = f"the {_LARGEST} largest shares in each of {told}"
    shown = numbers_table(("category", "value"), headings, title)
    for attribute in attributes[:_SHOWN]:
        own = table.filter(pc.equal(table["attribute"], attribute))
        for row in own.sort_by([("estimate", "descending")]).slice(0, _LARGEST).to_pylist():
            shown.add_row(Text(attribute), Text(row["value"]), *_percents(row))
    screen.print(shown)
    told = f"all {len(table):,} shares: {path}"
    screen.print(told, highlight=False, markup=False, soft_wrap=True)


def _percents(row: Mapping[str, Any]) -> list[str]:
    """The numbers of a share; dashes where nobody reported the category."""
    parts = ("estimate", "standard_error", "lower", "upper")
    cells = {name: None if row[name] is None else 100 * row[name] for name in parts}
    return [number(cells["estimate"]), number(cells["standard_error"]), interval(cells)]


def show_release(screen: Console, job: VectorMeanJob) -> None:
    """The average row of a release, and of its categories who is most frequent."""
    folder, confidence = job.options.output, job.options.confidence
    show(screen, release.read_table(folder, TABLE), confidence)
    if categorical(job.attributes):
        shares = release.read_table(folder, FREQUENCIES)
        show_shares(screen, shares, confidence, f"{folder}/{FREQUENCIES}")
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
