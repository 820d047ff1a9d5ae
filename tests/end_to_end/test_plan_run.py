"""A plan of several metrics: one reading, one release, one price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipelines.ledger.ledger import CollectionLedger
from tests.fakes import canaries
from tests.fakes.ledgers import begun_by
from transforms.rows import telemetry

pytestmark = pytest.mark.verify

PLAN = """\
collection: canaries
version: 1
unit: {unit}
{more}input: {log}
output: out/{{window}}
epsilon: 3.0
min_reports: {least}
metrics:
  - {{name: value, kind: histogram, column: value, domain: {domain}, mechanism: grr, share: 0.4}}
  - {{name: real, kind: mean, column: real, bounds: "0,300", mechanism: duchi, share: 0.3}}
  - {{name: number, kind: distribution, column: number, bounds: "-3,3", mechanism: grr{of_last}}}
"""

# Where windows and budgets are tested, and not metrics: one, which takes a moment.
SMALL = """\
collection: canaries
version: 1
unit: {unit}
{more}input: {log}
output: out/{{window}}
epsilon: 1.0
model: local
metrics:
  - {{name: value, kind: histogram, column: value, domain: {domain}, mechanism: grr}}
"""


@pytest.fixture
def small(log, domain, workspace):
    """Writes a plan of one metric, with users and a ledger; the words of its run."""

    def small(unit: str, day: str, read: str = "") -> list[str]:
        text = SMALL.format(unit=unit, more=USERS + LEDGER, log=read or log, domain=domain)
        Path("plan.yaml").write_text(text)
        begun_by("plan.yaml")
        return ["run", "plan.yaml", "--window", day]

    return small


@pytest.fixture
def plan(log, domain, workspace):
    """Writes a plan; the words of its run."""

    def plan(
        unit: str = "row", more: str = "", least: int = 1000, of_last: str = "", day: str = "d1"
    ) -> list[str]:
        text = PLAN.format(
            unit=unit, more=more, log=log, domain=domain, least=least, of_last=of_last
        )
        Path("plan.yaml").write_text(text)
        if LEDGER.partition(" ")[0] in more:
            begun_by("plan.yaml")
        return ["run", "plan.yaml", "--window", day]

    return plan


USERS = "user_column: user\n"
# Two windows of epsilon 1 fit, and three do not.
LEDGER = "ledger: ledger.sqlite\nbudget: {epsilon: 2.5, delta: 1.0e-5}\n"


def test_one_release_holds_all_metrics_and_reads_the_log_once(run, plan, monkeypatch) -> None:
    made = []

    class Counting(telemetry.ReadTelemetry):
        def __init__(self, files: tuple[str, ...], columns: tuple[str, ...], *more: Any) -> None:
            super().__init__(files, columns, *more)
            made.append(columns)

    monkeypatch.setattr(telemetry, "ReadTelemetry", Counting)
    outcome = run(plan())
    assert outcome.code == 0, outcome.said
    assert made == [("number", "real", "value")]
    folder = Path("out/d1")
    assert {path.name for path in folder.iterdir()} == {
        "signature.json", "statement.json", "report.html", "value", "real", "number",
    }  # fmt: skip
    said = json.loads((folder / "statement.json").read_text())
    assert (said["metrics"], said["withheld"]) == (["value", "real", "number"], [])
    released = said["guarantees"]["release"]
    parts = [json.loads((folder / name / "statement.json").read_text()) for name in said["metrics"]]
    own = sum(part["guarantees"]["release"]["epsilon"] for part in parts)
    assert 2.9 < released["epsilon"] <= 3.0 < own  # no delta is named: that of all three
    assert {part["release_id"] for part in parts} == {said["release_id"]}
    for part in parts:
        assert part["rows_read"] == canaries.ROWS
    page = (folder / "report.html").read_text()
    assert 'href="real/report.html"' in page
    assert len(pq.read_table(folder / "value" / "histogram.parquet")) == 4
    assert not canaries.found(outcome.said, declared=False)
    assert not list(Path().glob("out/.d1*"))


def test_a_metric_with_too_few_reports_is_withheld_alone(run, plan) -> None:
    words = plan("user", USERS + LEDGER.replace("2.5", "4.0"), 400, ", min_reports: 5000")
    outcome = run(words)
    assert outcome.code == 1, outcome.said
    said = json.loads(Path("out/d1/statement.json").read_text())
    assert (said["metrics"], said["withheld"]) == (["value", "real"], ["number"])
    assert not Path("out/d1/number").exists()
    users = (canaries.ROWS - canaries.NULL_USERS) // 4
    assert said["missing"] == {"number": {"reports": users, "min_reports": 5000}}
    few = f"withheld: {users:,} reports came, fewer than min_reports 5,000"
    assert f"{few}; {5000 - users:,} are missing" in outcome.out
    (entry,) = CollectionLedger.open("ledger.sqlite").entries()
    assert (entry.metrics, len(entry.losses)) == (("value", "real"), 2)
    again = run(words)
    assert (again.code, "released before" in again.out) == (1, True)


def test_users_are_bounded_in_every_metric(run, plan) -> None:
    outcome = run(plan("user", USERS, least=400))
    assert outcome.code == 0, outcome.said
    users = (canaries.ROWS - canaries.NULL_USERS) // 4
    for name in ("real", "number"):
        assert json.loads(Path(f"out/d1/{name}/statement.json").read_text())["n"] == users


def test_a_window_is_randomised_once(run, plan) -> None:
    words = plan()
    assert run(words).code == 0
    before = Path("out/d1/statement.json").read_bytes()
    again = run(words)
    assert again.code == 0
    assert f"released before, and not made again: {Path('out/d1').absolute()}" in again.out
    assert Path("out/d1/statement.json").read_bytes() == before
    changed = Path("plan.yaml").read_text().replace("epsilon: 3.0", "epsilon: 2.0")
    Path("plan.yaml").write_text(changed)
    other = run(words)
    assert (other.code, "already holds a release" in other.err) == (2, True)


def test_a_budget_is_not_overspent(run, small) -> None:
    """Two windows fit into the budget, a third does not: it stops before a row is read."""
    for day in ("d1", "d2"):
        assert run(small("user", day)).code == 0
    third = run(small("user", "d3"))
    assert third.code == 1, third.said
    assert "budget" in third.err
    assert not Path("out/d3").exists()
    again = run(small("user", "d2"))
    assert (again.code, "released before" in again.out) == (0, True)
    assert [entry.window for entry in CollectionLedger.open("ledger.sqlite").entries()] == [
        "d1",
        "d2",
    ]
    first, _ = CollectionLedger.open("ledger.sqlite").entries()
    stamp = json.loads(Path("out/d1/statement.json").read_text())["ledger"]
    assert (stamp["entry"], stamp["attempt"]) == (first.id, 1)
    assert stamp["changes"] == 3  # the beginning, the population, and this reservation


def test_a_window_of_which_all_is_withheld_costs_nothing(run, plan) -> None:
    """What was set aside for it comes back."""
    outcome = run(plan("user", USERS + LEDGER.replace("2.5", "4.0"), least=5000))
    assert outcome.code == 1
    assert "hushbeam: withheld: no metric had its min_reports" in outcome.err
    assert not Path("out/d1").exists()
    (entry,) = CollectionLedger.open("ledger.sqlite").entries()
    assert entry.state == "returned"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "none.yaml"], "can be read"),
        (["run", "plan.yaml"], "--window"),
        (["run", "plan.yaml", "--window", "../../etc"], "--window"),
        (["check"], "required"),
        (["run", "plan.yaml", "--window", "d1", "--rows"], "unknown option: --rows"),
    ],
)
def test_requests_that_cannot_be(run, plan, words, told) -> None:
    plan()
    outcome = run(words)
    assert outcome.code == 2
    assert told in outcome.err
    assert outcome.err.count("\n") == 1
    assert not Path("out").exists()
