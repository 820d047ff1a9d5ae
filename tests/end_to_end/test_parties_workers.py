"""The three parties on all cores: when they take part, that nothing is lost, and if one dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.wire.sealing import create_key
from pipelines.jobs.run import REPORT_COST, SEAL_COST
from pipelines.parties.client import _take_back
from pipelines.plan.loading import load
from pipelines.plan.split import split
from tests.fakes.memory_files import MemoryFileSystem
from tests.fakes.waiting import HANGS

ROOT, ROWS = Path(__file__).parents[2], 3000
PLAN = """\
collection: shared
version: 1
input: log.parquet
output: released
epsilon: 6
min_reports: 1000
metrics:
"""
SHARES = "  - {name: shares, kind: histogram, column: city, domain: 0..9, mechanism: grr}\n"
COUNTS = "  - {name: counts, kind: count, drawn_by: shuffler, column: city, domain: 0..9}\n"
TWO = "--direct_num_workers=2"

# What a party does for each report, in the process that is asked for it.
STEPS = {
    "client": "mechanisms.wire.hpke.Context.seal",
    "shuffle": "transforms.reports.unseal.DrawSealedDoFn.rows",
    "collect": "mechanisms.wire.hpke.Context.open",
}
# A worker is killed at such a step; nobody else is.
KILLED = """\
import os, signal
from pkgutil import resolve_name
owner, _, name = "{step}".rpartition(".")
owner, command = resolve_name(owner), os.getpid()
step = getattr(owner, name)
def dies(*given):
    if os.getpid() != command:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*given)
setattr(owner, name, dies)
"""
PROGRAM = "import sys; from pipelines.cli.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def parties(workspace: Path) -> dict[str, list[str]]:
    """A plan, its log and a key; and what each party types."""
    city = np.arange(ROWS) % 10
    pq.write_table(pa.table({"city": city}), "log.parquet")  # one row group
    Path("plan.yaml").write_text(PLAN + SHARES)
    (workspace / "keys").mkdir()
    name = create_key(workspace / "keys").hex()
    public, private = f"keys/{name}.public.pem", f"keys/{name}.private.pem"
    lines = (
        f"parties client plan.yaml --input log.parquet --output sent.parquet --seal {public}",
        f"parties shuffle plan.yaml --input sent.parquet --output mixed --seal {public}",
        f"parties collect plan.yaml --input mixed --key {private}",
    )
    return {line.split()[1]: line.split() for line in lines}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much there was to do, job by job."""
    told: list[int] = []

    def workers(_: object, much: int) -> nullcontext:
        told.append(much)
        return nullcontext(lambda run: run())

    monkeypatch.setattr("pipelines.jobs.run._workers", workers)
    return told


@pytest.mark.verify
def test_seals_weigh_what_they_take(run, parties, work) -> None:
    for words in parties.values():
        assert run(words).code == 0
    sealed, shuffled, opened = work
    assert sealed == opened == ROWS * SEAL_COST
    assert ROWS * REPORT_COST <= shuffled < 2 * ROWS * REPORT_COST  # by the bytes of files


def test_plain_reports_are_no_work_for_several_clients_or_collectors(run, parties, work) -> None:
    for words in parties.values():
        assert run(words if words[-2] not in ("--seal", "--key") else words[:-2]).code == 0
    assert (work[0], work[2]) == (0, 0)
    assert work[1] >= ROWS * REPORT_COST


@pytest.mark.verify
def test_dummies_are_sealed_too(run, parties, work) -> None:
    Path("plan.yaml").write_text(PLAN.replace("min_reports: 1000\n", "delta: 1e-6\n") + COUNTS)
    for words in parties.values():
        assert run(words).code == 0
    (counters,) = split(load("plan.yaml"), "all").counters
    sealed, shuffled, opened = work
    assert sealed == ROWS * SEAL_COST
    assert shuffled >= counters.number * SEAL_COST
    # All dummies come to the collector, of each counter at most twice as many as on average.
    assert ROWS * SEAL_COST < opened <= (ROWS + 3 * counters.number) * SEAL_COST


def typed(words: list[str], before: str = "") -> subprocess.CompletedProcess[str]:
    """A command in two forked workers."""
    return subprocess.run(
        [sys.executable, "-c", before + PROGRAM, *words, TWO],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        timeout=HANGS,
    )  # fmt: skip


@pytest.mark.verify
def test_two_workers_hand_on_what_one_would(parties: dict[str, list[str]]) -> None:
    for words in parties.values():
        done = typed(words)
        assert (done.returncode, done.stderr) == (0, "")
    ids = pq.read_table("sent.parquet")["report_id"].to_numpy()
    # Their order says nothing: neither whose rows stood together, nor which worker had them.
    assert (ids.size, np.all(ids[1:] > ids[:-1])) == (ROWS, True)
    assert not Path("sent.parquet.unfinished").exists()
    statement = json.loads(Path("released/shares/statement.json").read_text())
    assert (statement["n"], statement["rejects"]) == (ROWS, {})
    whole = json.loads(Path("released/statement.json").read_text())
    assert whole["reports"] == {"came": ROWS, "dropped": {}}


def test_reports_are_written_as_they_are_whatever_their_file_is_called(run, parties) -> None:
    for words in list(parties.values())[:2]:
        outcome = run([word.replace("sent.parquet", "sent.gz") for word in words])
        assert outcome.code == 0, outcome.err


def test_an_attempt_leaves_nothing_where_there_are_no_folders() -> None:
    """A folder of objects cannot be asked for, nor removed: they are, one by one."""
    MemoryFileSystem.reset()
    kept = {"memory://bucket/other.bin": b"mine", "memory://bucket/sent.bin2": b"mine"}
    half = {"memory://bucket/sent.bin.unfinished/1": b"half", "memory://bucket/sent.bin": b"all"}
    MemoryFileSystem.objects |= kept | half
    _take_back("memory://bucket/sent.bin")
    assert MemoryFileSystem.objects == kept


@pytest.mark.verify
@pytest.mark.parametrize("party", STEPS)
def test_a_worker_that_dies_leaves_nothing_of_its_party(
    party: str, parties: dict[str, list[str]], workspace: Path
) -> None:
    for words in parties.values():
        if words[1] == party:
            break
        assert typed(words).returncode == 0
    before = {path.name for path in workspace.iterdir()}
    done = typed(words, KILLED.format(step=STEPS[party]))
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if "warning" not in line]
    assert line.startswith("hushbeam: a worker process died")
    assert {path.name for path in workspace.iterdir()} == before
    assert typed(words).returncode == 0
