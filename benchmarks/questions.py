"""A newcomer's questions about the tutorial's trips, beside a trusted collector of the same bounds.

The job's errors are measured, in releases with secure noise; the collector's are exact. Trips that
lack a field are left out, so that both answer the same question.
"""

from __future__ import annotations

import math
import runpy
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

import hushbeam
from benchmarks.central import EPSILON, MOST, best, prefixes, tables

RUNS, SURE = 30, 3
"""Releases of each question; and standard errors by which a ratio is too large beyond doubt."""

_BOUND, _BINS, _DISTINCT = 3600, 1024, "COUNT(DISTINCT user_id)"
_MAKER = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "make_trips.py"))
_HOMES, _HALVES = [city.lower() for city in _MAKER["CITIES"]], ["early", "late"]
_HOURS = [f"{hour:02}" for hour in range(24)]
_AVERAGE = f"AVG(seconds, contribution_bounds_per_group => (0, {_BOUND}))"


class Question(NamedTuple):
    """What is asked.

    Attributes:
        figure: of what.
        kind: of release; "query" of one by SQL.
        options: of the release, beside epsilon.
        truth: by the columns that tell figures apart.
        collector: the root of the collector's mean squared error.
        column: with the figures.
    """

    figure: str
    kind: str
    options: dict[str, Any]
    truth: Any
    collector: float
    column: str = "estimate"

    def squared(self) -> float:
        """Of a new release, on average of its tables; a figure that is not there counts as 0."""
        publish = hushbeam.sql if self.kind == "query" else getattr(hushbeam, self.kind)
        keys, release = [*self.truth.index.names], publish(**self.options, epsilon=EPSILON)
        found = release.tables[self.kind.replace("_", "-")].to_pandas().dropna(subset=keys)
        told = found.set_index(keys)[self.column].reindex(self.truth.index, fill_value=0)
        return float(((told - self.truth) ** 2).groupby(level=0).mean().mean())


def trips() -> Any:
    """The tutorial's trips, tidied as its plan does, without those that lack a field."""
    with TemporaryDirectory() as folder:
        _MAKER["make"](made := Path(folder) / "trips")
        log = pd.concat(map(pd.read_csv, sorted(made.iterdir()))).dropna(ignore_index=True)
    log["home"], log["hour"] = log["City"].str.strip().str.lower(), log["started"].str[11:13]
    log["half"] = np.where(log["hour"] < "12", *_HALVES)
    return log


def averages(means: Any, users: Any) -> float:
    """The collector's, by noisy weights of both bounds, which are 1 of a user in all."""
    weight = math.sqrt(2) * best(len(means)) * _BOUND / 2
    return math.sqrt(np.mean((weight / users * np.hypot(1, 2 * means / _BOUND - 1)) ** 2))


def below(log: Any) -> Any:
    """Whether the seconds of each trip are below each bin's end."""
    ends = pd.Index(np.arange(1, _BINS + 1) * _BOUND / _BINS, name="high")
    return pd.DataFrame(log["seconds"].to_numpy()[:, None] < [*ends[:-1], math.inf], columns=ends)


def of_users(log: Any) -> Iterator[Question]:
    """All trips of a user are protected together; as many groups count as there are."""
    here, whose = {"input": log}, {"user_column": "user_id"}

    def sql(figure: str, **groups: list[str]) -> dict[str, Any]:
        by, most = ", ".join(groups), math.prod(map(len, groups.values()))
        query = f"SELECT {by}, {figure} AS n FROM trips GROUP BY {by}"
        return {"query": query, "tables": {"t": log}, "groups": groups, "max_groups": most} | whose

    def users(*by: str) -> Any:
        return log.groupby([*by])["user_id"].nunique()

    truth = pd.Series({"users": log["user_id"].nunique()}).rename_axis("figure")
    yield Question("users", "count", here | whose, truth, best(1))
    homes, truth = users("home"), users("home", "half")
    yield Question("by city, SQL", "query", sql(_DISTINCT, home=_HOMES), homes, best(5), "n")
    most = here | whose | {"rows_per_user": 5}
    options = most | {"column": "home", "domain": _HOMES}
    yield Question("by city", "count", options, homes.rename_axis("value"), best(5))
    options = sql(_DISTINCT, home=_HOMES, half=_HALVES)
    yield Question("by city and half day, SQL", "query", options, truth, best(10), "n")
    options, truth = most | {"column": "City", "rows_per_user": 20}, users("City")
    yield Question("cities as typed", "strings", options, truth.rename_axis("value"), best(20))
    own = log.groupby(["user_id", "home"])["seconds"].mean().clip(0, _BOUND)
    means, options = own.groupby("home").mean(), sql(_AVERAGE, home=_HOMES)
    least = averages(means, homes)
    yield Question("seconds by city, SQL", "query", options, means, least, "n")
    numbers = {"column": "seconds", "bounds": (0, _BOUND)}
    options = most | numbers | {"group_by": "home", "groups": _HOMES}
    yield Question("seconds by city", "mean", options, means.rename_axis("group"), least)
    # One trip of each user is drawn, by the collector too.
    share, options = below(log).groupby(log["user_id"]).mean(), here | whose | numbers
    least = math.hypot(math.sqrt((share * (1 - share)).sum().mean()), prefixes(_BINS)) / len(share)
    figure, kind = "seconds below, a trip of each", "distribution"
    yield Question(figure, kind, options, share.mean(), least, "cumulative")


def of_trips(log: Any) -> Iterator[Question]:
    """Each trip is protected by itself."""
    options, truth = {"input": log, "column": "City"}, log["City"].value_counts()
    yield Question("typed, trips", "strings", options, truth.rename_axis("value"), best(1))
    options, share = {"input": log, "column": "seconds", "bounds": (0, _BOUND)}, below(log).mean()
    least, kind = prefixes(_BINS) / len(log), "distribution"
    yield Question("seconds below, trips", kind, options, share, least, "cumulative")
    cells = {"home": log["home"], "hour": log["hour"]}
    cells["home × hour"] = cells["home"] + " × " + cells["hour"]
    counts = {name: column.value_counts() for name, column in cells.items()}
    truth, domains = pd.concat(counts, names=["group", "value"]), {"home": _HOMES, "hour": _HOURS}
    options = {"input": log, "columns": [*domains], "domains": domains}
    yield Question("city and hour, trips", "cross_tab", options, truth, tables([6, 25]))


def ranks(numbers: Any, bounds: tuple[int, int], level: float) -> list[float]:
    """How many rows one quantile is off on average: drawn alone, and by the tree of several."""
    rows, frame = np.sort(numbers), pd.DataFrame({"x": numbers})
    asked, target, means = {"input": frame, "column": "x", "bounds": bounds}, level * len(rows), []
    for more in ({"quantile": level}, {"quantiles": (level,)}):
        off = []
        for _ in range(RUNS):
            release = hushbeam.distribution(**asked, **more, epsilon=EPSILON)
            (value,) = release.tables["quantiles"]["estimate"].to_pylist()
            ends = [np.searchsorted(rows, value, side) for side in ("left", "right")]
            off.append(max(ends[0] - target, target - ends[1], 0))
        means.append(float(np.mean(off)))
    return means


def main() -> None:
    """Print the tables, and refuse a ratio that is too large beyond doubt."""
    sets = {
        "seconds of trips": (trips()["seconds"].to_numpy(int), (0, _BOUND)),
        "a skewed set": (np.random.default_rng(1).lognormal(5, 1, 20_000).clip(0, 5000), (0, 5000)),
    }
    table = Table("quantile", "drawn alone", "of a tree", title="rows off on average")
    for name, (numbers, bounds) in sets.items():
        for level in (0.5, 0.95):
            means = ranks(numbers, bounds, level)
            table.add_row(f"{name}, {level:g}", *(f"{mean:.2f}" for mean in means))
    Console().print(table)
    table = Table("figure", "the job", "a collector", "ratio", "± s.e.", title=f"{RUNS} releases")
    log, far = trips(), []
    for question in (*of_users(log), *of_trips(log)):
        squares = np.array([question.squared() for _ in range(RUNS)])
        error = math.sqrt(squares.mean())
        ratio = error / question.collector
        doubt = ratio * squares.std(ddof=1) / squares.mean() / 2 / math.sqrt(RUNS)
        numbers = f"{error:.4g}", f"{question.collector:.4g}", f"{ratio:.3f}", f"{doubt:.3f}"
        table.add_row(question.figure, *numbers)
        far += [question.figure] * (not ratio - SURE * doubt <= MOST)
    Console().print(table)
    if far:
        raise SystemExit(f"more than {MOST:g} times a trusted collector's error: {far}")
