"""A path of a plan means one place, wherever the command is typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import RequestError
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.reservation import Reservation
from pipelines.plan.loading import load
from pipelines.storage.paths import beside, folder_of
from tests.fakes.ledgers import begun_by

PLAN = """\
collection: trips
version: 1
input: logs/*.parquet
output: out
ledger: ledger.sqlite
budget: {epsilon: 1.0, delta: 0}
epsilon: 0.9
model: local
metrics:
  - {name: city, kind: histogram, column: city, domain: lists/cities.txt, mechanism: grr}
"""


@pytest.mark.parametrize(
    ("folder", "path", "where"),
    [
        ("/plans", "out/{window}", "/plans/out/{window}"),
        ("/plans", "./a//b/../*.parquet", "/plans/a/*.parquet"),
        ("/plans", "/elsewhere/x", "/elsewhere/x"),
        ("/plans", "gs://bucket//x/..hidden", "gs://bucket//x/..hidden"),
        ("gs://bucket/plans", "out", "gs://bucket/plans/out"),
        ("gs://bucket/plans", "../out/", "gs://bucket/out"),
        ("gs://bucket/plans", "..hidden", "gs://bucket/plans/..hidden"),
        ("gs://bucket", "out", "gs://bucket/out"),
        ("gs://bucket/plans", "gs://other/out", "gs://other/out"),
        ("gs://bucket/plans", "/mnt/x", "/mnt/x"),
    ],
)
def test_where_a_path_leads(folder: str, path: str, where: str) -> None:
    assert beside(folder, path) == where


@pytest.mark.parametrize("path", ["../../x", "../.."])
def test_no_path_leaves_its_bucket(path: str) -> None:
    with pytest.raises(ValueError, match="leaves the bucket"):
        beside("gs://bucket/plans", path)


def test_a_file_is_in_a_folder(workspace: Path) -> None:
    assert folder_of("plan.yaml") == folder_of("./plan.yaml") == str(workspace)
    assert folder_of("gs://bucket/plan.yaml") == "gs://bucket"


@pytest.fixture
def plan(workspace: Path) -> Path:
    """A plan with all that it names beside it; commands are typed one folder up."""
    home = workspace / "home"
    (home / "logs").mkdir(parents=True)
    (home / "lists").mkdir()
    pq.write_table(pa.table({"city": np.array(["a", "b"] * 300)}), home / "logs/day.parquet")
    (home / "lists/cities.txt").write_text("a\nb\n")
    (home / "plan.yaml").write_text(PLAN)
    return home / "plan.yaml"


def test_a_plan_is_the_same_from_everywhere(run, plan: Path, monkeypatch) -> None:
    begun_by("home/plan.yaml")
    assert run(["run", "home/plan.yaml"]).code == 0
    assert (plan.parent / "out/statement.json").exists()
    (entry,) = CollectionLedger.open(str(plan.parent / "ledger.sqlite")).entries()
    assert entry.output == str(plan.parent / "out")
    for folder in (plan.parent, plan.parent / "logs", Path("/")):
        monkeypatch.chdir(folder)
        again = run(["run", str(plan)])
        assert (again.code, again.out) == (
            0,
            f"released before, and not made again: {entry.output}\n",
        )
    assert len(CollectionLedger.open(str(plan.parent / "ledger.sqlite")).entries()) == 1


def test_a_refund_is_refused_from_another_folder(run, plan: Path, monkeypatch) -> None:
    """The run died between publishing and committing; 0.9 of 1 must stay spent."""
    begun_by("home/plan.yaml")
    with monkeypatch.context() as patch:
        patch.setattr(Reservation, "commit", lambda *_: None)
        patch.setattr(Reservation, "close", lambda _: None)
        assert run(["run", "home/plan.yaml"]).code == 0
    ledger = str(plan.parent / "ledger.sqlite")
    (entry,) = CollectionLedger.open(ledger).entries()
    assert entry.state == "reserved"
    for folder in (Path("/"), plan.parent / "logs"):
        monkeypatch.chdir(folder)
        refused = run(["ledger", "settle", entry.id, "--not-run", "--ledger", ledger])
        assert (refused.code, "its release stands in" in refused.err) == (2, True)
    shown = json.loads(run(["ledger", "explain", "--json", "--ledger", ledger]).out)
    assert shown[0]["total"]["epsilon"] == 0.9


def test_a_ledger_where_the_command_is_typed_is_not_forgotten(run, plan: Path) -> None:
    """An earlier version kept it there: a new one beside the plan would have a full budget."""
    Path("ledger.sqlite").write_bytes(b"spent")
    refused = run(["run", "home/plan.yaml"])
    assert refused.code == 2
    assert "line 5: ledger: a plan's paths are relative to the plan's file" in refused.err
    assert str(Path("ledger.sqlite").absolute()) in refused.err
    assert not (plan.parent / "ledger.sqlite").exists()
    (plan.parent / "ledger.sqlite").symlink_to(Path("/nowhere"))
    with pytest.raises(RequestError, match=": cannot be used"):
        CollectionLedger.open(load(str(plan)).ledger)
    refused = run(["ledger", "init", "home/plan.yaml"])
    assert refused.code == 2
    assert (plan.parent / "ledger.sqlite").is_symlink()


def test_a_linked_plan_does_not_begin_another_ledger(plan: Path) -> None:
    Path("linked.yaml").symlink_to(plan)
    with pytest.raises(RequestError, match="a ledger beside it could be one of two"):
        load("linked.yaml")
    plan.write_text(PLAN.replace("ledger: ledger", f"ledger: {plan.parent}/ledger"))
    assert load("linked.yaml").ledger == str(plan.parent / "ledger.sqlite")


def test_a_folder_that_reads_as_a_pattern_is_refused(plan: Path) -> None:
    """Rows of the folder a1 would be published for those of a[1]."""
    odd = plan.parent / "a[1]"
    odd.mkdir()
    (odd / "plan.yaml").write_text(PLAN)
    with pytest.raises(RequestError, match="it would be taken for a pattern"):
        load(str(odd / "plan.yaml"))
