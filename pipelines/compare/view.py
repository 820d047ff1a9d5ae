"""What people see of differences: the clearest first, on a screen and as a page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from rich.markup import escape

from pipelines.compare.differences import FigureChange, Side, change
from pipelines.compare.pairs import Figures, Pair
from pipelines.views import facts, pages
from pipelines.views.console import Screen, numbers_table
from pipelines.views.digits import digits
from pipelines.views.drawing import pictured
from pipelines.views.facts import cell
from pipelines.views.headline import EFFECT, OTHER, Head, whole
from pipelines.views.pictures import bars

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

    @property
    def covers(self) -> str:
        """What intervals are of, as those that releases publish."""
        effects = [*dict.fromkeys(pair.metric for pair in self.pairs if pair.figure == EFFECT)]
        if not effects:
            return f"intervals cover noise alone, not chance among users; {_ARMS}"
        noise = "" if all(pair.figure == EFFECT for pair in self.pairs) else "noise alone; and "
        return f"intervals cover {noise}{_BOTH.format(', '.join(effects))}"


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


_ROWS = 20  # on a screen; all are in --json and in a table
_LISTED = 1_000  # on a page
_BARS = 20  # of a picture: more than these are no picture
_WIDE = 60  # characters of a name
_ARMS = "whether arms of an experiment differ beyond chance is what `hushbeam experiment` tells"
_BOTH = (
    "chance among users and noise in effects of {}, as if the releases had different users: of the "
    "same ones intervals are too long"
)


class _FigureChanges(NamedTuple):
    """The chosen differences of one figure of one metric, the clearest first.

    Attributes:
        metric: its name.
        unit: of its numbers.
        percent: what a number is multiplied with to be one of that unit.
        sides: what each difference is between.
        rows: of the comparison.
    """

    metric: str
    unit: str
    percent: int
    sides: tuple[str, str]
    rows: Sequence[Mapping[str, Any]]

    @property
    def head(self) -> str:
        """Above the differences, with the unit of those of shares."""
        return "difference, percentage points" if self.percent == 100 else "difference"

    @property
    def labels(self) -> list[str]:
        """Whose each difference is."""
        parts = [[part for part in (row["group"], row["value"]) if part] for row in self.rows]
        return [" · ".join(map(cell, part)) for part in parts]

    def label(self, text: str) -> str:
        """A label, or what stands for nobody's in particular."""
        return text or (OTHER if any(self.labels) else "all")

    def numbers(self, row: Mapping[str, Any]) -> list[str]:
        """Both estimates, the difference and its interval, to the digits that noise allows."""
        error = row["standard_error"] * self.percent
        first, second, difference, lower, upper = (
            digits(whole(self.percent * row[name]), error)
            for name in ("first_estimate", "second_estimate", "difference", "lower", "upper")
        )
        return [first, second, difference, f"{lower} to {upper}"]


def _parts(rows: Sequence[Mapping[str, Any]]) -> Iterator[_FigureChanges]:
    """What one table holds of some differences."""
    keys = [*dict.fromkeys(map(_figure, rows))]
    for (metric, figure), mine in groupby(
        sorted(rows, key=lambda row: keys.index(_figure(row))), key=_figure
    ):
        of = [*mine]
        first, second = of[0]["first"], of[0]["second"]
        sides = ("first", "second") if first == second else (first, second)
        share = figure == "share"
        yield _FigureChanges(metric, "%" if share else figure, 100 if share else 1, sides, of)


def _figure(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["metric"], row["figure"]


def _together(comparison: Comparison) -> str:
    """What an interval is of."""
    many = comparison.compared
    together = f" of all {many:,} together" * (many > 1)
    return f"{100 * comparison.confidence:g} % interval{together}"


def _said(comparison: Comparison) -> list[str]:
    """What all tests found, and what they would have."""
    chance = f"{100 * (1 - comparison.confidence):g} %"
    lines = [
        f"beyond noise: {comparison.beyond:,} of {comparison.compared:,} differences; were there "
        f"none, one would be shown as such with a probability of at most {chance}",
    ]
    for metric, figure, least, most in comparison.detectable:
        percent, unit = (100, " percentage points") if figure == "share" else (1, "")
        ends = (whole(percent * size) for size in (least, most))
        sizes = dict.fromkeys(digits(size, percent * least / 4) for size in ends)
        lines.append(
            f"{metric}: a difference of {' to '.join(sizes)}{unit} would be found nine times in ten"
        )
    return lines


def show(screen: Screen, comparison: Comparison, left_out: Sequence[tuple[str, str]]) -> None:
    """The clearest differences, and what they were among.

    Args:
        screen: where to.
        comparison: what was found.
        left_out: what is not compared, and why.
    """
    screen.say(comparison.covers)
    rows = comparison.rows[: max(_ROWS, min(comparison.beyond, 3 * _ROWS))]
    for part in _parts(rows):
        headings = (*map(_text, part.sides), part.head, _together(comparison))
        title = f"{_text(part.metric)}, {part.unit}"
        table = numbers_table(("of", "beyond noise"), headings, title)
        for label, row in zip(part.labels, part.rows, strict=True):
            beyond = "yes" if row["beyond_noise"] else ""
            table.add_row(_text(part.label(label)), beyond, *part.numbers(row))
        screen.print(table)
    for line in [*_said(comparison), *(f"left out: {name}: {why}" for name, why in left_out)]:
        screen.say(line)


def page(
    comparison: Comparison, left_out: Sequence[tuple[str, str]], compared: Sequence[str]
) -> bytes:
    """The same for a browser, with a picture of each figure's clearest differences.

    Args:
        comparison: what was found.
        left_out: what is not compared, and why.
        compared: ids of the releases.
    """
    rows = comparison.rows[:_LISTED]
    listed = f"The clearest {len(rows):,} of {comparison.compared:,}. "
    left = [(name, f"left out: {why}") for name, why in left_out]
    title = f"What has changed: {' and '.join(dict.fromkeys(_titles(rows)))}"
    about = [
        "A difference is beyond noise where its interval does not reach 0.",
        listed if len(rows) < comparison.compared else "",
    ]
    made = [
        ("releases", ", ".join(compared)), *left,
        ("privacy", "no cost: this is made of what is published"),
        ("made with", f"hushbeam {version('hushbeam')}"),
    ]  # fmt: skip
    first, *more = _said(comparison)
    about_all = "; ".join((comparison.covers, first.partition("; ")[2]))
    figure = f"<strong>{comparison.beyond:,} of {comparison.compared:,}</strong> differences"
    return pages.whole(
        Head(title, (
            f'<h1>{html.escape(title)}</h1>\n<ul class="headline">\n<li>{figure} beyond noise</li>'
            f'\n</ul>\n<p class="about">{facts.prose(about_all)}</p>\n'
        )),
        "".join(_of_page(part, comparison) for part in _parts(rows))
        + pages.folded({
            "Reading this page": facts.paragraphs([*about, *more]),
            "How it was made": facts.listed(made),
        }),
    )  # fmt: skip


def _titles(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is compared, as a title says it."""
    for part in _parts(rows):
        yield from part.sides


def _of_page(part: _FigureChanges, comparison: Comparison) -> str:
    """The picture and the table of one figure."""
    labels = [facts.shortened(part.label(label), _WIDE) for label in part.labels]
    top = part.rows[:_BARS]
    lengths, low, high = (
        [part.percent * row[name] for row in top] for name in ("difference", "lower", "upper")
    )
    first, second = part.sides
    texts = [part.numbers(row)[2] for row in top]
    legend = f"{second} less {first}, with the {_together(comparison)}."
    drawn = bars(labels[:_BARS], lengths, [low, high], texts)
    heads = ("of", "beyond noise", *part.sides, part.head, _together(comparison))
    body = [
        [label, "yes" if row["beyond_noise"] else "", *part.numbers(row)]
        for label, row in zip(labels, part.rows, strict=True)
    ]
    name = f"{part.metric}, {part.unit}"
    picture = pictured((drawn, f"Differences of {part.metric}", legend)) if len(top) > 1 else ""
    table = pages.boxed(f"the differences of {name}", heads, body)
    return f"<h2>{html.escape(name)}</h2>\n{picture}{table}"


def _text(label: str) -> str:
    """A text that clients may have made up, for a screen: nothing in it is markup."""
    return escape(cell(label))
