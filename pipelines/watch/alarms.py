"""Which figures of past releases are watched, and what is said of those that have shifted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.nearest import meant
from mechanisms.postprocess.alarms import Alarm, learned, watch
from pipelines.compare.differences import CENTRE, columns
from pipelines.compare.pairs import require_alike
from pipelines.compare.series import ALL, History, Label, histories
from pipelines.errors import RequestError
from pipelines.metrics.metric import Metric
from pipelines.releases import history, release, schema
from pipelines.views.headline import chosen, figure_of, headline, label, unit_of, written
from transforms.files.systems import escaped

_DAY = timedelta(days=1)
_NEWEST = 400  # releases that a run looks at: a year of days is enough to know them by


@dataclass(frozen=True)
class Course:
    """One figure that is watched.

    Attributes:
        history: of its metric.
        key: its group and value.
        name: as pages call it; "" of a metric with one figure.
        places: of the releases that have it, in the history.
        alarms: of it, the oldest first.
        learning: windows that are missing before the first one is possible.
    """

    history: History
    key: Label
    name: str
    places: Sequence[int]
    alarms: Sequence[Alarm]
    learning: int

    @property
    def title(self) -> str:
        """The metric and the figure."""
        return f"{self.history.metric}, {self.name}" if self.name else self.history.metric

    @property
    def facts(self) -> list[dict[str, Any]]:
        """Each alarm for programs, sizes as in the tables; a "line" for people."""
        windows = [self.history.windows[place]["name"] for place in self.places]
        return [self._fact(alarm, windows[alarm.since], windows[alarm.at]) for alarm in self.alarms]

    def _fact(self, alarm: Alarm, since: str, window: str) -> dict[str, Any]:
        unit = unit_of(figure_of(self.history.releases[self.places[-1]].statement))
        times, unit = (100, " percentage points") if unit == "%" else (1, unit and f" {unit}")
        size = written(times * abs(alarm.size), times * alarm.error, None, None)
        way = "more" if alarm.size > 0 else "less"
        return {
            "collection": self.history.collection, "metric": self.history.metric,
            "figure": self.name or ALL, "group": self.key[0], "value": self.key[1],
            "window": window, "since": since, "place": self.places[alarm.at],
            "size": alarm.size, "standard_error": alarm.error,
            "line": f"{self.title}: {size}{unit} {way} since {since}, seen in {window}",
        }  # fmt: skip


def courses(history: History, unless_said: bool = False) -> list[Course]:
    """What is watched of a metric, as its plan says in the newest release.

    Nothing is of one whose noise goes on from window to window: nobody knows its law.

    Args:
        history: of the metric.
        unless_said: whether its first figure is watched where no plan says so.
    """
    whole, said = history.newest.whole, _said(history, {} if unless_said else None)
    fresh = (whole.get("plan") or {}).get("noise", "fresh") == "fresh" and "secret_id" not in whole
    if said is None or not fresh:
        return []
    tables = _tables(history)
    keys = _keys(history, tables, said.get("figures", ()))
    times, period, year = _calendar(history.windows)
    rows = {place: _rows(table) for place, table in tables.items() if place in times}
    # All figures of a metric share its false alarms.
    windows = (said.get("windows_per_false_alarm") or year) * max(len(keys), 1)
    made = []
    for key, name in keys.items():
        known = [
            (place, times[place], *row[key])
            for place, row in rows.items()
            if key in row and math.isfinite(row[key][0])
        ]
        moments, figures, errors = np.array([row[1:] for row in known]).reshape(-1, 3).T
        alarms = watch(figures, errors, moments, windows, period)
        missing = max(0, learned(period) - len(known))
        made.append(Course(history, key, name, [row[0] for row in known], alarms, missing))
    return made


def problems(history: History) -> list[str]:
    """The figures that a plan names and no release has; what else it names is watched."""
    figures = (_said(history) or {}).get("figures", ())
    named = _keys(history, _tables(history), figures).values() if figures else ()
    return [f"{history.metric}: {_unknown(name, named)}" for name in figures if name not in named]


def _said(history: History, otherwise: Any = None) -> Any:
    """What the plan of the newest release says of a metric."""
    return history.newest.whole.get("watch", {}).get(history.metric, otherwise)


def _unknown(name: str, known: Iterable[str]) -> str:
    known = [*known]
    one = known == [""]  # which has no name
    what = "say watch: true, for there is one" if one else "name it as the release's page does"
    return f"watch: there is no figure {name!r}; {what}{meant(name, known)}"


def require_figures(metric: Metric, figures: Sequence[str]) -> None:
    """Refuse names that no figure of a release can have, as far as the plan says which there are.

    Raises:
        RequestError: there is no such figure.
    """
    said = metric.heading.stated | {"guarantees": {"release": metric.guarantees[0].as_dict()}}
    table = metric.declared.get(chosen(said)["table"]) if figures else None
    if table is None:
        return
    kind, several = figure_of(said), len(table) > 1
    keys = _labels_of(schema.shared(table, said, kind))
    known = [label(key, kind, several, said["labels"]) for key in keys]
    for name in figures:
        if name not in known:
            raise RequestError(_unknown(name, known))


def _tables(history: History) -> dict[int, pa.Table]:
    """Place -> the table that comes first, of releases whose figures mean what is meant now."""
    tables = {}
    for place, one in enumerate(history.releases):
        try:
            require_alike(history.metric, one, history.newest)
        except RequestError:
            continue
        of_all = history.tables.get(chosen(one.statement)["table"], {})
        if place in of_all:  # else it was withheld
            tables[place] = of_all[place]
    return tables


def _rows(table: pa.Table) -> dict[Label, tuple[float, float]]:
    """Label -> unbiased figure and standard error, 0 where that is not known."""
    known = columns(table)
    numbers = zip(known[CENTRE], np.nan_to_num(known["standard_error"]), strict=True)
    return dict(zip(_labels_of(table), numbers, strict=True))


def _labels_of(table: pa.Table) -> list[Label]:
    return [*zip(*(table[name].to_pylist() for name in schema.LABELS), strict=True)]


def _keys(
    history: History, tables: Mapping[int, pa.Table], figures: Sequence[str]
) -> dict[Label, str]:
    """The figures that are named; or the one that came first of all, for good."""
    named: dict[Label, str] = {}
    for place, table in tables.items():
        said, several = history.releases[place].statement, len(table) > 1
        if lines := [] if figures else headline(table, said).lines:
            return {lines[0].key: lines[0].label if several else ""}
        kind, names = figure_of(said), said.get("labels", {})
        calls = {key: label(key, kind, several, names) for key in _rows(table)}
        named |= {key: name for key, name in calls.items() if name in figures}
    return named


def facts_of(histories: Iterable[History]) -> list[dict[str, Any]]:
    """All alarms of what is watched of some metrics."""
    return [fact for one in histories for course in courses(one) for fact in course.facts]


def alarms_of(folder: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Alarms of the very window of a plan's release, from all windows up to it; and what hinders.

    What goes wrong meanwhile hinders no other alarm: the release stands, whatever is beside it.

    Args:
        folder: of the release of a plan that watches something.
    """
    whole = release.statement_of(folder)
    window, collection = whole["plan"]["window"], whole["plan"]["collection"]
    if whole["plan"]["noise"] == "running":  # whose windows say themselves whether there is one
        said = (release.statement_of(f"{folder}/{name}") for name in whole["metrics"])
        return [one["alarm"] for one in said if one.get("alarm")], []
    # Where the plan has the window's name, its other windows have theirs.
    folders = release.newest([escaped(folder).replace(escaped(window), "*")], _NEWEST)
    wrong, alarms, why = (RequestError, OSError, ValueError), list[dict[str, Any]](), list[str]()
    try:
        published = history.releases_in([*map(escaped, folders)])
        ids = [one.whole["release_id"] for one in published]
        # In the order of time: later windows of a backfill are none of its past.
        past = published[: len(ids) - ids[::-1].index(whole["release_id"])]
        own = histories([one for one in past if one.statement.get("collection") == collection])
    except wrong as error:
        return [], [f"alarms could not be looked for: {error}"]
    for one in own:
        try:
            alarms += [fact for fact in facts_of([one]) if fact["window"] == window]
            why += problems(one)
        except wrong as error:
            why.append(f"{one.metric}: alarms could not be looked for: {error}")
    return alarms, why


def _calendar(windows: Sequence[Mapping[str, Any]]) -> tuple[dict[int, int], int, float]:
    """When windows are: (place -> number, windows of a season, windows of a year).

    Days have a season of a week, and parts of a day one of a day. Of windows of several lengths
    those of the usual one count. Windows without a time follow one another, without a season.
    """
    if not all(one["start"] and one["end"] for one in windows):
        return {place: place for place in range(len(windows))}, 1, 365
    ends = [[datetime.fromisoformat(one[end]) for end in ("start", "end")] for one in windows]
    length = Counter(end - start for start, end in ends).most_common(1)[0][0]
    # Of several that overlap the last one.
    distinct = {
        round((start - ends[0][0]) / length): place
        for place, (start, end) in enumerate(ends)
        if end - start == length
    }
    parts = _DAY // length if not _DAY % length and _DAY // length <= 24 else 1
    times = {place: time for time, place in distinct.items()}
    return times, 7 if length == _DAY else max(parts, 1), max(10, 365 * _DAY / length)
