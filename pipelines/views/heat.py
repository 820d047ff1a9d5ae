"""Heat maps on pages: tables whose cells are the darker the more they hold, and grey if noise."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS = 6  # of darkness; `page.css` has as many


def heat(
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: NDArray[Any],
    noise: NDArray[np.bool_],
) -> str:
    """One heat map, as HTML.

    Args:
        name: what it is of.
        rows: (r,) what each row is of.
        columns: (c,) what each column is of.
        numbers: (r, c) whole numbers, none below 0; NaN where nothing is known.
        noise: (r, c) which may be nothing but noise.

    >>> heat("a × b", ["x"], ["y"], np.array([[12]]), np.array([[False]])).count("heat6")
    1
    """
    # Roots, for a few cells hold most of what there is.
    shares = np.sqrt(np.nan_to_num(numbers) / max(np.nanmax(numbers, initial=0), 1))
    steps = np.where(noise, 0, np.ceil(_STEPS * shares).astype(int))
    title, heads = (
        html.escape(name),
        "".join(f"<th>{html.escape(column)}</th>" for column in columns),
    )
    lines = "".join(
        f"<tr><th>{html.escape(row)}</th>{_cells(*line)}</tr>\n"
        for row, *line in zip(rows, numbers.tolist(), steps.tolist(), strict=True)
    )
    return (
        f'<h2>{title}</h2>\n<div class="scroll" tabindex="0" role="region" aria-label="{title}">\n'
        f'<table class="numbers heat">\n<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{lines}'
        "</tbody>\n</table>\n</div>"
    )


def _cells(numbers: Sequence[float], steps: Sequence[int]) -> str:
    """Those of one row."""
    looks = (f"heat{step}" if step else "noise" for step in steps)
    pairs = zip(looks, numbers, strict=True)
    return "".join(
        "<td></td>" if math.isnan(number) else f'<td class="{look}">{number:,.0f}</td>'
        for look, number in pairs
    )
