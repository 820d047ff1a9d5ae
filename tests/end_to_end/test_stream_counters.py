"""Streams of noisy counters: every window of the calendar, and nobody learns who took part."""

from __future__ import annotations

import functools
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from mechanisms.counters.design import Counters
from pipelines.errors import Caution, FailedError, WithheldError
from pipelines.jobs.run import beam_options
from pipelines.ledger.ledger import CollectionLedger
from pipelines.plan.loading import load
from pipelines.releases import release
from pipelines.stream.calendar import CalendarDriver
from pipelines.stream.run import identity
from pipelines.stream.state import State
from pipelines.stream.windows import streamed
from tests.end_to_end.test_stream import BEGIN, HOUR, NAMES, land, released, rows, seconds, spread
from tests.fakes import canaries
from tests.fakes.ledgers import begun_by
from tests.golden.fixed_randomness import fixed_randomness
from transforms.shuffle.dummies import DrawDummiesDoFn
from transforms.shuffle.mix import SplitAbsentDoFn

pytestmark = pytest.mark.verify

PLAN = """\
collection: canaries
version: 1
unit: {unit}
user_column: user
{more}input: landing/*.parquet
output: out/{{window}}
epsilon: 3.0
stream:
  {{window: 1h, state: state, time: at, first: 2024-11-20T0000, last: 2024-11-20T0300{late}}}
metrics:
  - {{name: events, kind: count, column: value, domain: {domain}, rows_per_user: 2, per_value: 3,
     drawn_by: shuffler}}
{last}"""
ONE = "  - {name: value, kind: histogram, column: value, domain: %s, min_reports: 400}\n"
LEDGER = "ledger: ledger.sqlite\nbudget: {epsilon: 7.0, delta: 1.0e-5}\n"
FAR = 6.2  # standard errors: further once in 10^9


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    with fixed_randomness():
        yield


@pytest.fixture
def plan(domain: str, workspace: Path):
    """Writes the plan."""

    def plan(more: str = "", last: str = "", late: str = "", unit: str = "user per window") -> None:
        Path("landing").mkdir(exist_ok=True)
        last = last and last % domain
        words = {"more": more, "domain": domain, "last": last, "late": late, "unit": unit}
        Path("plan.yaml").write_text(PLAN.format(**words))
        if "ledger:" in more:
            begun_by("plan.yaml")

    return plan


def serve(*hours: float, drain: bool = False) -> str:
    """What a stream says that looks at these hours, and is killed between any two of them."""
    asked, screen = streamed(load("plan.yaml")), Console(file=io.StringIO())
    for hour in hours:
        state = State("state", identity(asked))
        clock = functools.partial(seconds, BEGIN + hour * HOUR)
        driver = CalendarDriver(asked, state, beam_options([]), screen, clock)
        try:
            driver.step()
            if drain:
                driver.drain()
        finally:
            state.close()
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def figures(window: str, metric: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    table = release.read_table(f"out/{window}/{metric}", f"{kind}.parquet")
    return table["estimate"].to_numpy(), table["standard_error"].to_numpy()


def require_close(window: str, metric: str, kind: str, truth: Sequence[float]) -> None:
    estimate, error = figures(window, metric, kind)
    assert np.all(np.abs(estimate - truth) < FAR * error), (window, estimate, truth)


def test_windows_follow_the_calendar_with_rows_or_without(plan) -> None:
    """Restarts between any two looks; a user's rows of several files are bounded together."""
    plan(late=", lateness: 30min")
    users = range(400)
    land("a", rows(spread(0, 400), users))
    land("b", rows([*spread(0, 400), *spread(2, 300)], [*users, *range(300)]))
    assert serve(0.5, 1.4) == ""
    serve(1.5)
    assert released() == [NAMES[0]]
    land("late", rows([*spread(0, 400), *spread(1, 50)]))  # of the window that is out, and of next
    serve(2.6, 3.6)
    assert released() == [*NAMES[:3]]
    serve(3.7, drain=True)
    assert released() == [*NAMES]
    serve(100, drain=True)
    assert released() == [*NAMES]  # there is a last one
    for hour, copies, n in ((0, 2, 400), (1, 1, 50), (2, 1, 300), (3, 0, 0)):
        values = [copies * len(range(k, n, 4)) for k in range(4)]
        require_close(NAMES[hour], "events", "count", [*values, 0])
        said = json.loads(Path("out", NAMES[hour], "statement.json").read_text())
        assert (said["withheld"], said["stream"]["windows"]) == ([], [NAMES[hour]])
    assert not [*Path("state").glob("batch*"), *Path("state").glob("digests*")]


def test_windows_have_noise_that_the_job_adds_with_rows_or_without(plan) -> None:
    plan(last="  - {name: sure, kind: count, drawn_by: job, column: value, domain: %s}\n")
    land("a", rows(spread(0, 400), range(400)))
    serve(1.5, 2.6)
    for hour, n in ((0, 400), (1, 0)):
        require_close(NAMES[hour], "sure", "count", [*[len(range(k, n, 4)) for k in range(4)], 0])
        said = json.loads(Path("out", NAMES[hour], "sure", "statement.json").read_text())
        assert said["guarantees"]["release"]["model"] == "central"


# What differs from run to run, or from log to log where nobody is to see it.
_DRAWN = re.compile(r'"(created|release_id)": "[^"]*"')


def everything(spoken: str, run: Any) -> dict[str, Any]:
    """All that is said and written beside the landing files, the numbers of tables left out."""
    said: dict[str, Any] = {"spoken": spoken}
    said["status"] = run(["stream", "status", "plan.yaml"]).out.split("\n", 2)[2]
    for path in sorted(Path("out").rglob("*")):
        if path.suffix == ".parquet":
            said[str(path)] = release.read_table(str(path.parent), path.name).schema
        elif path.suffix == ".json" and path.name != "signature.json":  # of digests of all noise
            said[str(path)] = _DRAWN.sub("", path.read_text())
    state = State.looked_at("state")
    said |= {kind: state.rows(kind) for kind in ("windows", "notes", "digests")}
    return said | {"counters": state.counters()}


def test_two_logs_that_differ_by_one_user_look_alike(plan, run) -> None:
    """With the same draws they differ by what the user may raise, and in nothing else at all.

    The user is alone in a window, the first of all, the last, late, and without a time.
    """
    seen, told = [], []
    for there in (False, True):
        plan()
        land("a", rows(spread(1, 300), range(300)))
        if there:
            land("b", rows([0.5, 1.5, 2.5, 3.999], [7777] * 4))
            nobody = rows([1.2]).set_column(0, "at", pa.nulls(1, pa.timestamp("us")))
            land("c", nobody)
        spoken = serve(1.1, 2.2)
        if there:
            land("d", rows([0.1, 1.1], [7777] * 2))
        spoken += serve(3.3, 4.4)
        told.append(everything(spoken, run))
        seen.append([figures(name, "events", "count")[0] for name in NAMES])
        for place in ("landing", "state", "out"):
            Path(place).rename(f"{place}-{there}")
    without, with_one = told
    differing = {
        key for key in without.keys() | with_one.keys() if without.get(key) != with_one.get(key)
    }
    # What a statement says of what was cut is a figure with noise, too.
    assert all(key.endswith("statement.json") and "/" in key[4:] for key in differing), differing
    for key in differing:
        assert _structure(
            json.loads(Path(key.replace("out", "out-False", 1)).read_text())
        ) == _structure(json.loads(Path(key.replace("out", "out-True", 1)).read_text()))
    moved = [np.abs(one - other) for one, other in zip(*seen, strict=True)]
    assert [m.max() for m in moved] == [1, 1, 1, 1]
    assert all(m.sum() == 1 for m in moved)


def _structure(said: Any) -> Any:
    """A statement without its figures with noise."""
    return {
        key: value for key, value in said.items() if key not in {"cut", "created", "release_id"}
    }


@pytest.mark.parametrize("where", ["settle", "done"])
def test_a_window_that_is_out_is_not_drawn_again(plan, monkeypatch, where: str) -> None:
    plan(LEDGER)
    land("a", rows(spread(0, 400), range(400)))
    real, draws = getattr(State, where), []

    def crash(self, *args):
        monkeypatch.setattr(State, where, real)
        raise FailedError("the power is gone")

    draw = Counters.draw
    monkeypatch.setattr(Counters, "draw", lambda *all: draws.append(1) or draw(*all))
    monkeypatch.setattr(State, where, crash)
    with pytest.raises(FailedError, match="power"):
        serve(1.1)
    before, drawn = Path("out", NAMES[0], "statement.json").read_bytes(), len(draws)
    land("b", rows(spread(0, 400), range(400, 800)))
    assert serve(1.2) == (
        ""
        if where == "done"
        else f"window {NAMES[0]}: released: {Path('out', NAMES[0]).absolute()}\n"
    )
    assert Path("out", NAMES[0], "statement.json").read_bytes() == before
    assert len(draws) == drawn > 0
    (entry,) = CollectionLedger.open("ledger.sqlite").entries()
    assert (entry.window, entry.state, entry.attempt) == (NAMES[0], "committed", 1)


def test_a_window_that_is_withheld_is_not_said_to_be_released(plan, run) -> None:
    """A metric whose every share has to arrive, with none that an engine hands on."""
    plan()
    shares = "{name: much, kind: sum, column: number, bounds: '0,9', mechanism: split-mix, enrolled"
    text = Path("plan.yaml").read_text()
    Path("plan.yaml").write_text(f"{text[: text.index('  - {name: events')]}  - {shares}: 100}}\n")
    land("a", rows(spread(0, 40), range(40)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SplitAbsentDoFn, "process", lambda *_: iter(()))
        assert serve(1.1) == f"window {NAMES[0]}: withheld\n"
    assert released() == []
    serve(1.2)
    assert released() == []  # what was read is gone


def test_a_draw_that_came_to_nothing_is_seen_by_nobody(plan, monkeypatch, run) -> None:
    """A release that fails is paid for once, and made of a draw of its own."""
    plan(LEDGER)
    land("a", rows(spread(0, 400), range(400)))
    process = DrawDummiesDoFn.process

    def failing(self, numbered):
        yield from process(self, numbered)
        raise ValueError("CANARY")

    with monkeypatch.context() as patch:
        patch.setattr(DrawDummiesDoFn, "process", failing)
        with pytest.raises(FailedError, match=f"window {NAMES[0]} failed with") as caught:
            serve(1.1)
    assert not canaries.found(str(caught.value))
    assert released() == []
    assert not [*Path("out").glob(".*")]
    assert "waits for its release" in run(["stream", "status", "plan.yaml"]).out
    serve(1.2)
    require_close(NAMES[0], "events", "count", [100, 100, 100, 100, 0])
    counted = [entry for entry in CollectionLedger.open("ledger.sqlite").entries() if entry.counted]
    assert [(entry.window, entry.state) for entry in counted] == [(NAMES[0], "committed")]


def test_windows_wait_for_their_budget_and_files_for_their_repair(plan, run) -> None:
    plan(LEDGER.replace("7.0", "3.5"), unit="user")
    land("a", rows([*spread(0, 400), *spread(1, 100)], [*range(400), *range(100)]))
    broken = bytearray(Path("landing/a.parquet").read_bytes())
    broken[4:400] = b"\xff" * 396
    Path("landing/b.parquet").write_bytes(broken)
    with pytest.raises(WithheldError, match="budget") as caught:
        serve(2.1)
    assert not re.search("400|100|500", str(caught.value))
    assert released() == [NAMES[0]]
    require_close(NAMES[0], "events", "count", [100, 100, 100, 100, 0])
    said = run(["stream", "status", "plan.yaml"]).out
    assert f"window {NAMES[1]}: over, and waits for its release" in said


def test_each_metric_of_a_mixed_plan_goes_its_way(plan) -> None:
    """One-report metrics publish how many report, and are withheld below min_reports."""
    plan(last=ONE)
    assert load("plan.yaml").promised == "replace"
    land("a", rows([*spread(0, 500), *spread(1, 300)]))
    serve(2.1)
    said = [json.loads(Path("out", name, "statement.json").read_text()) for name in NAMES[:2]]
    assert [one["withheld"] for one in said] == [[], ["value"]]
    assert json.loads(Path("out", NAMES[0], "value/statement.json").read_text())["n"] == 500
    assert "are hidden" not in json.dumps(said)
    for hour, n in ((0, 500), (1, 300)):
        require_close(NAMES[hour], "events", "count", [*(len(range(k, n, 4)) for k in range(4)), 0])


def test_unknown_strings_are_released_window_by_window(plan) -> None:
    """What is rare is nowhere, also of a window that nobody is in; nothing raw is in the state."""
    plan()
    text = Path("plan.yaml").read_text()
    heard = "{name: heard, kind: strings, search: threshold, column: value, rows_per_user: 2}\n"
    Path("plan.yaml").write_text(f"{text[: text.index('  - {name: events')]}  - {heard}")
    users = range(400)
    land("a", rows(spread(0, 400), users))
    rare = rows([*spread(0, 400), *spread(2, 300)], [*users, *range(300)])
    own = pa.array([f"CANARY-OWN-{k}" for k in range(700)])
    land("b", rare.set_column(rare.column_names.index("value"), "value", own))
    land("c", rows(spread(2, 200), users[:200]))
    assert serve(0.5, 0.9) == ""
    spoken = serve(1.5, 2.6, 3.7, drain=True)
    assert not canaries.found(spoken, declared=False)
    assert released() == [*NAMES]
    for name, holders in zip(NAMES, (100, 0, 50, 0), strict=True):
        table = release.read_table(f"out/{name}/heard", "strings.parquet")
        found = dict(zip(table["value"].to_pylist(), table["estimate"].to_pylist(), strict=True))
        assert {*found} == ({*canaries.DECLARED[:4]} if holders else set())
        errors = table["standard_error"].to_numpy()
        assert (np.abs(table["estimate"].to_numpy() - holders) < FAR * errors).all()
    kept = b"".join(path.read_bytes() for path in Path("state").rglob("*") if path.is_file())
    assert b"CANARY-OWN" not in kept


def test_a_clock_that_leaps_ends_no_window_until_it_is_accepted(plan) -> None:
    plan()
    land("a", rows(spread(0, 400)))
    asked = streamed(load("plan.yaml"))
    hours = iter((0.5, 0.6, 90.0, 90.1))
    ticks = iter((0, 360, 370, 730))
    state = State("state", identity(asked))
    driver = CalendarDriver(
        asked, state, beam_options([]), Console(file=io.StringIO()),
        lambda: seconds(BEGIN + next(hours) * HOUR), ticks=lambda: ("boot", next(ticks) * 10**6),
    )  # fmt: skip
    driver.step()
    driver.step()
    with pytest.warns(Caution, match="went forward by"):
        driver.step()
    assert released() == []
    state.accept(seconds(BEGIN + 90 * HOUR))
    driver.step()
    assert released() == [*NAMES]
    state.close()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (", first: 2024-11-20T0000, last: 2024-11-20T0300", "", "stream.first is missing"),
        ("first: 2024-11-20T0000", "first: 2024-11-20T0030", "no window of 1h begins so"),
        ("last: 2024-11-20T0300", "last: soon", "no window of 1h begins so"),
        ("last: 2024-11-20T0300", "last: 2024-11-19", "is before the first"),
        ("first: 2024-11-20T0000, ", "", "has a first one"),
        ("epsilon: 3.0", "epsilon: 3.0\nmerge_small: true", "merge_small"),
    ],
)
def test_plans_without_a_calendar_are_one_line(plan, run, old: str, new: str, told: str) -> None:
    plan()
    text = Path("plan.yaml").read_text()
    assert old in text
    Path("plan.yaml").write_text(text.replace(old, new))
    outcome = run(["stream", "plan.yaml", "--once"])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.said
    assert told in outcome.err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--runner", "PrismRunner"], "are served on one machine"),
        (["--subscription", "projects/p/subscriptions/s"], "are not sealed"),
    ],
)
def test_roads_that_would_tell_who_takes_part_are_refused(plan, run, more, told) -> None:
    plan()
    outcome = run(["stream", "plan.yaml", *more])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.said
    assert told in outcome.err
