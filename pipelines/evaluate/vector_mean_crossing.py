"""From how many users on Multi-HM errs less than Multi-RPHM: as predicted, and as measured."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

from mechanisms.channel import Floats
from mechanisms.vector.predictions import crossover
from pipelines.evaluate.comparison import RESULTS
from pipelines.evaluate.journal import write_whole
from pipelines.evaluate.vector_mean_data import Rows
from pipelines.evaluate.vector_mean_systems import RPHM, target

CROSSINGS, HM = "crossings.json", "multi_hm"


class Crossing(NamedTuple):
    """Where two lines against the number of users cross.

    Attributes:
        data: without the number of users.
        d: numbers of each user.
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


def run(folder: str, data: Sequence[Rows]) -> None:
    """Write crossings.json and say what is in it, where both were measured for several n.

    Args:
        folder: of a finished evaluation.
        data: its populations.
    """
    found = list(crossings(pq.read_table(os.path.join(folder, RESULTS)).to_pylist(), data))
    if not found:
        return
    content = json.dumps([each._asdict() for each in found], indent=2) + "\n"
    write_whole(folder, CROSSINGS, content.encode())
    for each in found:
        error = "" if each.error is None else f" +- {each.error:,.0f}"
        Console().print(
            f"crossing: on {each.data}, d = {each.d:,}, epsilon {each.epsilon:g}, {RPHM} errs less "
            f"than {HM} up to {each.measured:,.0f}{error} users; predicted: {each.predicted:,.0f}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip


def crossings(table: Sequence[Mapping[str, Any]], data: Sequence[Rows]) -> Iterator[Crossing]:
    """Every crossing that lies among the numbers of users that were simulated.

    Args:
        table: the rows of results.parquet.
        data: the populations in it.
    """
    runs: dict[tuple[str, int, int, str, float], list[float]] = {}
    for row in table:
        key = (row["data"], row["d"], row["n"], row["system"], row["epsilon"])
        runs.setdefault(key, []).append(row["squared_error"])
    groups = dict.fromkeys((each.base, each.d) for each in data)
    for (base, d), epsilon in product(groups, sorted({row["epsilon"] for row in table})):
        alike = [each for each in data if (each.base, each.d) == (base, d)]
        among = {each.n: each for each in sorted(alike, key=lambda rows: rows.n)}
        ns = np.array(list(among))
        one, other = (
            [runs.get((base, d, n, name, epsilon), []) for n in among] for name in (HM, RPHM)
        )
        if not (len(among) > 1 and all(one) and all(other)):
            continue
        apart = np.array(one) - np.array(other)
        measured = _root(ns, apart.mean(axis=1))
        if not ns[0] <= measured <= ns[-1]:
            continue
        predicted = predicted_crossing(among[max(among)], epsilon)
        yield Crossing(base, d, epsilon, predicted, measured, _jackknife(ns, apart))


def predicted_crossing(rows: Rows, epsilon: float) -> float:
    """n*, for rows like these."""
    return crossover(target(rows, epsilon), rows.mean_square_of_means, rows.mean_square)


def _root(ns: Floats, apart: Floats) -> float:
    """Where Multi-HM's error less Multi-RPHM's is 0, which times n is linear in n; or NaN."""
    slope, level = np.polyfit(ns, ns * apart, 1)
    return float(-level / slope) if slope < 0 else math.nan


def _jackknife(ns: Floats, apart: Floats) -> float | None:
    """The standard error of the crossing; `apart` is (ns, repetitions)."""
    times = apart.shape[1]
    if times < 2:
        return None
    without = (apart.sum(axis=1, keepdims=True) - apart) / (times - 1)
    roots = np.array([_root(ns, column) for column in without.T])
    return float(math.sqrt((times - 1) * np.var(roots)))
