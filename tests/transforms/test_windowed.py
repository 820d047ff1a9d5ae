"""Windows of time: which rows are in which, who came late, and who was counted before."""

from __future__ import annotations

import functools
from collections import Counter
from datetime import date, datetime, timedelta, timezone

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.randomness import SeededRandom
from tests.oracles.encoders import stored
from tests.oracles.transforms import run
from transforms.elements.progress import live, reset
from transforms.encoders.users import UserDigest
from transforms.rows.windowed import AHEAD, LATE, NULL_TIME, CountLate, ToWindows
from transforms.units import once_per_window
from transforms.units.once_per_window import (
    SEEN,
    OncePerWindow,
    UnseenDoFn,
    contained,
    merge,
    within,
)
from transforms.windows import SECOND, Tumbling, accepts, time_in, times

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def clock(seconds: int) -> int:
    return seconds * SECOND


def asked(length: int = 10, at: int = 1000, **more) -> ToWindows:
    """Windows of some seconds, by a clock that stands."""
    given = {"column": "at", "keep": ("row",), "ahead": 5 * SECOND} | more
    return ToWindows(Tumbling(length * SECOND), clock=functools.partial(clock, at), **given)


def table(seconds: list[int | None]) -> pa.Table:
    stamps = [None if s is None else s * SECOND for s in seconds]
    rows = np.arange(len(seconds))
    return pa.table({"at": pa.array(stamps, pa.timestamp("us")), "row": rows, "secret": rows})


def by_window(outcome) -> dict[int, list[int]]:
    """Rows by their window's start, in seconds."""
    found: dict[int, list[int]] = {}
    for kept in outcome.kept:
        rows = kept.element.column("row").to_pylist()
        found.setdefault(int(kept.window.start), []).extend(rows)
    return {start: sorted(rows) for start, rows in found.items()}


def split(windows: ToWindows, *tables: pa.Table):
    files = [(f"f{k}", each) for k, each in enumerate(tables)]
    return run(lambda p: p | beam.Create(files) | beam.ParDo(Tabled()) | First(windows))


class Tabled(beam.DoFn):
    def process(self, element):
        yield element


class First(beam.PTransform):
    def __init__(self, windows):
        super().__init__()
        self.windows = windows

    def expand(self, files):
        return files | self.windows


def test_every_row_is_in_the_window_of_its_time():
    outcome = split(asked(), table([0, 9, 10, 25]), table([29, -1]))
    assert by_window(outcome) == {0: [0, 1], 10: [2], 20: [0, 3], -10: [1]}
    for kept in outcome.kept:
        assert kept.element.column_names == ["row"]


def test_rows_that_cannot_be_are_counted_by_reason():
    outcome = split(asked(oldest=clock(20)), table([19, None, 20, 1005, 1006, None, None]))
    assert by_window(outcome) == {20: [2], 1000: [3]}
    assert outcome.counters == {LATE: 1, NULL_TIME: 3, AHEAD: 1}


def test_rows_older_than_the_calendar_are_late_in_the_first_batch_too():
    """A window of theirs would have no name, and no release could be told of."""
    years = [-(10**12), -(10**11), -30_600_000_000, 5]  # seconds; the third is of the year 1000
    outcome = split(asked(), table(years))
    assert by_window(outcome) == {-30_600_000_000: [2], 0: [3]}
    assert outcome.counters == {LATE: 2}
    assert Tumbling(10 * SECOND).name(-30_600_000_000 * SECOND) == "1000-04-29T080000"


def test_a_delay_shifts_the_window_but_not_its_rows():
    windows = asked(delay=clock(7))
    outcome = split(windows, table([0, 9, 10]))
    assert by_window(outcome) == {7: [0, 1], 17: [2]}
    assert {windows.start(kept.window) for kept in outcome.kept} == {0, clock(10)}


def test_a_file_name_can_say_when_its_rows_happened():
    windows = asked(86_400, at=10**10, column=None)
    files = [("x/a-2026-11-20T1305.parquet", table([1, 2])), ("x/undated", table([3]))]
    outcome = run(lambda p: p | beam.Create(files) | beam.ParDo(Tabled()) | First(windows))
    day = int(datetime(2026, 11, 20, tzinfo=timezone.utc).timestamp())
    assert by_window(outcome) == {day: [0, 1]}
    assert outcome.counters == {NULL_TIME: 1}


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("gs://b/2020-01-01/trips-2026-11-20T13.parquet", (2026, 11, 20, 13)),
        ("a_2026-11-20.parquet", (2026, 11, 20)),
        ("a_2026-11-20T13:45", (2026, 11, 20, 13, 45)),
        ("2026-02-31.parquet", None),
        ("trips.parquet", None),
    ],
)
def test_moments_in_names(name, moment):
    found = time_in(name)
    expected = moment and (datetime(*moment, tzinfo=timezone.utc) - EPOCH) // timedelta(
        microseconds=1
    )
    assert found == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_times_of_all_kinds(unit, zone):
    moments = [EPOCH + timedelta(seconds=s) for s in (0, 86_399, 1_800_000_000)]
    column = pa.chunked_array([pa.array([*moments, None], pa.timestamp(unit, zone))])
    found, known = times(column)
    assert found[:3].tolist() == [0, clock(86_399), clock(1_800_000_000)]
    assert known.tolist() == [True] * 3 + [False]


def test_days_count_and_absurd_times_stay_absurd():
    days, _ = times(pa.chunked_array([pa.array([date(1970, 1, 3)])]))
    assert days.tolist() == [clock(2 * 86_400)]
    for sign in (1, -1):
        words = pa.array([sign * (2**63 - 1)], pa.int64()).cast(pa.timestamp("s"), safe=False)
        (far,), _ = times(pa.chunked_array([words]))
        assert sign * far > clock(10**12)
    assert not accepts(pa.int64())


@given(st.integers(-(2**50), 2**50), st.integers(1, 10**12))
def test_windows_tumble(moment, length):
    windows = Tumbling(length)
    start = windows.start(moment)
    assert start <= moment < start + length
    assert start % length == 0
    assert windows.starts(np.array([moment], np.int64)).tolist() == [start]


@pytest.mark.parametrize(
    ("seconds", "name"),
    [(86_400, "1970-01-02"), (3600, "1970-01-02T0000"), (1, "1970-01-02T000000")],
)
def test_names_tell_windows_of_one_length_apart(seconds, name):
    windows = Tumbling(clock(seconds))
    assert windows.name(clock(86_400)) == name
    assert windows.name(clock(86_400 + seconds)) != name


@pytest.mark.parametrize("length", [0, -1])
def test_windows_last(length):
    with pytest.raises(ValueError, match="longer"):
        Tumbling(length)


def stream_of(*steps) -> test_stream.TestStream:
    """("rows", seconds ...) and ("watermark", second), in the order of their coming."""
    stream = test_stream.TestStream()
    for kind, *values in steps:
        if kind == "rows":
            stream = stream.add_elements([TimestampedValue(("f", tuple(values)), values[0])])
        else:
            stream = stream.advance_watermark_to(values[0])
    return stream.advance_watermark_to_infinity()


def to_table(element):
    return element[0], table(list(element[1]))


class Grouped(beam.PTransform):
    """What a window comes to, once, and what was late."""

    def __init__(self, windows):
        super().__init__()
        self.windows = windows

    def expand(self, files):
        tables = files | beam.Map(to_table).with_output_types(tuple[str, pa.Table]) | self.windows
        tables | CountLate()
        return tables | beam.Map(lambda t: (0, t.num_rows)) | beam.GroupByKey()


# That runner's own metrics lose what is counted of late elements: `live` has it.


def test_a_stream_out_of_order_late_and_empty():
    """The second window is empty; two rows come late, after the first one's end."""
    stream = stream_of(
        ("watermark", 0), ("rows", 5, 3), ("rows", 21), ("rows", 1),
        ("watermark", 11), ("rows", 2, 4), ("rows", 25), ("watermark", 50),
    )  # fmt: skip
    reset()
    outcome = run(
        lambda p: p | stream | Grouped(asked()), "--streaming", runner="BundleBasedDirectRunner"
    )
    sizes = [(int(kept.window.start), sum(kept.element[1])) for kept in outcome.kept]
    assert sizes == [(0, 3), (20, 2)]
    assert live() == {LATE: 2}


def test_a_window_waits_for_as_long_as_it_is_told():
    stream = stream_of(
        ("watermark", 0),
        ("rows", 5),
        ("watermark", 12),
        ("rows", 2),
        ("watermark", 15),
        ("rows", 1),
    )
    reset()
    outcome = run(
        lambda p: p | stream | Grouped(asked(delay=clock(4))),
        "--streaming",
        runner="BundleBasedDirectRunner",
    )
    assert [(int(k.window.start), sum(k.element[1])) for k in outcome.kept] == [(4, 2)]
    assert live() == {LATE: 1}


# ---- users -------------------------------------------------------------------------------------


DIGEST = UserDigest("user", 77)


def users_table(users: list[int | None]) -> pa.Table:
    return pa.table({"user": pa.array(users, pa.int64()), "row": np.arange(len(users))})


def once(tables, seen, folder):
    """One batch; (what passed, what is new) by window, and the counters."""
    stamped = [TimestampedValue(users_table(users), at) for at, users in tables]
    got = {}

    class Both(beam.PTransform):
        def expand(self, begin):
            windowed = (
                begin
                | beam.Create(stamped)
                | beam.Map(lambda t: t).with_output_types(pa.Table)
                | beam.WindowInto(FixedWindows(10))
            )
            first, new = windowed | OncePerWindow(DIGEST, seen)
            return (first | "A" >> beam.Map(lambda t: ("users", t)),
                    new | "B" >> beam.Map(lambda b: ("new", b))) | beam.Flatten()  # fmt: skip

    outcome = run(lambda p: p | Both())
    for kept in outcome.kept:
        kind, element = kept.element
        key = (kind, int(kept.window.start))
        if kind == "users":
            got.setdefault(key, []).extend(element.column("user").to_pylist())
        else:
            got.setdefault(key, []).append(element)
    return got, outcome.counters


def digests(users, start):
    ids = pa.array(users, pa.int64())
    return np.unique(within(DIGEST, start * SECOND)(ids))


def test_a_user_passes_once_in_a_window_across_batches(tmp_path):
    got, counters = once([(1, [1, 2, 2, None]), (2, [2, 3]), (11, [1])], {}, tmp_path)
    assert sorted(got["users", 0], key=str) == [1, 2, 2, 2, 3, None]
    assert got["users", 10] == [1]
    assert counters == {}
    written = b"".join(digest for _, digest in sorted(got["new", 0]))
    assert np.frombuffer(written, np.uint64).tolist() == digests([1, 2, 3], 0).tolist()
    (tmp_path / "run").write_bytes(written)
    later, counters = once([(3, [3, 4, None]), (12, [2])], {0: [str(tmp_path / "run")]}, tmp_path)
    assert sorted(later["users", 0], key=str) == [4, None]
    assert later["users", 10] == [2]
    assert counters == {SEEN: 1}
    again = b"".join(digest for _, digest in later["new", 0])
    assert np.frombuffer(again, np.uint64).tolist() == digests([4], 0).tolist()


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_a_user_is_known_however_the_column_is_typed(kind, tmp_path):
    """Of the users of one batch none passes in a later one, whatever its file's layout is."""
    first, *others = stored(30)[kind]
    (tmp_path / "run").write_bytes(np.unique(within(DIGEST, 0)(first)).tobytes())
    step = UnseenDoFn(DIGEST, {0: [str(tmp_path / "run")]})
    window = IntervalWindow(0, 10)
    for column in others:
        assert list(step.process(pa.table({"user": column}), window)) == []
    assert len(list(step.process(pa.table({"user": pa.array(["new"])}), window))) == 2


def test_digests_of_two_windows_do_not_match():
    users = list(range(1000))
    assert not set(digests(users, 0).tolist()) & set(digests(users, 10).tolist())


def test_files_of_digests_are_put_together(tmp_path):
    rng = SeededRandom(3)
    parts = [np.unique(rng.words(size)) for size in (1000, 1, 5000)]
    parts += [parts[0][::3], np.empty(0, np.uint64)]
    files = []
    for k, part in enumerate(parts):
        files.append(str(tmp_path / f"{k}"))
        (tmp_path / f"{k}").write_bytes(part.tobytes())
    size = merge(files, str(tmp_path / "all"))
    held = once_per_window.mapped(str(tmp_path / "all"))
    assert held.tolist() == sorted({word for part in parts for word in part.tolist()})
    assert held.size == size
    asked_for = np.concatenate([parts[2][:50], rng.words(50), parts[1]])
    expected = [word in set(held.tolist()) for word in asked_for.tolist()]
    assert contained(asked_for, files).tolist() == expected
    assert contained(asked_for, [str(tmp_path / "all")]).tolist() == expected
    assert Counter(expected)[True] == 51
