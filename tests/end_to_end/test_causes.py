"""What stops a run from outside, a full disk or a file that changes, is said in one line."""

from __future__ import annotations

import errno
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ledger.ledger import CollectionLedger
from pipelines.logs import inputs
from pipelines.releases import release
from tests.fakes import canaries
from tests.fakes.ledgers import begun_by

pytestmark = pytest.mark.verify

PLAN = """\
collection: causes
version: 1
input: day.parquet
output: out
ledger: ledger.sqlite
budget: {epsilon: 9.0, delta: 1.0e-5}
epsilon: 2.0
min_reports: 100
metrics:
  - {name: value, kind: mean, column: value, bounds: "0,9"}
  - {name: again, kind: mean, column: value, bounds: "0,9"}
"""
ROWS = 18_000


def log(rows: int, name: str = "day.parquet") -> None:
    table = pa.table({"value": pa.array([k % 10 for k in range(rows)], pa.int64())})
    pq.write_table(table, name, row_group_size=3000)


def grow() -> None:
    log(2 * ROWS, "longer")
    os.replace("longer", "day.parquet")


def append() -> None:
    with open("day.parquet", "ab") as stream:
        stream.write(b"more")


def vanish() -> None:
    os.unlink("day.parquet")


@pytest.fixture
def plan(workspace: Path) -> list[str]:
    """The words of a run; its ledger is there."""
    log(ROWS)
    Path("plan.yaml").write_text(PLAN)
    begun_by("plan.yaml")
    return ["run", "plan.yaml"]


def require_reason(outcome: canaries.Outcome, reason: str, workspace: Path, code: int = 3) -> None:
    """One line, nothing left of the run, and its price given back."""
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err == f"hushbeam: {reason}\n"
    assert not any(workspace.glob("*out*"))
    states = {entry.state for entry in CollectionLedger.open("ledger.sqlite").entries()}
    assert states == {"returned"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (grow, "they hold 36,000 rows, and held 18,000 before"),
        (
            append,
            "{day} is not a readable Parquet file (cut off, damaged, or of a kind that its reader "
            "does not read)",
        ),
        (vanish, "cannot read {day}: No such file or directory"),
    ],
)
def test_a_file_that_changes_is_named_with_what_became_of_it(
    change, reason: str, plan, run, workspace, monkeypatch
) -> None:
    look = inputs.open_telemetry

    def looked(*asked: Any, **more: Any) -> inputs.Telemetry:
        telemetry = look(*asked, **more)
        change()
        return telemetry

    monkeypatch.setattr(inputs, "open_telemetry", looked)
    why = reason.format(day=workspace / "day.parquet")
    said = f"the files changed while they were read: {why}; run again when they are at rest"
    require_reason(run(plan), said, workspace)


def test_rows_are_told_once_however_many_metrics_read_them(
    plan, run, workspace, monkeypatch
) -> None:
    monkeypatch.setattr(inputs.Telemetry, "changed", lambda *_: None)  # as it was, by now
    look = inputs.open_telemetry

    def looked(*asked: Any, **more: Any) -> inputs.Telemetry:
        telemetry = look(*asked, **more)
        grow()
        return telemetry

    monkeypatch.setattr(inputs, "open_telemetry", looked)
    said = (
        "the files changed while they were read: 36,000 rows came, and their footers told of "
        "18,000; run again when they are at rest"
    )
    require_reason(run(plan), said, workspace)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_release_that_cannot_be_written_says_why(
    number: int, plan, run, workspace, monkeypatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(release, "_write_through", full)
    said = (
        f"{workspace}/out could not be written: {os.strerror(number)}; nothing was published: "
        "mend that and run again"
    )
    require_reason(run(plan), said, workspace)


@pytest.mark.parametrize("party", ["client", "shuffle"])
def test_a_party_that_cannot_write_says_why_and_leaves_nothing(
    party: str, plan, run, workspace, monkeypatch
) -> None:
    reports = ["parties", "client", "plan.yaml", "--input", "day.parquet", "--output", "reports"]
    words = reports
    if party == "shuffle":
        assert run(reports).code == 0
        words = ["parties", "shuffle", "plan.yaml", "--input", "reports", "--output", "shuffled"]
    before = canaries.names(workspace)
    # The size of a file is limited, as a disk's is: the system then refuses each further byte.
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # nor half a module's
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))
    try:
        outcome = run(words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert outcome.code == 3
    assert outcome.err == (
        f"hushbeam: {words[-1]} was not made: {os.strerror(errno.EFBIG)}, while the input was read "
        "or the output written; nothing is left of it: mend that and run again\n"
    )
    assert canaries.names(workspace) == before


def test_a_ledger_that_cannot_be_begun_says_why(plan, run, workspace, monkeypatch) -> None:
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, usual[1]))
    try:
        words = ["--ledger", "other.sqlite", "--population", "all", "--budget", "1"]
        outcome = run(["ledger", "init", *words])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert outcome.code == 2
    (said,) = [line for line in outcome.err.splitlines() if "warning" not in line]
    assert said.startswith("hushbeam: --ledger: other.sqlite: cannot be begun: ")
    assert not Path("other.sqlite").exists()
