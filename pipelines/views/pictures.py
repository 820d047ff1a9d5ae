"""Pictures on pages: inline SVG, equal for equal releases."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALE, DARK = "#8fb3d9", "#1c3f66"

_WIDTH = 8.4  # inches


def picture(height: float, draw: Callable[[Figure], None]) -> str:
    """A figure as SVG.

    Args:
        height: in inches.
        draw: fills an empty figure.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # the object interface: no global state, no display

    style = rc_context(
        {
            "font.family": "sans-serif",
            "svg.fonttype": "none",
            "svg.hashsalt": "hushbeam",
            "text.parse_math": False,  # values and names of columns may hold dollar signs
            "text.usetex": False,
        }
    )
    buffer = io.StringIO()
    with style, warnings.catch_warnings():
        # Glyphs that are missing here do not matter: the reader's browser draws the text.
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure)
        # No metadata: the page says when it was made and by what, and needs no addresses.
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]


def frame(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """The look of all axes: open to the top and the right, lines across where values stand."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
