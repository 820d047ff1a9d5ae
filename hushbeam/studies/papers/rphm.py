"""Multi-RPHM: rows projected on a random subspace, and from how many users on that is worse.

Multi-HM reports one number of a row as it is. Its error falls as 1/n, that of Multi-RPHM to what
the projection leaves out, so that two lines against the number of users cross.

Source: Sun, Yang, Cheng, Su, "High-dimensional numeric data collection under local differential
privacy based on random projection", Big Data Research 2020; run again in
docs/appendix/reproduction-vectors.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
from rich.console import Console

from hushbeam.studies.engine.figures import FigurePoint
from hushbeam.studies.engine.results import Results, say, write_json
from hushbeam.studies.populations.rows import RowPopulation
from hushbeam.studies.systems.rows import target
from mechanisms.channel import Floats
from mechanisms.planner.rows import crossover
from pipelines.request import answers

HM, RPHM = "multi_hm", "multi_rphm"

SYSTEMS = (HM, RPHM, "projection", "meanest")
"""What its figures compare."""

CROSSINGS = "crossings.json"


class Crossing(NamedTuple):
    """Where the lines of Multi-HM and Multi-RPHM against the number of users cross.

    Attributes:
        data: without the number of users.
        d: numbers of a user.
        epsilon: of one report.
        predicted: n*, by the closed form.
        measured: the same by least squares over the numbers of users that were simulated.
        error: its standard error, by the jackknife over repetitions; None if there is one alone.
    """

    data: str
    d: int
    epsilon: float
    predicted: float
    measured: float
    error: float | None

    def __str__(self) -> str:
        error = "" if self.error is None else f" +- {self.error:,.0f}"
        return (
            f"crossing: on {self.data}, d = {self.d:,}, epsilon {self.epsilon:g}, {RPHM} errs less "
            f"than {HM} up to {self.measured:,.0f}{error} users; predicted: {self.predicted:,.0f}"
        )


def write_crossings(folder: str, results: Results) -> None:
    """Write crossings.json and say what is in it, where both were measured for several n."""
    shown = list(crossings(results.rows(), cast(Sequence[RowPopulation], results.data)))
    if shown:
        write_json(folder, CROSSINGS, [crossing._asdict() for crossing in shown])
    for crossing in shown:
        answers.add("crossings", crossing._asdict())
        say(Console(), str(crossing))


def crossings(
    table: Iterable[Mapping[str, Any]], data: Sequence[RowPopulation]
) -> Iterator[Crossing]:
    """Every crossing that lies among the numbers of users that were simulated.

    Args:
        table: the rows of results.parquet.
        data: the populations in it.
    """
    errors: dict[tuple[str, int, int, str, float], list[float]] = {}
    for row in table:
        key = (row["data"], row["d"], row["n"], row["system"], row["epsilon"])
        errors.setdefault(key, []).append(row["squared_error"])
    laws = dict.fromkeys((rows.base, rows.d) for rows in data)
    for (base, d), epsilon in product(laws, sorted({key[-1] for key in errors})):
        alike = [rows for rows in data if (rows.base, rows.d) == (base, d)]
        sizes = sorted(alike, key=lambda rows: rows.n)
        one, other = (
            [errors.get((base, d, rows.n, name, epsilon), []) for rows in sizes]
            for name in (HM, RPHM)
        )
        if not (len(sizes) > 1 and all(one) and all(other)):
            continue
        ns, difference = np.array([rows.n for rows in sizes]), np.array(one) - np.array(other)
        measured = _root(ns, difference.mean(axis=1))
        if ns[0] <= measured <= ns[-1]:
            predicted = predicted_crossing(sizes[-1], epsilon)
            yield Crossing(base, d, epsilon, predicted, measured, _jackknife(ns, difference))


def predicted_crossing(rows: RowPopulation, epsilon: float) -> float:
    """n*, for rows like these."""
    return crossover(target(rows, epsilon), rows.mean_square_of_means, rows.mean_square)


def marked(points: Sequence[FigurePoint]) -> float | None:
    """n* for a panel of a figure against the number of users, if it lies among them."""
    if not {HM, RPHM} <= {point.line.system for point in points}:
        return None
    by_n = {point.population.n: point for point in points}
    largest = by_n[max(by_n)]
    rows = cast(RowPopulation, largest.population)
    crossing = predicted_crossing(rows, largest.columns["epsilon"])
    return crossing if min(by_n) <= crossing <= max(by_n) else None


def _root(ns: Floats, difference: Floats) -> float:
    """Where Multi-HM's error less Multi-RPHM's is 0, which times n is linear in n; or NaN."""
    slope, level = np.polyfit(ns, ns * difference, 1)
    return float(-level / slope) if slope < 0 else math.nan


def _jackknife(ns: Floats, difference: Floats) -> float | None:
    """The standard error of the crossing; `difference` is (ns, repetitions)."""
    times = difference.shape[1]
    if times < 2:
        return None
    without = (difference.sum(axis=1, keepdims=True) - difference) / (times - 1)
    roots = np.array([_root(ns, column) for column in without.T])
    return float(math.sqrt((times - 1) * np.var(roots)))
