"""Who stays: of those who were new in a window, the share that was active so much later."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from pipelines.views.pictures import heat

_AGO = re.compile(r"new (\d+) (day|week)s? ago")
_DAYS = {"day": 1, "week": 7}
_MOST = 28  # windows


def retention(drawn: Mapping[str, Any], windows: Sequence[Mapping[str, Any]]) -> str:
    """A triangle: a row for each window in which users were new, a column for each later one.

    What no release says is left blank; what noise may explain is grey.

    Args:
        drawn: what is drawn over time, as of `Series`.
        windows: of the releases.
    """
    values = [str(value) for _, value in drawn["labels"]]
    ages = [(_AGO.fullmatch(value), place) for place, value in enumerate(values)]
    kept = sorted((int(age[1]), age[2], place) for age, place in ages if age)
    if "new" not in values or not kept or not all(window["start"] for window in windows):
        return ""
    starts = [datetime.fromisoformat(window["start"]) for window in windows]
    at, born = {start: place for place, start in enumerate(starts)}, values.index("new")
    estimate, lower, upper = (
        np.array(drawn[name], np.float64) for name in ("estimate", "lower", "upper")
    )
    cohorts = [place for place, start in enumerate(starts) if np.isfinite(estimate[born, place])]
    cohorts = [place for place in cohorts if starts[place] < max(starts)][-_MOST:]
    if not cohorts:
        return ""
    shares = np.full((len(cohorts), len(kept)), np.nan)
    noise = np.ones(shares.shape, bool)
    for row, place in enumerate(cohorts):
        number = estimate[born, place]
        known = number > (upper[born, place] - lower[born, place]) / 2
        for column, (count, unit, figure) in enumerate(kept):
            later = at.get(starts[place] + timedelta(days=count * _DAYS[unit]))
            if later is not None and np.isfinite(estimate[figure, later]):
                share = estimate[figure, later] / number if number > 0 else 0.0
                shares[row, column] = round(100 * min(max(share, 0.0), 1.0))
                noise[row, column] = not (known and lower[figure, later] > 0)
    unit = kept[0][1]
    rows = [str(windows[place]["name"]) for place in cohorts]
    columns = [f"+{count}" for count, *_ in kept]
    note = (
        f"Of those who were new, the share in % that was active so many {unit}s later. Blank where "
        "a release is missing; in italics on grey where noise alone may explain it."
    )
    return heat("Retention", rows, columns, shares, noise) + (
        f'\n<p class="note">{html.escape(note)}</p>\n'
    )
