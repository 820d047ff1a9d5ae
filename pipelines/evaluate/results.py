"""From measured cells to what a person reads: a tidy table, refusals, a summary, figures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipelines.evaluate import figures
from pipelines.evaluate.cells import Cell, Line, Outcome
from pipelines.evaluate.data import Data

_BAND = (0.1, 0.9)  # quantiles over repetitions
_DASHES = {"exact": "-", "published": "--"}
_WIDEST = 5  # columns of numbers that fit a terminal


@dataclass(frozen=True)
class Measure:
    """A column that is drawn and summed up.

    Attributes:
        column: of the results.
        label: what it is, for an axis.
        log: whether its axis is logarithmic; a share of 1 is not.
    """

    column: str
    label: str
    log: bool = True

    @property
    def axis(self) -> figures.Axis:
        """Where it is drawn."""
        return figures.Axis(self.label, self.log)


@dataclass(frozen=True)
class Results:
    """Every cell of an evaluation with its outcome.

    Attributes:
        data: the data sets, in the order of their panels.
        cells: (cells,)
        outcomes: (cells,)
    """

    data: Sequence[Data]
    cells: Sequence[Cell]
    outcomes: Sequence[Outcome]

    @property
    def lines(self) -> list[Line]:
        """The lines, in the order asked for."""
        return list(dict.fromkeys(cell.line for cell in self.cells))

    @property
    def epsilons(self) -> list[float]:
        """Ascending."""
        return sorted({cell.epsilon for cell in self.cells})

    @property
    def deltas(self) -> list[float]:
        """Ascending."""
        return sorted({cell.delta for cell in self.cells})

    @property
    def refused(self) -> list[Cell]:
        """What a system cannot serve."""
        return [cell for cell, outcome in self.at().items() if outcome.refused is not None]

    @property
    def failed(self) -> list[Cell]:
        """What ended with an error that no system should raise."""
        return [cell for cell, outcome in self.at().items() if outcome.failed is not None]

    def at(self) -> dict[Cell, Outcome]:
        """The outcome of each cell."""
        return dict(zip(self.cells, self.outcomes, strict=True))


def table(results: Results, schema: pa.Schema) -> bytes:
    """results.parquet: a row for each repetition of each cell, in the order of the cells.

    Args:
        results: what was measured.
        schema: the columns; those that a row has no value for are null.
    """
    populations = {each.name: {"n": each.n, "d": each.d} for each in results.data}
    rows: list[dict[str, Any]] = []
    for cell, outcome in results.at().items():
        about = {**_about(cell), **populations[cell.data], **outcome.known}
        rows.extend({**about, **outcome.runs[each]} for each in sorted(outcome.runs))
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), buffer, compression="zstd")
    return buffer.getvalue()


def refusals(results: Results) -> bytes:
    """refused.json: what a system could not serve, and why."""
    found = [
        {**_about(cell), "reason": outcome.refused or f"failed with {outcome.failed}"}
        for cell, outcome in results.at().items()
        if outcome.refused or outcome.failed
    ]
    return (json.dumps(found, indent=2) + "\n").encode()


def summary(results: Results, data: Data, measure: Measure, delta: float) -> Group:
    """Means for one data set and one delta: a heading, a row a system, a column an epsilon."""
    at, epsilons = results.at(), _spread(results.epsilons)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("epsilon", no_wrap=True)
    for epsilon in epsilons:
        shown.add_column(f"{epsilon:g}", justify="right", no_wrap=True)
    for line in results.lines:
        found = [at[Cell(data.name, line, epsilon, delta)] for epsilon in epsilons]
        means = [_mean(outcome, measure) for outcome in found]
        shown.add_row(str(line), *("-" if each is None else f"{each:.3g}" for each in means))
    return Group(Text(f"{data.title}, delta {delta:g}: {measure.label}"), shown)


def draw(results: Results, measure: Measure) -> Iterator[tuple[str, Figure]]:
    """Figures of a measure: against epsilon for each delta, and against delta for each epsilon.

    Args:
        results: what was measured.
        measure: what is drawn.

    Yields:
        (name of the file without its ending, figure)
    """
    epsilons, deltas, column = results.epsilons, results.deltas, measure.column
    if len(epsilons) == len(deltas) == 1:
        panels = _panels(results, measure, [(epsilons[0], deltas[0])])
        title = f"epsilon = {epsilons[0]:g}, delta = {deltas[0]:g}"
        name = f"{column}-epsilon-{epsilons[0]:g}-delta-{deltas[0]:g}"
        yield name, figures.draw_points(panels, measure.axis, title)
    if len(epsilons) > 1:
        for delta in deltas:
            panels = _panels(results, measure, [(epsilon, delta) for epsilon in epsilons])
            x = figures.Axis("epsilon of the release (nats)")
            drawn = figures.draw(panels, epsilons, x, measure.axis, f"delta = {delta:g}")
            yield f"{column}-by-epsilon-delta-{delta:g}", drawn
    if len(deltas) > 1:
        for epsilon in epsilons:
            panels = _panels(results, measure, [(epsilon, delta) for delta in deltas])
            x = figures.Axis("delta of the release (a probability)")
            drawn = figures.draw(panels, deltas, x, measure.axis, f"epsilon = {epsilon:g}")
            yield f"{column}-by-delta-epsilon-{epsilon:g}", drawn


def _panels(
    results: Results, measure: Measure, targets: Sequence[tuple[float, float]]
) -> list[figures.Panel]:
    """A panel for each data set, along some (epsilon, delta)."""
    at, order = results.at(), list(dict.fromkeys(line.system for line in results.lines))

    def curve(data: Data, line: Line) -> figures.Curve:
        found = (at[Cell(data.name, line, epsilon, delta)] for epsilon, delta in targets)
        middle, low, high = np.transpose([_band(outcome, measure) for outcome in found])
        dashes = "-." if "@" in line.label else _DASHES[line.bound]
        style = figures.Style(order.index(line.system), dashes)
        return figures.Curve(str(line), style, middle, low, high)

    return [
        figures.Panel(data.title, tuple(curve(data, line) for line in results.lines))
        for data in results.data
    ]


def _band(outcome: Outcome, measure: Measure) -> tuple[float, float, float]:
    """Mean and quantiles over repetitions; NaN, which is drawn as a gap, where there are none."""
    values = [run[measure.column] for run in outcome.runs.values()]
    if not values:
        return (np.nan, np.nan, np.nan)
    low, high = np.quantile(values, _BAND)
    return float(np.mean(values)), float(low), float(high)


def _mean(outcome: Outcome, measure: Measure) -> float | None:
    values = [run[measure.column] for run in outcome.runs.values()]
    return float(np.mean(values)) if values else None


def _about(cell: Cell) -> Mapping[str, Any]:
    """What a cell is, as columns."""
    line = cell.line
    return {
        "data": cell.data,
        "system": line.system,
        "bound": line.bound,
        "model": line.model,
        "epsilon": cell.epsilon,
        "delta": cell.delta,
    }


def _spread(values: list[float]) -> list[float]:
    """As many as fit, from the first to the last."""
    if len(values) <= _WIDEST:
        return values
    places = np.linspace(0, len(values) - 1, _WIDEST).round().astype(int)
    return [values[place] for place in places]
