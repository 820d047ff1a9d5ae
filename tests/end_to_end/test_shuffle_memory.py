"""A report is sent on once, whoever hands it in again, and whenever a shuffle was killed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from mechanisms.wire.sealing import public_key, seal
from pipelines.parties import memory
from pipelines.parties.batches import left_by
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from tests.fakes.ledgers import begun_by
from tests.fakes.memory_files import MemoryFileSystem
from transforms.reports import report_tables

ROOT = Path(__file__).parents[2]

PLAN = """\
collection: remembered
version: {version}
input: none.parquet
output: released
epsilon: 5
model: shuffle
min_reports: 100
metrics:
  - {{name: city, kind: histogram, column: city, domain: 0..7, mechanism: grr}}
  - {{name: team, kind: histogram, column: team, domain: 0..3, mechanism: grr}}
"""
N = 120  # honest reports
CITY, TEAM = 0, 1


def plan(version: int = 1) -> Split:
    Path("plan.yaml").write_text(PLAN.format(version=version))
    return split(load("plan.yaml"), "all")


def reports(parted: Split, seed: int, size: int = N, metric: int = CITY) -> Reports:
    words = parted.mechanisms[metric].perturb(np.arange(size) % 4, SeededRandom(seed))
    return Reports.submitted(parted.fingerprint, metric, words, SeededRandom(seed + 100))


def write(name: str, *blocks: Reports) -> str:
    together = np.concatenate([block.records for block in blocks])
    Path(name).write_bytes(binary.encode(Reports(blocks[0].fingerprint, blocks[0].form, together)))
    return name


def shuffle(*files: str, into: str, more: tuple[str, ...] = ()) -> list[str]:
    return ["parties", "shuffle", "plan.yaml", "--input", *files, "--output", into, *more]


def said(folder: str) -> dict:
    return json.loads(Path(folder, "shuffle.json").read_text())


def sent_on(*folders: str) -> Counter:
    """(metric, message) -> how often, over all that a collector would be handed."""
    found: Counter = Counter()
    for folder in folders:
        for file in Path(folder).glob("reports*"):
            table = pq.read_table(file)
            found.update(pairs(table["metric"].to_pylist(), table["message"].to_pylist()))
    return found


def of(*blocks: Reports) -> Counter:
    found: Counter = Counter()
    for block in blocks:
        found.update(pairs(block.records["metric"].tolist(), block.records["message"].tolist()))
    return found


def pairs(metrics: list[int], messages: list[int]) -> list[tuple[int, int]]:
    return list(zip(metrics, messages, strict=True))


def kept() -> Path:
    return Path(os.environ["XDG_STATE_HOME"], "hushbeam", "shuffle-memory")


def test_nine_forged_ids_cost_the_forger_nine_reports(run, workspace) -> None:
    """Nine ids in two batches, once enough to have a whole window refused."""
    parted = plan()
    forged, again = reports(parted, 3, 9), reports(parted, 4, 9)
    again.records["report_id"] = forged.records["report_id"]
    first, second = reports(parted, 1), reports(parted, 2)
    write("first.bin", first, forged)
    write("second.bin", second, again)
    place = ("--shuffle-memory", "memory[1]*")  # a name, and no pattern
    assert run(shuffle("first.bin", into="a", more=place)).code == 0
    outcome = run(shuffle("second.bin", into="b", more=place))
    assert (outcome.code, outcome.err) == (0, "")
    assert "129 reports came; 9 dropped: sent on before" in outcome.out
    assert said("b")["dropped"] == {"sent on before": 9}
    assert sent_on("a", "b") == of(first, forged, second)
    outcome = run(["parties", "collect", "plan.yaml", "--input", "a", "b"])
    assert (outcome.code, outcome.err) == (1, "")  # of teams there are none
    assert json.loads(Path("released/city/statement.json").read_text())["n"] == 2 * N + 9


@pytest.mark.verify
def test_what_is_handed_in_again_goes_on_once(run, workspace) -> None:
    """The whole file again, or a row of it, with one report more: alone it is no crowd, and stays.

    What went as binary comes again as Parquet, with half of its id.
    """
    parted = plan()
    write("first.bin", reports(parted, 1))
    write("one.bin", reports(parted, 5, 1))
    assert run(shuffle("first.bin", into="a")).code == 0
    table = report_tables.to_table(reports(parted, 1))
    pq.write_table(table, "again.parquet")
    pq.write_table(table.slice(7, 1), "row.parquet")
    outcome = run(shuffle("row.parquet", "one.bin", into="b"))
    assert "no metric had its min_reports; 2 reports came; 1 dropped: sent on b" in outcome.err
    outcome = run(shuffle("again.parquet", "one.bin", into="b"))
    assert outcome.code == 1
    assert "no metric had its min_reports; 121 reports came; 120 dropped: sent on b" in outcome.err
    assert not Path("b").exists()
    # It was not sent on, and is remembered by nobody.
    write("more.bin", reports(parted, 2))
    assert run(shuffle("first.bin", "one.bin", "more.bin", into="b")).code == 0
    assert sent_on("b") == of(reports(parted, 5, 1), reports(parted, 2))
    # What nobody was handed is removed with its memory, and shuffled again.
    shutil.rmtree("b")
    outcome = run(shuffle("one.bin", "more.bin", into="b"))
    (place,) = (
        folder
        for folder in kept().glob("*/*/")
        if str(folder) in outcome.err and "/b (" + str(folder) in outcome.err
    )
    shutil.rmtree(place)
    assert run(shuffle("first.bin", "one.bin", "more.bin", into="b")).code == 0
    assert sent_on("b") == of(reports(parted, 5, 1), reports(parted, 2))


@pytest.mark.verify
def test_what_was_held_back_goes_on_later(run, workspace) -> None:
    parted = plan()
    cities, teams = reports(parted, 1), reports(parted, 2, 60, TEAM)
    more = reports(parted, 3, 60, TEAM)
    write("first.bin", cities, teams)
    write("all.bin", cities, teams, more)
    assert "team: 60 reports were withheld" in run(shuffle("first.bin", into="a")).err
    assert run(shuffle("all.bin", into="b")).code == 0
    assert sent_on("a") == of(cities)
    assert sent_on("b") == of(teams, more)
    assert run(["parties", "collect", "plan.yaml", "--input", "a", "b"]).code == 0


@pytest.mark.verify
def test_sealed_reports_are_remembered_alike(run, workspace) -> None:
    parted = plan()
    large = False  # the number of its key, beyond what signed integers hold
    while not large:
        shutil.rmtree("keys", ignore_errors=True)
        assert run(["parties", "keys", "new", "keys"]).code == 0
        public = next(Path("keys").glob("*.public.pem"))
        large = bytes.fromhex(public.name.partition(".")[0])[-1] >= 128
    key = public_key(public.read_bytes())
    sealed = [seal(reports(parted, seed), key) for seed in (1, 2)]
    write("first.bin", sealed[0])
    write("both.bin", *sealed)
    more = ("--seal", str(public))
    assert run(shuffle("first.bin", into="a", more=more)).code == 0
    assert run(shuffle("both.bin", into="b", more=more)).code == 0
    assert said("b")["dropped"] == {"sent on before": N}
    private = next(Path("keys").glob("*.private.pem"))
    outcome = run(["parties", "collect", "plan.yaml", "--input", "a", "b", "--key", str(private)])
    assert (outcome.code, outcome.err) == (1, "")
    assert json.loads(Path("released/city/statement.json").read_text())["n"] == 2 * N


@pytest.mark.verify
def test_the_memory_tells_nothing_without_the_secret(run, workspace) -> None:
    parted = plan()
    block = reports(parted, 1)
    write("first.bin", block)
    assert run(shuffle("first.bin", into="a")).code == 0
    everything = b"".join(path.read_bytes() for path in kept().rglob("*") if path.is_file())
    ids = block.records["report_id"]
    assert not any(row.tobytes()[:8] in everything for row in ids)
    assert len(list(kept().rglob("*.ids"))) == 1
    assert not [path for path in Path("a").iterdir() if path.suffix == ".ids"]
    Path("other").write_bytes(bytes(32))
    outcome = run(shuffle("first.bin", into="b", more=("--shuffle-secret", "other")))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "this window was shuffled under another secret before" in outcome.err


@pytest.mark.verify
def test_one_shuffle_of_a_window_at_a_time(run, workspace) -> None:
    parted = plan()
    write("first.bin", reports(parted, 1))
    folder = kept() / parted.fingerprint.hex()
    folder.mkdir(parents=True)
    with open(folder / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = run(shuffle("first.bin", into="a"))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "another shuffle of this window is running" in outcome.err
    assert run(shuffle("first.bin", into="a")).code == 0


@pytest.mark.verify
def test_old_windows_are_forgotten_and_no_others(run, workspace, monkeypatch) -> None:
    monkeypatch.setattr(memory, "_WINDOWS", 2)
    for version in (1, 2, 3):
        write("first.bin", reports(plan(version), 1))
        assert run(shuffle("first.bin", into=f"mixed{version}")).code == 0
        begun = next((kept() / plan(version).fingerprint.hex()).rglob("begun.json"))
        # A clock that has lost its battery, and says of each that it is older than the last.
        begun.write_text(begun.read_text().replace('"created": "20', f'"created": "{9 - version}0'))
    held = {path.parents[1].name for path in kept().rglob("sent.json")}
    assert held == {plan(version).fingerprint.hex() for version in (2, 3)}


# Runs the command, and dies where it would call the function named first.
KILLED = """
import importlib, os, sys
from pipelines.cli import cli

module, name = sys.argv[1].split(":")
owner = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
setattr(owner, last, lambda *_: os._exit(9))
del sys.argv[1]
cli.entry()
"""
WHOLE = ["pipelines.parties.shuffler:_concluded", "pipelines.parties.memory:ShufflerMemory.commit"]
LATE = "pipelines.parties.memory:ShufflerMemory.trim"  # all is done but the last word


def killed(step: str, words: list[str]) -> None:
    """Run a command that dies at a step."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, step, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert ended.returncode == 9


@pytest.mark.verify
@pytest.mark.parametrize(
    "step",
    [
        "pipelines.parties.shuffler:run_beam",  # begun, and nothing more
        "pipelines.parties.sent_ids:KeepIdsDoFn._written",
        "pipelines.parties.shuffling:mark_in",  # all is written but what says so
        "pipelines.parties.memory:ShufflerMemory.close",
        "pipelines.parties.shuffling:tidy",  # between the memory's word and the summary
        "pipelines.parties.shuffling:write",
        *WHOLE,  # between the summary and the memory
    ],
)
def test_a_shuffle_that_is_killed_loses_no_report_and_sends_none_twice(
    step: str, run, workspace
) -> None:
    parted = plan()
    block = reports(parted, 1)
    write("first.bin", block)
    killed(step, shuffle("first.bin", into="a"))
    whole = ["a"] if Path("a", "shuffle.json").exists() else []
    assert bool(whole) == (step in WHOLE)
    outcome = run(shuffle("first.bin", into="b"))
    assert outcome.code == (1 if whole else 0), outcome.err
    whole += ["b"] if Path("b").exists() else []
    assert sent_on(*whole) == of(block)
    # And no more of it, whoever is asked again.
    assert run(shuffle("first.bin", into="c")).code == 1
    assert (
        run(["parties", "collect", "plan.yaml", "--input", *whole]).code == 1
    )  # of teams there are none
    assert json.loads(Path("released/city/statement.json").read_text())["n"] == N


@pytest.mark.verify
@pytest.mark.parametrize("step", ["pipelines.parties.shuffling:write", WHOLE[0], LATE])
def test_a_shuffle_that_is_killed_is_run_again_as_it_was(step: str, run, workspace) -> None:
    block = reports(plan(), 1)
    write("first.bin", block)
    words = shuffle("first.bin", into="a")
    killed(step, words)
    assert Path("a").exists()
    outcome = run(words)
    assert outcome.code == 0, outcome.err
    assert ("shuffled before, and not again: a" in outcome.out) == (step in (*WHOLE, LATE))
    assert sent_on("a") == of(block)
    # When all was done but the last word the same files are shuffled no more; others are refused.
    again = run(words)
    assert (again.code, "shuffled before, and not again: a" in again.out) == (0, True)
    assert sent_on("a") == of(block)
    write("second.bin", reports(plan(), 2))
    for files in (("first.bin", "second.bin"), ("first.bin",)):
        other = run(shuffle(*files, into="a"))
        assert (other.code, "a already holds files" in other.err) == (2, True)
        write("first.bin", reports(plan(), 3))  # an inbox that is filled anew is not the old one


@pytest.mark.verify
def test_what_was_killed_behind_its_summary_is_checked_as_it_would_have_been(
    run, workspace
) -> None:
    """Of another memory, so that nothing but the check finds what was sent on before."""
    parted = plan()
    write("few.bin", reports(parted, 1, 20))
    write("first.bin", reports(parted, 1))
    assert run(shuffle("first.bin", into="a")).code == 0
    for file, code, why in (("few.bin", 1, "no metric had its min_"), ("first.bin", 2, "100 %")):
        words = shuffle(file, into="b", more=("--shuffle-memory", "other"))
        killed(WHOLE[0], words)
        assert Path("b", "shuffle.json").exists()
        outcome = run(words)
        assert (outcome.code, outcome.err.count("\n")) == (code, 1)
        assert why in outcome.err
        assert not Path("b").exists()
        assert not list(Path("other").rglob("begun.json"))


@pytest.mark.verify
@pytest.mark.parametrize("theirs", ["statement.json", ".hidden", "reports-0.parquet"])
def test_what_others_put_where_a_shuffle_was_killed_stays(theirs: str, run, workspace) -> None:
    write("first.bin", reports(plan(), 1))
    words = shuffle("first.bin", into="a")
    killed("pipelines.parties.shuffling:write", words)
    Path("a", theirs).write_bytes(b"paid for")
    before = sorted(os.listdir("a"))
    outcome = run(words)
    assert (outcome.code, "a already holds " in outcome.err) == (2, True)
    assert sorted(os.listdir("a")) == before
    Path("a", theirs).unlink()
    assert run(words).code == 0


@pytest.mark.verify
def test_a_shuffle_that_is_gone_and_may_have_been_handed_on_is_asked_for(run, workspace) -> None:
    write("first.bin", reports(plan(), 1))
    killed(WHOLE[1], shuffle("first.bin", into="a"))
    Path("a").rename("away")
    outcome = run(shuffle("first.bin", into="b"))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "if it was handed on, put it back" in outcome.err
    Path("away").rename("a")
    assert run(shuffle("first.bin", into="b")).code == 1
    Path("a").rename("away")  # it is known by now
    assert run(shuffle("first.bin", into="b")).code == 1


@pytest.mark.verify
def test_a_memory_in_an_object_store(run, workspace) -> None:
    MemoryFileSystem.reset()
    parted = plan()
    write("first.bin", reports(parted, 1))
    write("both.bin", reports(parted, 1), reports(parted, 2))
    place = ("--shuffle-memory", "memory://bucket/kept")
    assert run(shuffle("first.bin", into="a", more=place)).code == 0
    assert run(shuffle("both.bin", into="b", more=place)).code == 0
    assert sent_on("b") == of(reports(parted, 2))
    # Killed, or handed over, between summary and memory: the summary tells.
    for name in [name for name in MemoryFileSystem.objects if name.endswith("sent.json")]:
        del MemoryFileSystem.objects[name]
    assert run(shuffle("both.bin", into="c", more=place)).code == 1


@pytest.mark.verify
def test_where_a_release_was_collected_is_known_in_every_folder(
    run, workspace, monkeypatch
) -> None:
    """A relative path in the ledger would lead elsewhere from elsewhere."""
    more = "ledger: ledger.sqlite\nbudget: {{epsilon: 50.0, delta: 1.0e-5}}\n"
    monkeypatch.setattr(sys.modules[__name__], "PLAN", PLAN + more)
    write("first.bin", reports(plan(), 1))
    begun_by("plan.yaml")
    assert run(shuffle("first.bin", into="a")).code == 0
    outcome = run(["parties", "collect", "plan.yaml", "--input", "a", "--output", "rel"])
    assert outcome.code == 1, outcome.err  # of teams there are none
    Path("other").mkdir()
    monkeypatch.chdir("other")
    outcome = run(["parties", "collect", "../plan.yaml", "--input", "../a", "--output", "../rel"])
    assert outcome.code == 1, outcome.err
    assert f"released before, and not made again: {workspace / 'rel'}" in outcome.out


def test_a_summary_that_was_cut_off_keeps_nobody_out(tmp_path: Path) -> None:
    """As a shuffle leaves it that is killed between the opening of that file and its words."""
    (tmp_path / "shuffle.json").touch()
    assert left_by("a shuffle", str(tmp_path))
    (tmp_path / "notes").write_text("theirs")
    assert not left_by("a shuffle", str(tmp_path))
