"""From measured cells to what a person reads: a tidy table, refusals, a summary."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from hushbeam.studies.engine.cells import Cell, FigureLine, Outcome
from hushbeam.studies.engine.journal import write_whole
from hushbeam.studies.engine.measure import Band, Measure
from hushbeam.studies.populations.population import StudyPopulation
from pipelines.request import answers

_WIDEST = 5  # columns of numbers that fit a terminal


@dataclass(frozen=True)
class Results:
    """Every cell of a study with its outcome.

    Attributes:
        data: the populations, in the order of their panels.
        outcomes: cell -> what came of it, in the order of the grid.
    """

    data: Sequence[StudyPopulation]
    outcomes: Mapping[Cell, Outcome]

    @cached_property
    def populations(self) -> dict[str, StudyPopulation]:
        """Name -> population."""
        return {population.name: population for population in self.data}

    @property
    def lines(self) -> list[FigureLine]:
        """The lines, in the order of the request."""
        return list(dict.fromkeys(cell.line for cell in self.outcomes))

    @property
    def epsilons(self) -> list[float]:
        """Ascending."""
        return sorted({cell.epsilon for cell in self.outcomes})

    @property
    def deltas(self) -> list[float]:
        """Ascending."""
        return sorted({cell.delta for cell in self.outcomes})

    @property
    def refused(self) -> list[Outcome]:
        """What systems cannot serve."""
        return [outcome for outcome in self.outcomes.values() if outcome.refused is not None]

    @property
    def failed(self) -> list[Cell]:
        """What ended with an error that no system should raise."""
        return [cell for cell, outcome in self.outcomes.items() if outcome.failed is not None]

    def columns(self, cell: Cell) -> dict[str, Any]:
        """What tables and figures say of a cell, whatever came of it."""
        return {**self.populations[cell.data].columns, **cell.line.columns(cell)}

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each repetition of each cell, in the order of the grid."""
        for cell, outcome in self.outcomes.items():
            shared = {**self.columns(cell), **outcome.known}
            for _, run in sorted(outcome.runs.items()):
                yield {**shared, **run}


def write_table(
    folder: str, name: str, rows: Iterable[Mapping[str, Any]], schema: pa.Schema
) -> None:
    """Write a Parquet file; columns that a row has no value for are null in it."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), buffer, compression="zstd")
    write_whole(folder, name, buffer.getvalue())


def write_json(folder: str, name: str, content: Any) -> None:
    """Write a file of JSON that people can read."""
    write_whole(folder, name, (json.dumps(content, indent=2) + "\n").encode())


def refusals(results: Results) -> list[dict[str, Any]]:
    """What a system could not serve, and why."""
    return [
        {
            "data": cell.data,
            "system": cell.line.system,
            "bound": cell.line.bound,
            "model": cell.line.model,
            "epsilon": cell.epsilon,
            "delta": cell.delta,
            "reason": outcome.refused or f"failed with {outcome.failed}",
        }
        for cell, outcome in results.outcomes.items()
        if outcome.refused or outcome.failed
    ]


def show(screen: Console, results: Results, measures: Iterable[Measure]) -> None:
    """The means of every measure on every population, at the delta in the middle."""
    delta = results.deltas[len(results.deltas) // 2]
    for measure in measures:
        for population in results.data:
            screen.print(summary(results, population, measure, delta))


def summary(results: Results, data: StudyPopulation, measure: Measure, delta: float) -> Group:
    """Means for one population and one delta: a heading, a row a system, a column an epsilon."""
    epsilons = _spread(results.epsilons)
    few = len(epsilons) < _WIDEST  # so that errors fit, too
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("epsilon", no_wrap=True)
    for epsilon in epsilons:
        shown.add_column(f"{epsilon:g}", justify="right", no_wrap=True)
    for line in results.lines:
        cells = (Cell(data.name, line, epsilon, delta) for epsilon in epsilons)
        bands = [measure.band(results.outcomes[cell]) for cell in cells]
        settings = {"data": data.name, "measure": measure.column, "system": str(line)}
        answers.add("rows", *(
            {**settings, "epsilon": epsilon, "delta": delta, "mean": band.middle,
             **({"standard_error": band.error} if measure.errors else {})}
            for epsilon, band in zip(epsilons, bands, strict=True)
        ))  # fmt: skip
        shown.add_row(str(line), *(_said(band, measure.errors and few) for band in bands))
    return Group(Text(f"{data.title}, delta {delta:g}: {measure.label}"), shown)


def say(screen: Console, line: str) -> None:
    """Print a line as it is, however long."""
    screen.print(line, highlight=False, markup=False, soft_wrap=True)


def _said(band: Band, errors: bool) -> str:
    """A mean, with its standard error in per cent of it where bands are of these."""
    if np.isnan(band.middle):
        return "-"
    known = errors and band.error > 0 and band.middle > 0
    per_cent = max(1, round(100 * band.error / band.middle)) if known else 0
    return f"{band.middle:.3g}" + f" ±{per_cent}%" * known


def _spread(values: list[float]) -> list[float]:
    """As many as fit, from the first to the last."""
    if len(values) <= _WIDEST:
        return values
    places = np.linspace(0, len(values) - 1, _WIDEST).round().astype(int)
    return [values[place] for place in places]
