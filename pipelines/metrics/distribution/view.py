"""What people see of a distribution: its page, and a table on the screen."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from pipelines.views import facts, pages
from pipelines.views.digits import digits, percent, spread
from pipelines.views.headline import head
from pipelines.views.pictures import AxisScale, Chart

_ROWS = 1100  # all bins that there can be, and a few more
_SHOWN = 25  # quantiles on the screen
_WIDE = 60  # characters of a column below the picture


def page(table: pa.Table, quantiles: pa.Table, statement: Mapping[str, Any]) -> bytes:
    """The report of a release.

    Args:
        table: the release's bins.
        quantiles: its quantiles.
        statement: its statement.
    """
    request, mean = statement["request"], statement["mean"]
    low, high = request["bounds"]
    return pages.page(
        "pipelines.metrics.distribution",
        head(quantiles, statement),
        unit=html.escape(request["unit"]),
        chart=_chart(table, quantiles, statement),
        low=number(low),
        high=number(high),
        confidence=f"{100 * request['confidence']:g} %",
        method=html.escape(statement["estimation"]["method"]),
        mean=number(mean["estimate"]),
        mean_error=number(mean["standard_error"]),
        mean_lower=number(mean["lower"]),
        mean_upper=number(mean["upper"]),
        mean_of_shares=number(mean["of_the_estimated_shares"]),
        covers=facts.prose(statement["error"]["covers"]),
        promises=facts.promises(statement),
        exactly=facts.prose(statement["published_exactly"]),
        quantiles="".join(_quantile(row) for row in quantiles.to_pylist()),
        rows="".join(_bin(row) for row in table.slice(0, _ROWS).to_pylist()),
        facts=facts.table(_facts(statement)),
    )


def number(value: float | None) -> str:
    """A number to six figures, if there is one."""
    return "unknown" if value is None else f"{value:.6g}"


def probability(p: float) -> str:
    """A probability as people say it.

    >>> probability(0.5), probability(0.999)
    ('50 %', '99.9 %')
    """
    return f"{100 * p:.10g} %"


def _chart(table: pa.Table, quantiles: pa.Table, statement: Mapping[str, Any]) -> str:
    """The histogram above the cumulative shares with their intervals, as inline SVG."""
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    across = AxisScale(float(low[0]), float(high[-1]))
    below = _cumulative(across, table, quantiles, statement["request"]["confidence"])
    column = facts.shortened(statement["request"]["column"], _WIDE)
    up = "share of numbers below, %"
    return f"{_histogram(across, table)}\n{below.svg(up, column)}"


def _histogram(across: AxisScale, table: pa.Table) -> str:
    """Shares by the width of a whole bin, so that the two half ones do not look empty."""
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    widths = high / 2 - low / 2
    heights = 100 * table["estimate"].to_numpy() * widths.max() / np.maximum(widths, 1e-300)
    chart = Chart(across, AxisScale.over(heights, [0.0]), 180)
    chart.stairs(np.append(low, high[-1]), heights)
    return chart.svg("share of numbers, % a bin")


def _cumulative(
    across: AxisScale, table: pa.Table, quantiles: pa.Table, confidence: float
) -> Chart:
    high, chart = table["high"].to_numpy(), Chart(across, AxisScale(0, 100))
    band = [100 * table[f"cumulative_{end}"].to_numpy() for end in ("lower", "upper")]
    chart.area(high, band[0], band[1], "band", f"{100 * confidence:g} % interval of each point")
    chart.line(high, 100 * table["cumulative"].to_numpy())
    places, shares = quantiles["estimate"].to_numpy(), 100 * quantiles["p"].to_numpy()
    chart.points(places, shares, "quantiles")
    return chart


def _quantile(row: Mapping[str, float]) -> str:
    return (
        f"<tr><th>{probability(row['p'])}</th><td>{quantile(row)}</td>"
        f"<td>{quantile(row, 'lower')} to {quantile(row, 'upper')}</td></tr>\n"
    )


def quantile(row: Mapping[str, float], name: str = "estimate") -> str:
    """A quantile, or an end of its interval, to the digits that the interval allows."""
    return digits(row[name], spread(row["lower"], row["upper"]))


def _bin(row: Mapping[str, Any]) -> str:
    error = row["standard_error"]
    shares = "".join(
        f"<td>{percent(row[name], error)}</td>"
        for name in ("estimate", "unbiased", "standard_error")
    )
    limits = f"<td>{percent(row['lower'], error)} to {percent(row['upper'], error)}</td>"
    wide = spread(row["cumulative_lower"], row["cumulative_upper"])
    sums = (
        f"<td>{percent(row['cumulative'], wide)}</td>"
        f"<td>{percent(row['cumulative_lower'], wide)} to "
        f"{percent(row['cumulative_upper'], wide)}</td>"
    )
    name = f"{number(row['low'])} to {number(row['high'])}"
    return f"<tr><th>{name}</th>{shares}{limits}{sums}</tr>\n"


def _facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the statement holds, as pairs for a table."""
    mechanism, request = statement["mechanism"], statement["request"]
    estimation = statement["estimation"]
    rest = "" if estimation["converged"] else ", not at rest"
    return [
        *facts.mechanism(statement),
        ("bits of a report", str(mechanism["bits_per_message"])),
        *facts.counted(statement),
        ("bounds", f"{number(request['bounds'][0])} to {number(request['bounds'][1])}, declared"),
        ("bins", str(estimation["bins"])),
        ("estimate", f"{estimation['method']} ({estimation['iterations']} iterations{rest})"),
        ("cumulative intervals", f"by averages over {estimation['span']} bins"),
        ("neighbours", statement["neighbours"]),
        facts.made_with(statement),
    ]


def show(
    screen: Console, quantiles: pa.Table, mean: Mapping[str, float], confidence: float
) -> None:
    """The quantiles and the mean, as a table."""
    shown = Table()
    shown.add_column("")
    for heading in ("estimate", f"{100 * confidence:g} % interval"):
        shown.add_column(heading, justify="right")
    for row in quantiles.slice(0, _SHOWN).to_pylist():
        _add(shown, f"{probability(row['p'])} quantile", row)
    _add(shown, "mean", mean)
    screen.print(shown)


def _add(shown: Table, name: str, row: Mapping[str, float]) -> None:
    interval = f"{quantile(row, 'lower')} to {quantile(row, 'upper')}"
    shown.add_row(name, quantile(row), interval)
