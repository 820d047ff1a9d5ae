"""A draft has names and types in it, is a plan once people have finished it, and holds no value."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.plan.draft import draft
from pipelines.plan.loading import load
from tests.fakes import canaries

LOG = "user_id,home city,seconds,started,ok,n/a\n" + "".join(
    f"CANARY-USER-{k},CANARY-{k},{k}.5,2026-11-20T{k % 24:02}:30,{'true' if k % 2 else 'false'},\n"
    for k in range(50)
)


def test_types_of_text_are_guessed_and_written_down(workspace: Path) -> None:
    Path("My Log.csv").write_text(LOG.replace("7.5", "n/a"))
    text = draft(("My Log.csv",))
    assert not canaries.found(text)
    Path("plan.yaml").write_text(text)
    plan = load("plan.yaml")
    assert plan.types == ("seconds=float", "started=timestamp", "ok=bool")
    assert (plan.collection, plan.unit, plan.user_column) == ("my-log", "user", "user_id")
    assert plan.derive == ("hour_of_started=hour(`started`, 'UTC')",)
    assert [(m.name, m.kind) for m in plan.metrics] == [
        ("users", "count"), ("home-city", "strings"), ("started", "histogram"),
        ("n-a", "strings"),
    ]  # fmt: skip
    for marked in ('kind: mean, column: "seconds", bounds: [LEAST, MOST]', "truths.txt"):
        assert marked in text
    assert plan.input == (str(workspace / "My Log.csv"),)


def test_types_of_other_files_are_their_own(log: str, workspace: Path) -> None:
    text = draft((log,))
    assert "types:" not in text
    assert not canaries.found(text)
    Path("plan.yaml").write_text(text)
    assert "value" in {metric.name for metric in load("plan.yaml").metrics}


def test_a_draft_overwrites_nothing(log: str, workspace: Path, run) -> None:
    assert run(["init", log, "--output", "plan.yaml"]).code == 0
    before = Path("plan.yaml").read_text()
    outcome = run(["init", log, "--output", "plan.yaml"])
    assert (outcome.code, Path("plan.yaml").read_text()) == (2, before)
    assert "plan.yaml is there already" in outcome.err
    assert run(["init", log]).out == before


@pytest.mark.parametrize("name", ["none.csv", "none*.parquet"])
def test_a_log_that_is_not_there_is_refused(name: str, refused, workspace: Path) -> None:
    refused(["init", name], f"no file matches {name}")


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_draft_names_the_encoding_that_text_seems_to_have(
    workspace: Path, run, encoding: str
) -> None:
    Path("log.csv").write_bytes(("länder,city\n" + "x,Malmö\n" * 9).encode(encoding))
    outcome = run(["init", "log.csv", "--output", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    assert f"the draft reads it as {encoding}, which is a guess" in outcome.err
    assert load("plan.yaml").reading.encoding == encoding
    assert 'column: "länder"' in Path("plan.yaml").read_text(encoding="utf-8")
