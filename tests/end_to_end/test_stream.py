"""Streams: files land, windows end, and each is released once, by every road the same."""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.window import TimestampedValue
from rich.console import Console

from mechanisms.planner.search import search
from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Reports as WireReports
from mechanisms.wire.screening import DUPLICATE, OTHER_PLAN
from pipelines.errors import Caution, FailedError, RequestError, WithheldError
from pipelines.jobs.run import beam_options
from pipelines.journal.sqlite_keeping import SqliteKeeping
from pipelines.ledger.entries import Owner
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.owner import this_process
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from pipelines.plan.run import ReleaseTarget
from pipelines.releases import release
from pipelines.releases.schema import read_own
from pipelines.stream import driver as driving
from pipelines.stream import landing
from pipelines.stream.driver import Driver
from pipelines.stream.job import ServeTables
from pipelines.stream.state import State
from pipelines.stream.subscription import ServeReports
from pipelines.stream.windows import Streamed, streamed
from tests.fakes import canaries
from tests.fakes.ledgers import begun_by
from tests.fakes.waiting import HANGS, until
from tests.oracles.transforms import run as run_beam
from transforms.elements.progress import WITHHELD, live
from transforms.files.systems import FileSystems
from transforms.rows.windowed import AHEAD, LATE
from transforms.windows import SECOND

pytestmark = pytest.mark.verify

HOUR = 3600
# In the past, by whatever clock.
BEGIN = int(datetime(2024, 11, 20, tzinfo=timezone.utc).timestamp())
NAMES = ("2024-11-20T0000", "2024-11-20T0100", "2024-11-20T0200", "2024-11-20T0300")

PLAN = """\
collection: canaries
version: 1
unit: {unit}
{more}input: landing/*.parquet
output: out/{{window}}
epsilon: 3.0
model: {model}
min_reports: 400
stream: {{window: 1h, state: state, time: at{late}}}
metrics:
  - {{name: value, kind: histogram, column: value, domain: {domain}, share: 0.6}}
"""
NUMBER = (
    '  - {name: number, kind: distribution, column: number, bounds: "-3,3", bins: 8, share: 0.4}\n'
)
USERS = "user_column: user\n"
LEDGER = "ledger: ledger.sqlite\nbudget: {epsilon: 7.0, delta: 1.0e-5}\n"


@pytest.fixture
def plan(domain, workspace):
    """Writes a plan, and reads it."""

    def plan(
        unit: str = "row", more: str = "", late: str = "", model: str = "local", last: str = ""
    ) -> Streamed:
        Path("landing").mkdir(exist_ok=True)
        text = PLAN.format(unit=unit, more=more, late=late, domain=domain, model=model) + last
        Path("plan.yaml").write_text(text)
        if "ledger:" in more:
            begun_by("plan.yaml")
        return streamed(load("plan.yaml"))

    return plan


def rows(hours: Sequence[float], users: Sequence[int] | None = None) -> pa.Table:
    """A row for each moment, of values that are canaries."""
    n = len(hours)
    at = [int((BEGIN + hour * HOUR) * SECOND) for hour in hours]
    ids = range(n) if users is None else users
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us")),
            "value": pa.array([canaries.DECLARED[k % 4] for k in range(n)]),
            "number": pa.array((np.arange(n) % 7 - 3).astype(np.int16)),
            "user": pa.array([f"CANARY-USER-{k:04}" for k in ids]),
        }
    )


def spread(hour: int, n: int) -> list[float]:
    return (hour + np.arange(n) / n).tolist()


def land(name: str, table: pa.Table) -> None:
    """As it should be done: under another name first."""
    pq.write_table(table, "landing/.partial", row_group_size=300)
    os.rename("landing/.partial", f"landing/{name}.parquet")


def seconds(moment: float) -> int:
    return int(moment * SECOND)


class Stream:
    """A stream on this machine, in this process; each is a restart of the last."""

    def __init__(self, plan: Streamed, hour: float = 100, files: int = 100, **more: int) -> None:
        self.plan, self.state = plan, State("state", mark(plan.plan).hex(), **more)
        clock = functools.partial(seconds, BEGIN + hour * HOUR)
        screen = Console(file=io.StringIO())
        self.driver = Driver(plan, self.state, beam_options([]), screen, clock, files)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.close()

    def catch_up(self) -> Stream:
        while self.driver.step():
            pass
        return self


def n(window: str, metric: str = "value") -> int:
    return json.loads(Path(f"out/{window}/{metric}/statement.json").read_text())["n"]


def released() -> list[str]:
    return sorted(path.name for path in Path("out").glob("*") if (path / "statement.json").exists())


# ---- on this machine ---------------------------------------------------------------------------


def test_windows_are_released_once_as_time_passes_them(plan) -> None:
    """Out of order, an empty window, late rows, a clock that runs ahead, a restart at each step."""
    asked = plan()
    land("a", rows([*spread(1, 500), *spread(0, 300)]))
    land("b", rows(spread(0, 200)))
    with Stream(asked).catch_up():
        assert released() == [NAMES[0]]
    assert n(NAMES[0]) == 500
    before = Path("out", NAMES[0], "statement.json").read_bytes()
    land("c", rows([*spread(0, 70), *spread(3, 450), 101.0]))
    with Stream(asked).catch_up() as stream:
        assert released() == [NAMES[0], NAMES[1]]
        assert stream.state.counters() == {LATE: 70, AHEAD: 1}
    assert n(NAMES[1]) == 500
    with Stream(asked) as stream:
        stream.driver.drain()
        assert released() == [NAMES[0], NAMES[1], NAMES[3]]
        assert not list(Path("state").glob("batch*"))
    assert Path("out", NAMES[0], "statement.json").read_bytes() == before
    said = json.loads(Path("out", NAMES[3], "statement.json").read_text())
    assert said["stream"] == {
        "from": "2024-11-20T03:00:00+00:00",
        "until": "2024-11-20T04:00:00+00:00",
        "windows": [NAMES[3]],
    }


def test_a_window_waits_for_those_who_come_late(plan) -> None:
    asked = plan(late=", lateness: 2h")
    land("a", rows([*spread(0, 300), *spread(1, 300)]))
    with Stream(asked).catch_up():
        pass
    land("b", rows(spread(0, 200)))
    land("c", rows(spread(3, 450)))
    with Stream(asked).catch_up() as stream:
        assert released() == [NAMES[0]]
        assert stream.state.counters() == {}
    assert n(NAMES[0]) == 500


def test_a_user_counts_once_in_a_window_across_files_and_restarts(plan) -> None:
    asked = plan("user per window", USERS)
    for k in range(4):  # more batches than a window may have files of users
        land(f"a{k}", rows(spread(0, 120), [*range(30), *range(100 * k, 100 * k + 90)]))
        with Stream(asked, most_digests=2) as stream:
            stream.catch_up()
    assert len([*Path("state").glob("digests-*")]) == 1
    everyone = {user for k in range(4) for user in range(100 * k, 100 * k + 90)}
    with Stream(asked) as stream:
        assert stream.state.backlog(BEGIN * SECOND)["value"].reports == len(everyone) == 360


def test_a_user_answers_one_metric_of_a_window_whatever_files_and_restarts(plan) -> None:
    """Users are divided among local metrics by a public draw, which is another in each window."""
    plan("user per window", USERS, last=NUMBER)
    # At an epsilon this small, to divide it would cost more than to divide users.
    Path("plan.yaml").write_text(
        Path("plan.yaml").read_text().replace("epsilon: 3.0", "epsilon: 1")
    )
    asked = streamed(load("plan.yaml"))
    assert {m.part.share for m in asked.metrics} == {0.6, 0.4}
    users, answered = range(1500), []
    for hour in (0, 1):
        for k in range(2):  # everybody in both files, and a restart between them
            land(f"h{hour}-{k}", rows(spread(hour, len(users)), users))
            with Stream(asked).catch_up() as stream:
                backlog = stream.state.backlog((BEGIN + hour * HOUR) * SECOND)
                sent = {name: part.reports for name, part in backlog.items()}
        assert sum(sent.values()) == len(users)
        # 900 and 600 are expected; 6.2 standard deviations of a binomial are 118.
        assert abs(sent["value"] - 900) < 118
        answered.append(sent)
    with Stream(asked) as stream:
        stream.driver.drain()
    for hour, sent in enumerate(answered):
        assert {name: n(NAMES[hour], name) for name in sent} == sent


def test_small_windows_are_withheld_or_added_to_the_next(plan) -> None:
    plan()
    land("a", rows([*spread(0, 1), *spread(1, 250), *spread(2, 250), *spread(3, 50)]))
    with Stream(plan()) as stream:
        stream.catch_up().driver.drain()
    assert released() == []
    os.rename("state", "before")
    with Stream(plan(more="merge_small: true\n")) as stream:
        stream.catch_up().driver.drain()
    assert released() == [NAMES[2]]
    assert n(NAMES[2]) == 501
    said = json.loads(Path("out", NAMES[2], "statement.json").read_text())["stream"]
    assert (said["windows"], said["from"]) == ([*NAMES[:3]], "2024-11-20T00:00:00+00:00")


def looks(stream: Stream, times: int) -> None:
    for _ in range(times):
        stream.driver.step()


def test_half_a_file_is_tried_again_and_then_given_up(plan, monkeypatch) -> None:
    monkeypatch.setattr(landing, "TRIES", 2)
    asked = plan()
    land("whole", rows(spread(0, 500)))
    data = Path("landing/whole.parquet").read_bytes()
    Path("landing/half.parquet").write_bytes(data[: len(data) // 2])
    with Stream(asked) as stream:
        stream.driver.step()
        stream.driver.step()
        _, tries, state = stream.state.file(str(Path("landing/half.parquet").absolute()))
        assert (tries, state) == (1, "waiting")
        Path("landing/half.parquet").write_bytes(data)
        stream.catch_up()
        Path("landing/bad.parquet").write_bytes(b"CANARY-BYTES" * 100)
        # A footer that promises what the pages do not hold.
        broken = bytearray(data)
        broken[4:400] = b"\xff" * 396
        Path("landing/torn.parquet").write_bytes(broken)
        with pytest.warns(Caution, match="given up"):
            looks(stream, 2)
        assert stream.state.counters()["unreadable file"] == 2
        stream.driver.drain()
    assert n(NAMES[0]) == 1000


def test_an_outage_of_the_storage_loses_no_file(plan, monkeypatch, run) -> None:
    asked = plan(late=", idle: 1s")
    land("a", rows(spread(0, 500)))
    land("b", rows(spread(0, 100)))
    opened, path = FileSystems.read, str(Path("landing/b.parquet").absolute())

    def refused(name: str, *args, **more):
        if name == path:
            raise OSError(errno.EIO, "Input/output error")
        return opened(name, *args, **more)

    with Stream(asked) as stream, monkeypatch.context() as patch:
        patch.setattr(FileSystems, "read", refused)
        with pytest.warns(Caution, match=r"looked at again: .*b\.parquet: Input/output"):
            looks(stream, 2 * landing.TRIES)
        stream.driver.clock = functools.partial(seconds, BEGIN + 200 * HOUR)
        stream.driver.step()
        stream.driver.drain()
        assert released() == []  # the other's rows may be of any window
        with pytest.raises(WithheldError, match=r"cannot be read now \(1\)"):
            stream.driver.require_all_taken_in()
        said = run(["stream", "status", "plan.yaml"]).out
        assert f"waiting {path}: the system refuses to read it" in said
    with Stream(asked) as stream:
        stream.catch_up().driver.drain()
        stream.driver.require_all_taken_in()
        assert not stream.state.counters()
    assert n(NAMES[0]) == 600


def test_a_user_is_not_counted_as_a_number_and_as_a_text(plan) -> None:
    """The numbers 0 to 499 in one file, and the same users as texts in the next."""
    asked = plan("user per window", USERS)
    table, numbers = rows(spread(0, 500)), pa.array(range(500), pa.int32())
    land("a", table.set_column(3, "user", numbers))
    land("b", table.set_column(3, "user", numbers.cast(pa.string())))
    land("c", table.set_column(3, "user", numbers.cast(pa.uint64()).dictionary_encode()))
    with Stream(asked) as stream, pytest.warns(Caution, match="'user' holds text, and integers in"):
        stream.catch_up()
    with Stream(asked) as stream:  # it is remembered over a restart
        land("d", table.set_column(3, "user", numbers.cast(pa.large_string())))
        with pytest.warns(Caution, match=r"d\.parquet: column 'user' holds text"):
            stream.catch_up()
        assert stream.state.counters()["file that does not fit the plan"] == 2
        stream.driver.drain()
    assert n(NAMES[0]) == 500


def test_a_file_of_other_columns_is_counted(plan, run) -> None:
    plan(last=NUMBER)
    land("a", rows(spread(0, 500)).drop_columns(["number"]))
    land("b", rows(spread(0, 500)).set_column(2, "number", pa.array(["CANARY-STRAY"] * 500)))
    land("c", rows(spread(0, 500)).drop_columns(["at"]))
    land("d", rows(spread(0, 500)).drop_columns(["number"]))
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert outcome.code == 0, outcome.said
    assert "4 file that does not fit the plan" in outcome.out
    assert all(f"{name}.parquet" in outcome.err for name in "abcd")  # each under its own name
    assert not canaries.found(outcome.said, declared=False)


def test_the_release_of_a_window_is_the_batch_release_of_its_messages(plan, monkeypatch) -> None:
    """Messages are kept as they leave the clients; collected in one job, they say the same."""
    asked = plan("user per window", USERS, model="shuffle")
    land("a", rows([*spread(0, 700)]))
    land("b", rows([*spread(0, 500), *spread(1, 10)], range(300, 810)))
    with Stream(asked, files=1) as stream:
        stream.driver.step()
        assert stream.state.backlog(BEGIN * SECOND)["value"].messages == 700
        settle = State.settle
        kept = {}

        def settled(self, start, state):
            kept[start] = {
                name: [*map(_words, each.files)] for name, each in self.backlog(start).items()
            }
            settle(self, start, state)

        monkeypatch.setattr(State, "settle", settled)
        stream.catch_up()
    for metric in asked.metrics:
        words = kept[BEGIN * SECOND][metric.name]
        assert sum(block.size for block in words) == 800
        content = _in_one_job(metric, words)
        for name, data in content.files.items():
            if name.endswith(".parquet"):
                published = read_own(str(Path("out", NAMES[0], metric.name)), name)
                assert published.equals(data)


def _words(path: str) -> np.ndarray:
    return np.fromfile(path, np.uint64)


def _in_one_job(metric, blocks):
    """What the road's own second half publishes of messages."""
    from pipelines.metrics.metric import MetricReports
    from pipelines.metrics.publishable import collected

    road = metric

    def build(pipeline):
        messages = pipeline | "M" >> beam.Create(blocks).with_output_types(np.ndarray)
        users = pipeline | "U" >> beam.Create([sum(block.size for block in blocks)])
        tallies = pipeline | "T" >> beam.Create([("rows read", 800)])
        return collected(road, road.shuffling.step(MetricReports(messages, users, tallies)))

    (content,) = run_beam(build).elements
    return content


def test_nothing_raw_is_kept(plan) -> None:
    asked = plan("user per window", USERS)
    land("a", rows(spread(0, 300)))
    with Stream(asked).catch_up():
        pass
    for path in Path("state").rglob("*"):
        if path.is_file():
            assert b"CANARY" not in path.read_bytes()
    assert Path("state").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("where", ["commit", "settle"])
def test_a_crash_anywhere_loses_nothing_and_releases_nothing_twice(
    plan, monkeypatch, where
) -> None:
    asked = plan("user", USERS + LEDGER)
    land("a", rows(spread(0, 500)))
    land("b", rows(spread(1, 450)))
    real = getattr(State, where)

    def crash(self, *args):
        monkeypatch.setattr(State, where, real)
        raise FailedError("the power is gone")

    monkeypatch.setattr(State, where, crash)
    with Stream(asked, files=1) as stream, pytest.raises(FailedError):
        stream.catch_up()
    first = {path: path.read_bytes() for path in Path("out").glob("*/statement.json")}
    with Stream(asked) as stream:
        stream.catch_up().driver.drain()
    assert released() == [*NAMES[:2]]
    assert (n(NAMES[0]), n(NAMES[1])) == (500, 450)
    assert all(path.read_bytes() == data for path, data in first.items())
    entries = CollectionLedger.open("ledger.sqlite").entries()
    assert [(e.window, e.state) for e in entries] == [(w, "committed") for w in NAMES[:2]]


def test_what_the_budget_does_not_cover_waits(plan, run) -> None:
    plan("user", USERS + LEDGER.replace("1.0e-5", "0"))
    land("all", rows([moment for hour in range(4) for moment in spread(hour, 450)]))
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert (outcome.code, "budget" in outcome.err) == (1, True), outcome.said
    assert released() == [*NAMES[:3]]
    text = Path("plan.yaml").read_text().replace("epsilon: 7.0", "epsilon: 12.5")
    Path("plan.yaml").write_text(text)
    outcome = run(["stream", "plan.yaml", "--drain"])  # a plan cannot give itself more
    assert (outcome.code, "`hushbeam ledger init --amend`" in outcome.err) == (2, True)
    assert released() == [*NAMES[:3]]
    assert run(["ledger", "init", "plan.yaml", "--amend"]).code == 0
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert outcome.code == 0, outcome.said
    assert released() == [*NAMES]
    assert not canaries.found(outcome.said, declared=False)


@pytest.mark.parametrize("more", ["", "merge_small: true\n"], ids=["alone", "merged"])
@pytest.mark.parametrize("facts", [{"state": "not run"}, {"attempt": 2}], ids=str)
def test_a_window_whose_entry_was_settled_meanwhile_waits_whole(
    plan, run, monkeypatch, more: str, facts: dict
) -> None:
    """By an operator, or by a later attempt: its messages are not those of too few."""
    plan(more=more + LEDGER)
    land("all", rows([*spread(0, 500), *spread(1, 10)]))
    stands = ReleaseTarget.stands

    def overtaken(self: ReleaseTarget) -> bool:
        ledger = CollectionLedger.open("ledger.sqlite")
        ledger.change(ledger.entries()[0].id, lambda _: facts)
        return stands(self)

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseTarget, "stands", overtaken)
        outcome = run(["stream", "plan.yaml", "--once"])
    assert (outcome.code, outcome.err.count("\n")) == (3, 1), outcome.said
    assert "was settled by an operator" in outcome.err
    assert released() == []
    ledger = CollectionLedger.open("ledger.sqlite")
    if "attempt" in facts:  # and what overtook it was killed
        gone = Owner(host=this_process().host, process=2**22 + 1, started="long ago")
        ledger.change(ledger.entries()[0].id, lambda _: {"owner": gone})
    outcome = run(["stream", "plan.yaml", "--once"])
    assert outcome.code == 0, outcome.said
    assert (released(), n(NAMES[0])) == ([NAMES[0]], 500)
    assert sum(entry.counted for entry in CollectionLedger.open("ledger.sqlite").entries()) == 1


def test_two_streams_do_not_share_a_state(plan, run) -> None:
    with Stream(plan()):
        outcome = run(["stream", "plan.yaml", "--once"])
    assert outcome.code == 2
    assert "another stream is at work" in outcome.err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("stream: {window: 1h", "#", "no `stream:`"),
        ("window: 1h", "window: 1w", "as in 30s"),
        ("window: 1h", "window: 0s", "must last"),
        ("out/{window}", "out", "name a folder with {window}"),
        ("unit: row", "unit: user\nuser_column: user\nmerge_small: true", "merge_small"),
        ("version: 1", "version: 2", "another plan"),
    ],
)
def test_plans_that_are_no_streams(plan, run, old, new, told) -> None:
    with Stream(plan()):
        pass
    Path("plan.yaml").write_text(Path("plan.yaml").read_text().replace(old, new))
    outcome = run(["stream", "plan.yaml", "--once"])
    assert outcome.code == 2, outcome.said
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_stream_runs_while_files_land_is_killed_and_goes_on(plan) -> None:
    """The command itself, in processes of its own, over a folder that grows."""
    plan()
    words = [sys.executable, "-m", "pipelines.cli.cli", "stream", "plan.yaml", "--every", "0.2"]
    root = str(Path(driving.__file__).parents[2])

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, env=os.environ | {"PYTHONPATH": root})

    process = start()
    try:
        for hour in range(3):
            land(f"{hour}", rows(spread(hour, 450)))
            if hour == 1:
                process.kill()
                process.wait()
                process = start()
            until(lambda expected=[*NAMES[:hour]]: released() == expected, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS) == 0
    finally:
        process.kill()
        process.wait()
    assert n(NAMES[0]) == n(NAMES[1]) == 450


# ---- on a runner that knows when time has passed -----------------------------------------------


def flow(build, monkeypatch) -> dict[str, int]:
    """Run an unbounded pipeline on the runner that knows TestStream.

    Its metrics lose what is counted of late elements; and the pipelines of the releases, in this
    same process, would begin the count anew.
    """
    monkeypatch.setattr("pipelines.jobs.run.reset", lambda: None)
    before = Counter(live())
    pipeline = beam.Pipeline("BundleBasedDirectRunner", PipelineOptions(["--streaming"]))
    build(pipeline)
    pipeline.run().wait_until_finish()
    return Counter(live()) - before


def test_an_unbounded_pipeline_releases_each_window_at_its_end(plan, monkeypatch) -> None:
    """Out of order, duplicates of users, late, an empty window, one with a single row."""
    asked = plan("user per window", USERS)
    tables = [
        (0, rows(spread(1, 420), range(420))),
        (0, rows(spread(0, 400), range(400))),
        (0, rows(spread(0, 400), range(100, 500))),
        ("to", 1.1),
        (0, rows(spread(0, 30))),
        ("to", 2.5),
        (0, rows([3.5], [1])),
    ]
    stream = test_stream.TestStream().advance_watermark_to(BEGIN)
    for kind, value in tables:
        if kind == "to":
            stream = stream.advance_watermark_to(BEGIN + value * HOUR)
        else:
            at = value.column("at").to_pylist()[0].replace(tzinfo=timezone.utc).timestamp()
            stream = stream.add_elements([TimestampedValue(("f", pack(value)), at)])
    clock = functools.partial(seconds, BEGIN + 50 * HOUR)

    def build(pipeline):
        named = pipeline | stream.advance_watermark_to_infinity()
        files = named | beam.MapTuple(unpack).with_output_types(tuple[str, pa.Table])
        return files | ServeTables(asked, clock)

    counted = flow(build, monkeypatch)
    assert released() == [*NAMES[:2]]
    assert (n(NAMES[0]), n(NAMES[1])) == (500, 420)
    assert (counted[LATE], counted[WITHHELD]) == (30, 1)


def pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def unpack(name: str, data: bytes) -> tuple[str, pa.Table]:
    return name, pq.read_table(pa.BufferReader(data))


def test_an_unbounded_pipeline_of_reports_counts_each_once(plan, monkeypatch) -> None:
    """A flood of one client's report, another plan's, and a whole window that comes too late."""
    asked = plan(last=NUMBER)
    value = asked.metrics[0].design.mechanism
    words = value.perturb(np.arange(500, dtype=np.uint32) % 4, SeededRandom(1))
    sent = WireReports.submitted(asked.fingerprint, 0, words, SeededRandom(2))
    flood = WireReports(sent.fingerprint, sent.form, np.repeat(sent.records[:1], 5000))
    other = WireReports.submitted(bytes(16), 0, words[:7], SeededRandom(3))
    blocks = [binary.encode(each) for each in (flood, sent, other)]
    stream = (
        test_stream.TestStream()
        .advance_watermark_to(BEGIN)
        .add_elements([TimestampedValue(block, BEGIN + 5) for block in blocks])
        .advance_watermark_to(BEGIN + HOUR + 1)
        .add_elements([TimestampedValue(blocks[1], BEGIN + 9)])
        .advance_watermark_to_infinity()
    )

    def build(pipeline):
        sent = pipeline | stream | beam.Map(bytes).with_output_types(bytes)
        return sent | ServeReports(asked)

    counted = flow(build, monkeypatch)
    assert released() == [NAMES[0]]
    assert n(NAMES[0]) == 500
    assert (counted[DUPLICATE], counted[OTHER_PLAN]) == (5000, 7)
    said = json.loads(Path("out", NAMES[0], "statement.json").read_text())
    assert (said["metrics"], said["withheld"]) == (["value"], ["number"])


def test_a_report_that_is_sent_again_after_its_window_counts_once(plan, monkeypatch) -> None:
    """All windows share one fingerprint; a client's retry an hour later is no second report."""
    asked = plan()
    value = asked.metrics[0].design.mechanism
    blocks = []
    for seed in (1, 2):
        words = value.perturb(np.arange(500, dtype=np.uint32) % 4, SeededRandom(seed))
        each = WireReports.submitted(asked.fingerprint, 0, words, SeededRandom(seed + 2))
        blocks.append(binary.encode(each))
    stream = test_stream.TestStream().advance_watermark_to(BEGIN)
    for hour, sent in ((0, [0]), (1, [0, 1]), (2, [0])):
        at = BEGIN + hour * HOUR + 5
        stream = stream.add_elements([TimestampedValue(blocks[k], at) for k in sent])
        stream = stream.advance_watermark_to(at + HOUR / 2)

    def build(pipeline):
        sent = pipeline | stream.advance_watermark_to_infinity()
        return sent | beam.Map(bytes).with_output_types(bytes) | ServeReports(asked)

    counted = flow(build, monkeypatch)
    assert released() == [*NAMES[:2]]
    assert (n(NAMES[0]), n(NAMES[1])) == (500, 500)
    assert counted[DUPLICATE] == 1000


# ---- when the ledger fails ---------------------------------------------------------------------


def failing(monkeypatch, calls: Sequence[int], error: Exception) -> None:
    """The ledger's file fails at some of the times when it is written, counted from 1."""
    write, count = SqliteKeeping.write, 0

    def written(self, *args):
        nonlocal count
        count += self.form.store == "ledger"  # the stream's own state is kept alike
        if self.form.store == "ledger" and count in calls:
            raise error
        return write(self, *args)

    monkeypatch.setattr(SqliteKeeping, "write", written)


LOCKED = FailedError("the ledger is locked")
DAMAGED = RequestError("--ledger: it is damaged")
# 1: to reserve; 2: to commit the first window, or to give back after something else failed.
FAILURES = [([1], LOCKED, 3), ([2], LOCKED, 3), ([1], DAMAGED, 2), ([2], DAMAGED, 2)]


@pytest.mark.parametrize(("calls", "error", "code"), FAILURES)
def test_a_ledger_that_fails_in_the_middle_stops_the_stream_and_loses_nothing(
    plan, run, monkeypatch, calls, error, code
) -> None:
    plan("user per window", USERS + LEDGER)
    land("all", rows([*spread(0, 450), *spread(1, 450), *spread(2, 50)]))
    with monkeypatch.context() as patch:
        failing(patch, calls, error)
        outcome = run(["stream", "plan.yaml", "--once"])
    assert outcome.code == code, outcome.said
    assert outcome.err == f"hushbeam: {error}\n"
    assert released() == ([NAMES[0]] if calls == [2] else [])
    before = [path.read_bytes() for path in sorted(Path("out").glob("*/statement.json"))]
    outcome = run(["stream", "plan.yaml", "--once"])
    assert outcome.code == 0, outcome.said
    assert released() == [*NAMES[:2]]
    after = [path.read_bytes() for path in sorted(Path("out").glob("*/statement.json"))]
    assert after[: len(before)] == before
    entries = CollectionLedger.open("ledger.sqlite").entries()
    assert [(e.window, e.state) for e in entries if e.counted] == [
        (window, "committed") for window in NAMES[:2]
    ]


def one_window(asked: Streamed):
    """The first hour, whole, as an unbounded pipeline meets it."""
    stream = (
        test_stream.TestStream()
        .advance_watermark_to(BEGIN)
        .add_elements([TimestampedValue(("f", pack(rows(spread(0, 450)))), BEGIN + 1)])
        .advance_watermark_to_infinity()
    )
    clock = functools.partial(seconds, BEGIN + 50 * HOUR)

    def build(pipeline):
        files = pipeline | stream | beam.MapTuple(unpack).with_output_types(tuple[str, pa.Table])
        return files | ServeTables(asked, clock)

    return build


# Also: reserved, then the release fails, and the ledger is away when it is to be given back.
@pytest.mark.parametrize(
    ("calls", "broken", "states"),
    [([1], 0, ["committed"]), ([2], 0, ["committed"]), ([], 1, ["returned", "committed"]),
     ([2], 1, ["returned", "committed"])],
)  # fmt: skip
def test_an_unbounded_pipeline_hands_a_window_out_again_until_the_ledger_answers(
    plan, monkeypatch, calls, broken, states
) -> None:
    asked = plan("user per window", USERS + LEDGER)
    failing(monkeypatch, calls, LOCKED)
    publish, count = release.publish, 0

    def published(*args):
        nonlocal count
        count += 1
        if count <= broken:
            raise ValueError("cannot handle 'CANARY-VALUE'")
        publish(*args)

    monkeypatch.setattr(release, "publish", published)
    flow(one_window(asked), monkeypatch)
    assert released() == [NAMES[0]]
    assert n(NAMES[0]) == 450
    assert [entry.state for entry in CollectionLedger.open("ledger.sqlite").entries()] == states


def test_an_unbounded_pipeline_stops_at_what_no_attempt_mends(plan, monkeypatch) -> None:
    """It says so in one line, keeps the window, and nothing is published or spent."""
    asked = plan("user per window", USERS + LEDGER)
    Path("out", NAMES[0]).mkdir(parents=True)
    Path("out", NAMES[0], "notes.txt").write_text("somebody else's")
    with pytest.raises(RequestError, match=r"already holds files; name a new folder"):
        flow(one_window(asked), monkeypatch)
    assert os.listdir(f"out/{NAMES[0]}") == ["notes.txt"]
    assert CollectionLedger.open("ledger.sqlite").entries() == ()


def test_a_strangers_error_is_not_quoted(plan, monkeypatch) -> None:
    def crash(*_):
        raise ValueError("cannot handle 'CANARY-VALUE'")

    monkeypatch.setattr("pipelines.stream.job.publish", crash)
    asked = plan("user per window", USERS + LEDGER)
    with pytest.raises(FailedError) as failure:
        flow(one_window(asked), monkeypatch)
    assert f"window {NAMES[0]} failed with ValueError" in str(failure.value)
    assert not canaries.found(str(failure.value))


# ---- versions ----------------------------------------------------------------------------------


def test_a_state_of_another_design_is_not_decoded(plan, run, monkeypatch) -> None:
    plan()
    land("a", rows(spread(0, 450)))
    assert run(["stream", "plan.yaml", "--once"]).code == 0
    monkeypatch.setattr(
        "mechanisms.planner.search.search", lambda target, name: search(target, "hadamard")
    )
    outcome = run(["stream", "plan.yaml", "--once"])
    assert outcome.code == 2
    assert "a hushbeam that resolves the plan to other mechanisms" in outcome.err
    assert outcome.err.count("\n") == 1
