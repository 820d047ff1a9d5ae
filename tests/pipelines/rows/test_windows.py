"""Every window of a declared span is published once, whoever has rows in it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
)
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue

import hushbeam.beam as private
from pipelines.errors import RequestError
from tests.fakes.prism import LOCAL, PRISM, options_of

HOUR = 3600
BEGIN = datetime(2026, 11, 20, tzinfo=timezone.utc)
START = BEGIN.timestamp()
SPAN = ("2026-11-20T00:00", "2026-11-20T06:00")
NAMES = [f"2026-11-20T{hour:02d}00" for hour in range(6)]
# Noise of such an epsilon is 0 but with probability 2e-12: what is counted shows.
CLEAR = 27.0

_seen: dict[str, list[Any]] = defaultdict(list)
_lock = threading.Lock()


def keep(figure: beam.Row, name: str) -> None:
    with _lock:
        _seen[name].append(figure)


def rows_of(*hours: float, users: int = 50) -> list[TimestampedValue]:
    return [
        TimestampedValue({"user": f"u{i}", "city": "Oslo"}, START + hour * HOUR)
        for hour in hours
        for i in range(users)
    ]


def count(**more: Any) -> private.Count:
    asked = {"user": "user", "types": {"user": str, "city": str}, "epsilon": CLEAR, "span": SPAN}
    return private.Count(**asked | more)


def figures(name: str) -> dict[str | None, float]:
    seen = _seen.pop(name, [])
    assert len({(one.window, one.value) for one in seen}) == len(seen)  # one pane each
    return {one.window: one.estimate for one in seen if one.value in (None, "Oslo")}


def published(runner: str, *hours: float, transform: Any = None, name: str = "all") -> Any:
    with beam.Pipeline(runner, options=options_of(runner)) as pipeline:
        rows = pipeline | beam.Create(rows_of(*hours)) | beam.WindowInto(FixedWindows(HOUR))
        _ = rows | (transform or count()) | "Keep" >> beam.Map(keep, name)
    return figures(name)


@pytest.mark.parametrize("runner", LOCAL)
def test_windows_without_rows_are_published(runner: str) -> None:
    # Half of the rows are of windows outside the span, which nobody publishes.
    found = published(runner, 1.5, 3.2, 3.4, 9.0, -5.0)
    assert found == dict.fromkeys(NAMES, 0.0) | {NAMES[1]: 50.0, NAMES[3]: 50.0}


@pytest.mark.parametrize("runner", LOCAL)
def test_so_are_those_of_a_log_without_any_row(runner: str) -> None:
    assert published(runner, name="none") == dict.fromkeys(NAMES, 0.0)


@pytest.mark.parametrize("users", [0, 1])
def test_one_user_changes_no_name_and_no_number_of_figures(users: int) -> None:
    """Which windows there are, how many panes, rows and groups of each: as without the user."""
    shapes = []
    for there in (0, users):
        with beam.Pipeline("FnApiRunner") as pipeline:
            rows = pipeline | beam.Create([*rows_of(0.5), *rows_of(4.1, users=there)])
            windows = rows | beam.WindowInto(FixedWindows(HOUR))
            step = count(by="city", values=["Oslo", "Bern"], epsilon=0.5, statements=True)
            outputs = windows | step
            _ = outputs[0] | "Keep" >> beam.Map(keep, "figures")
            _ = outputs[1] | "Keep statements" >> beam.Map(keep, "statements")
        shapes.append(
            (
                Counter((one.window, one.value) for one in _seen.pop("figures")),
                Counter(one.window for one in _seen.pop("statements")),
            )
        )
    assert shapes[0] == shapes[1]
    assert len(shapes[0][0]) == 18


def test_each_window_has_its_own_noise_and_identity() -> None:
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(rows_of(0.5)) | beam.WindowInto(FixedWindows(HOUR))
        _ = rows | count(epsilon=0.001) | "Keep" >> beam.Map(keep, "noise")
    seen = _seen.pop("noise")
    assert len({one.estimate for one in seen}) > 3
    assert len({one.release_id for one in seen}) == 6
    starts = sorted(one.window_start.micros for one in seen)
    assert starts == [int((START + hour * HOUR) * 1e6) for hour in range(6)]


def test_strings_and_statements_of_windows_without_rows() -> None:
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(rows_of(2.0)) | beam.WindowInto(FixedWindows(HOUR))
        strings = private.Strings(
            "city", user="user", types={"user": str, "city": str}, epsilon=CLEAR, span=SPAN,
            statements=True,
        )  # fmt: skip
        outputs = rows | strings
        _ = outputs[0] | "Keep" >> beam.Map(keep, "strings")
        _ = outputs[1] | "Keep statements" >> beam.Map(keep, "statements")
    assert [(one.window, one.value) for one in _seen.pop("strings")] == [(NAMES[2], "Oslo")]
    told = _seen.pop("statements")
    assert sorted(one.window for one in told) == NAMES
    assert all("Each window is a release of its own" in one.statement for one in told)


def test_windows_of_a_stream_and_its_late_rows() -> None:
    """The watermark ends windows; rows that come behind it are dropped, and nobody counts them."""
    end = START + 6 * HOUR
    stream = (
        TestStream()
        .advance_watermark_to(START)
        .add_elements(rows_of(0.5))
        .add_elements(rows_of(2.5))
        .advance_watermark_to(START + 3 * HOUR)
        .add_elements(rows_of(0.6, users=77))  # late
        .add_elements(rows_of(3.5, users=9))
        .advance_watermark_to(end)
        .advance_watermark_to_infinity()
    )
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline("BundleBasedDirectRunner", options=options) as pipeline:
        rows = pipeline | stream | beam.WindowInto(FixedWindows(HOUR))
        assert not rows.is_bounded
        _ = rows | count() | "Keep" >> beam.Map(keep, "stream")
    expected = dict.fromkeys(NAMES, 0.0) | {NAMES[0]: 50.0, NAMES[2]: 50.0, NAMES[3]: 9.0}
    assert figures("stream") == expected


def test_windows_of_the_clock_have_no_end() -> None:
    begin = BEGIN + timedelta(hours=1)
    rows = beam.Pipeline("FnApiRunner") | TestStream().advance_watermark_to_infinity()
    transform = count(span=(begin, None))
    _ = rows | beam.WindowInto(FixedWindows(HOUR)) | transform
    calendar = transform._promised[0].calendar
    assert (calendar.first, calendar.until) == (int(begin.timestamp()) * 1_000_000, None)
    assert "PeriodicImpulse" in str(rows.pipeline.to_runner_api())


@pytest.mark.parametrize("runner", PRISM)
def test_they_end_as_time_passes(runner: str) -> None:
    """Where rows have passed a window the clock lets it go: rows come in three of them."""
    first = int(time.time()) // 2 * 2
    begin = datetime.fromtimestamp(first - 4, timezone.utc)
    pipeline = beam.Pipeline(runner, options_of(runner, "--streaming"))
    rows = (
        pipeline
        | PeriodicImpulse(first, first + 6, 0.5)
        | beam.Map(lambda moment: {"user": str(float(moment))})
        | beam.WindowInto(FixedWindows(2))
    )
    _ = rows | count(span=(begin, None)) | "Keep" >> beam.Map(keep, "clock")
    result = pipeline.run()
    ended = time.time() + 90
    while len(_seen["clock"]) < 8 and time.time() < ended:
        time.sleep(0.2)
    seen = {one.window_start.micros // 1_000_000: one.estimate for one in _seen["clock"]}
    assert time.time() < ended
    assert max(seen) <= time.time()
    with contextlib.suppress(Exception):
        result.cancel()
    del _seen["clock"]
    times = [first + 2 * number for number in range(-2, 6)]
    assert [seen[moment] for moment in times] == [0, 0, 4, 4, 4, 0, 0, 0]


def windowed(fn: Any, **more: Any) -> beam.PCollection:
    rows = beam.Pipeline("FnApiRunner") | beam.Create(rows_of(0.5))
    return rows | beam.WindowInto(fn, **more)


EARLY = {"trigger": AfterWatermark(early=AfterProcessingTime(60))}
PANES = {"trigger": Repeatedly(AfterCount(10))}
MODE = {"accumulation_mode": AccumulationMode.DISCARDING}


@pytest.mark.parametrize(
    ("fn", "more", "span", "complaint"),
    [
        (Sessions(60), {}, SPAN, "session windows begin and end as users come and go"),
        (SlidingWindows(HOUR, 600), {}, SPAN, "a row would be in several sliding windows"),
        (FixedWindows(HOUR), EARLY | MODE, SPAN, "a trigger would publish a window early"),
        (FixedWindows(HOUR), PANES | MODE, SPAN, "a trigger would publish a window early"),
        (FixedWindows(HOUR), {"allowed_lateness": 9}, SPAN, "late rows would publish a window ag"),
        (FixedWindows(HOUR), {}, None, "span is missing: windows without rows are published, too"),
        (FixedWindows(HOUR), {}, (SPAN[0], None), "span: say when the last window ends"),
        (FixedWindows(HOUR), {}, SPAN[::-1], "span: say when the last window ends, after the fir"),
        (FixedWindows(HOUR), {}, (SPAN[0], "2026-11-20T05:30"), "no window of 3600 seconds begin"),
        (FixedWindows(HOUR, 60), {}, SPAN, "no window of 3600 seconds begins or ends there"),
        (FixedWindows(HOUR), {}, ("soon", SPAN[1]), "span: 'soon' is no moment"),
    ],
)
def test_what_would_show_or_cost_more_is_refused(
    fn: Any, more: Any, span: Any, complaint: str
) -> None:
    with pytest.raises(RequestError, match=complaint) as caught:
        _ = windowed(fn, **more) | count(span=span)
    assert "\n" not in str(caught.value)


def test_a_span_of_one_window_is_refused_and_rows_without_end_are() -> None:
    rows = beam.Pipeline("FnApiRunner") | beam.Create(rows_of(0.5))
    with pytest.raises(RequestError, match="span: rows are in one window"):
        _ = rows | count()
    endless = beam.Pipeline("FnApiRunner") | TestStream().advance_watermark_to_infinity()
    with pytest.raises(RequestError, match="rows come without end"):
        _ = endless | count(span=None)


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"span": (SPAN[0], BEGIN + timedelta(hours=9))}, "windows: all transforms of one budget"),
        ({"user": None}, "user: all transforms of one budget have the same"),
    ],
)
def test_budgets_are_of_one_calendar_and_one_unit(other: Any, complaint: str) -> None:
    rows, budget = windowed(FixedWindows(HOUR)), private.Budget(1.0)
    _ = rows | "a" >> count(epsilon=None, budget=budget)
    _ = rows | "b" >> count(epsilon=None, budget=budget, **other)
    with pytest.raises(RequestError, match=complaint):
        budget.close()
