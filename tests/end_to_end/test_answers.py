"""`--json` on every command: one object on the standard output, and nothing else there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import commands
from pipelines.metrics import registry
from pipelines.releases.signature import PUBLIC, VARIABLE
from tests.end_to_end.examples import DOMAIN, RANDOMISED, Case
from tests.fakes import canaries

PLAN = """\
collection: trips
version: 1
input: LOG
output: released/{window}
epsilon: 8
model: local
min_reports: 100
metrics:
  - {name: value, kind: histogram, column: value, domain: values.txt}
  - {name: real, kind: mean, column: real, bounds: "0,300", min_reports: MOST}
"""
COUNTED = """\
collection: counted
version: 1
input: LOG
output: counted/{window}
user_column: user
unit: user
epsilon: 8
delta: 1e-6
metrics:
  - {name: rows, kind: count}
"""
STREAM = PLAN.replace("released/", "streamed/").replace("epsilon", "stream: {window: 1d, "
    "state: state, time: moment}\nepsilon", 1).replace("LOG", "landed/*.parquet")  # fmt: skip
LEDGER = ["--ledger", "ledger.sqlite"]
WINDOW = ["--window", "w"]
RUN, SENT = ["run", "plan.yaml", *WINDOW], ["sent.bin"]
CLIENT = ["parties", "client", "plan.yaml", *WINDOW, "--input", "LOG", "--output", *SENT]
SHUFFLE = ["parties", "shuffle", "plan.yaml", *WINDOW, "--input", *SENT, "--output", "mixed"]
COLLECT = ["parties", "collect", "plan.yaml", *WINDOW]

# What is asked last is asked with --json.
COUNTING = {
    "count": [["count", "--input", "LOG", "--epsilon", "8", "--output", "out"]],
    "sum": [["sum", "--input", "LOG", "--column", "number", "--bounds=-3,3", "--whole-numbers",
             "--epsilon", "8", "--output", "out"]],
    "variance": [["variance", "--input", "LOG", "--column", "number", "--bounds=-3,3",
                  "--epsilon", "8", "--output", "out"]],
    "ratio": [["ratio", "--input", "LOG", "--column", "number", "--bounds=-3,3",
               "--epsilon", "8", "--output", "out"]],
    "active-users": [["active-users", "--input", "LOG", "--user-column", "user", "--time", "moment",
                      "--day", "2026-11-21", "--epsilon", "8", "--output", "out"]],
    "funnel": [["funnel", "--input", "LOG", "--user-column", "user", "--time", "moment", "--steps",
                "came=number > -9", "--epsilon", "8", "--output", "out"]],
    "cross-tab": [["cross-tab", "--input", "LOG", "--columns", "number", "--epsilon", "8",
                   "--domains", "number=-3..3", "--output", "out"]],
    "experiment": [["experiment", "--input", "LOG", "--arm", "flag", "--arms", "true,false",
                    "--rate", "number", "--epsilon", "8", "--output", "out"]],
    "strings by a threshold": [["strings", "--input", "LOG", "--column", "number",
                                "--epsilon", "8", "--output", "out"]],
}  # fmt: skip
TOTAL = ["count", "--window", "w", "--horizon", "9", "--epsilon", "8", "--output", "out",
         "--secret", "secret"]  # fmt: skip
CHEAP: dict[str, list[list[str]]] = {
    "init": [["init", "LOG"]],
    "check": [["check", "plan.yaml"]],
    "look": [["look", "LOG"]],
    "ledger": [["ledger", "init", *LEDGER, "--population", "riders", "--budget", "2"]],
    "size": [["size", "--epsilon", "1", "--reports", "1e5", "--domain-size", "20"]],
    "audit": [["audit", "grr", "--epsilon", "1", "--domain-size", "4", "--shuffle", "1000"]],
    "parties keys": [["parties", "keys", "new", "keys"]],
    "completion": [["completion", "bash"]],
}
SLOW: dict[str, list[list[str]]] = {
    "train": [["train", "--input", "LOG", "--number", "real=0,300", "--target", "number=-3,3",
               "--epsilon", "8", "--expected", "2000", "--output", "out"]],
    "ask": [["ask", "session", "--epsilon", "1"],
            ["ask", "session", "count", "--share", "rest", "--input", "LOG"]],
    "run": [RUN],
    "query": [["query", "SELECT COUNT(*) AS n FROM rides", "--input", "LOG", "--epsilon", "8",
               "--output", "out"]],
    "stream": [["stream", "stream.yaml", "--drain"]],
    "evaluate": [["evaluate", "histogram", "--systems", "grr", "--data", "zipf:60000,20,1",
                  "--epsilons", "1", "--repetitions", "1", "--jobs", "1", "--output", "out"]],
    "site": [RUN, ["site", "released", "--output", "site"]],
    "verify": [RUN, ["verify", "released/w", "--key", f"{os.environ[VARIABLE]}{PUBLIC}"]],
    "watch": [RUN, ["watch", "released"]],
    "compare": [RUN, [*RUN[:-1], "v"], ["compare", "released/w", "released/v"]],
    "export": [RUN, ["export", "released", "--output", "all.csv"]],
    "synthetic": [*COUNTING["cross-tab"], ["synthetic", "out", "--output", "made.csv"]],
    "parties client": [CLIENT],
    "parties shuffle": [CLIENT, SHUFFLE],
    "parties collect": [CLIENT, SHUFFLE, [*COLLECT, "--input", "mixed"]],
}  # fmt: skip
# What each tells beside its name and its exit code; `check` and `ledger` have forms of their own.
TOLD = {
    "train": {"release", "statement", "tables", "guarantees", "model", "verdict"},
    "init": {"plan"},
    "look": {"look"},
    "check": {"design", "metrics", "refused"},
    "ask": {"session", "answers", "share_left", "epsilon_left", "guarantee"},
    "run": {"release", "statement", "tables", "guarantees", "metrics", "withheld", "missing"},
    "query": {"release", "statement", "tables", "guarantees", "metrics", "withheld", "answers"},
    "stream": {"windows", "counters"},
    "ledger": {"done"},
    "size": {"rows", "best", "guarantee", "hide"},
    "audit": {"claimed", "exact", "worst_pair", "shuffled", "holds"},
    "evaluate": {"rows", "results", "refused"},
    "site": {"pages", "releases", "index"},
    "verify": {"limit", "faults", "unchecked", "findings"},
    "watch": {"watched", "alarms"},
    "compare": {"compared", "beyond_noise", "confidence", "rows", "left_out"},
    "export": {"output", "figures", "metrics", "without_figures"},
    "synthetic": {"output", "rows_statement", "rows", "distance"},
    "parties client": {"output", "reports", "rejects", "left_out"},
    "parties shuffle": {
        "output",
        "summary",
        "shuffle_id",
        "window",
        "reports",
        "dropped",
        "metrics",
    },
    "parties collect": {
        "release",
        "statement",
        "tables",
        "guarantees",
        "metrics",
        "withheld",
        "missing",
    },
    "parties keys": {"key", "public", "private"},
    "completion": {"shell", "script"},
}
METRIC = {"release", "statement", "tables", "guarantees", "release_id"}
OWN_FORM = ("check", "ledger")


@pytest.fixture(autouse=True)
def plans(workspace: Path, log: str) -> None:
    """Plans of which one metric is withheld; a log without users or moments that are unusable."""
    Path(DOMAIN).write_text("\n".join(canaries.DECLARED) + "\n")
    canaries.write(workspace / "landed", canaries.table(), files=1)
    for name, text in (("plan", PLAN), ("counted", COUNTED), ("stream", STREAM)):
        Path(f"{name}.yaml").write_text(text.replace("LOG", log).replace("MOST", "100000"))


def answered(outcome: canaries.Outcome) -> dict[str, Any]:
    """What a program reads: strictly JSON, one object, a line's end."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    assert outcome.out.endswith("}\n")
    answer = json.loads(outcome.out, parse_constant=refuse)
    assert isinstance(answer, dict)
    assert not canaries.found(outcome.out, declared=False)
    return answer


def numbers(rows: list[dict[str, Any]]) -> bool:
    """Whether what stands beside names is no text."""
    names = {"mechanism", "data", "measure", "system"}
    return all(
        isinstance(cell, int | float | None)
        for row in rows
        for name, cell in row.items()
        if name not in names
    )


def requests(log: str) -> dict[str, list[list[str]]]:
    kinds = {kind: [Case(kind, "local", "row").words(log)] for kind in RANDOMISED}
    return {**kinds, **COUNTING, **CHEAP, **SLOW}


def test_every_command_has_a_request_here() -> None:
    assert {*RANDOMISED, *(words[-1][0] for words in COUNTING.values())} == {*registry.names()}
    served = {"serve"}  # answers over HTTP, until it is stopped
    assert {words[-1][0] for words in requests("").values()} | served == {*commands.names()}


QUICK = {"histogram", *CHEAP}
every_command = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else pytest.mark.verify)
        for name in requests("")
    ],
)


@every_command
def test_a_program_reads_one_object(name: str, run, log: str) -> None:
    *before, last = [[log if word == "LOG" else word for word in words]
                     for words in requests(log)[name]]  # fmt: skip
    for words in before:
        assert run(words).code in (0, 1)
    outcome = run([*last, "--json"])
    answer = answered(outcome)
    assert outcome.code in (0, 1), outcome.said
    told = METRIC if last[0] in registry.names() else TOLD[name]
    assert answer.keys() >= told
    if name not in OWN_FORM:
        assert (answer["command"], answer["exit_code"]) == (last[0], outcome.code)
    assert [f"hushbeam: warning: {text}" for text in answer.get("warnings", ())] == [
        line for line in outcome.err.splitlines() if "warning: " in line
    ]
    if "statement" in answer:
        statement = json.loads(Path(answer["statement"]).read_text())
        assert answer["guarantees"] == statement["guarantees"]
        assert answer["release_id"] == statement["release_id"]
        folder = Path(answer["release"])
        assert answer["tables"] == sorted(path.name for path in folder.glob("*.parquet"))
    if name in ("size", "evaluate"):
        assert numbers(answer["rows"])


def test_a_program_reads_the_totals_of_a_window(run, log: str) -> None:
    answer = answered(run([*TOTAL, "--input", log, "--json"]))
    assert answer.keys() >= {"release", "window", "windows", "guarantee", "rows"}


@pytest.mark.parametrize("name", commands.names())
def test_a_program_reads_why_a_request_is_refused(name: str, run) -> None:
    outcome = run([name, "--json"])
    assert answered(outcome) == {
        "command": name,
        "error": outcome.err.removeprefix("hushbeam: ").rstrip("\n"),
        "exit_code": 2,
    }
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1


def test_a_program_reads_why_nothing_was_published(run, log: str) -> None:
    outcome = run([*Case("histogram", "local", "row").words(log, min_reports=9999), "--json"])
    answer = answered(outcome)
    assert (outcome.code, answer["exit_code"]) == (1, 1)
    assert answer["error"].startswith("withheld: 2,000 reports came, fewer than ")
    assert "release" not in answer


@pytest.mark.verify
def test_a_plan_is_told_metric_by_metric_and_again_when_it_stands(run, workspace: Path) -> None:
    answer = answered(run([*RUN, "--json"]))
    assert answer["withheld"] == ["real"]
    (missing,) = answer["missing"]
    assert missing["metric"] == "real"
    (metric,) = answer["metrics"].values()
    assert metric["tables"] == ["histogram.parquet"]
    assert metric["n"] == 2000
    assert Path(metric["release"]).relative_to(workspace) == Path("released/w/value")
    again = answered(run([*RUN, "--json"]))
    assert again["released_before"] is True
    same = ("release", "statement", "tables", "metrics", "withheld", "release_id", "exit_code")
    assert {name: again[name] for name in same} == {name: answer[name] for name in same}
