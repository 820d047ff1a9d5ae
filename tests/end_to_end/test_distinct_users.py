"""Distinct users so far: each counts once over all windows, in that of its first time."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.running.totals import Contribution, least
from pipelines.releases.schema import read_own

BEGIN = date(2026, 11, 1)
PLAN = """\
collection: visitors
version: 1
unit: user
user_column: user
input: log/{window}.parquet
output: out/{window}
epsilon: 1.0
metrics:
  - {name: visitors, kind: count, horizon: 30, first: first}
"""
WORDS = ["count", "--user-column", "user", "--horizon", "30", "--epsilon", "1", "--output", "all"]


@pytest.fixture
def distinct(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Writes four days, of which users come back on many, and returns how many were seen so far."""
    monkeypatch.setenv("XDG_STATE_HOME", str(workspace / "state"))
    rng, firsts, seen = np.random.default_rng(5), dict[int, date](), []
    Path("log").mkdir()
    for number in range(4):
        day = BEGIN + timedelta(days=number)
        users = rng.integers(0, 150 + 100 * number, 300).tolist()
        table = {
            "user": users,
            "first": [firsts.setdefault(user, day) for user in users],
            "at": [datetime(day.year, day.month, day.day, k % 24) for k in range(300)],
        }
        pq.write_table(pa.table(table), f"log/{day}.parquet")
        seen.append(len(firsts))
    assert seen[-1] < 0.5 * 1200  # users come again
    return seen


def day(number: int) -> str:
    return str(BEGIN + timedelta(days=number))


@pytest.mark.usefixtures("noiseless")
def test_a_plan_adds_users_in_the_window_of_their_first_time(distinct: list[int], run) -> None:
    Path("plan.yaml").write_text(PLAN)
    for number, expected in enumerate(distinct):
        outcome = run(["run", "plan.yaml", "--window", day(number)])
        assert outcome.code == 0, outcome.said
        table = read_own(f"out/{day(number)}/visitors", "count.parquet")
        assert table["estimate"].to_pylist() == [expected]
    said = json.loads(Path(f"out/{day(3)}/visitors/statement.json").read_text())
    unit = said["guarantees"]["release"]["unit"]
    assert unit == "user whose rows all have one value in 'first'"


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("column", ["first", "since"])
def test_a_command_says_the_same_by_a_derived_moment_too(
    distinct: list[int], column: str, run
) -> None:
    """Windows are files of a day, and the moment may be derived."""
    more = ["--derive", "since=if(user >= 0, first, at)"] if column == "since" else []
    for number in range(4):
        words = ["--input", f"log/{day(number)}.parquet", "--window", day(number)]
        outcome = run([*WORDS, *words, *more, "--first", column, "--json"])
        assert outcome.code == 0, outcome.said
        (row,) = json.loads(outcome.out)["rows"]
        assert row["estimate"] == distinct[number]


def test_the_price_is_of_one_window_a_user(distinct: list[int], run) -> None:
    """The noise is that of a unit that adds 1 on one of 30 days."""
    words = ["--input", f"log/{day(0)}.parquet", "--window", day(0), "--first", "first"]
    assert run([*WORDS, *words]).code == 0
    (error,) = pq.read_table("all/totals.parquet")["standard_error"].to_pylist()
    cheapest = least(1.0, 1e-6, 30, Contribution(1.0, 1, 1), 1)
    assert error == pytest.approx(cheapest.standard_error(0))
    often = least(1.0, 1e-6, 30, Contribution(1.0, 1, 30), 1)
    assert error < 0.5 * often.standard_error(0)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--window", "w1"], "--window: --first needs one that is named by its time"),
        (["--window", day(0), "--user-windows", "2"], "leave --user-windows out"),
        (["--window", day(0), "--first", "none"], "no such column: 'none'"),
        (["--window", day(0), "--first", "user"], "column 'user' holds a whole number"),
        # Text is in another order than times are, and users would count in other windows.
        (
            ["--window", day(0), "--first", "text", "--derive", "text='2026'"],
            "--first: 'text' holds string, and times or dates are needed",
        ),
        # A name that goes on as an expression would count a user in every window for one's price.
        (["--window", day(0), "--first", "first` >= '2000-01-01' or `first"], "with a backquote"),
    ],
)
def test_what_says_no_first_time_is_refused(words: list[str], why: str, distinct: Any, run) -> None:
    first = [] if "--first" in words else ["--first", "first"]
    outcome = run([*WORDS, "--input", f"log/{day(0)}.parquet", *first, *words])
    assert (outcome.code, why in outcome.said) == (2, True), outcome.said
    assert not Path("all").exists()


def test_an_undated_window_of_a_plan_is_refused(distinct: Any, run) -> None:
    Path("plan.yaml").write_text(PLAN)
    Path(f"log/{day(0)}.parquet").rename("log/w1.parquet")
    outcome = run(["run", "plan.yaml", "--window", "w1"])
    assert (outcome.code, "one that is named by its time" in outcome.said) == (2, True)
    assert not Path("out").exists()


def test_rows_have_no_first_time(distinct: Any, run) -> None:
    words = ["--input", f"log/{day(0)}.parquet", "--window", day(0), "--first", "first"]
    alone = [word for word in WORDS if word not in ("--user-column", "user")]
    outcome = run([*alone, *words])
    assert (outcome.code, "--first: is of users" in outcome.said) == (2, True)
