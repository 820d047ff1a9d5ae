"""Test errors against epsilon and against the number of users."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from pipelines.evaluate import figures
from pipelines.evaluate.cells import Cell, Line, Outcome
from pipelines.evaluate.results import Measure, Results
from pipelines.evaluate.train_data import Rows
from pipelines.evaluate.train_systems import PUBLIC, PUBLISHED

FOLDS = ("fold_1", "fold_2", "fold_3", "fold_4", "fold_5")

_EPSILON = figures.Axis("epsilon of the run (nats)")
_N = figures.Axis("users")

Drawn = Iterator[tuple[str, Figure]]  # (name of the file without its ending, figure)
Band = tuple[float, float, float]


@dataclass(frozen=True)
class TrainFigures:
    """Draws errors along what there is more than one of.

    Attributes:
        data: the populations.
        systems: names, in the order of their colours.
    """

    data: Sequence[Rows]
    systems: Sequence[str]

    def __call__(self, results: Results, measure: Measure) -> Drawn:
        """Every figure of a measure."""
        found = [*self._by_epsilon(results, measure), *self._by_n(results, measure)]
        yield from found or [self._points(results, measure)]

    def _by_epsilon(self, results: Results, measure: Measure) -> Drawn:
        """A panel a population, unless there is one epsilon alone."""
        if len(results.epsilons) < 2:
            return
        at, delta = results.at(), results.deltas[0]
        panels = []
        for data in self.data:
            along = {
                line: [at[Cell(data.name, line, e, delta)] for e in results.epsilons]
                for line in results.lines
            }
            panels.append(self._panel(data.title, along))
        y = figures.Axis(measure.label, measure.log)
        drawn = figures.draw(panels, results.epsilons, _EPSILON, y, "five-fold cross-validation")
        yield f"{measure.column}-by-epsilon", drawn

    def _by_n(self, results: Results, measure: Measure) -> Drawn:
        """A panel an epsilon, for each population of which there are several sizes."""
        at, delta = results.at(), results.deltas[0]
        bases: dict[str, list[Rows]] = {}
        for each in self.data:
            bases.setdefault(each.base, []).append(each)
        y = figures.Axis(measure.label, measure.log)
        for base, sizes in bases.items():
            if len(sizes) < 2:
                continue
            panels = []
            for epsilon in results.epsilons:
                along = {
                    line: [at[Cell(each.name, line, epsilon, delta)] for each in sizes]
                    for line in results.lines
                }
                panels.append(self._panel(f"epsilon = {epsilon:g}", along))
            ns = [each.n for each in sizes]
            yield f"{measure.column}-by-n-{base}", figures.draw(panels, ns, _N, y, base)

    def _points(self, results: Results, measure: Measure) -> tuple[str, Figure]:
        """All there is, where there is one of everything."""
        at, (epsilon, *_), delta = results.at(), results.epsilons, results.deltas[0]
        panels = [
            self._panel(
                data.title, {x: [at[Cell(data.name, x, epsilon, delta)]] for x in results.lines}
            )
            for data in self.data
        ]
        y = figures.Axis(measure.label, measure.log)
        return f"{measure.column}", figures.draw_points(panels, y, f"epsilon = {epsilon:g}")

    def _panel(self, title: str, found: Mapping[Line, Sequence[Outcome]]) -> figures.Panel:
        curves = []
        for line, along in found.items():
            dashes = ":" if line.system in PUBLIC else "--" if line.system == PUBLISHED else "-"
            style = figures.Style(self.systems.index(line.system), dashes)
            curves.append(
                figures.Curve(str(line), style, *np.transpose([band(each) for each in along]))
            )
        return figures.Panel(title, tuple(curves))


def band(outcome: Outcome) -> Band:
    """The mean over all folds, and two standard errors of it either way; NaN without any."""
    values = np.array([run[fold] for run in outcome.runs.values() for fold in FOLDS])
    if not values.size:
        return (np.nan, np.nan, np.nan)
    mean, reach = float(values.mean()), 2 * float(values.std(ddof=1)) / math.sqrt(values.size)
    return mean, mean - reach, mean + reach
