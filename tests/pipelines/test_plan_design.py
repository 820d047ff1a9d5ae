"""A plan that another planner resolves otherwise: found out, and never randomised a second time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mechanisms.planner import AUTO
from mechanisms.planner.search import Design, search
from pipelines.ledger.ledger import CollectionLedger
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import unread_job
from pipelines.plan.metrics import mark, mark_of_design, mark_of_reports
from pipelines.plan.split import split
from pipelines.stream.windows import streamed
from tests.fakes.few import few
from tests.fakes.ledgers import begun_by

Choice = Callable[[str], None]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Choice:
    """Lets the planner of histograms choose a system where it is left to choose."""

    def choose(system: str) -> None:
        def chosen(target: Any, name: str = AUTO) -> Design[Any]:
            return search(target, system if name == AUTO else name)

        monkeypatch.setattr("mechanisms.planner.search.search", chosen)

    return choose


def plan(*metrics: dict[str, Any], **more: Any) -> PlanDocument:
    """A plan of some metrics; each is named after its place."""
    asked: dict[str, Any] = {
        "collection": "trips", "version": 1, "input": "{window}.parquet", "output": "out/{window}",
        "epsilon": 12.0, "model": "local", "min_reports": 1000,
    }  # fmt: skip
    named = [{"name": f"m{k}", **metric} for k, metric in enumerate(metrics)]
    return PlanDocument(**(asked | more), metrics=named)


CITY = {"kind": "histogram", "column": "city", "domain": "1..9"}
FARE = {"kind": "mean", "column": "fare", "bounds": "0,60"}
KINDS = [
    CITY,
    {**CITY, "mechanism": "treehist"},
    {**CITY, "drawn_by": "job"},
    {**CITY, "model": "shuffle", "mechanism": "poisson", "max_messages": 1000},
    {"kind": "strings", "search": "levels", "column": "city", "max_length": 4},
    FARE,
    {**FARE, "group_by": "city", "groups": "1..5"},
    {**FARE, "group_by": "city", "groups": "1..5", "groups_public": True},
    {"kind": "distribution", "column": "fare", "bounds": "0,60"},
    {"kind": "vector-mean", "number": ["fare=0,60", "miles=0,9"]},
    {"kind": "vector-mean", "number": ["fare=0,60"], "category": ["city=1..5"]},
]


@pytest.mark.parametrize("metric", KINDS, ids=lambda metric: "-".join(map(str, metric.values())))
def test_every_kind_has_a_design_that_is_the_same_in_all_windows(metric: dict[str, Any]) -> None:
    asked = plan({key: value for key, value in metric.items() if value is not None})
    one, again, other = (unread_job(asked, day).metrics for day in ("monday", "monday", "tuesday"))
    assert mark_of_design(asked, "monday", one) == mark_of_design(asked, "monday", again)
    assert mark_of_design(asked, "monday", one) == mark_of_design(asked, "tuesday", other)
    marks = {mark_of_reports(asked, day, one) for day in ("monday", "tuesday")}
    assert len(marks) == 2
    assert mark_of_design(asked, "monday", one) != mark(asked)


def test_reports_of_another_mechanism_carry_another_fingerprint(choose: Choice) -> None:
    asked = plan(CITY, FARE, stream={"window": "1d", "state": "state"})
    before = split(asked, "monday"), streamed(asked)
    choose("hadamard")
    after = split(asked, "monday"), streamed(asked)
    for one, other in zip(before, after, strict=True):
        assert one.fingerprint != other.fingerprint
    # The window stays the same window, and the other metric's permanent noise stays its own.
    assert mark(before[0].job.plan) == mark(after[0].job.plan)
    assert before[0].noise_fingerprint(0) != after[0].noise_fingerprint(0)
    assert before[0].noise_fingerprint(1) == after[0].noise_fingerprint(1)


def test_what_is_named_in_the_plan_is_no_planners_choice(choose: Choice) -> None:
    asked = plan({**CITY, "mechanism": "oue"}, FARE)
    before = mark_of_design(asked, "monday", unread_job(asked, "monday").metrics)
    choose("hadamard")
    assert mark_of_design(asked, "monday", unread_job(asked, "monday").metrics) == before


@pytest.mark.parametrize(
    "more",
    few(["ledger: ledger.sqlite\nbudget: {epsilon: 9, delta: 1.0e-4}\n", ""], lambda _: "a plan"),
)
def test_the_same_window_is_not_randomised_again_by_another_planner(
    run, log, domain, choose: Choice, more: str
) -> None:
    Path("plan.yaml").write_text(
        f"collection: trips\nversion: 1\ninput: {log}\noutput: out\nepsilon: 2\nmodel: local\n"
        f"min_reports: 100\n{more}metrics:\n"
        f"  - {{name: value, kind: histogram, column: value, domain: {domain}}}\n"
    )
    if more:
        begun_by("plan.yaml")
    choose("grr")
    assert run(["run", "plan.yaml"]).code == 0
    statement = Path("out/statement.json").read_bytes()
    choose("hadamard")
    outcome = run(["run", "plan.yaml"])
    assert (outcome.code, outcome.err) == (0, "")
    assert f"released before, and not made again: {Path('out').absolute()}\n" in outcome.out
    assert Path("out/statement.json").read_bytes() == statement
    design = json.loads(statement)["plan"]["design"]
    if more:  # what it was is kept
        (entry,) = CollectionLedger.open("ledger.sqlite").entries()
        assert entry.design == design
    checked = run(["check", "plan.yaml"]).out
    assert "resolved to design " in checked
    assert design not in checked
    choose("grr")
    assert f"resolved to design {design}: " in run(["check", "plan.yaml"]).out
