"""The differences of all pairs, tested together, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.compare.differences import FigureChange, Side, change
from pipelines.compare.pairs import Figures, Pair

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
    def changes(self) -> list[FigureChange]:
        """The differences of each pair."""
        miss = (1 - self.confidence) / self.compared  # of each (Bonferroni)
        made = []
        for pair in self.pairs:
            miss_of_side = miss if pair.independent else miss / 2
            first, second = _side(pair.first, miss_of_side), _side(pair.second, miss_of_side)
            made.append(change(first, second, miss, pair.independent))
        return made

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Of `SCHEMA`, what is beyond noise first, and of that the clearest."""
        rows = [
            (-made.clearness[place], _row(pair, made, int(place)))
            for pair, made in zip(self.pairs, self.changes, strict=True)
            for place in made.order
        ]
        return [row for _, row in sorted(rows, key=lambda one: one[0])]

    @property
    def table(self) -> pa.Table:
        """The same as a table."""
        return pa.Table.from_pylist(self.rows, SCHEMA)

    @property
    def detectable(self) -> list[tuple[str, str, float, float]]:
        """(metric, figure, smallest, largest) of differences that are found nine times in ten."""
        rows = []
        for pair, made in zip(self.pairs, self.changes, strict=True):
            sizes = made.detectable[made.known]
            if not len(sizes):  # an interval that is said to be without end finds nothing
                continue
            rows.append((pair.metric, pair.figure, float(np.min(sizes)), float(np.max(sizes))))
        return rows

    @property
    def beyond(self) -> int:
        """How many differences are beyond noise."""
        return sum(row["beyond_noise"] for row in self.rows)


def _side(figures: Figures, miss: float) -> Side:
    """Figures of which each interval may miss so often."""
    return Side.of(figures.known, figures.reach, figures.reach.miss / miss, figures.law)


def _row(pair: Pair, made: FigureChange, place: int) -> dict[str, Any]:
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
