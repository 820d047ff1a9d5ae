"""The same command on other runners, and into other file systems."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tests.fakes import canaries
from tests.fakes.few import few
from tests.fakes.memory_files import MemoryFileSystem

pytestmark = pytest.mark.usefixtures("beams_runner")


USERS = (canaries.ROWS - canaries.NULL_USERS) // 4


@pytest.mark.verify
@pytest.mark.parametrize(
    "words",
    [
        ["--runner", "DirectRunner"],
        ["--direct_running_mode=multi_processing", "--direct_num_workers=2"],
    ],
    ids=["direct", "processes"],
)
def test_beams_options_after_ours(words: list[str], run, log, domain, workspace) -> None:
    asked = canaries.request(log, domain=domain, user_column="user", min_reports=300)
    outcome = run([*asked, *words])
    assert outcome.code == 0, outcome.said
    # Worker processes log on a stderr that they inherit; not one word of it may get through.
    assert outcome.err == ""
    assert not canaries.found(outcome.said, declared=False)
    statement = json.loads((workspace / "out" / "statement.json").read_text())
    assert statement["n"] == USERS
    assert "rows_read" not in statement
    assert pq.ParquetFile(workspace / "out" / "histogram.parquet").metadata.num_rows == 4


@pytest.mark.verify
def test_a_crash_in_a_worker_process_says_nothing(run, log, domain, workspace, monkeypatch) -> None:
    # Between the footer and the rows the file turns into something else, so Beam's own reader
    # fails, and logs a traceback in a process that the command does not control.
    from pipelines.metrics.resolving import resolve

    def resolve_and_spoil(*asked):
        metric = resolve(*asked)
        (workspace / "CANARY-FILE.parquet").write_bytes(b"CANARY-VALUE")
        return metric

    table = canaries.table()
    pq.write_table(table, workspace / "CANARY-FILE.parquet")
    monkeypatch.setattr("pipelines.command.single.resolve", resolve_and_spoil)
    asked = canaries.request("CANARY-FILE.parquet", domain=domain)
    words = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    outcome = run([*asked, *words])
    assert outcome.code == 3
    told = "hushbeam: the files changed while they were read: CANARY-FILE.parquet is not a readable"
    assert outcome.err.startswith(told)
    assert outcome.err.count("\n") == 1
    assert canaries.found(outcome.said) <= {"CANARY-FILE"}  # its name, and nothing that it holds
    assert not (workspace / "out").exists()


def test_a_release_in_an_object_store(run, log, domain) -> None:
    MemoryFileSystem.reset()
    asked = canaries.request(log, domain=domain, output="memory://bucket/out")
    outcome = run(asked)
    assert outcome.code == 0, outcome.said
    assert "report: memory://bucket/out/report.html\n" in outcome.out
    assert MemoryFileSystem.writes[-1] == "memory://bucket/out/statement.json"
    again = run(asked)
    assert again.code == 2
    assert "memory://bucket/out already holds a release" in again.err


@pytest.mark.parametrize(
    "broken", few(["statement.json", "histogram.parquet", "report.html"], lambda _: "a store")
)
def test_a_store_that_breaks_keeps_nothing(broken: str, run, log, domain) -> None:
    MemoryFileSystem.reset(broken=broken)
    outcome = run(canaries.request(log, domain=domain, output="memory://bucket/out"))
    assert outcome.code == 3
    assert MemoryFileSystem.objects == {}


def test_telemetry_and_domain_from_another_file_system(run, log, workspace) -> None:
    MemoryFileSystem.reset()
    pq.write_table(canaries.table(), workspace / "log.parquet")
    MemoryFileSystem.objects |= {
        "memory://bucket/log.parquet": (workspace / "log.parquet").read_bytes(),
        "memory://bucket/domain.txt": "\n".join(canaries.DECLARED).encode(),
    }
    asked = canaries.request("memory://bucket/*.parquet", domain="memory://bucket/domain.txt")
    outcome = run(asked)
    assert outcome.code == 0, outcome.said
    assert (workspace / "out" / "report.html").exists()
