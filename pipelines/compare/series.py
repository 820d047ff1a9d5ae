"""The windows of a metric side by side: what is drawn, and what has changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.compare.differences import (
    CENTRE,
    NAMES,
    FigureChange,
    Floats,
    Reach,
    Side,
    change,
    columns,
)
from pipelines.releases import schema
from pipelines.releases.history import Published
from pipelines.views.headline import QUANTILE, Headline, chosen, headline, label, order
from pipelines.views.listing import listed
from pipelines.wording import upward

MOST = 50  # labels of which a page holds every window; of all others it has the newest

ALL = "in all"

Label = tuple[str | None, str | None]


@dataclass(frozen=True)
class History:
    """One metric of one collection, in all its windows.

    Attributes:
        collection: of the plan; "" for commands of their own.
        metric: its name.
        kind: of metric.
        releases: the oldest window first; of windows that were released again, the last.
    """

    collection: str
    metric: str
    kind: str
    releases: tuple[Published, ...]

    @property
    def newest(self) -> Published:
        return self.releases[-1]

    @cached_property
    def windows(self) -> list[dict[str, Any]]:
        """What is said of each window; in the order of the releases."""
        return [_window(one) for one in self.releases]

    @cached_property
    def tables(self) -> dict[str, dict[int, pa.Table]]:
        """Name -> place of the release -> table."""
        tables: dict[str, dict[int, pa.Table]] = {}
        for place, one in enumerate(self.releases):
            for name, table in one.tables():
                tables.setdefault(name, {})[place] = table
        return tables

    @cached_property
    def series(self) -> list[Series]:
        """One for each table that is in the newest release."""
        last = len(self.releases) - 1
        confidence = self.newest.statement.get("request", {}).get("confidence", 0.95)
        secret = "secret_id" in self.newest.statement
        return [
            Series(name, self.newest.figures[name], table, last, confidence, secret)
            for name, table in self.tables.items()
            if last in table
        ]

    @cached_property
    def headline(self) -> Headline:
        """The figures of the newest release that come first."""
        return headline(self.first_table, self.newest.statement)

    @property
    def first_table(self) -> pa.Table | None:
        """The newest table of the figures that come first."""
        return self._first and self._first.newest

    @property
    def _first(self) -> Series | None:
        name = chosen(self.newest.statement)["table"]
        return next((series for series in self.series if series.name == name), None)

    def change(self) -> float | None:
        """By how much the first figure has changed since the window before; None within noise."""
        lines, series = self.headline.lines, self._first
        if not lines or series is None or lines[0].key not in series.labels:
            return None
        name = series.names[series.labels.index(lines[0].key)]
        since = next(series.changes(self.windows), None)  # the window before
        if since is None or name not in since["names"]:
            return None
        return float(since["difference"][since["names"].index(name)])

    def course(self) -> dict[str, Any]:
        """How the first of these figures went, window by window; empty where it is not drawn."""
        lines, series = self.headline.lines, self._first
        if not lines or series is None or lines[0].key not in series.labels:
            return {"trend": [], "lower": [], "upper": []}
        place, drawn = series.labels.index(lines[0].key), series.drawn()
        names = {"trend": "estimate", "lower": "lower", "upper": "upper"}
        return {name: drawn[line][place] for name, line in names.items()}


def histories(published: Sequence[Published]) -> list[History]:
    """What belongs together, by collection and metric.

    Args:
        published: the oldest first.
    """
    releases_of: dict[tuple[str, str, str], dict[Any, Published]] = {}
    for one in published:
        said = one.statement
        key = (said.get("collection") or "", said.get("metric") or said["release"], said["release"])
        # Passes over one batch are one window, of which the last pass says most; commands of their
        # own have none: each release is one.
        batch = (one.whole.get("pass") or {}).get("batch")
        window = batch or (said.get("window") or {}).get("name") or said["release_id"]
        releases = releases_of.setdefault(key, {})
        newest = releases.get(window, one)
        releases[window] = max(newest, one, key=lambda other: other.statement["created"])
    return [History(*key, tuple(windows.values())) for key, windows in releases_of.items()]


def rounded(promised: Mapping[str, Any]) -> dict[str, str]:
    """What is lost, as a page says it: never less than it is.

    >>> rounded({"epsilon": 0.33861, "delta": 1e-6}), rounded({"epsilon": None, "delta": 1.0})
    ({'epsilon': '0.3387', 'delta': '1e-06'}, {'epsilon': 'unbounded', 'delta': '1'})
    """
    epsilon = promised["epsilon"]
    epsilon_text = "unbounded" if epsilon is None else f"{upward(epsilon, 4):g}"
    return {"epsilon": epsilon_text, "delta": f"{upward(promised['delta'], 2):g}"}


def _window(one: Published) -> dict[str, Any]:
    said = one.statement
    window, promised = said.get("window") or {}, said["guarantees"]["release"]
    return {
        "name": window.get("name") or said["created"][:10],
        "start": window.get("start"),
        "end": window.get("end"),
        "created": said["created"],
        "release": said["release_id"],
        **{name: promised[name] for name in ("model", "unit")},
        **rounded(promised),
    }


@dataclass(frozen=True)
class Series:
    """One table in all windows.

    Attributes:
        name: of the file.
        figure: what its estimates are.
        tables: place of the window -> its table.
        last: the place of the newest window.
        confidence: of the intervals.
        secret: whether noise of one window goes on in the next.
    """

    name: str
    figure: str
    tables: Mapping[int, pa.Table]
    last: int
    confidence: float
    secret: bool = False

    @cached_property
    def newest(self) -> pa.Table:
        return self.tables[self.last]

    @property
    def plain(self) -> pa.Table:
        """The newest without what is the same in all of its rows, as pictures take it."""
        table = self.newest
        same = [name for name in schema.LABELS if table[name].null_count == len(table)]
        return table.drop_columns(same)

    @cached_property
    def labels(self) -> list[Label]:
        """What is drawn over time: of the newest window those that a reader looks for first."""
        if "low" in self.newest.column_names:  # bins say little by themselves; quantiles do
            return []
        places = order(self.newest, self.figure, MOST)
        chosen = self.newest.select(["group", "value"]).take(pa.array(places, pa.int64()))
        return [(row["group"], row["value"]) for row in chosen.to_pylist()]

    @property
    def names(self) -> list[str]:
        """What people call them."""
        several = len(self.newest) > 1
        return [label(key, self.figure, several) or ALL for key in self.labels]

    @cached_property
    def _columns(self) -> dict[str, Floats]:
        """Column -> (labels, windows), NaN where there is nothing."""
        shape = (len(self.labels), self.last + 1)
        arrays = {name: np.full(shape, np.nan) for name in NAMES}
        places = {label: place for place, label in enumerate(self.labels)}
        wanted = pa.array([value for _, value in self.labels], pa.string())
        for window, table in self.tables.items():
            some = table.filter(pc.is_in(table["value"], wanted)) if len(table) > MOST else table
            rows = [
                places.get(label, -1)
                for label in zip(some["group"].to_pylist(), some["value"].to_pylist(), strict=True)
            ]
            at = np.array(rows, np.int64)
            kept = at >= 0
            for name, values in columns(some).items():
                arrays[name][at[kept], window] = values[kept]
        return arrays

    @cached_property
    def _reach(self) -> Reach:
        """How far off all of these may be."""
        return Reach.of(self._columns, self.confidence, len(self.newest))

    def drawn(self) -> dict[str, Any]:
        """What a page draws over time; bands cover all of it together."""
        known = self._columns
        centre = known[CENTRE]
        half = self._reach.half(int(np.isfinite(self._reach.alone).sum()))
        # Where a share or a variance cannot be below 0, neither does its band begin there, however
        # far below the noise may have taken it.
        least = np.where(np.isfinite(known["lower"]), known["lower"], centre)
        floor = 0.0 if np.nanmin(least, initial=0.0) >= 0 else -math.inf
        return {
            "labels": [[*key] for key in self.labels],
            "names": self.names,
            "estimate": _short(known["estimate"], known["standard_error"]),
            "lower": _short(np.maximum(centre - half, floor), half),  # NaN where there is none
            "upper": _short(np.maximum(centre + half, floor), half),
        }

    def changes(self, windows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """What is different now from the window before, and from that of a week before.

        Args:
            windows: of the history.
        """
        errors = self._columns["standard_error"]
        # What is drawn from one secret has errors that go together, and nobody knows how.
        if not self.labels or self.secret or not np.isfinite(errors).any():
            return
        for said, place in _earlier(windows):
            compared = int(np.isfinite(errors[:, [place, self.last]]).all(1).sum())
            if not compared:
                continue
            before, now = self._at(place, compared), self._at(self.last, compared)
            made = change(before, now, (1 - self.confidence) / compared)
            yield {"since": said, "window": windows[place]["name"], **_rows(self.names, made)}

    def _at(self, window: int, compared: int) -> Side:
        """One window, among so many figures that are compared."""
        known, reach = self._columns, self._reach
        centre, error = known[CENTRE][:, window], known["standard_error"][:, window]
        return Side(centre, error, reach.compared(compared)[:, window], reach.whole)


def _earlier(windows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """(words, place) of the windows with which the newest is compared."""
    last = len(windows) - 1
    if last < 1:
        return
    yield "the window before", last - 1
    start = windows[last]["start"]
    if start is None:
        return
    week = datetime.fromisoformat(start) - timedelta(days=7)
    for place in range(last - 1):
        if windows[place]["start"] and datetime.fromisoformat(windows[place]["start"]) == week:
            yield "a week before", place


def _rows(names: Sequence[str], made: FigureChange) -> dict[str, Any]:
    """The differences that noise does not explain, clearest first; and how many were looked at."""
    order = made.order
    order = order[made.beyond[order]]
    return {
        "compared": int(made.known.sum()),
        "names": [names[place] for place in order],
        "difference": _short(made.difference[order], made.half[order]),
        "half": _short(made.half[order], made.half[order]),
    }


def gaps(windows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The windows that are missing between those that are there, if they follow a calendar.

    Args:
        windows: in order.

    >>> days = [{"start": f"2026-11-0{d}T00:00:00+00:00", "end": f"2026-11-0{d + 1}T00:00:00+00:00"}
    ...         for d in (1, 2, 5)]
    >>> gaps(days)
    ['2026-11-03', '2026-11-04']
    """
    spans = [
        (datetime.fromisoformat(w["start"]), datetime.fromisoformat(w["end"]))
        for w in windows
        if w.get("start") and w.get("end")
    ]
    if len(spans) < 2:
        return []
    length = Counter(end - start for start, end in spans).most_common(1)[0][0]
    missing: list[str] = []
    moment = min(spans)[1]
    for start, end in sorted(spans)[1:]:  # whoever wrote them, this ends
        while moment < start and len(missing) < 1000:
            missing.append(moment.isoformat()[: 10 if length >= timedelta(days=1) else 16])
            moment += length
        moment = max(moment, end)
    return missing


def _short(values: Floats, errors: Floats) -> Any:
    """Numbers for a page, to the digits that their errors allow; None where none is finite."""
    values, errors = np.broadcast_arrays(values, errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.where(errors > 0, 2 - np.floor(np.log10(errors)), 12)
    digits = np.nan_to_num(np.clip(digits, -12, 12), nan=12)
    scale = 10.0**digits
    rounded = np.round(values * scale) / scale
    return [_short_row(row) for row in rounded] if rounded.ndim > 1 else _short_row(rounded)


def _short_row(row: Floats) -> list[float | None]:
    return [float(f"{x:.9g}") if math.isfinite(x) else None for x in row.tolist()]


def table_now(series: Series, statement: Mapping[str, Any]) -> dict[str, Any]:
    """The newest table, column by column, its rows in the order of the release's own page."""
    table = series.newest
    if listed(series.name, table, statement).sort:
        table = table.take(pa.array(order(table, series.figure, len(table)), pa.int64()))
    columns: dict[str, Any] = {}
    for field in table.schema:
        if table[field.name].null_count == len(table):
            continue
        column = table[field.name]
        if pa.types.is_floating(field.type):
            columns[field.name] = _short_row(column.to_numpy(zero_copy_only=False).astype(float))
        else:
            columns[field.name] = column.to_pylist()
    if series.figure == QUANTILE and "value" in columns:
        columns["value"] = [label((None, level), QUANTILE) for level in columns["value"]]
    return {"rows": len(table), "columns": columns}
