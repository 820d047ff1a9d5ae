"""Running totals as metrics of a plan: one price, one secret, each window drawn once."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pipelines.jobs.run import beam_options
from pipelines.plan.loading import load
from pipelines.releases import history
from pipelines.releases.schema import read_own
from pipelines.running.metric import Running
from pipelines.site.build import Site
from pipelines.stream.calendar import CalendarDriver
from pipelines.stream.run import identity
from pipelines.stream.state import State
from pipelines.stream.windows import streamed
from tests.fakes import canaries
from tests.fakes.ledgers import begun_by

PLAN = """\
collection: canaries
version: {version}
{unit}input: {input}
output: {output}
epsilon: 2.0
{more}metrics:
  - {{name: events, kind: count, column: value, domain: {domain}, horizon: 30, last: 2{of_count}}}
{last}"""
SUM = '  - {name: numbers, kind: sum, column: number, bounds: "-2,3", horizon: 30}\n'
LEDGER = "ledger: ledger.sqlite\nbudget: {epsilon: 2.0, delta: 1.0e-5}\n"
USERS = "unit: user\nuser_column: user\n"
FAR = 7.0  # standard errors: beyond them with a probability below 1e-10


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This account's folder, with the keys that others would be surprised to see made."""
    folder = tmp_path / "account"
    shutil.copytree(Path(os.environ["XDG_STATE_HOME"], "hushbeam"), folder / "hushbeam")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    secrets = folder / "hushbeam" / "running-totals"
    shutil.rmtree(secrets, ignore_errors=True)  # of other tests
    return secrets


@pytest.fixture
def plan(domain: str, workspace: Path):
    """Writes a plan, and rows of some days."""

    def plan(**words: str) -> None:
        usual = {
            "version": "1", "unit": "", "input": "in/{window}/*.parquet", "output": "out/{window}",
            "more": "", "of_count": "", "last": "", "domain": domain,
        }  # fmt: skip
        Path("plan.yaml").write_text(PLAN.format(**(usual | words)))
        if "ledger:" in words.get("more", ""):
            begun_by("plan.yaml")
        for day in range(1, 6):
            if not Path("in", f"2026-11-0{day}").exists():
                canaries.write(Path("in", f"2026-11-0{day}"), canaries.table().slice(100 * day))

    return plan


@pytest.fixture
def add(run):
    """Runs a day of November."""

    def add(day: int, code: int = 0) -> str:
        outcome = run(["run", "plan.yaml", "--window", f"2026-11-0{day}"])
        assert outcome.code == code, outcome.said
        assert not canaries.found(outcome.said, declared=False)
        return outcome.said

    return add


def figures(day: int, file: str = "count", metric: str = "events") -> Any:
    return read_own(f"out/2026-11-0{day}/{metric}", f"{file}.parquet")


def estimates(day: int, file: str = "count") -> list[int]:
    found: list[int] = figures(day, file)["estimate"].to_pylist()
    return found


def counted(*days: int) -> np.ndarray:
    """How many rows some days have of each value, and of all others."""
    found = np.zeros(5, np.int64)
    for day in days:
        values = canaries.table().slice(100 * day)["value"].to_pylist()
        each = [values.count(name) for name in canaries.DECLARED]
        found += [*each, len(values) - sum(each)]
    return found


def kept_in(state: Path) -> bytes:
    (secret,) = state.glob("*.json")
    return secret.read_bytes()


def entries(run: Any) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads(
        run(["ledger", "show", "--ledger", "ledger.sqlite", "--json"]).out
    )
    return shown


@pytest.mark.usefixtures("noiseless")
def test_totals_and_rolling_windows_are_what_rows_add_up_to(plan, add) -> None:
    plan(last=SUM)
    for day in (1, 2, 3):
        add(day)
        assert estimates(day) == counted(*range(1, day + 1)).tolist()
    assert not Path("out/2026-11-01/events/last.parquet").exists()
    assert estimates(3, "last") == counted(2, 3).tolist()
    numbers = canaries.table()["number"].to_pylist()
    clipped = np.clip(numbers, -2, 3)
    expected = sum(int(clipped[100 * day :].sum()) for day in (1, 2, 3))
    (found,) = figures(3, "sum", "numbers")["estimate"].to_pylist()
    assert found == expected


def test_noise_goes_on_is_near_and_a_window_is_drawn_once(plan, add, state: Path) -> None:
    plan()
    for day in (1, 2, 3):
        add(day)
        off = np.array(estimates(day)) - counted(*range(1, day + 1))
        error = figures(day)["standard_error"].to_numpy()
        assert (np.abs(off) < FAR * error).all()
    week = figures(3, "last")
    assert (
        np.abs(week["estimate"].to_numpy() - counted(2, 3))
        < FAR * week["standard_error"][0].as_py()
    ).all()
    first, kept = estimates(2), kept_in(state)
    assert "released before, and not made again" in add(2)
    # A release that was lost is the very same again, of whatever rows, in whatever order.
    shutil.rmtree("out/2026-11-02")
    shutil.rmtree("in/2026-11-02")
    canaries.write(Path("in", "2026-11-02"), canaries.table())
    add(2)
    assert (estimates(2), kept_in(state)) == (first, kept)
    said = json.loads(Path("out/2026-11-02/events/statement.json").read_text())
    assert said["windows"] == ["2026-11-01", "2026-11-02"]


@pytest.mark.usefixtures("noiseless")
def test_a_window_that_was_missed_is_a_gap_and_counts_when_it_comes(plan, add) -> None:
    plan()
    for day in (1, 4, 2):
        add(day)
    assert estimates(4) == counted(1, 4).tolist()
    assert estimates(2) == counted(1, 4, 2).tolist()
    said = json.loads(Path("out/2026-11-02/events/statement.json").read_text())
    assert said["windows"] == ["2026-11-01", "2026-11-04", "2026-11-02"]
    assert any("One that was missed is not among them" in text for text in said["in_words"])


@pytest.mark.verify
@pytest.mark.parametrize("unit", ["", USERS])
def test_a_ledger_pays_once_for_all_windows(plan, add, run, unit: str) -> None:
    more = ", user_windows: 30, rows_per_user: 2" if unit else ""
    plan(more=LEDGER, unit=unit, of_count=more)
    for day in (1, 2, 3):
        add(day)
    made = entries(run)
    assert [(e["state"], e["noise"]) for e in made] == [("committed", "running")] * 3
    assert len({json.dumps(e["losses"]) for e in made}) == len({e["design"] for e in made}) == 1
    (loss,) = made[0]["losses"]
    assert (loss["model"], loss["neighbours"]) == ("central", "add or remove")
    assert 1.9 < loss["epsilon"] <= 2
    (account, *_) = json.loads(
        run(["ledger", "explain", "--ledger", "ledger.sqlite", "--json"]).out
    )
    assert account["total"]["epsilon"] <= 2
    assert account["counted_once"] == (2 if unit else 0)
    # Whatever else is published about them is over the budget.
    text = Path("plan.yaml").read_text().replace("collection: canaries", "collection: more")
    text = text.replace("out/", "else/").replace(
        "epsilon: 2.0\n", "epsilon: 2.0\npopulation: canaries\n"
    )
    Path("more.yaml").write_text(text)
    outcome = run(["run", "more.yaml", "--window", "2026-11-02"])
    assert (outcome.code, Path("else").exists()) == (1, False), outcome.said
    assert "does not hold this release" in outcome.err


def test_a_run_that_fails_after_its_window_was_drawn_has_paid(
    plan, add, run, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(more=LEDGER)
    with monkeypatch.context() as patched:
        patched.setattr(Running, "tables", canaries.crash)
        add(1, code=3)
    (entry,) = entries(run)
    assert (entry["state"], entry["irrevocable"]) == ("spent", True)
    kept = kept_in(state)
    assert json.loads(kept)["windows"] == ["2026-11-01"]
    add(2)
    add(1)
    made = entries(run)
    assert {(e["window"], e["state"]) for e in made} == {
        ("2026-11-01", "committed"), ("2026-11-02", "committed")
    }  # fmt: skip
    totals = json.loads(kept_in(state))["totals"]
    assert [estimates(1), estimates(2)] == totals


@pytest.mark.verify
def test_a_secret_that_is_lost_or_old_is_refused_and_another_is_paid_for(
    plan, add, run, state: Path
) -> None:
    plan(more=LEDGER)
    add(1)
    (secret,) = state.glob("*.json")
    assert secret.stat().st_mode & 0o777 == 0o600
    old = secret.read_bytes()
    add(2)
    new = secret.read_bytes()
    secret.write_bytes(old)
    assert "is older than" in add(3, code=2)
    shutil.move("out/2026-11-02", "moved")  # what stands knows no more than the copy
    assert "window 2026-11-02 was drawn from a newer copy" in add(3, code=2)
    shutil.move("moved", "out/2026-11-02")
    kept, before = json.loads(secret.read_bytes()), json.loads(old)
    assert kept.pop("sources").keys() == {"2026-11-01", "2026-11-03"}  # looked at, and not drawn
    assert before.pop("sources").keys() == {"2026-11-01"}
    assert kept == before
    secret.unlink()
    assert "is drawn from another secret than" in add(3, code=2)
    assert not secret.exists()
    secret.write_bytes(new)
    add(3)
    # In another folder totals begin anew, from a secret of their own, at a price of their own.
    text = Path("plan.yaml").read_text()
    Path("plan.yaml").write_text(text.replace("out/{window}", "again/{window}"))
    assert "released before" in add(1)  # the ledger has it
    add(4)
    assert len({e["design"] for e in entries(run)}) == 2
    assert len([*state.glob("*.json")]) == 2


def test_noise_of_another_secret_is_not_free(plan, add, run) -> None:
    """Of users, who are in all windows: the budget holds one horizon, and not two."""
    plan(more=LEDGER, unit=USERS, of_count=", user_windows: 30")
    add(1)
    text = Path("plan.yaml").read_text()
    Path("plan.yaml").write_text(text.replace("out/{window}", "again/{window}"))
    assert "does not hold this release" in add(2, code=1)
    assert not Path("again").exists()


def test_windows_that_overlap_are_refused(plan, add, run) -> None:
    plan(more=LEDGER)
    add(1)
    shutil.copytree("in/2026-11-01", "in/2026-11")
    canaries.write(Path("in", "part"), canaries.table().slice(0, 50))
    outcome = run(["run", "plan.yaml", "--window", "2026-11"])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "window 2026-11 overlaps window 2026-11-01" in outcome.err
    # Files of its own tell as much as time does; the same ones are found out, even rewritten.
    outcome = run(["run", "plan.yaml", "--window", "part"])
    assert outcome.code == 0, outcome.said
    os.symlink("part", "in/again")
    canaries.write(Path("in", "part"), canaries.table().slice(0, 60))
    outcome = run(["run", "plan.yaml", "--window", "again"])
    assert (outcome.code, Path("out/again").exists()) == (2, False)
    assert "may have rows of part" in outcome.err
    # As a new version, too, whose totals go on from the same secret.
    Path("plan.yaml").write_text(Path("plan.yaml").read_text().replace("version: 1", "version: 2"))
    outcome = run(["run", "plan.yaml", "--window", "again"])
    assert (outcome.code, Path("out/again").exists()) == (2, False)
    assert "window again may have rows of" in outcome.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"last": "  - {name: x, kind: count}\n"}, "is paid for in every window"),
        ({"output": "out"}, "name a folder with {window}"),
        ({"input": "in/2026-11-01/*.parquet"}, "the same rows would be added"),
        ({"of_count": ", drawn_by: devices"}, "drawn_by: says something of counters' noise"),
        ({"of_count": ", shuffler: fused"}, "shuffler fused: nothing is shuffled"),
        ({"of_count": ", user_windows: 3"}, "user_windows: a row is in one window"),
        ({"unit": USERS}, "user_windows is missing"),
        ({"more": "neighbours: replace\n"}, "neighbours: running totals hide who takes part"),
        ({"of_count": ", window: x"}, "belongs to the plan"),
        ({"last": SUM.replace("bounds", "mechanism: split-mix, bounds")}, "mechanism"),
        ({"last": SUM.replace("bounds", "whole_numbers: false, bounds")}, "whole_numbers"),
    ],
)
def test_what_running_totals_cannot_be_is_refused(plan, add, words: Any, why: str) -> None:
    plan(**words)
    said = add(1, code=2)
    assert why in said
    assert not Path("out").exists()


def test_terms_that_change_are_refused_even_as_a_new_version(plan, add) -> None:
    plan()
    add(1)
    plan(version="2", of_count=", per_value: 1, confidence: 0.9")
    assert "begun with other terms" in add(2, code=2)


def test_terms_that_the_budget_refused_may_change(plan, add) -> None:
    """No window was drawn from the secret that was begun with them: it has told nothing."""
    plan(more=LEDGER)
    text = Path("plan.yaml").read_text()
    Path("plan.yaml").write_text(text.replace("\nepsilon: 2.0", "\nepsilon: 3.0"))
    assert "does not hold this release" in add(1, code=1)
    Path("plan.yaml").write_text(text)
    add(1)
    assert figures(1).num_rows > 0


def test_neither_another_machine_nor_a_party_serves_them(plan, run) -> None:
    plan()
    outcome = run(["run", "plan.yaml", "--window", "2026-11-01", "--runner", "PrismRunner"])
    assert outcome.code == 2
    assert "runner: running totals go on from a secret of this machine" in outcome.err
    outcome = run(
        [
            "parties",
            "client",
            "plan.yaml",
            "--window",
            "2026-11-01",
            "--input",
            "in",
            "--output",
            "x",
        ]
    )
    assert outcome.code == 2
    assert "remembers it from window to window" in outcome.err
    checked = json.loads(run(["check", "plan.yaml", "--json"]).out)
    assert checked["metrics"][0]["client"] is None


@pytest.mark.verify
def test_releases_are_laid_side_by_side_and_not_compared(plan, add, run) -> None:
    plan(last=SUM)
    for day in (1, 2, 3):
        add(day)
    outcome = run(["compare", "out/2026-11-01", "out/2026-11-02"])
    assert outcome.code == 2
    assert "the noise of both goes on from one secret" in outcome.err
    assert run(["export", "out", "--output", "all.csv"]).code == 0
    rows = [*csv.DictReader(io.StringIO(Path("all.csv").read_text()))]
    assert {(row["window"], row["figure"]) for row in rows if row["metric"] == "events"} == {
        *((f"2026-11-0{day}", "rows so far") for day in (1, 2, 3)),
        *((f"2026-11-0{day}", "rows, last 2 windows") for day in (2, 3)),
    }
    site = Site(history.releases_in(["out"]), [])
    (events,) = [one for one in site.histories if one.metric == "events"]
    so_far, last = events.series
    drawn = so_far.drawn()
    assert [len(line) for line in drawn["estimate"]] == [3] * 5
    assert [*so_far.changes(events.windows)] == [*last.changes(events.windows)] == []
    page = Path("out/2026-11-03/events/report.html").read_text()
    assert "<h1>value: rows so far</h1>" in page
    assert page.count('class="picture"') == 5
    assert "<th>2026-11-01</th>" in page
    said = Path("out/2026-11-03/events/statement.json").read_text()
    assert str(Path.cwd()) not in said


@pytest.mark.verify
@pytest.mark.usefixtures("noiseless")
def test_a_stream_goes_on_by_its_calendar(plan, domain: str) -> None:
    """Killed between any two looks; an hour without rows is a window."""
    from tests.end_to_end.test_stream import BEGIN, HOUR, NAMES, land, rows, seconds, spread

    stream = (
        "stream: {window: 1h, state: state, time: at, first: 2024-11-20T0000, "
        "last: 2024-11-20T0300}\n"
    )
    plan(more=stream, input="landing/*.parquet")
    Path("landing").mkdir()
    land("a", rows([*spread(0, 40), *spread(2, 20)]))
    asked = streamed(load("plan.yaml"))
    for hour in (1.5, 3.5, 5.0):
        held = State("state", identity(asked))
        clock = functools.partial(seconds, BEGIN + hour * HOUR)
        screen = Console(file=io.StringIO())
        try:
            CalendarDriver(asked, held, beam_options([]), screen, clock).step()
        finally:
            held.close()
    for name, expected in zip(NAMES, (40, 40, 60, 60), strict=True):
        table = read_own(f"out/{name}/events", "count.parquet")
        assert sum(table["estimate"].to_pylist()) == expected, name
