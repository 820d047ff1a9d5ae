"""Figures of errors: one panel a population, one line a system, logarithmic axes.

Colours are those of Okabe and Ito, and darker ones that stay apart from them for every kind of
colour vision; each system has a marker of its own beside, so that a figure also reads in grey.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from mechanisms.channel import Floats

_COLOURS = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255",
    "#332288", "#888800", "#117733", "#777777",
)  # fmt: skip
_MARKERS = "osD^vPX*<>hp"
_COLUMNS = 2  # panels beside one another
_PANEL = (5.0, 3.7)  # inches
_LEGEND_ROW = 0.21  # inches
_DPI = 110
_NEAR = 10.0  # places whose ratio is smaller stand on an axis that is not logarithmic
_STYLE: Any = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "hushbeam"}


def styled() -> AbstractContextManager[None]:
    """Where figures are made, so that all look alike and equal ones are equal bytes."""
    return matplotlib.rc_context(_STYLE)


@dataclass(frozen=True)
class Curve:
    """One system's errors in one panel.

    Attributes:
        label: as the legend says it.
        system: a number, which has a colour and a marker of its own in all panels.
        dashes: as matplotlib calls them.
        middle: (points,) mean errors; NaN is a gap.
        low: (points,) where the band begins.
        high: (points,) where it ends.
        predicted: (points,) dotted; None for no prediction.
    """

    label: str
    system: int
    dashes: str
    middle: Floats
    low: Floats
    high: Floats
    predicted: Floats | None = None

    @property
    def look(self) -> dict[str, Any]:
        """Colour, marker and dashes."""
        return {
            "color": colour(self.system),
            # Past the last colour they begin again, with other markers.
            "marker": _MARKERS[(self.system + self.system // len(_COLOURS) * 5) % len(_MARKERS)],
            "linestyle": self.dashes,
            "linewidth": 1.4,
            "markersize": 4.5,
            "markeredgewidth": 0,
        }


@dataclass(frozen=True)
class Panel:
    """What one population shows.

    Attributes:
        title: above it.
        values: (points,) positive numbers, ascending: where the points stand.
        curves: the systems.
        mark: where an upright line stands, if anywhere.
    """

    title: str
    values: Sequence[float]
    curves: Sequence[Curve]
    mark: float | None = None


def draw(
    panels: Sequence[Panel], x: str, y: str, log: bool, title: str, bridged: bool = False
) -> Figure:
    """A figure of errors along something.

    Args:
        panels: at least one, each of two points at least.
        x: along what, with its unit.
        y: what was measured, with its unit.
        log: whether it is drawn on a logarithmic axis, and is no share.
        title: above everything.
        bridged: whether a line goes on over values at which it has no point; a gap otherwise.

    Returns:
        A figure that belongs to no window.
    """
    with styled():
        figure, axes = canvas(len(panels), _legend_rows(panels))
        for axis, panel in zip(axes, panels, strict=True):
            _fill(axis, panel, bridged)
            axis.set_yscale("log" if log else "linear")
            if not log:
                axis.set_ylim(-0.03, 1.03)
            axis.set_ylabel(y)
            axis.set_xlabel(x)
            frame(axis, panel.title)
        figure.suptitle(title, fontsize=11)
        _legend(figure, panels)
    return figure


def draw_points(panels: Sequence[Panel], y: str, log: bool, title: str) -> Figure:
    """A figure of errors at one setting: a row a system.

    Args:
        panels: at least one, each of one point.
        y: as in `draw`.
        log: as in `draw`.
        title: above everything.

    Returns:
        A figure that belongs to no window.
    """
    rows = max(len(panel.curves) for panel in panels)
    with styled():
        figure, axes = canvas(len(panels), 0, max(_PANEL[1], 0.22 * rows + 1))
        for axis, panel in zip(axes, panels, strict=True):
            for row, curve in enumerate(panel.curves):
                look = curve.look | {"linestyle": "none"}
                axis.hlines(row, curve.low, curve.high, color=look["color"], linewidth=3, alpha=0.4)
                axis.plot(curve.middle, [row], **look)
            axis.set_yticks(range(len(panel.curves)), [curve.label for curve in panel.curves])
            axis.invert_yaxis()
            axis.set_xscale("log" if log else "linear")
            axis.set_xlabel(y)
            frame(axis, panel.title)
        figure.suptitle(title, fontsize=11)
    return figure


def rendered(figure: Figure, kind: str) -> bytes:
    """The bytes of a figure.

    Args:
        figure: from `draw`.
        kind: "png" or "svg". Equal figures give equal bytes under one version of matplotlib.
    """
    buffer = io.BytesIO()
    stamp = {"Date": None} if kind == "svg" else {"Software": None}
    with styled():
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=stamp)
    return buffer.getvalue()


def canvas(panels: int, legend_rows: int, height: float = _PANEL[1]) -> tuple[Figure, list[Axes]]:
    """An empty figure with room for a legend below its panels."""
    columns = min(panels, _COLUMNS)
    rows = math.ceil(panels / columns)
    below = _LEGEND_ROW * (legend_rows + 1) if legend_rows else 0.0
    height = rows * height + below + 0.35
    figure = Figure(figsize=(max(columns * _PANEL[0], 6.5), height), layout="constrained")
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0.0, below / height, 1.0, 1.0 - below / height))  # type: ignore[call-arg]
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[panels:]:
        axis.set_visible(False)
    return figure, axes[:panels]


def frame(axis: Axes, title: str) -> None:
    """The title of a panel, and its grid."""
    axis.set_title(title, fontsize=9.5)
    axis.grid(which="major", linewidth=0.4, color="#cccccc")
    axis.set_axisbelow(True)


def colour(system: int) -> str:
    """The colour of a system's lines."""
    return _COLOURS[system % len(_COLOURS)]


def legend_of_colours(figure: Figure, labels: Sequence[str]) -> None:
    """Systems by their colours, below the panels."""
    handles = [Line2D([], [], color=colour(system)) for system in range(len(labels))]
    figure.legend(
        handles, list(labels), loc="lower center", ncols=min(5, len(labels)), frameon=False,
        fontsize=8.5,
    )  # fmt: skip


def _fill(axis: Axes, panel: Panel, bridged: bool) -> None:
    """The lines and bands of one panel."""
    x = panel.values
    for curve in panel.curves:
        look, drawn = curve.look, np.isfinite(curve.middle) | (not bridged)
        at, middle, low, high = (
            np.asarray(row)[drawn] for row in (x, curve.middle, curve.low, curve.high)
        )
        axis.fill_between(at, low, high, color=look["color"], alpha=0.18, linewidth=0)
        axis.plot(at, middle, **look)
        if at.size == 1:  # which no band shows
            axis.vlines(at, low, high, color=look["color"], linewidth=3, alpha=0.4)
    for curve in panel.curves:
        if curve.predicted is not None:
            axis.plot(x, curve.predicted, ":", color=curve.look["color"], linewidth=1)
    if panel.mark is not None:
        axis.axvline(panel.mark, color="#777777", linewidth=0.8)
    if not min(x) > 0:  # a share of nobody, say
        axis.set_xticks(x)
        return
    if bridged and max(x) / min(x) < _NEAR:
        return
    axis.set_xscale("log")
    if bridged:  # each point has a place of its own, and none is round
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    elif max(x) / min(x) < 1000:  # powers of ten alone would leave such an axis bare
        axis.set_xticks(_thinned(x))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())


def _thinned(x: Sequence[float]) -> list[float]:
    """Those of the points whose labels do not run into one another on a logarithmic axis."""
    apart = math.log(max(x) / min(x)) / 12
    kept = [x[0]]
    for value in x[1:]:
        if math.log(value / kept[-1]) >= apart:
            kept.append(value)
    return kept


def _legend_columns(panels: Sequence[Panel]) -> int:
    """How many names fit beside one another."""
    return min(3 if len(panels) == 1 else 5, max(1, len(_labels(panels))))


def _legend_rows(panels: Sequence[Panel]) -> int:
    return math.ceil(len(_labels(panels)) / _legend_columns(panels))


def _labels(panels: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    """The look of every line of any panel."""
    return {curve.label: curve.look for panel in panels for curve in panel.curves}


def _legend(figure: Figure, panels: Sequence[Panel]) -> None:
    """One legend for all panels, below them."""
    labels = _labels(panels)
    handles = [Line2D([], [], **look) for look in labels.values()]
    figure.legend(
        handles, list(labels), loc="lower center", ncols=_legend_columns(panels),
        frameon=False, handlelength=3.2, fontsize=8.5,
    )  # fmt: skip
