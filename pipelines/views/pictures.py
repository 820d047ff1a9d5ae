"""Pictures on pages: inline SVG in the page's own letters and colours, equal for equal releases.

Places across are told in percent and places down in pixels: a picture is as wide as its page, and
its letters keep their size, on a telephone as well. What has no place in percent, a line or an
area, stands in a drawing of its own that is stretched. Colours and strokes are those of `page.css`,
by the name of what is drawn.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.views.facts import shortened
from pipelines.wording import moment_of

Numbers = NDArray[np.float64]

_LINE = 20  # pixels of a line of text
_EDGE = 1.5  # percent left free on both sides, for points have a width
_FINE = 1000  # steps across a drawing that is stretched


class AxisScale(NamedTuple):
    """An axis.

    Attributes:
        low: where it begins.
        high: where it ends, above that.

    >>> AxisScale.over([3, float("nan"), 17], [0]).ticks
    [0.0, 5.0, 10.0, 15.0]
    """

    low: float
    high: float

    @classmethod
    def over(cls, *numbers: ArrayLike) -> AxisScale:
        """One that shows all of some numbers; what is none is passed over."""
        every = np.concatenate([np.ravel(np.asarray(part, np.float64)) for part in numbers])
        finite = every[np.isfinite(every)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        # Numbers that are all but equal still get an axis that numbers can be written at.
        least = max(1e-9 * max(abs(low), abs(high)), math.ulp(0.0))
        if high / 2 - low / 2 > least:
            return cls(low, high)
        return cls(low - max(0.5, least), high + max(0.5, least))

    def share(self, numbers: ArrayLike) -> Numbers:
        """Where numbers stand between the ends, 0 to 1; beyond them at the ends."""
        length = self.high / 2 - self.low / 2  # halves: the ends may be as far apart as can be
        places = (np.asarray(numbers, np.float64) / 2 - self.low / 2) / length
        return np.asarray(np.clip(places, 0, 1))

    @property
    def ticks(self) -> list[float]:
        """Four to nine round numbers, a few digits each, within it."""
        rough = (self.high / 5 - self.low / 5) or 1.0
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next((unit * s for s in (1, 2, 2.5, 5) if unit * s >= rough * 0.8), 10 * unit)
        first, last = math.ceil(self.low / step), math.floor(self.high / step + 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _across(share: float) -> str:
    """A place in percent, from one of 0 to 1."""
    return f"{_EDGE + (100 - 2 * _EDGE) * share:.3f}%"


def _text(x: str, y: float, words: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x}" y="{y:g}" text-anchor="{anchor}">{html.escape(words, quote=False)}</text>\n'
    )


def _line(x1: str, x2: str, y1: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1}" x2="{x2}" y1="{y1:.2f}" y2="{y2:.2f}"/>\n'


def _picture(height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" width="100%" '
        f'height="{height:g}">\n{"".join(parts)}</svg>'
    )


_NAMES, _WIDE = 5, 12  # how many names of places an axis has, and how long they are


def _named(
    scale: AxisScale, names: Sequence[str], moments: bool = False
) -> Iterator[tuple[float, str]]:
    """(place, text) of the ticks of an axis: round numbers, moments, or some names of places."""
    if moments:
        for tick in np.linspace(*scale, _NAMES).tolist():
            yield tick, moment_of(tick)[5:16].replace("T", " ")
        return
    if not names:
        yield from ((tick, f"{tick:,.10g}") for tick in scale.ticks)
        return
    every = range(1, len(names) + 1)
    chosen = np.unique(np.linspace(1, len(names), _NAMES).round().astype(int)).tolist()
    for place in every if len(names) <= _NAMES else chosen:
        yield float(place), shortened(names[place - 1], _WIDE)


def _below(
    scale: AxisScale, top: float, bottom: float, words: str, names: Sequence[str] = (),
    moments: bool = False,
) -> Iterator[str]:  # fmt: skip
    """Lines up from the ticks of an axis, their numbers, and what it is."""
    for tick, text in _named(scale, names, moments):
        share = float(scale.share(tick))
        place = _across(share)
        yield _line(place, place, top, bottom, "grid")
        anchor = "start" if share < 0.03 else "end" if share > 0.97 else "middle"
        yield _text(place, bottom + 15, text, anchor)
    yield _text("50%", bottom + 33, words, "middle") if words else ""


def bars(
    labels: Sequence[str],
    numbers: ArrayLike,
    ends: ArrayLike,
    texts: Sequence[str] = (),
    points: bool = False,
    moments: bool = False,
) -> str:
    """Bars with their intervals, one below the other: labels left, figures right.

    They are no one drawing, so that labels keep their size and break into lines on any screen.

    Args:
        labels: what each is of.
        numbers: (n,) how long each is.
        ends: (2, n) of each interval.
        texts: (n,) what is said at the end of each; by default the number.
        points: whether points stand for bars; their axis fits the data, and that of bars begins
            at 0.
        moments: whether numbers are seconds since 1970.
    """
    lengths, (low, high) = np.asarray(numbers, np.float64), np.asarray(ends, np.float64)
    scale = AxisScale.over(lengths, low, high, *([] if points else [[0.0]]))
    zero, sure = scale.share(0.0), ~((low <= 0) & (high >= 0))
    said = [*texts] or [
        f"{length:,.4g}" if math.isfinite(length) else "unknown" for length in lengths
    ]
    places = zip(
        labels, said, scale.share(lengths), scale.share(low), scale.share(high), sure, strict=True
    )
    rows = []
    for label, text, length, start, end, is_sure in places:
        mark = ""
        if points and math.isfinite(length):
            mark = f'<circle class="dot" cx="{_across(length)}" cy="50%" r="4"/>'
        elif math.isfinite(length):
            width = (100 - 2 * _EDGE) * abs(length - zero)
            kind, begin = "bar" if is_sure else "bar noise", _across(min(length, float(zero)))
            mark = f'<rect class="{kind}" x="{begin}" y="10%" width="{width:.3f}%" height="80%"/>'
        arm = ""
        if math.isfinite(start) and math.isfinite(end):
            arm = f'<line class="arm" x1="{_across(start)}" x2="{_across(end)}" y1="50%" y2="50%"/>'
        name, number = html.escape(label), html.escape(text)
        rows.append(
            f'<li><span class="name">{name}</span><svg class="track" aria-hidden="true">'
            f'{mark}{arm}</svg><span class="number">{number}</span></li>\n'
        )
    if points:
        first, last = (moment_of(end) if moments else f"{end:,.4g}" for end in scale)
        axis = f'<span class="axis"><span>{first}</span><span>{last}</span></span>'
        rows.append(f"<li><span></span>{axis}<span></span></li>\n")
    return f'<ol class="bars">\n{"".join(rows)}</ol>'


@dataclass
class Chart:
    """Numbers over numbers: lines, bands and points.

    What is drawn is named for its look: `line`, `dot`, `other`, and of areas `bar`, `band`, `wide`.

    Attributes:
        x: the axis across.
        y: the axis up.
        height: of the area, in pixels.
        names: what 1, 2, ... across are called, where they are no numbers.
        moments: whether numbers across are seconds since 1970.

    >>> chart = Chart(AxisScale(0, 1), AxisScale(0, 100))
    >>> chart.line([0, 1], [0, 100], "all of it")
    >>> chart.svg(below="time").count("<path")
    1
    """

    x: AxisScale
    y: AxisScale
    height: int = 240
    names: Sequence[str] = ()
    moments: bool = False
    _drawn: list[str] = field(default_factory=list)
    _legend: list[tuple[str, str]] = field(default_factory=list)

    def area(
        self, x: ArrayLike, low: ArrayLike, high: ArrayLike, kind: str, legend: str = ""
    ) -> None:
        """What lies between two lines, wherever both are known."""
        places, start, end = self._places(x, low, high)
        if places.size:
            there = [*zip(places, start, strict=True)]
            back = [*zip(places[::-1], end[::-1], strict=True)]
            self._stretched(_path([*there, *back]) + "Z", kind)
        self._legend.append((kind, legend))

    def stairs(self, edges: ArrayLike, heights: ArrayLike) -> None:
        """Columns from 0, side by side.

        Args:
            edges: (n + 1,) between which they stand.
            heights: (n,) of each.
        """
        corners, tops = np.repeat(np.asarray(edges), 2)[1:-1], np.repeat(np.asarray(heights), 2)
        self.area(corners, np.zeros_like(tops), tops, "bar")

    def line(self, x: ArrayLike, y: ArrayLike, legend: str = "") -> None:
        """A line through points."""
        places, heights = self._places(x, y)
        if places.size:
            self._stretched(_path([*zip(places, heights, strict=True)]), "line")
        self._legend.append(("line", legend))

    def points(self, x: ArrayLike, y: ArrayLike, legend: str = "") -> None:
        """Points, each by itself."""
        places, heights = self._places(x, y)
        self._drawn += [
            f'<circle class="dot" cx="{_across(float(place) / _FINE)}" '
            f'cy="{self._top + height:.2f}" r="2.5"/>\n'
            for place, height in zip(places, heights, strict=True)
        ]
        self._legend.append(("dot", legend))

    def svg(self, up: str = "", below: str = "") -> str:
        """The picture.

        Args:
            up: what the axis up is.
            below: what the axis across is.
        """
        bottom = self._top + self.height
        named = [(kind, words) for kind, words in self._legend if words]
        parts = [_text(_across(0), 13, up)]
        parts += _below(self.x, bottom, bottom + 4, below, self.names, self.moments)
        for tick in self.y.ticks:
            y = bottom - self.height * float(self.y.share(tick))
            parts.append(_line(_across(0), _across(1), y, y, "grid"))
        parts += self._drawn
        for tick in self.y.ticks:  # above what is drawn, for it stands in the same place
            y = bottom - self.height * float(self.y.share(tick))
            parts.append(_text(_across(0), y - 3, f"{tick:,.10g}"))
        for place, (kind, words) in enumerate(named):
            key = f'<rect class="{kind}" y="5" width="14" height="8"/>{_text("22", 13, words)}'
            y = bottom + 40 + _LINE * place
            parts.append(f'<svg x="{_across(0)}" y="{y:g}" overflow="visible">{key}</svg>\n')
        return _picture(bottom + 42 + _LINE * len(named), parts)

    _top = 2 * _LINE

    def _places(self, x: ArrayLike, *rows: ArrayLike) -> list[Numbers]:
        """Across in thousandths and down in pixels, of what is known whole."""
        every = [np.asarray(part, np.float64) for part in (x, *rows)]
        known = np.all(np.isfinite(every), axis=0)
        across, *others = (part[known] for part in every)
        return [
            _FINE * self.x.share(across),
            *(self.height * (1 - self.y.share(part)) for part in others),
        ]

    def _stretched(self, path: str, kind: str) -> None:
        self._drawn.append(
            f'<svg x="{_across(0)}" y="{self._top}" width="{100 - 2 * _EDGE:g}%" '
            f'height="{self.height}" viewBox="0 0 {_FINE} {self.height}" '
            f'preserveAspectRatio="none"><path class="{kind}" d="{path}"/></svg>\n'
        )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


_STEPS = 6  # of darkness; `page.css` has as many


def heat(
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
    numbers: NDArray[Any],
    noise: NDArray[np.bool_],
) -> str:
    """One heat map, as HTML.

    Args:
        name: what it is of.
        rows: (r,) what each row is of.
        columns: (c,) what each column is of.
        numbers: (r, c) whole numbers, none below 0; NaN where nothing is known.
        noise: (r, c) which may be nothing but noise.

    >>> heat("a × b", ["x"], ["y"], np.array([[12]]), np.array([[False]])).count("heat6")
    1
    """
    # Roots, for a few cells hold most of what there is.
    shares = np.sqrt(np.nan_to_num(numbers) / max(np.nanmax(numbers, initial=0), 1))
    steps = np.where(noise, 0, np.ceil(_STEPS * shares).astype(int))
    title, heads = (
        html.escape(name),
        "".join(f"<th>{html.escape(column)}</th>" for column in columns),
    )
    lines = "".join(
        f"<tr><th>{html.escape(row)}</th>{_cells(*line)}</tr>\n"
        for row, *line in zip(rows, numbers.tolist(), steps.tolist(), strict=True)
    )
    return (
        f'<h2>{title}</h2>\n<div class="scroll" tabindex="0" role="region" aria-label="{title}">\n'
        f'<table class="numbers heat">\n<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{lines}'
        "</tbody>\n</table>\n</div>"
    )


def _cells(numbers: Sequence[float], steps: Sequence[int]) -> str:
    looks = (f"heat{step}" if step else "noise" for step in steps)
    pairs = zip(looks, numbers, strict=True)
    return "".join(
        "<td></td>" if math.isnan(number) else f'<td class="{look}">{number:,.0f}</td>'
        for look, number in pairs
    )
