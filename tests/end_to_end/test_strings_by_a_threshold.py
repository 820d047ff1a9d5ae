"""`hushbeam strings`: what enough users hold is found, and nothing else is in any of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.test_counting_release import without_time
from tests.end_to_end.test_release_contract import losing
from tests.fakes import canaries
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.pages import Page, require_alone
from tests.oracles.releases import Release, require_nobody, require_numbers, require_whole
from transforms.rows.encode import EncodeDoFn
from transforms.shuffle.crowds import PartitionStringsDoFn, PublishCrowdsDoFn
from transforms.units.contributions import ChooseDoFn

TABLE = "strings.parquet"
FAR = 8  # standard errors: noise of a crowd goes no farther than its threshold, of seven users
SHOWN = {*canaries.DECLARED, "CANARY-STRAY"}  # 15 users hold the last one
PLAN = """\
collection: unknown
version: 1
unit: user
user_column: user
input: {log}
output: out
epsilon: 2.0
delta: 1.0e-6
ledger: ledger.sqlite
budget: {{epsilon: 2.0, delta: 1.0e-6}}
metrics:
  - {{name: unknown, kind: strings, search: threshold, column: value, rows_per_user: 4}}
  - {{name: users, kind: count, drawn_by: shuffler}}
"""


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    """The same noise in every run: that it has its law is seen elsewhere, over many draws."""
    with fixed_randomness():
        yield


def words(log: str, **changes: object) -> list[str]:
    asked = {
        "input": log, "column": "value", "user_column": "user", "epsilon": 2.0, "output": "out",
    }  # fmt: skip
    return canaries.words("strings", asked | changes, joined=True)


def holders() -> dict[str, int]:
    """How many users hold each string of the log of canaries."""
    held: dict[str, set[str]] = {}
    for row in canaries.table().to_pylist():
        if None not in (row["value"], row["user"]):
            held.setdefault(row["value"], set()).add(row["user"])
    return {value: len(users) for value, users in held.items()}


def test_a_release_is_whole_true_and_of_nobody(run, log: str) -> None:
    outcome = run(words(log, rows_per_user=4), loud=True)
    assert outcome.code == 0, outcome.said
    release = Release(Path("out"))
    require_whole(release, [TABLE])
    require_nobody(release, str(Path(log).parent))
    require_numbers(release)
    require_alone(release.read("report.html"))
    rows, true = release.table(TABLE).to_pylist(), holders()
    assert true.keys() == SHOWN
    assert {row["value"] for row in rows} <= SHOWN
    assert {*canaries.DECLARED} <= {row["value"] for row in rows}
    for row in rows:
        assert abs(row["estimate"] - true[row["value"]]) < FAR * row["standard_error"]
        assert row["lower_simultaneous"] <= row["lower"] <= row["estimate"]
        assert row["estimate"] <= row["upper"] <= row["upper_simultaneous"]
    statement = release.statement
    assert all(row["estimate"] > statement["search"]["threshold"] for row in rows)
    assert statement["search"]["strings"] == len(rows)
    said = statement["guarantees"]["release"]
    assert (said["model"], said["epsilon"], said["neighbours"]) == ("central", 2, "add or remove")
    assert "composed and rounded up" in said["how"]
    assert statement["published_exactly"] == "nothing"
    visible = " ".join(" ".join(Page(release.read("report.html")).text).split())
    assert all(" ".join(text.split()) in visible for text in statement["in_words"])
    assert "given that it is here its number is rather too large" in visible
    assert not canaries.found(outcome.err + outcome.log)


def test_what_one_user_holds_is_nowhere(run, log: str) -> None:
    """Each user's own name, 494 of them, and a line for that nothing passed."""
    outcome = run(words(log, column="user"), loud=True)
    assert outcome.code == 0, outcome.said
    release = Release(Path("out"))
    assert len(release.table(TABLE)) == 0
    assert "Nothing stands out of the noise." in outcome.out
    assert "rows_read" not in json.dumps(release.statement)
    assert release.statement["search"]["strings"] == 0
    kept = [path.read_bytes() for path in Path("tmp").rglob("*") if path.is_file()]
    assert not canaries.found(outcome.said + b" ".join(kept).decode("latin-1"))
    assert not canaries.found(release.page + json.dumps(release.statement))


def test_two_logs_that_differ_by_one_who_takes_part_look_alike(run, log: str) -> None:
    """All that is written is the same but for figures, and these by what one user contributes."""
    whole = canaries.table()
    without = canaries.write(Path("less"), whole.slice(4))  # of rows without a value
    more = canaries.write(Path("more"), whole.filter(pa.array(np.arange(len(whole)) // 4 != 100)))
    said: list[Any] = []
    for name, files in (("one", log), ("two", without), ("three", more)):
        with fixed_randomness():
            assert run(words(files, output=name, rows_per_user=4)).code == 0
        statement = json.loads(Path(name, "statement.json").read_text())
        del statement["created"], statement["release_id"]
        table = pq.ParquetFile(Path(name, TABLE)).read().drop_columns(["release_id"])
        said.append((statement, table.sort_by("value")))
    assert said[0] == said[1]
    assert (
        without_time(Path("one/report.html").read_bytes())[:500]
        == (without_time(Path("two/report.html").read_bytes())[:500])
    )
    assert said[0][0] == said[2][0]
    one, other = (table["estimate"].to_numpy() for _, table in (said[0], said[2]))
    assert said[0][1]["value"] == said[2][1]["value"]
    assert np.abs(one - other).max() <= 1 + 2 * said[0][0]["search"]["threshold"]
    assert said[0][1].schema == said[2][1].schema


def test_a_user_counts_once_for_a_string_whatever_its_rows(run) -> None:
    """A heavy user's own string is one of a crowd of one; what is left out is another's place."""
    users = [f"user {k}" for k in range(60)] + ["heavy"] * 5000
    values = ["common"] * 60 + ["heavy"] * 5000
    log = canaries.write(Path("log"), pa.table({"value": values, "user": users}), 2, 1000)
    assert run(words(log, confidence=0.9)).code == 0
    [row] = Release(Path("out")).table(TABLE).to_pylist()
    assert (row["value"], row["whole"]) == ("common", True)
    assert abs(row["estimate"] - 60) < FAR * row["standard_error"]


def test_strings_are_cut_where_that_is_asked_and_shown_as_text(run) -> None:
    evil = "<b>\x1b[m $n"
    values = [evil] * 60 + ["[red]x"] * 60 + ["日本語" * 9] * 60
    log = canaries.write(Path("log"), pa.table({"value": values}), 1, 100)
    asked = {"user_column": None, "max_length": 11, "where": "value != '[red]x'"}
    outcome = run(words(log, **asked))
    assert outcome.code == 0, outcome.said
    table = Release(Path("out")).table(TABLE)
    whole = dict(zip(table["value"].to_pylist(), table["whole"].to_pylist(), strict=True))
    assert whole == {evil: True, "日本語": False}
    page = Path("out/report.html").read_text("utf-8")
    assert "\x1b[m" not in outcome.out
    assert "<b>" not in page
    assert "日本語… (and longer)" in page


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"epsilon": None}, "--epsilon is missing"),
        ({"delta": 0}, "--delta must be a number greater than 0"),
        ({"column": "real"}, "--column: 'real' holds double; text is needed, or integers"),
        ({"max_length": 2000}, "--max-length must be "),
        ({"rows_per_user": 2, "user_column": None}, "--rows-per-user: where rows are protected"),
        ({"rows_per_user": 10_000, "epsilon": 1e-6}, "needs a threshold above 1,048,576 users"),
        (
            {"drawn_by": "shuffler"},
            "--drawn-by shuffler: whoever counts strings draws the noise",
        ),
    ],
)
def test_refuses(changes: dict[str, Any], complaint: str, refused, log: str) -> None:
    refused(words(log, **changes), complaint)


# ---- in plans ------------------------------------------------------------------------------------


def planned(log: str, more: str = "") -> None:
    Path("plan.yaml").write_text(PLAN.format(log=log) + more)


@pytest.mark.verify
@pytest.mark.parametrize("search", ["threshold", "weighted", "levels"])
def test_what_a_request_derives_and_leaves_out_is_seen(run, search: str) -> None:
    users = [f"u{k}" for k in range(3000)]
    table = pa.table({"user": users, "n": [k % 3 for k in range(3000)], "city": ["Oslo"] * 3000})
    pq.write_table(table, "log.parquet")
    asked = ["--derive", "where=lower(city)", "--where", "n > 0", "--search", search]
    asked += ["--column", "where", "--user-column", "user", "--epsilon", "8", "--output", "out"]
    outcome = run(["strings", "--input", "log.parquet", *asked])
    assert outcome.code == 0, outcome.said
    (row,) = pq.read_table(f"out/{TABLE}").to_pylist()
    assert row["value"] == "oslo"
    if search == "threshold":
        assert "1 string of a user counts, drawn uniformly" in outcome.said
    if search != "weighted":
        assert abs(row["estimate"] - 2000) <= max(20 * row["standard_error"], 8)


def test_a_plan_pays_for_it_once(run, log: str) -> None:
    planned(log)
    assert run(["ledger", "init", "plan.yaml"]).code == 0
    checked = run(["check", "plan.yaml"])
    assert "finds " in checked.out
    assert run(["run", "plan.yaml"]).code == 0
    said = Release(Path("out")).statement["guarantees"]["release"]
    assert (said["neighbours"], said["epsilon"] <= 2) == ("add or remove", True)
    found = pq.ParquetFile(Path("out", "unknown", TABLE)).read()
    assert {*found["value"].to_pylist()} >= {*canaries.DECLARED}
    assert "not made again" in run(["run", "plan.yaml"]).out


def test_beside_counters_three_parties_refuse_it_in_a_line(refused, log: str) -> None:
    planned(log)
    words = ["parties", "shuffle", "plan.yaml", "--input", log, "--output", "mixed"]
    refused(words, "metric users: words of counters and strings that are sealed whole")


# ---- what is lost --------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("step", [EncodeDoFn, ChooseDoFn, PartitionStringsDoFn, PublishCrowdsDoFn])
def test_a_block_that_an_engine_loses_makes_no_release(
    step: Any, run, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "finish_bundle" if step is PartitionStringsDoFn else "process"
    monkeypatch.setattr(step, name, losing(getattr(step, name)))
    outcome = run(words(log))
    assert outcome.code == 3, outcome.said
    assert "the engine has lost some, and nothing is published" in outcome.err
    assert not Path("out").exists()


@pytest.mark.verify
def test_a_million_users_strings_are_found(run) -> None:
    """The figures of docs/strings.md, from files to the table: 40 holders are enough."""
    weights = np.arange(1, 1e5 + 1) ** -1.1
    held = np.random.default_rng(5).choice(weights.size, 10**6, p=weights / weights.sum())
    names = pa.array([f"page/{k:x}" for k in range(weights.size)])
    table = pa.table({"value": names.take(pa.array(held)), "user": np.arange(held.size)})
    log = canaries.write(Path("log"), table, 2, 1 << 18)
    assert run(words(log, epsilon=1.0, delta=1e-7)).code == 0
    true = np.bincount(held, minlength=weights.size)
    found = Release(Path("out")).table(TABLE)
    places = np.array(
        [int(value.removeprefix("page/"), 16) for value in found["value"].to_pylist()]
    )
    assert places.size >= 3000
    assert (true[places] > 0).all()
    assert np.isin(np.flatnonzero(true >= 40), places).all()
