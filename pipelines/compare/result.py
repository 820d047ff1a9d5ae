"""The differences of all pairs, tested together: as a table, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from rich.markup import escape
from rich.table import Table

from pipelines.compare.differences import Change, Side, change
from pipelines.compare.pairs import Figures, Pair
from pipelines.metrics.view import cell
from pipelines.views.console import numbers_table
from pipelines.views.digits import digits
from pipelines.views.largest import OTHER

SCHEMA = pa.schema([
    ("metric", pa.string()), ("kind", pa.string()), ("figure", pa.string()),
    ("first", pa.string()), ("second", pa.string()),
    ("group", pa.string()), ("value", pa.string()),
    ("first_estimate", pa.float64()), ("second_estimate", pa.float64()),
    ("difference", pa.float64()), ("standard_error", pa.float64()),
    ("lower", pa.float64()), ("upper", pa.float64()),
    ("beyond_noise", pa.bool_()), ("detectable", pa.float64()),
])  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Two releases, or two parts of one.

    Attributes:
        pairs: of figures that mean the same.
        confidence: that no interval of all of them misses; in (0, 1).
    """

    pairs: Sequence[Pair]
    confidence: float

    @property
    def compared(self) -> int:
        """How many differences are tested together."""
        return sum(pair.compared for pair in self.pairs)

    @cached_property
    def changes(self) -> list[Change]:
        """The differences of each pair."""
        miss = (1 - self.confidence) / self.compared  # of each (Bonferroni)
        made = []
        for pair in self.pairs:
            each = miss if pair.independent else miss / 2
            first, second = _side(pair.first, each), _side(pair.second, each)
            made.append(change(first, second, miss, pair.independent))
        return made

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Of `SCHEMA`, what is beyond noise first, and of that the clearest."""
        found = [
            (-made.clearness[place], _row(pair, made, int(place)))
            for pair, made in zip(self.pairs, self.changes, strict=True)
            for place in made.order
        ]
        return [row for _, row in sorted(found, key=lambda one: one[0])]

    @property
    def table(self) -> pa.Table:
        """The same as a table."""
        return pa.Table.from_pylist(self.rows, SCHEMA)

    @property
    def beyond(self) -> int:
        """How many differences are beyond noise."""
        return sum(row["beyond_noise"] for row in self.rows)

    def shown(self, most: int) -> Iterator[Table]:
        """A table for each metric's figures that are compared, for a screen.

        Args:
            most: rows in all.
        """
        chosen = self.rows[:most]
        for key in dict.fromkeys((row["metric"], row["figure"]) for row in chosen):
            rows = [row for row in chosen if (row["metric"], row["figure"]) == key]
            yield _screen(rows, self.confidence, self.compared)


def _side(figures: Figures, miss: float) -> Side:
    """Figures of which each interval may miss so often."""
    return Side.of(figures.known, figures.reach, figures.reach.miss / miss)


def _row(pair: Pair, made: Change, place: int) -> dict[str, Any]:
    group, value = pair.labels[place]
    difference, half = made.difference[place], made.half[place]
    sides = {"first": pair.first, "second": pair.second}
    numbers = {
        **{f"{name}_estimate": side.known["centre"][place] for name, side in sides.items()},
        "difference": difference,
        "standard_error": made.error[place],
        "lower": difference - half,
        "upper": difference + half,
        "detectable": made.detectable[place],
    }
    return {
        "metric": pair.metric, "kind": pair.kind, "figure": pair.figure,
        **{name: side.name for name, side in sides.items()},
        "group": group, "value": value, "beyond_noise": bool(made.beyond[place]),
        **{name: float(number) for name, number in numbers.items()},
    }  # fmt: skip


def _screen(rows: Sequence[dict[str, Any]], confidence: float, compared: int) -> Table:
    """Rows of one table of one metric."""
    first = rows[0]
    percent = 100 if first["figure"] == "share" else 1
    unit = "%" if percent > 1 else first["figure"]
    sides = [first["first"], first["second"]]
    if sides[0] == sides[1]:
        sides = ["first", "second"]
    together = f" of all {compared:,} together" * (compared > 1)
    headings = (*map(_text, sides), "difference", f"{100 * confidence:g} % interval{together}")
    table = numbers_table(("of", "beyond noise"), headings, f"{_text(first['metric'])}, {unit}")
    other = OTHER if any(row["group"] or row["value"] for row in rows) else "all"
    for row in rows:
        label = " · ".join(part for part in (row["group"], row["value"]) if part is not None)
        error = row["standard_error"] * percent
        numbers = [
            digits(_whole(percent * row[name]), error)
            for name in ("first_estimate", "second_estimate", "difference", "lower", "upper")
        ]
        beyond = "yes" if row["beyond_noise"] else ""
        interval = f"{numbers[3]} .. {numbers[4]}"
        table.add_row(_text(label) or other, beyond, *numbers[:3], interval)
    return table


def _text(label: str) -> str:
    """A text that clients may have made up, for a screen: nothing in it is markup."""
    return escape(cell(label))


def _whole(number: float) -> float:
    """The same, as an integer if it is one: counts have no digits behind a point."""
    return int(number) if number.is_integer() else number


def least_detectable(comparison: Comparison) -> list[tuple[str, str, float, float]]:
    """(metric, figure, smallest, largest) of the differences that are found nine times in ten."""
    found = []
    for pair, made in zip(comparison.pairs, comparison.changes, strict=True):
        sizes = made.detectable[made.known]
        found.append((pair.metric, pair.figure, float(np.min(sizes)), float(np.max(sizes))))
    return found
