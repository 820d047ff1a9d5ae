"""Moments in expressions: by a format, by a number since 1970, and by the clocks of a zone."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.oracles.wire import EXAMPLES
from tests.transforms.expressions.test_numbers import computed
from transforms.expressions.view import View, ViewError

UTC = timezone.utc
EIGHT = datetime(2026, 11, 20, 8, 5, 6, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def of_text(text: str, form: str) -> Any:
    return computed(f"parse_time(s, '{form}')", pa.record_batch({"s": [text, None]}))[0]


@pytest.mark.parametrize(
    ("text", "form", "wanted"),
    [
        ("20.11.2026", "%d.%m.%Y", datetime(2026, 11, 20, tzinfo=UTC)),
        (" 1.2.2026 ", "%d.%m.%Y", datetime(2026, 2, 1, tzinfo=UTC)),
        ("31.02.2026", "%d.%m.%Y", None),  # no day, and not the third of March
        ("29.02.2025", "%d.%m.%Y", None),
        ("29.02.2024", "%d.%m.%Y", datetime(2024, 2, 29, tzinfo=UTC)),
        ("20.11.26", "%d.%m.%Y", None),
        ("20.11.26", "%d.%m.%y", datetime(2026, 11, 20, tzinfo=UTC)),
        ("20.11.69", "%d.%m.%y", datetime(1969, 11, 20, tzinfo=UTC)),
        ("20.11.2026x", "%d.%m.%Y", None),
        ("11/20/2026 08:05:06 AM", "%m/%d/%Y %I:%M:%S %p", EIGHT),
        ("11/20/2026  12:05 am", "%m/%d/%Y %I:%M %p", EIGHT.replace(hour=0, second=0)),
        ("20/Nov/2026:09:05:06 +0100", "%d/%b/%Y:%H:%M:%S %z", EIGHT),
        ("Friday 20 november 2026", "%A %d %B %Y", datetime(2026, 11, 20, tzinfo=UTC)),
        ("20261120080506", "%Y%m%d%H%M%S", EIGHT),
        ("2026324", "%Y%j", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2025-366", "%Y-%j", None),
        ("100% 2026", "100%% %Y", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-11-20 08:05:06.1234567", "%Y-%m-%d %H:%M:%S.%f", EIGHT.replace(microsecond=123456)),
        ("2026-11-20 08:05:60", "%Y-%m-%d %H:%M:%S", None),
        ("0000-01-01", "%Y-%m-%d", None),
        ("", "%Y", None),
    ],
)
def test_a_format_of_strptime_is_read_to_the_letter(text: str, form: str, wanted: Any) -> None:
    assert of_text(text, form) == wanted


FORMS = [
    "%d.%m.%Y", "%d/%b/%Y:%H:%M:%S %z", "%m/%d/%y %I:%M %p", "%Y%m%d%H%M%S", "%Y-%jT%H:%M:%S.%f%z",
    "%A, %d %B %Y", "%a %b %d %H:%M:%S %Y", "%Y%m%d", "%m%d%Y", "%d%m%y",
]  # fmt: skip


@given(
    st.sampled_from(FORMS),
    st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 30)),
    st.integers(-23 * 60, 23 * 60),
    st.data(),
)
@settings(max_examples=EXAMPLES)
def test_a_text_is_what_pythons_strptime_takes_it_for(
    form: str, moment: datetime, offset: int, data: st.DataObject
) -> None:
    text = moment.replace(tzinfo=timezone(timedelta(minutes=offset))).strftime(form)
    if data.draw(st.booleans()):  # one sign is another
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.sampled_from("0123456789 .x")) + text[place + 1 :]
    assume(text == text.strip())
    try:
        wanted = datetime.strptime(text, form)
    except (ValueError, IndexError):
        wanted = None
    if wanted is not None:
        wanted = wanted.replace(tzinfo=wanted.tzinfo or UTC)
    assert of_text(text, form) == wanted


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("%Q", "a format is made of %Y, %y"),
        ("%Y %", "a format is made of %Y, %y"),
        ("%d.%m.", "a format says the year"),
        ("%Y %y", "each part of a time once"),
        ("%Y %m %b", "each part of a time once"),
        ("%Y %S %S", "each part of a time once"),
    ],
)
def test_a_format_that_says_no_moment_is_refused(form: str, why: str) -> None:
    with pytest.raises(ViewError, match=why):
        View.read([("t", f"parse_time(s, '{form}')")], []).schema(pa.schema([("s", pa.string())]))


def since(unit: str, *numbers: Any, kind: pa.DataType | None = None) -> list[Any]:
    batch = pa.record_batch({"x": pa.array(numbers, kind)})
    return computed(f"epoch(x, '{unit}')", batch)


def test_a_number_since_1970_is_a_moment_and_never_another_day() -> None:
    at = int(EIGHT.timestamp())
    assert since("s", at, None) == [EIGHT, None]
    assert since("ms", at * 1000 + 1) == [EIGHT + timedelta(milliseconds=1)]
    assert since("us", at * 10**6 + 1) == [EIGHT + timedelta(microseconds=1)]
    assert since("ns", at * 10**9 + 1999, kind=pa.uint64()) == [EIGHT + timedelta(microseconds=1)]
    assert since("ns", -1) == [EPOCH - timedelta(microseconds=1)]
    assert since("s", at + 0.745) == [EIGHT + timedelta(milliseconds=745)]
    assert since("ms", at * 1e3 + 0.25) == [EIGHT + timedelta(microseconds=250)]
    # The last microsecond of a day stays in it.
    assert since("s", 86399.9999999) == [EPOCH + timedelta(days=1, microseconds=-1)]
    assert since("s", -0.0000001) == [EPOCH - timedelta(microseconds=1)]
    last = int((datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - EPOCH).total_seconds())
    assert since("s", last, last + 1) == [datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), None]
    for unit in ("s", "ms", "us", "ns"):
        ends = since(unit, 2**63 - 1, -(2**63))
        assert ends == [None, None] if unit != "ns" else None not in ends
        assert since(unit, math.nan, math.inf, -math.inf, 1e300) == [None] * 4
        assert since(unit, 2**64 - 1, kind=pa.uint64()) == [None]


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([("s", 1), ("ms", 10**3), ("us", 10**6)]))
@settings(max_examples=EXAMPLES)
def test_an_epoch_is_pythons_or_null(number: int, unit: tuple[str, int]) -> None:
    try:
        wanted = EPOCH + timedelta(microseconds=number * 10**6 // unit[1])
    except OverflowError:
        wanted = None
    assert since(unit[0], number) == [wanted]


@given(st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=EXAMPLES)
def test_nanoseconds_round_down_before_1970_too(nanos: int) -> None:
    batch = pa.record_batch({"t": pa.array([nanos, None], pa.timestamp("ns", "UTC"))})
    wanted = EPOCH + timedelta(microseconds=nanos // 1000)
    assert computed("day(t)", batch) == [wanted.strftime("%Y-%m-%d"), None]
    year, week, _ = wanted.isocalendar()
    parts = {
        "hour": wanted.hour, "minute": wanted.minute, "second": wanted.second,
        "monthday": wanted.day, "yearday": wanted.timetuple().tm_yday, "iso_week": week,
        "month": wanted.month, "quarter": (wanted.month + 2) // 3, "year": wanted.year,
        "iso_year": year,
    }  # fmt: skip
    for name, part in parts.items():
        assert computed(f"{name}(t)", batch) == [part, None]
    assert computed("weekday(t)", batch) == [wanted.isoweekday(), None]


def test_a_moment_beyond_the_calendar_has_no_day() -> None:
    far = [datetime(9999, 12, 31, tzinfo=UTC)]
    batch = pa.record_batch({"t": pa.array(far, pa.timestamp("us", "UTC"))})
    assert computed("day(t)", batch) == ["9999-12-31"]
    micros = [253_402_300_800_000_000, 2**60, 2**62, -(2**62), -62_135_596_800_000_001]
    batch = pa.record_batch({"t": pa.array(micros, pa.int64()).cast(pa.timestamp("us"))})
    for name in ("day", "hour", "week", "weekday"):
        assert computed(f"{name}(t)", batch) == [None] * 5


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ("s", {"1.5": 1.5, " -2e3 ": -2000.0, "1,5": None, "1.234,5": None, ".5": 0.5, "x": None}),
        ("s, decimal=','", {"1,5": 1.5, "1.5": None, "-,5": -0.5, "3": 3.0, "1,5e2": 150.0}),
        ("s, ',', '.'", {"1.234,5": 1234.5, "1234,5": 1234.5, "12.34": None, "1.234.567": 1234567}),
        ("s, thousands=','", {"1,234.5": 1234.5, "12,34": None, "1,234": 1234.0, ",234": None}),
        ("s, ',', '\u00a0'", {"1\u00a0234,5": 1234.5, "": None, "1e999": math.inf, "nan": None}),
    ],
)
def test_a_text_is_a_number_by_its_marks(arguments: str, texts: dict[str, float | None]) -> None:
    batch = pa.record_batch({"s": [*texts, None]})
    assert computed(f"number({arguments})", batch) == [*texts.values(), None]


@pytest.mark.parametrize(
    ("text", "why", "position"),
    [
        ("number(s, 'x')", "a point or a comma", 11),
        ("number(s, ',', ',')", "another than before decimals", 16),
        ("number(s, marks=',')", "there is no argument 'marks' left to name", 17),
        ("number(s, ',', decimal=',')", "no argument 'decimal' left to name", 24),
        ("number(decimal=',', s)", "what is named comes last", 21),
        ("number(s, decimal=',', decimal=',')", "an argument is named twice", 24),
        ("number(s, decimal=s)", "a text that is written out is needed", 19),
        ("number(decimal=',')", "is needed", 1),
        ("epoch(1, 'days')", "the unit is one of", 10),
        ("lower(s, n=1)", "there is no argument 'n' left to name", 12),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_their_place(
    text: str, why: str, position: int
) -> None:
    with pytest.raises(ViewError, match=why) as caught:
        View.read([("x", text)], []).schema(pa.schema([("s", pa.string())]))
    assert str(caught.value).endswith(f", at position {position}")


def test_any_argument_may_be_named() -> None:
    batch = pa.record_batch({"s": ["abcd"], "x": [7.5], "t": [EIGHT]})
    assert computed("substring(s, first=2, n=2)", batch) == ["bc"]
    assert computed("substring(s, n=2, first=2)", batch) == ["bc"]
    assert computed("bucket(x, width=5)", batch) == [5]
    assert computed("hour(t, zone='Europe/Berlin')", batch) == [9]
