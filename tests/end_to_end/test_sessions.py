"""Sessions of users as rows: as an oracle cuts them, whatever files and batches hold them.

At a large epsilon the job's noise of whole numbers is 0; a user has fewer sessions than count.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushbeam
from hushbeam import beam as private
from pipelines.errors import Caution
from pipelines.releases.schema import read_own
from tests.contract.laws import reach
from tests.oracles import sessions as oracle
from transforms.encoders.sessions import Sessions

START = datetime(2026, 11, 20)
GAP = 1800
PAGES = ["home", "cart", "pay"]
LOG = ["--input", "log/*.parquet", "--user-column", "user", "--sessions", "at, 30min"]
ALL = ["--by-row", "--rows-per-user", "32"]
SURE = ["--epsilon", "700", "--output", "out"]
PLAN = """\
collection: visits
version: 1
unit: user
user_column: user
input: log/*.parquet
output: releases/{window}
epsilon: 700
metrics:
  - {name: sessions, kind: count, sessions: "at,30min", by_row: true, rows_per_user: 32}
  - {name: events, kind: count, by_row: true, rows_per_user: 48}
  - {name: long, kind: count, sessions: "at,30min", by_row: true, rows_per_user: 32,
     derive: {minutes: session_seconds / 60}, where: minutes > 15}
"""


@pytest.fixture
def rows(workspace: Path) -> list[dict[str, Any]]:
    """A log in two files and several row groups, among which rows of a user are divided."""
    rng = np.random.default_rng(3)
    made = []
    for _ in range(4000):
        lacks = rng.random(2) < 0.03
        at = START + timedelta(seconds=60 * int(rng.integers(2880)))
        made.append({
            "user": None if lacks[0] else f"u{rng.integers(200)}",
            "at": None if lacks[1] else at,
            "page": PAGES[rng.integers(3)],
        })  # fmt: skip
    # No two rows of a user at one moment, so that it is clear which one is the first.
    made = [*{(row["user"], row["at"]) if row["user"] else id(row): row for row in made}.values()]
    Path("log").mkdir()
    for place in range(2):
        table = pa.Table.from_pylist(made[place::2])
        pq.write_table(table, f"log/{place}.parquet", row_group_size=300)
    return made


def estimates(table: pa.Table) -> list[Any]:
    found: list[Any] = table["estimate"].to_pylist()
    return found


def test_a_session_counts_where_it_began(rows: list[dict[str, Any]], run) -> None:
    """By the page of its first row, and by its number."""
    truth = oracle.sessions(rows, GAP)
    assert 1.2 < len(rows) / len(truth) < 3  # so that gaps matter
    own = ["--column", "page", "--domain", "pages.txt", "--undeclared", "drop"]
    Path("pages.txt").write_text("\n".join(PAGES) + "\n")
    outcome = run(["count", *LOG, *ALL, *own, *SURE])
    assert outcome.code == 0, outcome.said
    by_page = Counter(row["page"] for row in truth)
    assert estimates(pq.read_table("out/count.parquet")) == [by_page[page] for page in PAGES]


def test_groups_that_nobody_declared_are_of_sessions(rows: list[dict[str, Any]], run) -> None:
    outcome = run(["count", *LOG, *ALL, "--group-by", "session", *SURE])
    assert outcome.code == 0, outcome.said
    made = pq.read_table("out/count.parquet").to_pylist()
    truth = Counter(row["session"] for row in oracle.sessions(rows, GAP))
    assert {
        int(row["group"] or row["value"]): row["estimate"] for row in made
    }.items() <= truth.items()
    assert len(made) > 10


@pytest.mark.parametrize(
    ("column", "most"), [("session_rows", 20), ("session_seconds", 9000), ("sessions", 30)]
)
def test_sums_are_of_their_numbers(rows: list[dict[str, Any]], column: str, most: int, run) -> None:
    truth = sum(row[column] for row in oracle.sessions(rows, GAP))
    own = ["--column", column, "--bounds", f"0,{most}", "--expected", "200"]
    outcome = run(["sum", *LOG, *ALL, *own, *SURE])
    assert outcome.code == 0, outcome.said
    (row,) = pq.read_table("out/sum.parquet").to_pylist()
    assert abs(row["estimate"] - truth) <= reach(row["standard_error"])
    assert row["standard_error"] < 0.003 * truth


def test_sessions_per_user_are_those_of_their_first(rows: list[dict[str, Any]], run) -> None:
    own = ["--column", "sessions", "--domain", "1..40", "--where", "session == 1"]
    outcome = run(["count", *LOG, *own, *SURE])
    assert outcome.code == 0, outcome.said
    truth = Counter(r["sessions"] for r in oracle.sessions(rows, GAP) if r["session"] == 1)
    found = estimates(pq.read_table("out/count.parquet"))
    assert found == [truth[number] for number in range(1, 41)] + [0]
    assert sum(found) == len({row["user"] for row in rows if row["user"] and row["at"]})


def test_a_user_counts_by_as_many_sessions_as_was_said(rows: list[dict[str, Any]], run) -> None:
    """The price is of two: so however many a user has, no more count."""
    outcome = run(["count", *LOG, "--by-row", "--rows-per-user", "2", *SURE])
    assert outcome.code == 0, outcome.said
    many = Counter(row["user"] for row in oracle.sessions(rows, GAP))
    said = json.loads(Path("out/statement.json").read_text())
    assert said["title"] == "sessions"
    assert "The figures count sessions: 2 of a user at the most" in " ".join(said["in_words"])
    (found,) = estimates(pq.read_table("out/count.parquet"))
    assert found == sum(min(2, number) for number in many.values()) < sum(many.values())


@pytest.mark.verify
def test_metrics_of_a_plan_are_of_sessions_or_of_rows(rows: list[dict[str, Any]], run) -> None:
    Path("plan.yaml").write_text(PLAN)
    outcome = run(["run", "plan.yaml", "--window", "w"])
    assert outcome.code == 0, outcome.said
    truth = oracle.sessions(rows, GAP)
    known = [row for row in rows if row["user"]]  # without a time they are no session, but a row
    long = sum(row["session_seconds"] > 900 for row in truth)
    for name, expected in (("sessions", len(truth)), ("events", len(known)), ("long", long)):
        (found,) = estimates(read_own(f"releases/w/{name}", "count.parquet"))
        assert abs(found - expected) <= 4  # of a third of epsilon: farther once in 10^8
    said = json.loads(Path("releases/w/sessions/statement.json").read_text())
    assert said["request"]["sessions"] == "at,30min"


@pytest.mark.verify
def test_functions_and_steps_of_beam_say_the_same(rows: list[dict[str, Any]]) -> None:
    asked: dict[str, Any] = {"epsilon": 700, "sessions": "at,30min", "by_row": True}
    asked |= {"rows_per_user": 32}
    truth = len(oracle.sessions(rows, GAP))
    with pytest.warns(Caution, match="promises next to nothing"):
        release = hushbeam.count(pa.Table.from_pylist(rows), user_column="user", **asked)
    assert estimates(release.tables["count"]) == [truth]
    kinds = {"user": str, "at": pa.timestamp("us"), "page": str}
    with beam.Pipeline() as pipeline:
        step = private.Statistics("count", user="user", types=kinds, **asked)
        lines = pipeline | beam.Create(rows, reshuffle=False) | step | beam.Map(_estimate)
        lines | beam.io.WriteToText("beam", num_shards=1, shard_name_template="")
    assert Path("beam").read_text().split() == [f"{truth}"]


def _estimate(row: Any) -> str:
    return f"{row.estimate:.0f}"


def test_a_session_follows_from_rows_of_its_user_alone() -> None:
    """Among others, and alone, a user's sessions are the same: so a user's part is its own."""
    rng = np.random.default_rng(8)
    n = 5000
    rows = pa.table({
        "at": pa.array(rng.integers(0, 86_400, n), pa.timestamp("s")),
        "user": rng.integers(0, 300, n),
    })  # fmt: skip
    users = rows["user"].to_numpy()
    cut = Sessions("at", 600.0)
    every = cut.of(rows, users.astype(np.uint64))
    for user in range(0, 300, 29):
        mine = cut.of(
            rows.filter(pa.array(users == user)), np.zeros((users == user).sum(), np.uint64)
        )
        theirs = every.filter(pa.array(every["user"].to_numpy() == user))
        columns = ["at", *Sessions.fields.names]
        assert mine.select(columns).to_pylist() == theirs.select(columns).to_pylist()


def test_nobody_has_no_session() -> None:
    none = pa.table({"at": pa.array([], pa.timestamp("s"))})
    made = Sessions("at", 60.0).of(none, np.empty(0, np.uint64))
    assert (made.num_rows, made.column_names) == (0, ["at", *Sessions.fields.names])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["count", "--sessions", "at"], "--sessions: a column and a span are needed: at,30min"),
        (["count", "--sessions", "at,soon"], "--sessions: a column and a span are needed"),
        (["count", "--sessions", "page,1h"], "--sessions: 'page' holds string; moments are needed"),
        (["count", "--sessions", "when,1h"], "--sessions: log/0.parquet has no column 'when'"),
        (["count", "--drawn-by", "shuffler"], "--sessions: only the job's own noise serves it"),
        (["count", "--drawn-by", "devices", "--enrolled", "400"], "only the job's own noise"),
        (
            ["mean", "--column", "session_rows", "--bounds", "0,9", "--drawn-by", "each-report"],
            "--sessions: only the job's own noise serves it",
        ),
        (["count", "--horizon", "9", "--window", "w", "--user-windows", "1"], "do not serve it"),
        (["count", "--where", "sessionn > 1"], "did you mean session?"),
    ],
)
def test_what_has_no_sessions_is_refused(words: list[str], why: str, rows: Any, run) -> None:
    log = LOG[:-2] if "--sessions" in words else LOG
    outcome = run([words[0], *log, *words[1:], *SURE])
    assert (outcome.code, why in outcome.said.replace("\n", " ")) == (2, True), outcome.said
    assert not Path("out").exists()


def test_rows_without_users_have_no_sessions(rows: Any, run) -> None:
    outcome = run(["count", "--input", "log/*.parquet", "--sessions", "at,1h", *SURE])
    assert (outcome.code, "--sessions: are of users" in outcome.said) == (2, True)


def test_a_column_of_that_name_is_refused(rows: list[dict[str, Any]], run) -> None:
    table = pa.Table.from_pylist([row | {"session": 1} for row in rows])
    for place in range(2):
        pq.write_table(table, f"log/{place}.parquet")
    outcome = run(["count", *LOG, *SURE])
    assert (outcome.code, "there is a column 'session': rename it" in outcome.said) == (2, True)
