"""Streams whose clocks are wrong: what landed is released when they are right again, all of it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.errors import Caution, WithheldError
from pipelines.jobs.run import beam_options
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from pipelines.stream.driver import Driver
from pipelines.stream.state import State
from pipelines.stream.windows import streamed
from tests.fakes.ledgers import begun_by
from transforms.rows.windowed import AHEAD
from transforms.windows import SECOND

pytestmark = pytest.mark.verify

HOUR, DAY = 3600, 86_400
BEGIN = int(datetime(2026, 11, 20, tzinfo=timezone.utc).timestamp())
USERS = 40  # of each file
PLAN = """\
collection: clocks
version: 1
unit: user per window
user_column: user
input: landing/*.parquet
output: out/{window}
epsilon: 3.0
model: local
min_reports: 20
stream: {window: 1h, state: state, time: at, idle: 30min}
metrics:
  - {name: value, kind: histogram, column: value, domain: 0..3}
"""


class Machine:
    """Its clocks, and a stream upon it; leaving it is a restart."""

    def __init__(self) -> None:
        self.wall = self.ticks = BEGIN * SECOND
        self.files = 100
        Path("landing").mkdir()
        Path("plan.yaml").write_text(PLAN)
        self.state = None

    def wait(self, hours: float) -> None:
        self.wall += int(hours * HOUR * SECOND)
        self.ticks += int(hours * HOUR * SECOND)

    def set(self, days: float) -> None:
        self.wall += int(days * DAY * SECOND)

    def start(self) -> Driver:
        self.stop()
        plan = streamed(load("plan.yaml"))
        self.state = State(plan.stream.state, mark(plan.plan).hex())
        self.driver = Driver(
            plan, self.state, beam_options([]), Console(file=io.StringIO()),
            lambda: self.wall, self.files, lambda: ("boot", self.ticks),
        )  # fmt: skip
        return self.driver

    def stop(self) -> None:
        if self.state is not None:
            self.state.close()
            self.state = None

    def look(self) -> None:
        """Until nothing is left to take in."""
        while self.driver.step():
            pass

    def counters(self) -> dict[str, int]:
        return self.state.counters()


@pytest.fixture
def machine(workspace: Path) -> Iterator[Machine]:
    machine = Machine()
    machine.start()
    yield machine
    machine.stop()


def land(name: str, *parts: tuple[float, int]) -> None:
    """(hour, users) parts of a file; each part's rows are spread over an hour."""
    hours = [hour + k / n for hour, n in parts for k in range(n)]
    table = pa.table({
        "at": pa.array([int((BEGIN + h * HOUR) * SECOND) for h in hours], pa.timestamp("us")),
        "value": [k % 4 for k in range(len(hours))],
        "user": [f"{name}-{k}" for k in range(len(hours))],
    })  # fmt: skip
    pq.write_table(table, f"landing/{name}.parquet")


def released() -> dict[str, int]:
    """Hour of the day -> how many are in its release."""
    return {
        path.parts[1][8:13]: json.loads(path.read_text())["n"]
        for path in sorted(Path("out").glob("*/value/statement.json"))
    }


def hourly(machine: Machine, hours: range) -> None:
    """A file an hour, at the end of the hour of its rows."""
    for hour in hours:
        machine.wait(1)
        land(f"h{hour}", (hour, USERS))
        machine.look()


def test_a_clock_that_leaps_forward_makes_nothing_late(machine: Machine) -> None:
    """For an hour, with `idle`, a restart, and a device whose rows agree with it."""
    hourly(machine, range(3))
    machine.wait(0.1)
    machine.set(4000)
    with pytest.warns(Caution, match="clock went forward by 4,000 days"):
        machine.look()
    machine.start()
    with pytest.warns(Caution, match="clock went forward by 4,000 days"):
        machine.look()
    land("more", (2, 10))
    land("device", (4000 * 24 + 2, 7))
    with pytest.warns(Caution, match=r"rows of new files \(1\) are implausibly far"):
        machine.look()
    assert released() == {"20T00": 40, "20T01": 40}
    machine.wait(0.6)
    machine.look()  # nothing has come for so long that time goes on without: by half an hour
    assert released() == {"20T00": 40, "20T01": 40, "20T02": 50}
    machine.set(-4000)
    with pytest.warns(Caution, match="clock went back by 4,000 days"):
        machine.look()
    machine.driver.drain()  # but not the window of the device
    assert machine.state.ended == (BEGIN + 3 * HOUR) * SECOND
    hourly(machine, range(3, 6))
    assert released() == {"20T00": 40, "20T01": 40, "20T02": 50, "20T03": 40, "20T04": 40}
    assert machine.counters() == {}


def test_a_clock_that_leaps_back_drops_nothing(machine: Machine, run) -> None:
    """What lands meanwhile is held, over a restart, and taken in once when the clock is right."""
    hourly(machine, range(3))
    machine.set(-400)
    with pytest.warns(Caution) as told:
        hourly(machine, range(3, 5))
    lines = [str(warning.message) for warning in told]
    assert sum("went back by 400 days" in line for line in lines) == 1
    assert (
        sum("new files are held (1): their rows are up to 400 days" in line for line in lines) == 2
    )
    machine.start()
    with pytest.warns(Caution) as told:
        hourly(machine, range(5, 6))
    assert any("new files are held (1)" in str(warning.message) for warning in told)
    machine.driver.drain()
    assert released() == {"20T00": 40, "20T01": 40}
    with pytest.raises(WithheldError, match=r"files are held \(3\)"):
        machine.driver.require_all_taken_in()
    machine.set(400)
    with pytest.warns(Caution, match="forward by 400 days"):
        hourly(machine, range(6, 7))
    machine.driver.require_all_taken_in()
    machine.driver.drain()
    assert released() == {f"20T{hour:02}": 40 for hour in range(7)}
    assert machine.counters() == {}


def test_with_a_clock_behind_by_minutes_a_file_waits_for_its_last_rows(machine: Machine) -> None:
    machine.wait(0.6)
    land("a", (0, 100))
    with pytest.warns(Caution, match="rows are up to less than a window ahead"):
        machine.look()
    assert list(machine.state.waiting()) == [str(Path("landing/a.parquet").absolute())]
    machine.wait(0.25)
    machine.look()
    assert not machine.state.open()
    machine.wait(0.1)
    machine.look()
    assert (machine.state.waiting(), machine.counters()) == ({}, {})
    machine.driver.drain()
    assert released() == {"20T00": 100}


def test_strays_hold_no_file_and_files_that_are_moved_away_are_forgotten(machine: Machine) -> None:
    machine.wait(1)
    land("strays", (0, 80), (9000, 20))
    land("lost", (9000, 60), (0, 30))
    with pytest.warns(Caution, match=r"new files are held \(1\)"):
        machine.look()
    assert machine.counters() == {AHEAD: 20}
    Path("landing/lost.parquet").unlink()
    machine.look()
    machine.driver.require_all_taken_in()


def test_an_operator_takes_in_what_is_held(machine: Machine) -> None:
    machine.wait(1)
    land("right", (0, 40))
    land("mixed", (9000, 60), (0, 30))
    with pytest.warns(Caution, match=r"new files are held \(1\)"):
        machine.look()
    machine.driver.drain()
    assert released() == {}
    machine.start()
    machine.state.accept()
    machine.look()
    assert machine.counters() == {AHEAD: 60}
    machine.driver.drain()
    assert released() == {"20T00": 70}


def test_where_nothing_comes_time_goes_on_as_it_passes_here(machine: Machine) -> None:
    hourly(machine, range(1))
    machine.wait(0.4)
    machine.look()
    assert released() == {}
    machine.start()
    machine.wait(0.2)
    machine.look()
    assert released() == {"20T00": 40}


def test_after_a_night_without_files_time_has_passed(machine: Machine) -> None:
    hourly(machine, range(2))
    machine.wait(20)
    hourly(machine, range(22, 24))
    assert released() == {"20T00": 40, "20T01": 40, "20T22": 40}


@pytest.mark.parametrize("files", [1, 100])
def test_old_files_in_any_order_and_then_new_ones_are_all_in_time(machine: Machine, files) -> None:
    """The newest land first, and one of all hours; a restart between batches; then live ones."""
    machine.wait(8)
    land("all", *((hour, 10) for hour in range(8)))
    for hour in reversed(range(8)):
        land(f"{hour * 3 % 8:02}", (hour * 3 % 8, USERS))
    machine.files = files
    machine.start().step()
    machine.start()
    machine.look()
    hourly(machine, range(8, 10))
    assert released() == {f"20T{hour:02}": 50 for hour in range(8)} | {"20T08": 40}
    assert machine.counters() == {}


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """By how many days the clock of this process is wrong; what is measured stays right."""
    real, wrong = time.time_ns, [0.0]
    monkeypatch.setattr(time, "time_ns", lambda: real() + int(wrong[0] * DAY) * 10**9)
    return wrong


def land_now(name: str, hours: float) -> None:
    """Rows of an hour, by the true time."""
    land(name, ((time.time() - BEGIN) // HOUR + hours, USERS))


def test_the_command_says_what_is_held_and_takes_it_in_later(workspace, run, clock) -> None:
    Path("landing").mkdir()
    Path("plan.yaml").write_text(PLAN)
    for k in range(3):
        land_now(f"a{k}", k - 9)
    assert run(["stream", "plan.yaml", "--once"]).code == 0
    clock[0] = -400
    land_now("b", -6)
    for way in ("--once", "--drain"):
        outcome = run(["stream", "plan.yaml", way])
        assert outcome.code == 1
        assert "withheld: files are held (1)" in outcome.err
    clock[0] = 4000
    land_now("c", -5)
    outcome = run(["stream", "plan.yaml", "--once"])
    assert outcome.code == 0, outcome.said
    assert "forward by 4,000 days" in outcome.err
    clock[0] = 0
    land_now("d", -4)
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert outcome.code == 0, outcome.said
    assert list(released().values()) == [40] * 6
    assert "late" not in outcome.out
    assert "ahead" not in outcome.out
    land_now("e", 9000)
    assert run(["stream", "plan.yaml", "--once"]).code == 1
    outcome = run(["stream", "plan.yaml", "--once", "--accept-clock"])
    assert outcome.code == 0
    assert AHEAD not in outcome.out  # rows of users are counted in `stream status` alone


def test_status_tells_what_waits_and_why_while_the_stream_runs(machine: Machine, run) -> None:
    outcome = run(["stream", "status", "plan.yaml"])
    assert outcome.code == 0
    assert "time has reached the window of no time yet" in outcome.out
    machine.wait(24 * 40)
    machine.files = 1
    for k in range(3):
        land(f"a{k}", (k, USERS))
    land("far", (500, USERS))
    land("ahead", (9000, USERS))
    Path("landing/half.parquet").write_bytes(b"PAR1")
    machine.start()
    with pytest.warns(Caution):
        machine.look()
    told = json.loads(run(["stream", "status", "plan.yaml", "--json"]).out)
    assert told["reached"] == "2026-11-20T02:00:00+00:00"
    assert told["ended_before"] == "2026-11-20T02:00:00+00:00"
    assert told["later_files"] == ["2026-12-10T20:00:00+00:00"]
    assert [(w["window"], w["state"]) for w in told["windows"]] == [
        ("2026-11-20T0200", "open"),
        ("2026-12-10T2000", "open"),
    ]
    ((held,), waiting) = told["held"], told["waiting"]
    assert held["file"].endswith("landing/ahead.parquet")
    assert held["until"].startswith("2027-11-30T00:00")
    assert list(waiting) == [str(Path("landing/half.parquet").absolute())]
    lines = run(["stream", "status", "plan.yaml"]).out
    assert "1 of the last 9 files say that it is 2026-12-10T20:00:00+00:00 or later" in lines
    assert "ahead of this machine's clock; taken in when it reaches 2027-11-30" in lines
    windows = [line for line in lines.splitlines() if line.startswith("window ")]
    assert len(windows) == 2
    assert not any("40" in line for line in windows)  # how many have reported


def test_status_says_why_a_window_is_not_released(workspace, run) -> None:
    Path("landing").mkdir()
    budget = "ledger: ledger.sqlite\nbudget: {epsilon: 1.0, delta: 0}\n"
    Path("plan.yaml").write_text(PLAN.replace("epsilon: 3.0", f"{budget}epsilon: 3.0"))
    begun_by("plan.yaml")
    land_now("a", -3)
    assert run(["stream", "plan.yaml", "--drain"]).code == 1
    (window,) = json.loads(run(["stream", "status", "plan.yaml", "--json"]).out)["windows"]
    assert window["state"] == "waits"
    assert "the budget of" in window["why"]


def test_status_of_no_stream_is_refused(workspace, run) -> None:
    Path("plan.yaml").write_text(PLAN)
    outcome = run(["stream", "status", "plan.yaml"])
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert not Path("state").exists()
