"""The picture of a release, by the word of its kind: bars, a line and its band, heat, steps.

A kind says the word in its `headline`, as `picture`; without one there are bars. Pages of releases
and of sites draw from the tables and the statement alone, so that they agree.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.views import effects
from pipelines.views.facts import shortened
from pipelines.views.headline import (
    BARS,
    EFFECTS,
    HEAT,
    KNOWN,
    LINE,
    QUANTILE,
    STEPS,
    TRIANGLE,
    are_moments,
    chosen,
    moments_between,
    nearest_half,
)
from pipelines.views.listing import Listing, listed
from pipelines.views.pictures import AxisScale, Chart, bars, heat
from pipelines.views.selected import LOWER, ends

MOST = 30  # bars: more than these cannot be told apart
_NOISE = 10  # bars of which noise alone may be the cause: more of them say nothing
_APART = 5  # times as wide as another interval of the same axis
_POINTS = 1024  # of a line: a picture has fewer across than a table may have rows
_WIDE = 60  # characters of a label
_CELLS = 12  # rows and columns of a heat map
_MAP_ROWS, _HEAD_ROWS = 100, 4  # of all heat maps of a page together; what stands above one

Tables = Mapping[str, pa.Table]
Said = Mapping[str, Any]


def drawn(tables: Tables, statement: Said) -> str:
    """The pictures, as figures of a page; "" where one number says it all.

    Args:
        tables: of the release, as their kind made them.
        statement: of the release.
    """
    first = chosen(statement)
    word, name = first.get("picture", BARS), first["table"]
    made = _BY_WORD.get(word, _bars)(tables, statement)
    if made is None and name in tables:
        made = _bars(tables, statement)
    more = statement["figures"] if word == STEPS and made else ()
    beside = (_bars_of(own, tables, statement) for own in [*more][2:])
    return "".join(map(pictured, filter(None, (made, *beside))))


def largest(table: pa.Table, statement: Said, most: int) -> str:
    """The picture of a metric beside others, as a figure of a page; "" of a single number.

    Args:
        table: that comes first.
        statement: of the metric.
        most: so many figures of it, the largest, or those of effects that are the clearest.
    """
    first = chosen(statement)
    if len(table) < 2:
        return ""
    # Outcomes of an experiment have units of their own: relative to the first arm they have none.
    if first.get("picture") == EFFECTS:
        made = effects.drawn(table, _confidence(statement), most)
    else:
        made = listing_bars(listed(first["table"], table, statement), most)
    return "" if made is None else pictured(made)


def pictured(made: tuple[str, str, str]) -> str:
    """A figure of a page.

    Args:
        made: the picture as HTML, what it shows, and how to read it.
    """
    picture, said, note = made
    return (
        f'<figure aria-label="{html.escape(said)}; the table below has the numbers">\n{picture}\n'
        f'<figcaption class="note">{html.escape(f"{said}. {note}".strip())}</figcaption>\n'
        "</figure>\n"
    )


_Drawn = tuple[str, str, str] | None  # as HTML, what it shows, and how to read it


def _bars(tables: Tables, statement: Said) -> _Drawn:
    """The first rows of the table of the headline with their intervals."""
    name = chosen(statement)["table"]
    if name not in tables or len(tables[name]) < 2 or "estimate" not in tables[name].column_names:
        return None
    table = tables[name]
    if "p" in table.column_names:  # of each group one, for they share no picture with each other
        table = table.take(nearest_half(table["p"].to_pylist()))
        declared = table.filter(pc.is_valid(table[0]))  # of the others nobody may be
        table = declared if len(declared) else table
    return listing_bars(listed(name, table, statement))


def _in_order(tables: Tables, statement: Said) -> _Drawn:
    """The first table of a release as bars, in its own order."""
    return _bars_of(next(iter(statement["figures"])), tables, statement)


def _bars_of(name: str, tables: Tables, statement: Said) -> _Drawn:
    return listing_bars(listed(name, tables[name], statement, sort=False))


def listing_bars(listing: Listing, most: int = MOST) -> _Drawn:
    """The first rows of a table as bars, or as points, with their intervals.

    Args:
        listing: of a table with estimates.
        most: at most so many.
    """
    rows = [row for row in listing.rows(most) if row["estimate"] is not None]
    widths = [high - low for low, high in map(ends, rows) if None not in (low, high)]
    if listing.names == ["coordinate"] and max(widths, default=0) > _APART * min(widths, default=0):
        return None  # numbers of other units, which share no axis
    # What is nothing but a number of a column has no 0 that bars could begin at.
    points = listing.figure in {*KNOWN, QUANTILE}
    clear = rows if points else [row for row in rows if not (ends(row)[0] or 0.0) <= 0]
    if len(rows) - len(clear) > _NOISE and clear:
        rows = clear
    if not rows:
        return None
    times = 100 if listing.figure == "share" else 1
    labels = [shortened(listing.label(row), _WIDE) for row in rows]
    low, high = (
        [np.nan if end is None else times * end for end in side]
        for side in zip(*map(ends, rows), strict=True)
    )
    estimates = [times * row["estimate"] for row in rows]
    numbers = [listing.number(row) for row in rows]
    picture = bars(labels, estimates, [low, high], numbers, points, listing.moments and points)
    many, cover = len(listing.table), f"Lines are {100 * listing.confidence:g} % intervals"
    said, after = "All figures", ""
    if many > len(rows):
        said, after = f"{len(rows)} of {many:,} figures", ", the others in the table"
    noise = "" if points else " A bar in outline is one that noise alone may have made."
    return (
        picture,
        f"{said} with their intervals{after}",
        f"{cover} of all {many:,} together.{noise}",
    )


def _line(tables: Tables, statement: Said) -> _Drawn:
    """Shares of bins as steps, and the shares below each number with their band."""
    table = next((one for one in tables.values() if "cumulative" in one.column_names), None)
    if table is None:
        return None
    low, high = (table[name].to_numpy() for name in ("low", "high"))
    across, parts = AxisScale(float(low[0]), float(high[-1])), []
    named = column = shortened(str(statement["request"]["column"]), _WIDE)
    moments = are_moments(statement)
    if moments:
        column = f"{column}, {moments_between(*across)}"
    if "estimate" in table.column_names:
        parts.append(_steps(across, table, moments))
    wide = "_simultaneous" if "cumulative_lower_simultaneous" in table.column_names else ""
    some = np.unique(np.linspace(0, len(table) - 1, _POINTS).round().astype(int))
    share, lower, upper = (
        100 * table[name].to_numpy()[some]
        for name in ("cumulative", *(f"cumulative_{end}{wide}" for end in ("lower", "upper")))
    )
    chart = Chart(across, AxisScale(0, 100), moments=moments)
    whose = "all points together" if wide else "each point"
    confidence = statement["request"]["confidence"]
    chart.area(high[some], lower, upper, "band", f"{100 * confidence:g} % band of {whose}")
    chart.line(high[some], share)
    parts.append(chart.svg("share of numbers below, %", column))
    above = "Above: the share of each bin." if len(parts) > 1 else ""
    return "\n".join(parts), f"The share of numbers below each value of {named}", above


def _steps(across: AxisScale, table: pa.Table, moments: bool) -> str:
    """Shares by the width of a whole bin, so that the two half ones do not look empty."""
    low, high = (table[name].to_numpy() for name in ("low", "high"))
    widths = high / 2 - low / 2
    heights = 100 * table["estimate"].to_numpy() * widths.max() / np.maximum(widths, 1e-300)
    chart = Chart(across, AxisScale.over(heights, [0.0]), 140, moments=moments)
    chart.stairs(np.append(low, high[-1]), heights)
    return chart.svg("share of numbers, % a bin")


def _heat(tables: Tables, statement: Said) -> _Drawn:
    """Tables of two columns as heat maps; None where there are none."""
    table = tables[chosen(statement)["table"]]
    labels: Mapping[str, str] = statement.get("labels", {})
    maps = []
    for group in table["group"].unique().to_pylist():
        cells = table.filter(pc.equal(table["group"], group))
        own = [name for name in labels if name in cells.column_names]
        own = [name for name in own if cells[name].null_count < len(cells)]
        if len(own) == 2:
            maps.append((group, cells, own))
    if not maps:
        return None
    rows = np.cumsum([_HEAD_ROWS + _rows_of(*part[1:]) for part in maps])
    shown = max(1, int((rows <= _MAP_ROWS).sum()))
    pictures = [_map(*part) for part in maps[:shown]]
    more = f", and {len(maps) - shown:,} more" if len(maps) > shown else ""
    said = f"The tables of two columns{more}, of each at most {_CELLS} rows and columns"
    note = "Numbers are fitted; the darker, the more. In italics on grey: perhaps noise alone."
    return "\n".join(pictures), said, note


def _rows_of(cells: pa.Table, own: list[str]) -> int:
    """How many rows the map of a table has."""
    return min(_CELLS, len(cells[own[0]].unique()))


def _map(name: str, cells: pa.Table, own: list[str]) -> str:
    """One table, its largest rows and columns."""
    labels = [cells[column].unique() for column in own]
    shape = (len(labels[0]), len(labels[1]))
    numbers = cells["fitted"].to_numpy().reshape(shape)
    noise = ~(cells[LOWER].to_numpy().reshape(shape) > 0)
    kept = [np.argsort(-numbers.sum(axis=along), kind="stable")[:_CELLS] for along in (1, 0)]
    names = Listing(pa.table({"x": [0], "estimate": [0.0]}), "", 0.95, {}).labels
    heads = [
        [names({"x": value})[0] for value in part.take(pa.array(places)).to_pylist()]
        for part, places in zip(labels, kept, strict=True)
    ]
    chosen_cells = np.ix_(*kept)
    return heat(name, heads[0], heads[1], numbers[chosen_cells], noise[chosen_cells])


def _effects(tables: Tables, statement: Said) -> _Drawn:
    return effects.drawn(tables[chosen(statement)["table"]], _confidence(statement))


def _confidence(statement: Said) -> float:
    return float(statement.get("request", {}).get("confidence", 0.95))


_BY_WORD: Mapping[str, Callable[[Tables, Said], _Drawn]] = {
    BARS: _bars,
    LINE: _line,
    HEAT: _heat,
    EFFECTS: _effects,
    TRIANGLE: _bars,  # of one release; over windows a site draws it
    STEPS: _in_order,
}
