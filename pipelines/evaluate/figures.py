"""Figures of errors: one panel a data set, one line a system, logarithmic axes.

Colours are those of Okabe and Ito, and darker ones that stay apart from them for every kind of
colour vision; each system has a marker of its own beside, so that a figure also reads in grey.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

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
STYLE: Any = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "hushbeam"}


@dataclass(frozen=True)
class Axis:
    """What an axis says: its quantity with its unit; if it is not logarithmic, a share."""

    label: str
    log: bool = True

    @property
    def scale(self) -> str:
        """As matplotlib calls it."""
        return "log" if self.log else "linear"


@dataclass(frozen=True)
class Style:
    """How a line is drawn: systems differ in colour and marker, bounds and models in dashes."""

    system: int
    dashes: str


@dataclass(frozen=True)
class Curve:
    """One system's errors in one panel.

    Attributes:
        label: as the legend says it.
        style: the same in all panels.
        middle: (points,) mean errors; NaN is a gap.
        low: (points,) where the band begins.
        high: (points,) where it ends.
    """

    label: str
    style: Style
    middle: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Panel:
    """What one data set shows."""

    title: str
    curves: tuple[Curve, ...]


def draw(panels: Sequence[Panel], values: Sequence[float], x: Axis, y: Axis, title: str) -> Figure:
    """A figure of what was measured against epsilon or delta.

    Args:
        panels: at least one.
        values: (points,) positive numbers, ascending, at least two: where the points stand.
        x: what they are.
        y: what was measured.
        title: above everything.

    Returns:
        A figure that belongs to no window.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = canvas(len(panels), _legend_rows(panels))
        for axis, panel in zip(axes, panels, strict=True):
            _fill(axis, panel, values)
            axis.set_yscale(y.scale)
            if not y.log:
                axis.set_ylim(-0.03, 1.03)
            axis.set_ylabel(y.label)
            axis.set_xlabel(x.label)
            frame(axis, panel)
        figure.suptitle(title, fontsize=11)
        _legend(figure, panels)
    return figure


def draw_points(panels: Sequence[Panel], y: Axis, title: str) -> Figure:
    """A figure of what was measured at one epsilon and one delta: a row a system.

    Args:
        panels: at least one; their curves have one point each.
        y: what was measured.
        title: above everything.

    Returns:
        A figure that belongs to no window.
    """
    rows = max(len(panel.curves) for panel in panels)
    with matplotlib.rc_context(STYLE):
        figure, axes = canvas(len(panels), 0, max(_PANEL[1], 0.22 * rows + 1))
        for axis, panel in zip(axes, panels, strict=True):
            for row, curve in enumerate(panel.curves):
                look = _look(curve.style) | {"linestyle": "none"}
                axis.hlines(row, curve.low, curve.high, color=look["color"], linewidth=3, alpha=0.4)
                axis.plot(curve.middle, [row], **look)
            axis.set_yticks(range(len(panel.curves)), [curve.label for curve in panel.curves])
            axis.invert_yaxis()
            axis.set_xscale(y.scale)
            axis.set_xlabel(y.label)
            frame(axis, panel)
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
    with matplotlib.rc_context(STYLE):
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


def _fill(axis: Axes, panel: Panel, x: Sequence[float]) -> None:
    """The lines and bands of one panel."""
    for curve in panel.curves:
        look = _look(curve.style)
        axis.fill_between(x, curve.low, curve.high, color=look["color"], alpha=0.18, linewidth=0)
        axis.plot(x, curve.middle, **look)
    axis.set_xscale("log")
    if max(x) / min(x) < 1000:  # powers of ten alone would leave such an axis bare
        axis.set_xticks(_thinned(x))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())


def frame(axis: Axes, panel: Panel) -> None:
    """The title of a panel, and its grid."""
    axis.set_title(panel.title, fontsize=9.5)
    axis.grid(which="major", linewidth=0.4, color="#cccccc")
    axis.set_axisbelow(True)


def _thinned(x: Sequence[float]) -> list[float]:
    """Those of the points whose labels do not run into one another on a logarithmic axis."""
    apart = math.log(max(x) / min(x)) / 12
    kept = [x[0]]
    for value in x[1:]:
        if math.log(value / kept[-1]) >= apart:
            kept.append(value)
    return kept


def colour(system: int) -> str:
    """The colour of a system's lines."""
    return _COLOURS[system % len(_COLOURS)]


def _look(style: Style) -> dict[str, Any]:
    """Colour, marker and dashes."""
    system = style.system
    return {
        "color": colour(system),
        # Past the last colour they begin again, with other markers.
        "marker": _MARKERS[(system + system // len(_COLOURS) * 5) % len(_MARKERS)],
        "linestyle": style.dashes,
        "linewidth": 1.4,
        "markersize": 4.5,
        "markeredgewidth": 0,
    }


def _legend_columns(panels: Sequence[Panel]) -> int:
    """How many names fit beside one another."""
    return min(3 if len(panels) == 1 else 5, max(1, len(_labels(panels))))


def _legend_rows(panels: Sequence[Panel]) -> int:
    return math.ceil(len(_labels(panels)) / _legend_columns(panels))


def _labels(panels: Sequence[Panel]) -> dict[str, Style]:
    """Every line of any panel."""
    return {curve.label: curve.style for panel in panels for curve in panel.curves}


def _legend(figure: Figure, panels: Sequence[Panel]) -> None:
    """One legend for all panels, below them."""
    labels = _labels(panels)
    handles = [Line2D([], [], **_look(style)) for style in labels.values()]
    figure.legend(
        handles, list(labels), loc="lower center", ncols=_legend_columns(panels),
        frameon=False, handlelength=3.2, fontsize=8.5,
    )  # fmt: skip
