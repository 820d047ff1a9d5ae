"""Errors of many means against epsilon, the dimension and the number of users."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from mechanisms.channel import Floats
from pipelines.evaluate import figures
from pipelines.evaluate.cells import Cell, Line, Outcome
from pipelines.evaluate.results import Measure, Results
from pipelines.evaluate.vector_mean_crossing import HM, predicted_crossing
from pipelines.evaluate.vector_mean_data import Rows
from pipelines.evaluate.vector_mean_systems import RPHM, System

_EPSILON = figures.Axis("epsilon of one report (nats)")
_D = figures.Axis("numbers of a user (d)")
_N = figures.Axis("users")
_DOTTED = "dotted: predicted"

Drawn = Iterator[tuple[str, Figure]]  # (name of the file without its ending, figure)
Along = Sequence[Outcome | None]  # the outcomes of one line, None where there is none


@dataclass(frozen=True)
class VectorFigures:
    """Draws a measure along everything of which there is more than one, with what was expected.

    Attributes:
        data: the populations.
        systems: the system behind each line.
    """

    data: Sequence[Rows]
    systems: Mapping[Line, System]

    def __call__(self, results: Results, measure: Measure) -> Drawn:
        """Every figure of a measure."""
        sheet = _Sheet(self, results, measure)
        found = [*sheet.by_epsilon(), *sheet.by_dimension(), *sheet.by_n()]
        yield from found or [sheet.points()]

    def groups(self) -> list[tuple[str, list[Rows]]]:
        """The populations that share a figure: all, unless some differ in nothing but n or d.

        Each with what tells the names of its files apart.
        """
        bases = [each.base for each in self.data]
        if len(set(bases)) == len(bases):
            return [("", list(self.data))]
        sizes = sorted({(each.n, each.d) for each in self.data})
        return [
            (f"-n-{n}-d-{d}", [each for each in self.data if (each.n, each.d) == (n, d)])
            for n, d in sizes
        ]


@dataclass(frozen=True)
class _Sheet:
    """The figures of one measure."""

    about: VectorFigures
    results: Results
    measure: Measure

    def by_epsilon(self) -> Drawn:
        epsilons = self.results.epsilons
        for suffix, group in self.about.groups():
            panels = [(each.title, [(each, e) for e in epsilons]) for each in group]
            if len(epsilons) > 1:
                yield self._draw(f"by-epsilon{suffix}", panels, epsilons, _EPSILON, _DOTTED)

    def by_dimension(self) -> Drawn:
        for epsilon in self.results.epsilons:
            groups = self._along("n", "d")
            for several in dict.fromkeys(tuple(by_d) for by_d in groups.values()):
                panels = [
                    (f"{_label(by_d)} (n = {n:,})", [(one, epsilon) for one in by_d.values()])
                    for (_, n), by_d in groups.items()
                    if tuple(by_d) == several
                ]
                yield self._draw(
                    f"by-dimension-epsilon-{epsilon:g}{_which(groups, several)}", panels,
                    several, _D, f"epsilon = {epsilon:g} ({_DOTTED})",
                )  # fmt: skip

    def by_n(self) -> Drawn:
        for epsilon in self.results.epsilons:
            groups = self._along("d", "n")
            for several in dict.fromkeys(tuple(by_n) for by_n in groups.values()):
                shown = {key: by_n for key, by_n in groups.items() if tuple(by_n) == several}
                panels = [
                    (f"{_label(by_n)} (d = {d:,})", [(one, epsilon) for one in by_n.values()])
                    for (_, d), by_n in shown.items()
                ]
                name, drawn = self._draw(
                    f"by-n-epsilon-{epsilon:g}{_which(groups, several)}", panels,
                    several, _N, f"epsilon = {epsilon:g} ({_DOTTED}; upright: predicted crossing)",
                )  # fmt: skip
                self._mark_crossings(drawn, shown, epsilon)
                yield name, drawn

    def points(self) -> tuple[str, Figure]:
        """All there is, where there is one of everything."""
        (epsilon,) = self.results.epsilons
        panels = [self._panel(each.title, [(each, epsilon)]) for each in self.about.data]
        drawn = figures.draw_points(panels, self.measure.axis, f"epsilon = {epsilon:g}")
        return f"{self.measure.column}-epsilon-{epsilon:g}", drawn

    def _along(self, fixed: str, varied: str) -> dict[tuple[str, int], dict[int, Rows]]:
        """The populations that differ in n or in d alone, where there are several."""
        found: dict[tuple[str, int], dict[int, Rows]] = {}
        for each in sorted(self.about.data, key=lambda rows: (rows.n, rows.d)):
            found.setdefault((each.base, getattr(each, fixed)), {})[getattr(each, varied)] = each
        return {key: group for key, group in found.items() if len(group) > 1}

    def _outcomes(self, line: Line, places: Sequence[tuple[Rows, float]]) -> Along:
        at, (delta,) = self.results.at(), self.results.deltas
        return [at[Cell(rows.name, line, epsilon, delta)] for rows, epsilon in places]

    def _panel(self, title: str, places: Sequence[tuple[Rows, float]]) -> figures.Panel:
        """A panel of lines along some (population, epsilon)."""
        curves = []
        for order, line in enumerate(self.about.systems):
            bands = [band(each, self.measure) for each in self._outcomes(line, places)]
            style = figures.Style(order, "-")
            curves.append(figures.Curve(str(line), style, *np.transpose(bands)))
        return figures.Panel(title, tuple(curves))

    def _draw(
        self,
        name: str,
        panels: Sequence[tuple[str, Sequence[tuple[Rows, float]]]],
        values: Sequence[float],
        x: figures.Axis,
        title: str,
    ) -> tuple[str, Figure]:
        """What was measured, and dotted what was expected."""
        filled = [self._panel(*panel) for panel in panels]
        drawn = figures.draw(filled, values, x, self.measure.axis, title)
        with matplotlib.rc_context(figures.STYLE):
            for axis, (_, places) in zip(drawn.axes, panels, strict=False):
                for order, line in enumerate(self.about.systems):
                    expected = _expected(self._outcomes(line, places))
                    axis.plot(values, expected, ":", color=figures.colour(order), linewidth=1)
        return f"{self.measure.column}-{name}", drawn

    def _mark_crossings(
        self, drawn: Figure, groups: Mapping[tuple[str, int], Mapping[int, Rows]], epsilon: float
    ) -> None:
        """An upright line where Multi-HM is expected to overtake Multi-RPHM."""
        if not {HM, RPHM} <= {each.name for each in self.about.systems.values()}:
            return
        for axis, by_n in zip(drawn.axes, groups.values(), strict=False):
            crossing = predicted_crossing(by_n[max(by_n)], epsilon)
            if min(by_n) <= crossing <= max(by_n):
                axis.axvline(crossing, color="#777777", linewidth=0.8)


def _which(groups: Mapping[tuple[str, int], Mapping[int, Rows]], several: tuple[int, ...]) -> str:
    """What tells figures apart if not all populations have the same sizes."""
    alike = {tuple(group) for group in groups.values()}
    return "" if len(alike) == 1 else f"-{several[0]}-to-{several[-1]}"


def _label(among: Mapping[int, Rows]) -> str:
    """What populations that differ in n or d alone are called."""
    return next(iter(among.values())).label


def _expected(along: Along) -> Floats:
    """(points,) predicted errors; NaN, which is a gap, where there is none."""
    known = [None if one is None else one.known.get("predicted_error") for one in along]
    return np.array([np.nan if each is None else each for each in known])


def band(outcome: Outcome | None, measure: Measure) -> tuple[float, float, float]:
    """Mean, and two standard errors of it either way, though not below the least; or a gap."""
    values = [] if outcome is None else [run[measure.column] for run in outcome.runs.values()]
    if not values:
        return (np.nan, np.nan, np.nan)
    mean = float(np.mean(values))
    reach = 2 * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return mean, max(mean - reach, min(values)), mean + reach
