"""Which figures there are: errors along everything of which there is more than one.

A figure is data: its texts name columns in braces, and whatever has the same text after the columns
of its cells were put in belongs together: in a file, a panel, a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from hushbeam.studies.engine.cells import FigureLine, Outcome
from hushbeam.studies.engine.journal import write_whole
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.results import Results
from hushbeam.studies.populations.population import StudyPopulation
from mechanisms.channel import Floats

# matplotlib takes a second to import, and a request may be refused before anything is drawn.
if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hushbeam.studies.engine.drawing import Panel

_T = TypeVar("_T")

Drawn = Iterable[tuple[str, "Figure"]]  # (name of the file without its ending, figure)


@dataclass(frozen=True)
class FigurePoint:
    """A cell as figures see it.

    Attributes:
        line: that it is a point of.
        population: that was simulated.
        columns: those of its table, and besides them `title`, `label` and `size` of its population,
            `curve`, the label of its line, and `drawn`, a name that no other system has.
        outcome: what came of it.
    """

    line: FigureLine
    population: StudyPopulation
    columns: dict[str, Any]
    outcome: Outcome


@dataclass(frozen=True)
class Sheet:
    """A figure of errors at one setting: a row a system.

    Attributes:
        name: of the file, after that of the measure.
        title: above everything.
        panel: above a panel; of populations that differ in more than size none share one.
        curve: in the legend.
        look: what has a colour and a marker of its own.
    """

    name: str
    title: str
    panel: str = "{title}"
    curve: str = "{curve}"
    look: str = "{drawn}"

    def place(self, point: FigurePoint) -> float | None:
        """Where a point stands; None for anywhere."""
        return None

    def prediction(self, outcomes: Sequence[Outcome | None]) -> Floats | None:
        """What was expected of the cells of a line, if that is drawn."""
        return None

    def mark(self, points: Sequence[FigurePoint]) -> float | None:
        """Where an upright line stands in a panel, if anywhere."""
        return None

    def draw(self, panels: Sequence[Panel], measure: Measure, title: str) -> Figure | None:
        """The figure of some panels."""
        from hushbeam.studies.engine.drawing import draw_points

        return draw_points(panels, measure.label, measure.log, title)


@dataclass(frozen=True)
class Along(Sheet):
    """A figure of errors along a column, wherever there are several values of it.

    Attributes:
        x: the column. A line that has no value in it is level.
        axis: what the column is, with its unit.
        predicted: the column that is drawn dotted, or "".
        marked: gives `mark`.
        bridged: whether lines go on over the places of others.
    """

    x: str = "epsilon"
    axis: str = ""
    predicted: str = ""
    marked: Callable[[Sequence[FigurePoint]], float | None] | None = None

    bridged: ClassVar[bool] = False

    def place(self, point: FigurePoint) -> float | None:
        value: float | None = point.columns[self.x]
        return value

    def prediction(self, outcomes: Sequence[Outcome | None]) -> Floats | None:
        if not self.predicted:
            return None
        known = [one.known.get(self.predicted) if one is not None else None for one in outcomes]
        return np.array([math.nan if value is None else value for value in known])

    def mark(self, points: Sequence[FigurePoint]) -> float | None:
        return None if self.marked is None else self.marked(points)

    def draw(self, panels: Sequence[Panel], measure: Measure, title: str) -> Figure | None:
        from hushbeam.studies.engine.drawing import draw

        several = [panel for panel in panels if len(panel.values) > 1]
        if not several:
            return None
        return draw(several, self.axis, measure.label, measure.log, title, self.bridged)


@dataclass(frozen=True)
class Costs(Along):
    """A figure of errors against what they cost: a point a system, which `x` follows from."""

    bridged: ClassVar[bool] = True

    def place(self, point: FigurePoint) -> float | None:
        cost: float | None = point.outcome.known.get(self.x)
        return cost


BY_EPSILON = Along(
    name="-by-epsilon-delta-{delta:g}",
    title="delta = {delta:g}",
    x="epsilon",
    axis="epsilon of the release (nats)",
)
BY_DELTA = Along(
    name="-by-delta-epsilon-{epsilon:g}",
    title="epsilon = {epsilon:g}",
    x="delta",
    axis="delta of the release (a probability)",
)
ALONE = Sheet(
    name="-epsilon-{epsilon:g}-delta-{delta:g}", title="epsilon = {epsilon:g}, delta = {delta:g}"
)


def figures(
    results: Results,
    measure: Measure,
    along: Sequence[Along],
    alone: Sheet | None,
    costs: Sequence[Costs] = (),
) -> Drawn:
    """Every figure of a measure.

    Args:
        results: what was measured.
        measure: what is drawn.
        along: the figures, of which those are drawn that have several points.
        alone: the figure in their place where there is one of everything, if any.
        costs: the figures besides.

    Returns:
        (name of the file without its ending, figure) of each.
    """
    points = _points(results)
    drawn = [figure for sheet in along for figure in _drawn(sheet, points, measure)]
    if alone is not None and not drawn:
        drawn = list(_drawn(alone, points, measure))
    beside = [figure for sheet in costs for figure in _drawn(sheet, points, measure)]
    return [*drawn, *beside]


def _points(results: Results) -> list[FigurePoint]:
    """Every cell."""
    bases = [population.base for population in results.data]
    several = len(set(bases)) < len(bases)
    points = []
    for cell, outcome in results.outcomes.items():
        population = results.populations[cell.data]
        columns = {
            "title": population.title,
            "label": population.label,
            # Tells files apart where populations that differ in size alone would share panels.
            "size": population.size if several else "",
            "curve": str(cell.line),
            "drawn": cell.line.system,
            **results.columns(cell),
        }
        points.append(FigurePoint(cell.line, population, columns, outcome))
    return points


def _drawn(sheet: Sheet, points: Sequence[FigurePoint], measure: Measure) -> Drawn:
    """The figures of a sheet."""
    looks = list(dict.fromkeys(sheet.look.format(**point.columns) for point in points))
    for name, members in _grouped(points, lambda point: sheet.name.format(**point.columns)):
        panels = [
            _panel(sheet, title, group, measure, looks)
            for (title, _), group in _grouped(
                members, lambda point: (sheet.panel.format(**point.columns), point.population.base)
            )
        ]
        figure = sheet.draw(panels, measure, sheet.title.format(**members[0].columns))
        if figure is not None:
            yield f"{measure.column}{name}", figure


def _panel(
    sheet: Sheet, title: str, points: Sequence[FigurePoint], measure: Measure, looks: Sequence[str]
) -> Panel:
    """Lines with their bands; a gap where there is nothing."""
    from hushbeam.studies.engine.drawing import Curve, Panel

    places = [sheet.place(point) for point in points]
    values = sorted({place for place in places if place is not None}) or [math.nan]
    curves = []
    for label, members in _grouped(points, lambda point: sheet.curve.format(**point.columns)):
        at = {sheet.place(point): point.outcome for point in members}
        outcomes = [at.get(value, at.get(None)) for value in values]
        middle, low, high = np.transpose([measure.band(outcome) for outcome in outcomes])
        first, predicted = members[0], sheet.prediction(outcomes)
        look = looks.index(sheet.look.format(**first.columns))
        curve = Curve(label, look, first.line.dashes, middle, low, high, predicted)
        curves.append(curve)
    return Panel(title, values, curves, sheet.mark(points))


def _grouped(items: Iterable[_T], key: Callable[[_T], Any]) -> Iterable[tuple[Any, list[_T]]]:
    """What has the same key, in the order in which keys come first."""
    groups: dict[Hashable, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups.items()


def write_figures(folder: str, drawn: Drawn) -> None:
    """Write figures as .png and .svg."""
    from hushbeam.studies.engine.drawing import rendered

    for name, figure in drawn:
        for kind in ("png", "svg"):
            write_whole(folder, f"{name}.{kind}", rendered(figure, kind))
