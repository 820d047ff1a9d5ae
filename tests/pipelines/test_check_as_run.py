"""`check` refuses what `run` refuses for the plan or its files' columns, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import RequestError
from pipelines.plan.check import summary
from pipelines.plan.job import open_job
from pipelines.plan.loading import load
from pipelines.stream.windows import streamed

HEAD = "collection: c\nversion: 1\nepsilon: 2\ndelta: 1e-6\nmin_reports: 500\noutput: out\n"
TYPES = "types: {x: float, k: int, t: timestamp}\n"
USERS = "unit: user\nuser_column: {}\n"

# name -> (the metric, what else the plan says, whether it is a plan)
PLANS = {
    "as it should be": ('mean, column: x, bounds: "0,2"', "", True),
    "a glob of columns": ('vector-mean, number: ["x*=0,2"]', "", True),
    "bounds of times": ('mean, column: t, bounds: "2026-11-20,2026-11-21"', "", True),
    "derived": ("histogram, column: low, domain: d.txt", "derive: {low: lower(c)}\n", True),
    "users": ("count", USERS.format("user"), True),
    "a batch that will not come": ('mean, column: x, bounds: "0,2", min_reports: 5000', "", True),
    "no such column": ('mean, column: zz, bounds: "0,2"', "", False),
    "the mean of a text": ('mean, column: c, bounds: "0,2"', "", False),
    "the distribution of a text": ('distribution, column: c, bounds: "0,2"', "", False),
    "the sum of a text": ('sum, column: c, bounds: "0,2"', "", False),
    "a vector of texts": ('vector-mean, number: ["c=0,2"]', "", False),
    "a glob of no column": ('vector-mean, number: ["z*=0,2"]', "", False),
    "texts of a float": ("histogram, column: x, domain: d.txt", "", False),
    "a range of texts": ("histogram, column: c, domain: 0..5", "", False),
    "counted texts of a float": ("count, column: x, domain: d.txt", "", False),
    "groups of a float": ('mean, column: x, bounds: "0,2", group_by: x, groups: d.txt', "", False),
    "strings of a float": ("strings, search: levels, column: x", "", False),
    "users by a float": ("count", USERS.format("x"), False),
    "of an unknown column": ("count", "derive: {a: zz + 1}\n", False),
    "of another kind": ("count", "derive: {a: c + 1}\n", False),
    "of a name that is taken": ("count", "derive: {x: k + 1}\n", False),
    "where a number": ("count", "where: x + 1\n", False),
    "no such domain": ("histogram, column: c, domain: nope.txt", "", False),
    "a domain with a blank": ("histogram, column: c, domain: blank.txt", "", False),
    "times between numbers": ('mean, column: t, bounds: "0,2"', "", False),
    "numbers between times": ('mean, column: x, bounds: "2026-11-20,2026-11-21"', "", False),
    "filled with what is not": ("histogram, column: c, domain: d.txt, unusable: fill=z", "", False),
}


def _refuses(look: Callable[[], object]) -> bool:
    try:
        look()
    except RequestError:
        return True
    return False


@pytest.fixture
def logs(workspace: Path) -> Path:
    columns = {"user": ["a", "b"] * 600, "x": [1.5] * 1200, "k": [1] * 1200, "c": ["p"] * 1200}
    times = pa.array([1_795_132_800_000_000] * 1200, pa.timestamp("us"))
    pq.write_table(pa.table(columns | {"t": times}), "log.parquet")
    rows = "a,1.5,1,p,2026-11-20T00:00\n" * 1200
    Path("log.csv").write_text("user,x,k,c,t\n" + rows)
    Path("d.txt").write_text("p\nq\n")
    Path("blank.txt").write_text("p\n\n")
    return workspace


@pytest.mark.parametrize("file", ["log.parquet", "log.csv"])
@pytest.mark.parametrize("name", PLANS)
def test_check_says_what_run_would(logs: Path, name: str, file: str) -> None:
    metric, more, whole = PLANS[name]
    types = TYPES if file.endswith("csv") else ""
    text = f"{HEAD}input: {file}\n{types}{more}metrics:\n  - {{name: m, kind: {metric}}}\n"
    Path("plan.yaml").write_text(text)
    assert _refuses(lambda: summary("plan.yaml")) is not whole
    assert _refuses(lambda: open_job(load("plan.yaml"), "all")) is not whole


def test_files_may_come_later_and_are_what_their_names_say(logs: Path, run) -> None:
    plan = f"{HEAD}input: {{}}\nmetrics:\n  - {{{{name: m, kind: count}}}}\n"
    Path("plan.yaml").write_text(plan.format("later.parquet"))
    assert run(["check", "plan.yaml"]).code == 0
    assert run(["check", "--look", "plan.yaml"]).code == 2
    Path("plan.yaml").write_text(plan.format("d.txt"))
    assert run(["check", "plan.yaml"]).code == 2


def test_check_reads_no_row(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metric, more, _ = PLANS["as it should be"]
    text = f"{HEAD}input: log.csv\n{TYPES}metrics:\n  - {{name: m, kind: {metric}}}\n"
    Path("plan.yaml").write_text(text + more)

    def read(*of: object) -> None:
        raise AssertionError

    monkeypatch.setattr("transforms.files.csv.Csv.tables", read)
    assert summary("plan.yaml")["refused"] is None


STREAM = (
    "collection: c\nversion: 1\nepsilon: 2\ndelta: 1e-6\nunit: user per window\n"
    "user_column: user\ninput: logs/*.csv\noutput: out/{window}\n"
    "stream: {time: t, window: 1h, state: state}\nmetrics:\n  - {name: m, kind: count}\n"
)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, "stream.first is missing"),
        ({"window: 1h": "window: 1h, first: 2026-11-20T1300"}, ""),
        ({"window: 1h": "window: 1h, first: 2026-11-20T1300", "/{window}": ""}, "output is wrong"),
    ],
)
def test_check_says_what_a_stream_would(
    logs: Path, run, change: dict[str, str], refused: str
) -> None:
    text = STREAM
    for old, new in change.items():
        text = text.replace(old, new)
    Path("plan.yaml").write_text(text)
    done = run(["check", "plan.yaml"])
    assert _refuses(lambda: streamed(load("plan.yaml"))) is bool(refused)
    assert done.code == (2 if refused else 0)
    assert refused in done.err
    assert refused or "per user per window, presence hidden" in done.out
