"""Active users day by day: right figures, gaps that are none of inactivity, and three parties."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.counters.activity import Activity
from mechanisms.wire.sealing import create_key
from pipelines.plan.loading import load
from pipelines.plan.split import split
from tests.mechanisms.counters.test_activity import figures
from tests.oracles.releases import Release

ROOT = Path(__file__).parents[2]
FIRST = date(2026, 9, 1)
ASKED = "kind: active-users, time: time, before: 3, retention: 2"
ACTIVITY = Activity(1, 3, 2)
PLAN = f"""\
collection: activity
version: 1
unit: user
user_column: user
input: logs/{{window}}.parquet
output: releases/{{window}}
epsilon: 9
delta: 1.0e-6
ledger: ledger.sqlite
budget: {{epsilon: 500, delta: 1.0e-3}}
metrics:
  - {{name: active, {ASKED}}}
"""
NAMES = {
    ("active", "last day"): ("active", 1), ("active", "last 7 days"): ("active", 7),
    ("active", "last 28 days"): ("active", 28), ("active in the last day", "new"): ("new", 0),
    ("active in the last day", "returning"): ("returning", 0),
    ("active in the last day", "resurrected"): ("resurrected", 0),
    ("active in the last day", "new 1 day ago"): ("kept", 1),
    ("active in the last day", "new 2 days ago"): ("kept", 2),
}  # fmt: skip


def day(k: int) -> str:
    return str(FIRST + timedelta(days=k))


def people(days: int, n: int = 60) -> list[set[int]]:
    """The users of each day."""
    rng = np.random.default_rng(days)
    often = rng.beta(0.5, 1.0, n)
    return [{*np.flatnonzero(rng.random(n) < often).tolist()} for _ in range(days)]


def write(k: int, users: Iterable[int], name: str = "", hours: tuple[int, ...] = (0, 23)) -> None:
    """A day's log: each user at some hours, midnight and the hour before the next among them."""
    path = Path("logs", f"{name or day(k)}.parquet")
    path.parent.mkdir(exist_ok=True)
    at = [datetime.combine(FIRST, datetime.min.time()) + timedelta(days=k, hours=h) for h in hours]
    rows = [(f"u{user}", moment) for user in users for moment in at]
    names, moments = zip(*rows, strict=True) if rows else ((), ())
    kind = pa.timestamp("us")
    pq.write_table(pa.table({"user": pa.array(names, pa.string()),
                             "time": pa.array(moments, kind)}), path)  # fmt: skip


def truth(log: list[set[int]], last: int) -> dict[tuple[str, int], int]:
    """What a release of a day should say."""
    total: dict[tuple[str, int], int] = {}
    for user in set().union(*log):
        ages = {last - k for k in range(last + 1) if user in log[k]}
        for name, value in figures(ACTIVITY, ages).items():
            total[name] = total.get(name, 0) + value
    return total


def published(folder: str) -> dict[tuple[str, int], int]:
    """The figures of a release."""
    rows = pq.read_table(f"{folder}/active-users.parquet").to_pylist()
    return {NAMES[row["group"], row["value"]]: row["estimate"] for row in rows}


def require_right(folder: str, log: list[set[int]], last: int, most: int = 7) -> set[Any]:
    """Every figure is the truth, within the ends of its noise; which there are."""
    found, expected = published(folder), truth(log, last)
    for name, estimate in found.items():
        cells = next(len(f.cells) for f in ACTIVITY.figures if (f.what, f.size) == name)
        assert abs(estimate - expected[name]) <= most * cells, (name, last)
    return {*found}


def asked(last: int, output: str = "out", *more: str) -> list[str]:
    words = ["active-users", "--user-column", "user", "--time", "time", "--before", "3"]
    words += ["--retention", "2", "--epsilon", "9", "--input", "logs/{day}.parquet"]
    return [*words, "--day", day(last), "--output", output, *more]


def test_a_day_and_those_before_it(run, workspace: Path) -> None:
    log = people(30)
    for k, users in enumerate(log):
        write(k, users)
    assert run(asked(28)).code == 0
    assert len(require_right("out", log, 28)) == len(NAMES)
    release = Release(Path("out"))
    statement = release.statement
    assert statement["days"] == {
        "last": day(28), "looked_at": 28, "missing": [], "left_out": [],
    }  # fmt: skip
    assert statement["published_exactly"] == "which days have files"
    words = " ".join(statement["in_words"])
    assert "No exact counts are published, except which days have files" in words
    assert "holds if a file is written every day, whether there are rows or not" in words
    table = pq.read_table("out/active-users.parquet")
    errors = dict(zip(table["value"].to_pylist(), table["standard_error"].to_pylist(), strict=True))
    assert errors["last 28 days"] == pytest.approx(5**0.5 * errors["new"])
    for row in table.to_pylist():
        assert row["lower_simultaneous"] <= row["lower"] <= max(row["estimate"], 0)
        assert row["upper"] <= row["upper_simultaneous"]
    shares = {row["value"]: row for row in pq.read_table("out/stickiness.parquet").to_pylist()}
    expected = truth(log, 28)
    for a, b in ((1, 28), (7, 28), (1, 7)):
        share = expected["active", a] / expected["active", b]
        row = shares[f"{a} of {b} days"]
        assert abs(row["estimate"] - share) < 0.3
        assert 0 <= row["lower_simultaneous"] <= row["estimate"] <= row["upper_simultaneous"] <= 1
    assert "New is who was active in the last day and in none of the 3 days" in release.page
    assert all(f"<th>{name}</th>" in release.page for name in shares)


def test_a_day_without_a_file_is_a_gap_and_no_day_without_users(run, refused, workspace) -> None:
    log = people(30)
    for k in range(30):
        if k != 26:
            write(k, log[k])
    outcome = run(asked(28))
    assert outcome.code == 0
    assert f"These days lack a file: {day(26)}" in outcome.err
    shown = require_right("out", log, 28)
    assert shown == {("active", 1), ("returning", 0)}
    assert not Path("out/stickiness.parquet").exists()
    days = Release(Path("out")).statement["days"]
    assert days["missing"] == [day(26)]
    assert len(days["left_out"]) == len(NAMES) - 2
    # Five days later it is no more in the 3 days that tell who is new; but in 7 and 28 it is.
    for k in (30, 31):
        log.append(log[k - 20])
        write(k, log[k])
    assert run(asked(31, "later")).code == 0
    shown = require_right("later", log, 31)
    assert shown >= {("active", 1), ("new", 0), ("returning", 0), ("resurrected", 0), ("kept", 1)}
    assert not shown & {("active", 7), ("active", 28)}
    refused(asked(26, "none"), "what is not there yet is no day on")


@pytest.mark.verify
def test_a_day_of_which_one_of_two_logs_is_missing_is_a_gap(run, refused, workspace) -> None:
    """Users of that log would pass for absent on it."""
    log = people(30)
    for k, users in enumerate(log):
        halves = {user for user in users if user % 2}, {user for user in users if not user % 2}
        for name, half in zip(("eu", "us"), halves, strict=True):
            write(k, half, f"{name}-{day(k)}")
    both = ["logs/eu-{day}.parquet", "logs/us-{day}.parquet"]

    def of_both(last: int, output: str) -> list[str]:
        words = asked(last, output)
        place = words.index("logs/{day}.parquet")
        return [*words[:place], *both, *words[place + 1 :]]

    assert run(of_both(28, "whole")).code == 0
    assert len(require_right("whole", log, 28)) == len(NAMES)
    Path("logs", f"us-{day(26)}.parquet").unlink()
    assert run(of_both(28, "out")).code == 0
    assert Release(Path("out")).statement["days"]["missing"] == [day(26)]
    assert require_right("out", log, 28) == {("active", 1), ("returning", 0)}
    refused(of_both(26, "none"), f"--input: no file matches logs/us-{day(26)}.parquet: what is not")


@pytest.mark.verify
def test_days_before_the_service_began_are_no_gap(run, refused, workspace: Path) -> None:
    log = people(4)
    for k, users in enumerate(log):
        write(k, users)
    assert run(asked(3)).code == 0
    assert require_right("out", log, 3) == {("active", 1), ("returning", 0), ("new", 0),
                                            ("resurrected", 0)}  # fmt: skip
    assert run(asked(3, "begun", "--begins", day(0))).code == 0
    assert len(require_right("begun", log, 3)) == len(NAMES)
    refused(asked(3, "none", "--begins", day(4)), "--begins: is after --day")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("--day=2026-9-1", "--day: a day is needed, as in 2026-11-20"),
        ("--begins=1.9.2026", "--begins: a day is needed"),
        ("--before=1", "--before must be a number of at least 2"),
        ("--period=week --before=8 --retention=8", "64 days at the most, and this takes 119"),
        ("--retention=5", "a cohort is known for as many periods as are looked at, 3, and not 5"),
        ("--rows-per-user=2", "--rows-per-user: a user has 1 different values"),
        ("--time=user", "--time: 'user' holds string; moments or dates are needed"),
        ("--releases=9 --drawn-by=devices --enrolled=99", "--releases: devices' noise has no"),
        ("--user-column=", "--user-column is missing"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(more, complaint, refused, workspace) -> None:
    write(0, {1})
    changed = {word.partition("=")[0]: word for word in more.split()}
    words, kept = iter(asked(0, "out")), ["active-users"]
    next(words)
    for flag, value in zip(words, words, strict=True):
        kept += [] if flag in changed else [flag, value]
    refused([*kept, *(word for word in changed.values() if word[-1] != "=")], complaint)


# ---- day after day -------------------------------------------------------------------------------


def ledger(run) -> None:
    assert run(["ledger", "init", "plan.yaml"]).code == 0


@pytest.mark.verify
def test_a_plan_takes_each_day_with_those_before_it(run, workspace: Path) -> None:
    """A late file makes its own release late and nobody else's wrong; a day is released once."""
    Path("plan.yaml").write_text(PLAN.replace(ASKED, f'{ASKED}, begins: "{day(0)}"'))
    log = people(6)
    for k in (0, 1, 2, 4, 5):
        write(k, log[k])
    ledger(run)
    outcome = run(["run", "plan.yaml", "--windows", f"{day(2)}..{day(4)}"])
    assert outcome.code == 2
    assert not Path("releases", day(3)).exists()
    assert len(require_right(f"releases/{day(2)}/active", log, 2)) == len(NAMES)
    shown = require_right(f"releases/{day(4)}/active", log, 4)
    assert shown == {("active", 1), ("kept", 2)}  # of which yesterday says nothing
    before = Path("releases", day(4), "statement.json").read_bytes()
    write(3, log[3])  # late
    write(3, log[3], name="again")  # and twice
    pq.write_table(pa.concat_tables([pq.read_table(f"logs/{day(3)}.parquet")] * 2),
                   f"logs/{day(3)}.parquet")  # fmt: skip
    outcome = run(["run", "plan.yaml", "--windows", f"{day(3)}..{day(5)}"])
    assert outcome.code == 0, outcome.said
    for k in (3, 5):
        assert len(require_right(f"releases/{day(k)}/active", log, k)) == len(NAMES)
    assert Path("releases", day(4), "statement.json").read_bytes() == before
    outcome = run(["ledger", "show", "--ledger", "ledger.sqlite"])
    assert outcome.out.count("committed") == 4
    # Retention is read across the days of a site: all figures of a day in a window's column.
    assert run(["site", "releases", "--output", "site"]).code == 0
    page = Path("site/activity/active.html").read_text("utf-8")
    assert "<h2>Retention</h2>" in page
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    (table, _) = json.loads(text)["tables"]
    kept = ["active in the last day", "new 1 day ago"]
    row = table["drawn"]["estimate"][table["drawn"]["labels"].index(kept)]
    assert [value is None for value in row] == [False, False, True, False]


@pytest.mark.verify
def test_days_that_are_late_or_come_twice_make_no_release_wrong(run, workspace: Path) -> None:
    """Of 36 days four are late, by up to nine days, and two come twice."""
    days, twice = 36, {8, 31}
    late = {5: 2, 21: 1, 22: 3, 25: 9}
    text = (
        PLAN.replace(ASKED, f'{ASKED}, begins: "{day(0)}"')
        .replace("500,", "700,")
        .replace("epsilon: 9", "epsilon: 7")
    )
    Path("plan.yaml").write_text(text)
    log = people(days)
    ledger(run)
    codes = []
    for today in range(days):
        come = [k for k in range(today + 1) if k + late.get(k, 0) == today]
        for k in come:
            write(k, log[k], hours=(0, 0, 23, 23) if k in twice else (0, 23))
        # As a schedule does, which tries again what could not be released.
        asked = f"{day(min(come, default=today))}..{day(today)}"
        codes.append(run(["run", "plan.yaml", "--windows", asked]).code)
    assert codes == [2 if today in late else 0 for today in range(days)]
    complete = [len(require_right(f"releases/{day(k)}/active", log, k, 9)) for k in range(days)]
    # A day is not known beside one before it that is missing; when that has come, all is.
    lacking = {k for k in range(days) for gap in late if gap < k < gap + late[gap]} - {*late}
    assert {k for k in range(days) if complete[k] < len(NAMES)} == lacking
    outcome = run(["ledger", "show", "--all", "--ledger", "ledger.sqlite"])
    assert outcome.out.count("committed") == days


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("unit: user\n", "unit: user per window\n", "unit is wrong: a user's days count in many"),
        ("user_column: user\n", "", "user_column and a unit of users go together"),
        ("releases/{window}", "release", "output is wrong: each day has a release of its own"),
        ("metrics:", "stream: {window: 1d, state: s}\nmetrics:", "a stream keeps no rows"),
        ("before: 3", "before: 3, day: 2026-11-20", "day is wrong: belongs to the plan"),
        ("retention: 2", "retention: 4", "a cohort is known for as many periods"),
        ("metrics:", "metrics:\n  - {name: n, kind: count}", "takes the rows of its own window"),
        ("time: time", "time: user", "time: 'user' holds string; moments or dates are needed"),
    ],
)
def test_a_plan_that_cannot_be_served_is_refused(old, new, complaint, run, workspace) -> None:
    write(0, {1})
    Path("plan.yaml").write_text(PLAN.replace("ledger:", "#").replace("budget:", "#")
                                 .replace(old, new))  # fmt: skip
    outcome = run(["run", "plan.yaml", "--window", day(0)])
    assert (outcome.code, complaint in outcome.err) == (2, True), outcome.err
    assert not Path("releases").exists()


def test_the_plan_of_the_page_covers_a_month(run, workspace: Path) -> None:
    page = (ROOT / "docs" / "active-users.md").read_text("utf-8")
    (plan,) = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.M)
    Path("plan.yaml").write_text(plan)
    outcome = run(["check", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    assert "covers 28 windows, as the ledger composes them" in " ".join(outcome.out.split())


def test_a_window_is_a_day(refused, workspace: Path) -> None:
    Path("plan.yaml").write_text(PLAN)
    for window in ("2026-11", "monday", "2026-11-20T13", "2026-13-01"):
        refused(["run", "plan.yaml", "--window", window], "the metrics look back from a day")


# ---- three parties -------------------------------------------------------------------------------


@pytest.mark.verify
def test_devices_keep_their_days_and_say_since_when(run, workspace, monkeypatch) -> None:
    """From a log of many, and from one device that names its days: the same counters."""
    text = PLAN.replace("ledger:", "#").replace("budget:", "drawn_by: shuffler #")
    Path("plan.yaml").write_text(text)
    log = people(5)
    for k, users in enumerate(log):
        write(k, users)
    Path("keys").mkdir()
    create_key(workspace / "keys")
    public, private = (str(next(Path("keys").glob(f"*.{k}.pem"))) for k in ("public", "private"))
    client = ["parties", "client", "plan.yaml", "--window", day(4), "--seal", public]
    days = [f"logs/{day(k)}.parquet" for k in range(5)]
    assert run([*client, "--input", *days, "--output", "log.bin"]).code == 0
    lines = f"{day(4)}\n{day(3)}\n{day(3)}\n2026-08-25\nnonsense\n\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    one = [*client, "--input", "-", "--metric", "active", "--output", "one.bin"]
    outcome = run([*one, "--report-secret", "secret"])
    assert "1 report in" in outcome.out
    shuffle = [
        "parties",
        "shuffle",
        "plan.yaml",
        "--window",
        day(4),
        "--input",
        "log.bin",
        "one.bin",
    ]
    assert run([*shuffle, "--seal", public, "--output", "mixed"]).code == 0
    collect = [
        "parties",
        "collect",
        "plan.yaml",
        "--window",
        day(4),
        "--input",
        "mixed",
        "--key",
        private,
    ]
    assert run(collect).code == 0
    device = {4 - 4, 4 - 3, (FIRST + timedelta(days=4) - date(2026, 8, 25)).days}
    (counters,) = split(load("plan.yaml"), day(4)).counters
    expected, found = truth(log, 4), published(f"releases/{day(4)}/active")
    assert found.keys() == expected.keys()  # a device knows of no gap
    for name, value in figures(ACTIVITY, device).items():
        of = next(f for f in ACTIVITY.figures if (f.what, f.size) == name)
        most = counters.dummies.means[of.level] * len(of.cells)
        assert abs(found[name] - expected[name] - value) <= most
    said = json.loads(Path("releases", day(4), "active", "statement.json").read_text())
    assert said["mechanism"]["messages_per_user"] == 2
    assert said["published_exactly"] == "nothing"  # a collector sees no file of any day
    assert "No exact counts are published" in " ".join(said["in_words"])
    # A report of another day is none of this one's.
    other = [day(3) if word == day(4) else word for word in [*shuffle, "--seal", public]]
    outcome = run([*other, "--output", "other"])
    assert "dropped" in outcome.out
