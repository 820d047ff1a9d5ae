"""Rows of running totals are in one window: what is refused, and what a promise says where not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushbeam
from mechanisms.privacy.search import gaussian_epsilon
from mechanisms.running.totals import Contribution, RunningTotals, least
from pipelines.running.kept import Place
from pipelines.running.sources import NONE, Sources, require_apart
from pipelines.running.totals import add
from tests.fakes import canaries

WORDS = ["--horizon", "30", "--epsilon", "1", "--output", "out", "--secret", "kept/secret"]
Add = Callable[..., Any]
DAY = timedelta(days=1)
NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


@pytest.fixture
def add_window(run, workspace: Path) -> Add:
    """Runs a window; its error, or nothing."""

    def add_window(window: str, log: str, *more: str) -> str:
        outcome = run(["count", "--input", log, "--window", window, *WORDS, *more])
        assert outcome.code in (0, 2), outcome.said
        assert outcome.code == 0 or outcome.err.count("\n") == 1
        assert not canaries.found(outcome.said)
        return str(outcome.err) if outcome.code else ""

    return add_window


def lines(path: str, rows: Sequence[int]) -> str:
    Path(path).write_text("n\n" + "".join(f"{row}\n" for row in rows))
    return path


# ---- what is published against what is said ------------------------------------------------------


def revealed(design: RunningTotals, windows: Sequence[int], delta: float) -> float:
    """The epsilon of all releases for a unit that adds its most in these windows.

    The noise is Gaussian, so it is the norm of C u in standard deviations, and nothing else.
    """
    added = np.zeros(design.factors.horizon)
    added[[*windows]] = design.contribution.norm
    moved = np.convolve(design.factors.strategy, added)[: added.size]
    return gaussian_epsilon(float(np.linalg.norm(moved)) / design.sigma, delta)


@pytest.mark.parametrize(("windows", "expected"), [(3, 1.47), (7, 3.33), (30, 11.7)])
def test_users_in_more_windows_than_the_condition_names_lose_more(
    windows: int, expected: float
) -> None:
    """At epsilon 1, of whom it holds who is in at most 2 of 30 windows."""
    design = least(1.0, 1e-6, 30, Contribution(days=2))
    for chosen in combinations(range(30), 2):
        assert revealed(design, chosen, 1e-6) <= 1.0
    assert revealed(design, (0, 1), 1e-6) == pytest.approx(1.0, rel=1e-3)
    assert revealed(design, range(windows), 1e-6) == pytest.approx(expected, rel=3e-3)


# ---- what is refused -----------------------------------------------------------------------------


def test_the_same_files_are_one_window_under_whatever_names(add_window, log: str) -> None:
    assert add_window("a", log) == ""
    before = Path("kept/secret").read_bytes()
    shutil.copytree(os.path.dirname(log), "copies")
    os.symlink("copies", "linked")
    for other in (log, "copies/*.parquet", "linked/part-1.parquet"):
        assert "a file of window b holds what one of window a held" in add_window("b", other)
    assert Path("kept/secret").read_bytes() == before
    assert add_window("a", log) == ""  # the window that stands is asked for again, and shown
    assert Path("kept/secret").read_bytes() == before


def test_a_window_is_not_asked_for_again_with_other_files(add_window) -> None:
    """Of as many rows, too: they would seem to have been added."""
    assert add_window("a", lines("a.csv", [1, 2, 3])) == ""
    before = Path("kept/secret").read_bytes()
    for rows in ([], [1, 2], [1, 2, 3, 4], [4, 5, 6]):
        assert "window a was drawn before, of other files" in add_window("a", lines("b.csv", rows))
    assert "of other files" in add_window("a", "*.csv")
    assert Path("kept/secret").read_bytes() == before
    shutil.copy("a.csv", "copy.csv")
    for same in ("a.csv", "copy.csv"):
        assert add_window("a", same) == ""
    assert add_window("b", lines("b.csv", [4, 5, 6])) == ""


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl"])
def test_a_file_that_has_grown_is_refused_and_one_of_new_rows_is_not(
    add_window, ending: str
) -> None:
    def written(name: str, rows: Sequence[int]) -> str:
        head = "" if ending == ".jsonl" else "n\n"
        each = (json.dumps({"n": row}) if ending == ".jsonl" else str(row) for row in rows)
        with pa.output_stream(name + ending, compression="detect") as stream:
            stream.write((head + "\n".join(each) + "\n").encode())
        return name + ending

    assert add_window("a", written("log", range(100))) == ""
    assert "begins as one of window a, and has grown" in add_window("b", written("log", range(150)))
    assert add_window("b", written("new", range(100, 150))) == ""
    # Nor may it begin as any earlier window's.
    grown = written("log", range(101))
    assert "begins as one of window a, and has grown" in add_window("c", grown)


def test_files_without_rows_are_alike_and_no_window_is_refused_for_them(add_window) -> None:
    for window in "abc":
        assert add_window(window, lines("log.csv", [])) == ""
    assert add_window("d", lines("log.csv", [1, 2])) == ""
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), "none.parquet")
    for window in "ef":
        assert add_window(window, "none.parquet") == ""


def moments(name: str, *rows: datetime, kind: pa.DataType | None = None) -> str:
    pq.write_table(
        pa.table(
            {"at": pa.array(rows, kind or pa.timestamp("us", "UTC")), "n": [*range(len(rows))]}
        ),
        name,
    )
    return name


@pytest.mark.verify
@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.timestamp("ns", "UTC"), pa.date32()],
    ids=str,
)
def test_windows_are_apart_in_time_and_consecutive_days_pass(add_window, kind: pa.DataType) -> None:
    own = ["--time-column", "at"]
    midnight = NOON.replace(hour=0)
    last = midnight + DAY - timedelta(milliseconds=1)
    plain = [moment.replace(tzinfo=None) for moment in (midnight, last)]
    if pa.types.is_date(kind):
        plain = [plain[0].date()] * 2
    step = DAY
    assert add_window("a", moments("a.parquet", *plain, kind=kind), *own) == ""
    after = [moment + step for moment in plain]
    assert add_window("b", moments("b.parquet", *after, kind=kind), *own) == ""
    before = [moment - step for moment in plain]
    assert add_window("c", moments("c.parquet", *before, kind=kind), *own) == ""
    # A row of the second day, in another file and among others: it may be the same one.
    both = [after[0], after[1] + step]
    refused = add_window("d", moments("d.parquet", *both, kind=kind), *own)
    assert "--time-column: rows of window d lie in the time of window b" in refused
    assert "2026" not in refused
    later = [moment + 2 * step for moment in plain]
    assert add_window("d", moments("d.parquet", *later, kind=kind), *own) == ""


def test_every_row_that_counts_needs_a_time(add_window) -> None:
    own = ["--time-column", "at", "--types", "at=timestamp"]
    Path("a.csv").write_text("at,n\n2026-11-20T10:00:00Z,1\n,2\n")
    assert "has rows without a time in 'at'" in add_window("a", "a.csv", *own)
    own += ["--where", "at is not null"]
    assert add_window("a", "a.csv", *own) == ""
    Path("b.csv").write_text("at,n\n2026-11-20T10:00:00Z,3\n")
    assert "lie in the time of window a" in add_window("b", "b.csv", *own)


@pytest.mark.parametrize(
    ("column", "why"),
    [("n", "'n' holds int64, and times or dates are needed"), ("gone", "no column 'gone'")],
)
def test_what_is_no_column_of_times_is_refused(add_window, column: str, why: str) -> None:
    log = moments("log.parquet", NOON)
    assert why in add_window("a", log, "--time-column", column)


def test_names_of_windows_that_overlap_are_refused(add_window) -> None:
    assert add_window("2026-11-20", lines("a.csv", [1])) == ""
    for window in ("2026-11", "2026-W47", "2026-11-20T13"):
        assert "overlaps window 2026-11-20" in add_window(window, lines("b.csv", [2]))
    assert add_window("2026-11-21", lines("b.csv", [2])) == ""


@pytest.mark.usefixtures("workspace")
def test_from_python_windows_whose_names_overlap_are_refused_too() -> None:
    totals = hushbeam.RunningTotals("py", epsilon=1, delta=1e-6, horizon=30, secret="kept/py")
    totals.add("2026-11-20", 5)
    with pytest.raises(hushbeam.RequestError, match="overlaps window 2026-11-20"):
        totals.add("2026-11", 5)
    totals.add("2026-11-21", 5)


def test_windows_that_were_counted_at_one_time_are_held_apart_as_they_are_drawn() -> None:
    """Whoever is drawn later was looked at before the other stood, and may have its rows."""
    old, grown = Sources(((10, "x"),)), Sources(((20, "y"),))
    with pytest.raises(hushbeam.RequestError, match="was added while window b was counted"):
        require_apart("b", grown, {"a": old}, ["a"])
    require_apart("b", old, {"a": grown}, ["a"])  # the shorter one has seen no row of the other
    require_apart("b", old, {"a": old}, [])  # not drawn
    looked = Sources(((20, "y"),), ((10, "z"),))
    require_apart("b", looked, {"a": old}, ["a"])


def test_what_a_window_is_made_of_is_checked_where_it_is_drawn(add_window) -> None:
    assert add_window("a", lines("a.csv", [1])) == ""
    kept = json.loads(Path("kept/secret").read_text())
    made = Sources.read(kept["sources"]["a"])
    assert made != NONE
    with pytest.raises(hushbeam.RequestError, match="holds what one of window a held"):
        add(Place.of("out", "kept/secret"), "b", {"all": 1}, None, made)  # type: ignore[arg-type]
    assert json.loads(Path("kept/secret").read_text()) == kept


# ---- what is told of it --------------------------------------------------------------------------


def test_nothing_of_files_is_published_and_digests_are_under_the_secrets_key(
    add_window, workspace: Path
) -> None:
    log = moments("log.parquet", NOON, NOON + DAY)
    assert add_window("a", log, "--time-column", "at") == ""
    kept = json.loads(Path("kept/secret").read_text())
    ((size, digest),) = kept["sources"]["a"]["files"]
    assert size == os.path.getsize(log)
    start = int(NOON.timestamp() * 1e6)
    assert kept["sources"]["a"]["span"] == [start, start + 86_400_000_000 + 1]
    for path in Path("out").iterdir():
        published = path.read_bytes()
        for secret in (digest, str(start), kept["key"], "log.parquet"):
            assert secret.encode() not in published, (path, secret)
    # Without the key nobody who has the file can tell that it was counted.
    import hashlib

    assert digest != hashlib.sha256(Path(log).read_bytes()).hexdigest()
    assert WORDS[-1] == "kept/secret"


@pytest.mark.parametrize(
    ("more", "whom"),
    [([], "row that is in one window"), (["--time-column", "at"], "row")],
)
def test_the_promise_is_of_every_row_where_times_hold_windows_apart(
    add_window, run, more: list[str], whom: str
) -> None:
    log = moments("log.parquet", NOON)
    outcome = run(["count", "--input", log, "--window", "a", *WORDS, *more, "--json"])
    assert json.loads(outcome.out)["guarantee"]["unit"] == whom
    said = json.loads(Path("out/statement.json").read_text())
    assert said["guarantees"]["release"]["unit"] == whom
    assert f"all that any one {whom} adds to the totals" in said["in_words"][1]
    assert f"Adding or removing any one {whom} changes the probability" in said["in_words"][0]
    page = Path("out/report.html").read_text()
    assert f"any one {whom} adds to the totals" in page


# ---- in a plan -----------------------------------------------------------------------------------

PLAN = """\
collection: canaries
version: 1
unit: user
user_column: user
input: "in/{window}/*.parquet"
output: "out/{window}"
epsilon: 1.0
delta: 1.0e-6
LEDGERmetrics:
  - {name: events, kind: count, horizon: 30, user_windows: 2}
"""
LEDGER = "ledger: ledger.sqlite\nbudget: {epsilon: 1.0, delta: 1.0e-6}\n"
WHOM = "user who is in at most 2 of 30 windows"


@pytest.fixture
def planned(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    account = tmp_path / "account"
    shutil.copytree(Path(os.environ["XDG_STATE_HOME"], "hushbeam"), account / "hushbeam")
    monkeypatch.setenv("XDG_STATE_HOME", str(account))
    for day in (1, 2):
        canaries.write(Path(f"in/2026-11-0{day}"), canaries.table().slice(100 * day))

    def planned(ledger: str) -> None:
        from tests.fakes.ledgers import begun_by

        Path("plan.yaml").write_text(PLAN.replace("LEDGER", ledger))
        if ledger:
            begun_by("plan.yaml")

    return planned


def test_a_plans_promise_names_its_condition_on_every_surface(planned, run) -> None:
    planned(LEDGER)
    shown = " ".join(run(["check", "plan.yaml"]).out.split())
    assert f"per {WHOM}, presence hidden" in shown
    told = json.loads(run(["check", "plan.yaml", "--json"]).out)
    assert told["guarantees"]["release"]["unit"] == WHOM
    assert told["metrics"][0]["guarantees"]["release"]["unit"] == WHOM
    ran = run(["run", "plan.yaml", "--window", "2026-11-01"])
    assert ran.code == 0, ran.said
    assert f"per {WHOM}" in " ".join(ran.out.split())
    for folder in ("out/2026-11-01", "out/2026-11-01/events"):
        said = json.loads(Path(folder, "statement.json").read_text())
        assert said["guarantees"]["release"]["unit"] == WHOM
        assert any(f"any one {WHOM}" in line for line in said["in_words"])
        assert f"any one {WHOM}" in Path(folder, "report.html").read_text()
    for command in ("show", "explain"):
        words = ["ledger", command, "--ledger", "ledger.sqlite"]
        assert f"per {WHOM}" in " ".join(run(words).out.split()), command
        assert f'"{WHOM}"' in run([*words, "--json"]).out, command
    (account,) = hushbeam.Ledger("ledger.sqlite").explain()
    assert (account["unit"], account["total"]["unit"]) == (WHOM, WHOM)
    assert run(["site", "out", "--ledger", "ledger.sqlite", "--output", "site"]).code == 0
    pages = [
        *Path("site").rglob("*.html"),
        *Path("site").rglob("*.json"),
        *Path("site").rglob("*.js"),
    ]
    assert sum(WHOM in page.read_text() for page in pages) >= 3
    assert run(["export", "out", "--output", "all.csv"]).code == 0
    assert WHOM in Path("all.csv").read_text()


def test_a_plan_without_a_ledger_takes_no_rows_twice(planned, run) -> None:
    planned("")
    assert run(["run", "plan.yaml", "--window", "2026-11-01"]).code == 0
    shutil.copytree("in/2026-11-01", "in/again")
    outcome = run(["run", "plan.yaml", "--window", "again"])
    assert (outcome.code, Path("out/again").exists()) == (2, False)
    assert "a file of window again holds what one of window 2026-11-01 held" in outcome.err
    assert outcome.err.count("\n") == 1
    assert run(["run", "plan.yaml", "--window", "2026-11-02"]).code == 0


def test_nobody_need_know_how_many_windows_there_will_be(run, refused, workspace: Path) -> None:
    words = ["count", "--window", "d1", "--horizon", "open", "--epsilon", "1", "--output", "out"]
    words += ["--input", lines("d1.csv", range(500)), "--secret", "kept/secret"]
    outcome = run(words)
    assert outcome.code == 0, outcome.said
    statement = json.loads(Path("out/statement.json").read_text())
    assert statement["request"]["horizon"] == 20_000
    (row,) = pq.read_table("out/totals.parquet").to_pylist()
    assert abs(row["estimate"] - 500) < 7 * row["standard_error"]
    refused(["for ever" if word == "open" else word for word in words], "--horizon must be a whole")
