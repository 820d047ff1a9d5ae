"""What a hostile hand between clients, shuffler and collector must not come to."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from mechanisms.wire.sealing import public_key, seal
from pipelines.cli import cli
from pipelines.errors import FailedError
from pipelines.ledger.ledger import CollectionLedger
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from tests.fakes.ledgers import begun_by

pytestmark = pytest.mark.verify

N = 400  # honest reports
PLAN = """\
collection: attacked
version: {version}
input: none.parquet
output: out{version}
epsilon: 5
model: shuffle
min_reports: 300
metrics:
  - {metric}
"""
CITY = "{name: city, kind: histogram, column: city, domain: 0..7, mechanism: grr}"
PAY = (
    "{name: pay, kind: mean, column: pay, bounds: '0,100', group_by: team, groups: teams.txt, "
    "groups_public: true}"
)
LEDGER = "ledger: ledger.sqlite\nbudget: {epsilon: 5, delta: 1.0e-5}\n"


def plan(metric: str = CITY, more: str = "", version: int = 1) -> Split:
    Path("plan.yaml").write_text(PLAN.format(metric=metric, version=version) + more)
    return split(load("plan.yaml"), "all")


def submitted(parted: Split, size: int = N, seed: int = 1) -> Reports:
    words = parted.mechanisms[0].perturb(np.arange(size) % 8, SeededRandom(seed))
    return Reports.submitted(parted.fingerprint, 0, words, SeededRandom(seed + 100))


def write(name: str, *reports: Reports) -> str:
    first = reports[0]
    together = np.concatenate([each.records for each in reports])
    Path(name).write_bytes(binary.encode(Reports(first.fingerprint, first.form, together)))
    return name


def new_keys() -> tuple[str, str]:
    assert cli.main(["parties", "keys", "new", "keys"]) == 0
    public, private = next(Path("keys").glob("*.public.pem")), next(Path("keys").glob("*.priv*"))
    return str(public), str(private)


def shuffled(*files: str, into: str = "mixed", seals: tuple[str, ...] = ()) -> list[str]:
    words = ["parties", "shuffle", "plan.yaml", "--input", *files, "--output", into]
    return words + (["--seal", *seals] if seals else [])


def renamed(reports: Reports, times: int, seed: int) -> Reports:
    """Copies under ids of their own, made by one who reads nothing."""
    records = reports.records.repeat(times)
    ids = SeededRandom(seed).words(2 * records.size)
    records["report_id"] = ids.reshape(records.size, 2)
    return Reports(reports.fingerprint, reports.form, records)


def test_copies_of_a_sealed_report_count_once(run, workspace) -> None:
    """500 unread copies of one user's report would make that user's value the mode."""
    parted = plan()
    public, private = new_keys()
    honest = seal(submitted(parted), public_key(Path(public).read_bytes()))
    victim = honest.where(np.arange(N) == 5)
    write("sent.bin", honest, renamed(victim, 500, 7))
    assert run(shuffled("sent.bin", seals=(public,))).code == 0
    said = json.loads(Path("mixed/shuffle.json").read_text())
    assert said["dropped"] == {"duplicate": 500}
    assert said["metrics"]["city"]["sent_on"] == N

    # A second shuffler has not seen what the first was sent: the collector has both.
    others = seal(submitted(parted, seed=9), public_key(Path(public).read_bytes()))
    write("more.bin", others, renamed(honest.where(np.arange(N) < 9), 1, 8))
    assert run(shuffled("more.bin", into="more", seals=(public,))).code == 0
    words = ["parties", "collect", "plan.yaml", "--key", private, "--input", "mixed", "more"]
    outcome = run(words)
    assert outcome.code == 0, outcome.err
    told = json.loads(Path("out1/statement.json").read_text())["reports"]
    assert told == {"came": 2 * N + 9, "dropped": {"duplicate": 9}}
    assert json.loads(Path("out1/city/statement.json").read_text())["n"] == 2 * N


def test_a_group_of_one_report_does_not_leave_the_shuffler(run, workspace) -> None:
    """Its report says the group in the clear: beside 400 others it would be the only one of it."""
    Path("teams.txt").write_text("big\ntiny\n")
    parted = plan(PAY)
    pay = np.append(np.linspace(0, 100, N), 97.0)
    pq.write_table(pa.table({"pay": pay, "team": ["big"] * N + ["tiny"]}), "log.parquet")
    assert (
        run(
            ["parties", "client", "plan.yaml", "--input", "log.parquet", "--output", "sent.bin"]
        ).code
        == 0
    )
    outcome = run(shuffled("sent.bin"))
    assert outcome.code == 0, outcome.err
    assert "pay: 1 report was withheld, for fewer than min_reports came" in outcome.err
    held = np.concatenate(
        [pq.read_table(file)["message"].to_numpy() for file in Path("mixed").glob("reports*")]
    )
    mechanism = parted.mechanisms[0]
    assert held.size == N
    assert (held < mechanism.codes // 2).all()  # of the first group, which is the large one


def test_public_groups_under_seals_are_refused(run, workspace) -> None:
    """Who cannot read a report cannot hold back its group."""
    Path("teams.txt").write_text("big\ntiny\n")
    plan(PAY)
    public, private = new_keys()
    pq.write_table(pa.table({"pay": [1.0], "team": ["big"]}), "log.parquet")
    parties = (
        [
            "parties",
            "client",
            "plan.yaml",
            "--input",
            "log.parquet",
            "--output",
            "sent.bin",
            "--seal",
            public,
        ],
        shuffled("log.parquet", seals=(public,)),
        ["parties", "collect", "plan.yaml", "--input", "log.parquet", "--key", private],
    )
    for words in parties:
        outcome = run(words)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert "metric pay: sealed reports cannot be divided among" in outcome.err
    plan(PAY.replace("groups_public: true", "groups_public: false"))
    assert run(parties[0]).code == 0


def test_a_shuffle_of_what_was_shuffled_is_refused_and_leaves_nothing(run, workspace) -> None:
    """Of two shuffles that differ by one report, the difference is that report."""
    parted = plan()
    write("sent.bin", submitted(parted))
    write("one.bin", submitted(parted, 1, 2))
    assert run(shuffled("sent.bin", into="first")).code == 0
    # As where the first one was made by an earlier version, which remembered nothing.
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"], "hushbeam", "shuffle-memory"))
    outcome = run(shuffled("sent.bin", "one.bin", into="second"))
    assert (outcome.code, outcome.out) == (2, "")
    assert "about 100 % of these reports were shuffled into" in outcome.err
    assert "first before: two shuffles that share reports show by their diff" in outcome.err
    assert not Path("second").exists()
    write("new.bin", submitted(parted, seed=3))
    assert run(shuffled("new.bin", into="third")).code == 0
    shutil.rmtree("first")
    assert run(shuffled("sent.bin", "one.bin", into="second")).code == 0


def test_what_the_collector_has_stays_paid_for(run, workspace, monkeypatch) -> None:
    """Three versions that fail after their reports were handed over are three releases' worth."""
    from pipelines.plan import run as runs

    honest = runs.carry_out

    def broken(*_: object, **__: object) -> bool:
        raise FailedError("the job ended in state FAILED")

    parted = plan(more=LEDGER)
    begun_by("plan.yaml")
    write("sent.bin", submitted(parted))
    assert run(shuffled("sent.bin")).code == 0
    words = ["parties", "collect", "plan.yaml", "--input", "mixed"]
    monkeypatch.setattr(runs, "carry_out", broken)
    outcome = run(words)
    assert (outcome.code, "the collector has the reports" in outcome.err) == (3, True)
    parted = plan(more=LEDGER, version=2)
    write("again.bin", submitted(parted))
    assert run(shuffled("again.bin", into="mixed2")).code == 0
    outcome = run(["parties", "collect", "plan.yaml", "--input", "mixed2"])
    assert (outcome.code, "does not hold this release" in outcome.err) == (1, True)
    # The same reports again cost nothing more.
    plan(more=LEDGER)
    monkeypatch.setattr(runs, "carry_out", honest)
    outcome = run(words)
    assert outcome.code == 0, outcome.err
    (entry,) = CollectionLedger.open("ledger.sqlite").entries()
    assert (entry.version, entry.state, entry.attempt) == (1, "committed", 2)
