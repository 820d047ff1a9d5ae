"""Errors of means against epsilon, delta, the number of users, and DCT's alpha."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from pipelines.evaluate import figures
from pipelines.evaluate.cells import Cell, Line, Outcome
from pipelines.evaluate.mean_data import Numbers
from pipelines.evaluate.mean_systems import System
from pipelines.evaluate.results import Measure, Results

_EPSILON = figures.Axis("epsilon of one report (nats)")
_DELTA = figures.Axis("delta of one report (a probability)")
_N = figures.Axis("users")
_ALPHA = figures.Axis("alpha of DCT")

Along = Sequence[Outcome | None]  # the outcomes of one line, None where there is none
Target = tuple[float, float]  # epsilon, delta
Drawn = Iterator[tuple[str, Figure]]  # (name of the file without its ending, figure)


@dataclass(frozen=True)
class MeanFigures:
    """Draws a measure along everything of which there is more than one.

    Attributes:
        data: the populations.
        systems: the system behind each line.
    """

    data: Sequence[Numbers]
    systems: Mapping[Line, System]

    def __call__(self, results: Results, measure: Measure) -> Drawn:
        """Every figure of a measure."""
        sheet = _Sheet(self, results, measure)
        found = [*sheet.by_epsilon(), *sheet.by_delta(), *sheet.by_n(), *sheet.by_alpha()]
        yield from found or [sheet.points()]

    def bases(self) -> dict[str, dict[int, Numbers]]:
        """The populations of each law or column, by their number of users."""
        bases: dict[str, dict[int, Numbers]] = {}
        for each in self.data:
            bases.setdefault(each.base, {})[each.n] = each
        return bases

    def groups(self) -> list[tuple[str, Sequence[Numbers]]]:
        """The populations that share a figure: all, unless some differ in nothing but n.

        Each with what tells the names of its files apart.
        """
        if all(len(by_n) == 1 for by_n in self.bases().values()):
            return [("", self.data)]
        ns = sorted({each.n for each in self.data})
        return [(f"-n-{n}", [each for each in self.data if each.n == n]) for n in ns]


@dataclass(frozen=True)
class _Sheet:
    """The figures of one measure."""

    about: MeanFigures
    results: Results
    measure: Measure

    def by_epsilon(self) -> Drawn:
        epsilons = self.results.epsilons
        for delta, (suffix, group) in product(self.results.deltas, self.about.groups()):
            panels = self._panels(group, [(epsilon, delta) for epsilon in epsilons])
            name, title = f"by-epsilon-delta-{delta:g}{suffix}", f"delta = {delta:g}"
            yield from self._draw(name, panels, epsilons, _EPSILON, title)

    def by_delta(self) -> Drawn:
        deltas = self.results.deltas
        for epsilon, (suffix, group) in product(self.results.epsilons, self.about.groups()):
            panels = self._panels(group, [(epsilon, delta) for delta in deltas])
            name, title = f"by-delta-epsilon-{epsilon:g}{suffix}", f"epsilon = {epsilon:g}"
            yield from self._draw(name, panels, deltas, _DELTA, title)

    def by_n(self) -> Drawn:
        at, bases = self.results.at(), self.about.bases()
        several = {base: by_n for base, by_n in bases.items() if len(by_n) > 1}
        ns = sorted({n for by_n in several.values() for n in by_n})

        def along(line: Line, by_n: Mapping[int, Numbers], target: Target) -> Along:
            there = (by_n.get(n) for n in ns)
            return [None if one is None else at[Cell(one.name, line, *target)] for one in there]

        for target in product(self.results.epsilons, self.results.deltas):
            panels = [
                self._panel(base, {line: along(line, by_n, target) for line in self.about.systems})
                for base, by_n in several.items()
            ]
            name = f"by-n-epsilon-{target[0]:g}-delta-{target[1]:g}"
            yield from self._draw(name, panels, ns, _N, _at(*target))

    def by_alpha(self) -> Drawn:
        at, systems = self.results.at(), self.about.systems
        alphas = sorted({each.alpha for each in systems.values() if each.alpha is not None})
        if len(alphas) < 2:
            return
        lines = {(each.name, each.alpha): line for line, each in systems.items()}
        # Of a DCT's lines the first stands for all; what has no alpha, or the best, is level.
        shown = [line for line, each in systems.items() if each.alpha in (None, *alphas[:1])]

        def along(line: Line, data: Numbers, target: Target) -> Along:
            name, level = systems[line].name, systems[line].alpha is None
            each = [line if level else lines[name, alpha] for alpha in alphas]
            return [at[Cell(data.name, one, *target)] for one in each]

        targets = product(self.results.epsilons, self.results.deltas)
        for target, (suffix, group) in product(targets, self.about.groups()):
            panels = [
                self._panel(data.title, {line: along(line, data, target) for line in shown}, True)
                for data in group
            ]
            name = f"by-alpha-epsilon-{target[0]:g}-delta-{target[1]:g}{suffix}"
            yield from self._draw(name, panels, alphas, _ALPHA, _at(*target))

    def points(self) -> tuple[str, Figure]:
        """All there is, where there is one of everything."""
        (epsilon,), (delta,) = self.results.epsilons, self.results.deltas
        panels = self._panels(self.about.data, [(epsilon, delta)])
        name = f"{self.measure.column}-epsilon-{epsilon:g}-delta-{delta:g}"
        return name, figures.draw_points(panels, self.measure.axis, _at(epsilon, delta))

    def _panels(self, group: Sequence[Numbers], targets: Sequence[Target]) -> list[figures.Panel]:
        """A panel for each population, along some (epsilon, delta)."""
        at = self.results.at()

        def along(line: Line, data: Numbers) -> Along:
            return [at[Cell(data.name, line, *target)] for target in targets]

        return [
            self._panel(data.title, {line: along(line, data) for line in self.about.systems})
            for data in group
        ]

    def _panel(self, title: str, found: Mapping[Line, Along], short: bool = False) -> figures.Panel:
        """A panel of lines; `short` leaves their alphas out of the legend."""
        order, curves = list(self.about.systems), []
        for line, along in found.items():
            system = self.about.systems[line]
            style = figures.Style(order.index(line), "--" if system.published else "-")
            label = system.name if short and system.alpha else str(line)
            bands = [band(each, self.measure) for each in along]
            curves.append(figures.Curve(label, style, *np.transpose(bands)))
        return figures.Panel(title, tuple(curves))

    def _draw(
        self,
        name: str,
        panels: Sequence[figures.Panel],
        values: Sequence[float],
        x: figures.Axis,
        title: str,
    ) -> Drawn:
        """One figure, or none where nothing varies."""
        if len(values) > 1 and panels:
            drawn = figures.draw(panels, values, x, self.measure.axis, title)
            yield f"{self.measure.column}-{name}", drawn


def band(outcome: Outcome | None, measure: Measure) -> tuple[float, float, float]:
    """Mean, and two standard errors of it either way, though not below the least; or a gap."""
    values = [] if outcome is None else [run[measure.column] for run in outcome.runs.values()]
    if not values:
        return (np.nan, np.nan, np.nan)
    mean = float(np.mean(values))
    reach = 2 * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return mean, max(mean - reach, min(values)), mean + reach


def _at(epsilon: float, delta: float) -> str:
    return f"epsilon = {epsilon:g}, delta = {delta:g}"
