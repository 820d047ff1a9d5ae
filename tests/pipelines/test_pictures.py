"""Pictures of pages: what is drawn stands where its numbers are, and nothing else is drawn."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.views.pictures import AxisScale, Chart, bars

NAN, INF = math.nan, math.inf
NAME = "{http://www.w3.org/2000/svg}"
finite = st.floats(-1e300, 1e300)


def drawn(svg: str, tag: str, kind: str) -> list[dict[str, str]]:
    return [
        dict(element.attrib)
        for element in ElementTree.fromstring(svg).iter(NAME + tag)
        if element.get("class") == kind
    ]


def percent(text: str) -> float:
    assert text.endswith("%")
    return float(text[:-1])


@given(finite, finite)
def test_ticks_are_few_round_numbers_within_an_axis(one, other):
    scale = AxisScale.over([one, other])
    assert 2 <= len(scale.ticks) <= 9
    assert np.isfinite(scale.ticks).all()
    reach = 1e-9 * max(abs(scale.low), abs(scale.high))
    assert all(scale.low - reach <= tick <= scale.high + reach for tick in scale.ticks)
    assert float(scale.share(scale.low)) == 0
    assert float(scale.share(scale.high)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (-30, 180, [0, 50, 100, 150]),
        (0, 0.0031, [0, 0.0005, 0.001, 0.0015, 0.002, 0.0025, 0.003]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks(low, high, ticks):
    assert AxisScale(low, high).ticks == pytest.approx(ticks)


def shown(bars: str, tag: str, kind: str) -> list[dict[str, str]]:
    """The marks of bars, which are HTML."""
    return [
        dict(element.attrib)
        for element in ElementTree.fromstring(bars).iter(tag)
        if kind in element.get("class", "").split()
    ]


def test_bars_have_the_lengths_of_their_numbers_on_both_sides_of_0():
    made = bars(["a", "b", "<c>"], [4, -1, 2], [[3, -2, NAN], [5, 0, NAN]], ["4 & ", "-1", "2"])
    rects = [(percent(r["x"]), percent(r["width"])) for r in shown(made, "rect", "bar")]
    unit = rects[0][1] / 4
    zero = rects[0][0]
    assert rects == [
        (pytest.approx(zero), pytest.approx(4 * unit)),
        (pytest.approx(zero - unit, abs=0.01), pytest.approx(unit, abs=0.01)),
        (pytest.approx(zero), pytest.approx(2 * unit, abs=0.01)),
    ]
    arms = [(percent(a["x1"]), percent(a["x2"])) for a in shown(made, "line", "arm")]
    assert arms == [
        (pytest.approx(zero + 3 * unit, abs=0.01), pytest.approx(zero + 5 * unit, abs=0.01)),
        (pytest.approx(zero - 2 * unit, abs=0.01), pytest.approx(zero, abs=0.01)),
    ]  # the third has no interval that is known
    assert len(shown(made, "rect", "noise")) == 1  # the second reaches 0
    texts = [element.text for element in ElementTree.fromstring(made).iter("span")]
    assert texts == ["a", "4 & ", "b", "-1", "<c>", "2"]


def test_points_stand_on_an_axis_that_fits_them():
    made = bars(["a", "b"], [100, 104], [[99, 102], [101, 106]], points=True)
    first, second = (percent(dot["cx"]) for dot in shown(made, "circle", "dot"))
    (left, right), _ = (
        (percent(arm["x1"]), percent(arm["x2"])) for arm in shown(made, "line", "arm")
    )
    unit = right - first
    assert first - left == pytest.approx(unit, abs=0.01)
    assert second - first == pytest.approx(4 * unit, abs=0.01)
    assert unit > 10  # of percent: an axis from 0 would leave one
    assert not shown(made, "rect", "bar")
    assert "<span>99</span><span>106</span>" in made


def test_a_chart_leaves_out_what_is_not_known_and_stays_within_itself():
    chart = Chart(AxisScale(0, 10), AxisScale(0, 100), 200)
    x = [0, 1, NAN, 5, 10, 20]
    chart.area(x, [0, 10, 10, INF, 40, 50], [10, 20, 30, 60, 160, 70], "band", "a band")
    chart.line(x, [5, 15, 20, 50, NAN, 60])
    chart.points(x, [5, 15, 20, 50, NAN, 60], "points")
    svg = chart.svg("up", "below")
    [band], [line] = (drawn(svg, "path", kind) for kind in ("band", "line"))
    corners = re.findall(r"([\d.]+) ([\d.]+)", band["d"])
    assert [(float(a), float(b)) for a, b in corners] == [
        (0, 200), (100, 180), (1000, 120), (1000, 100), (1000, 60), (1000, 0), (100, 160), (0, 180)
    ]  # fmt: skip
    assert band["d"].endswith("Z")
    assert line["d"] == "M0.0 190.0L100.0 170.0L500.0 100.0L1000.0 80.0"
    assert len(drawn(svg, "circle", "dot")) == 4
    for word in ("up", "below", "a band", "points"):
        assert f">{word}</text>" in svg


@pytest.mark.parametrize("numbers", [[], [NAN], [INF, NAN], [0.0], [1e308, -1e308]])
def test_anything_may_be_drawn(numbers):
    """Releases of nothing, of one value, of what nobody knows."""
    chart = Chart(AxisScale.over(numbers), AxisScale.over(numbers))
    chart.area(numbers, numbers, numbers, "band", "b")
    chart.line(numbers, numbers)
    chart.points(numbers, numbers)
    labels = ["x"] * len(numbers)
    for svg in (chart.svg(), bars(labels, numbers, [numbers, numbers], points=True)):
        ElementTree.fromstring(svg)
        assert "nan" not in svg.lower()
        assert "inf" not in svg.lower()


def test_colours_are_the_pages():
    """A page in the dark has others: none stands in a picture."""
    chart = Chart(AxisScale(0, 1), AxisScale(0, 1))
    chart.stairs([0, 0.5, 1], [0.3, 0.7])
    for svg in (chart.svg("a"), bars(["a"], [1], [[0], [2]])):
        assert not re.search(r"#[0-9a-fA-F]{3}|style=|fill=|stroke=", svg)
