"""A batch of noisy counters that is asked again: a quick look, and later all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.counters.passes import layered
from mechanisms.randomness import SeededRandom
from pipelines.compare.series import histories
from pipelines.ledger.account import accounts, entries
from pipelines.parties.passes import job_of
from pipelines.parties.summary import Summary
from pipelines.plan.loading import load
from pipelines.plan.split import split
from pipelines.releases.history import releases_in
from tests.end_to_end.test_parties_counters import log_and_key
from tests.fakes.parties import client, collect, key, shuffle
from transforms.collector.collect_counts import Counted

PLAN = """\
collection: counted
version: 1
input: log.parquet
output: released/{window}
user_column: user
unit: user
epsilon: 9
delta: 1e-6
ask_again: 7d
ledger: ledger.sqlite
budget: {epsilon: 9, delta: 1e-6}
drawn_by: shuffler
metrics:
  - {name: cities, kind: count, column: city, domain: 0..2, rows_per_user: 2}
"""
OTHERS = """\
  - {name: much, kind: sum, column: city, bounds: "0,2", whole_numbers: true}
  - {name: tabs, kind: cross-tab, columns: [city, two], domains: [city=0..1, two=0..1]}
"""
# These have hundreds of thousands of dummies, which take minutes to seal.
LARGE = """\
  - {name: avg, kind: mean, column: city, bounds: "0,2", drawn_by: shuffler}
  - {name: shape, kind: distribution, column: city, bounds: "0,2", drawn_by: shuffler}
  - {name: valued, kind: histogram, column: city, domain: 0..1, drawn_by: shuffler,
     rows_per_user: 2}
"""
QUICK = "released/d1~0.25"


@pytest.fixture
def log(workspace: Path) -> Path:
    """A log of 30 users, two rows each, and a key."""
    log_and_key(workspace)
    log = pq.read_table("log.parquet")
    pq.write_table(log.append_column("two", pa.array(np.arange(60) // 2 % 2)), "log.parquet")
    return workspace


def again(into: str, *shares: str) -> list[str]:
    words = ["parties", "shuffle", "plan.yaml", "--window", "d1", "--seal", key(), "--output", into]
    return [*words, "--share", *(shares or ["rest"])]


def both(first: str, last: str) -> list[str]:
    words = collect(first)
    return [*words[:-2], last, *words[-2:]]


def statement(folder: str) -> dict:
    return json.loads(Path(folder, "statement.json").read_text())


def in_two_passes(run) -> None:
    """A batch from the log, a release of a quarter of epsilon, and one of the whole."""
    for words in (
        client("--input", "log.parquet", "--output", "log.bin"),
        [*shuffle("log.bin", into="quick"), "--share", "0.25"], collect("quick"), again("all"),
        both("quick", "all"),
    ):  # fmt: skip
        outcome = run(words)
        assert outcome.code == 0, outcome.said


@pytest.mark.verify
def test_a_quick_look_and_then_all_of_it_in_one_budget(run, refused, log) -> None:
    """Each pass has its entry; together they cost one pass, and the last one errs like one."""
    Path("plan.yaml").write_text(PLAN)
    assert run(["ledger", "init", "plan.yaml"]).code == 0
    in_two_passes(run)
    design = split(load("plan.yaml"), "d1").counters[0]
    tables = [
        pq.read_table(f"{folder}/cities/count.parquet").to_pydict()
        for folder in (QUICK, "released/d1")
    ]
    noises = layered(design, (0.25,)), design
    for release, own in zip(tables, noises, strict=True):
        for estimate, truth in zip(release["estimate"], [20, 20, 20, 0], strict=True):
            assert abs(estimate - truth) <= own.dummies.means[0]
        assert release["standard_error"][0] == pytest.approx(own.variances[0] ** 0.5)
    assert statement(QUICK)["guarantees"]["release"]["epsilon"] == 2.25
    assert statement("released/d1")["guarantees"]["release"]["epsilon"] == 9
    assert statement(QUICK)["pass"]["share"] == 0.25
    assert "tells, and no more" in " ".join(statement(QUICK)["in_words"])
    assert "covers all passes before it" in " ".join(statement("released/d1")["in_words"])
    (cities,) = histories(releases_in([QUICK, "released/d1"]))
    # Later in time, and of the same people: what it says stands in the place of the quick look.
    assert [one.folder for one in cities.releases] == ["released/d1/cities"]
    (account,) = accounts("ledger.sqlite")
    assert account["releases"] == {"committed": 2}
    assert account["total"]["epsilon"] == pytest.approx(9, rel=1e-5)
    # By a scheduler that tries again.
    for words in (again("all"), collect("quick"), both("quick", "all")):
        assert run(words).code == 0
    assert len(entries("ledger.sqlite")) == 2
    refused(again("less", "0.5"), "--share: this window's batch was shuffled before, for passes at")
    refused(again("more"), "--share: this pass was handed over before, into")
    refused(collect("all"), "--input: a later pass says what to take away from its batch")
    refused([*shuffle("log.bin", into="anew"), "--share", "0.5"], "the dummies of a window are")


def test_what_a_plan_does_not_say_is_not_kept(refused, log) -> None:
    Path("plan.yaml").write_text(PLAN.replace("ask_again: 7d\n", ""))
    refused(again("all", "0.25"), "--share: a batch is asked again where the plan says")
    Path("plan.yaml").write_text(PLAN.replace("7d", "long"))
    refused(again("all", "0.25"), "ask_again is wrong: a number and a unit are needed")
    Path("plan.yaml").write_text(PLAN)
    refused(again("all", "0.25"), "--input is missing")
    refused(again("all", "2"), "--share: say which shares of the window's epsilon")


@pytest.mark.verify
def test_every_kind_makes_a_release_of_either_pass(log) -> None:
    """Of counts that are drawn at once: what is published of them asks no kind whether it may."""
    Path("plan.yaml").write_text(PLAN + OTHERS + LARGE)
    parted, rng = split(load("plan.yaml"), "d1"), SeededRandom(7)
    assert len(parted.metrics) == 6
    told = Summary(
        shuffle_id="b" * 32, created="", collection="counted", version=1,
        fingerprint="", window="d1", sealed=True, words=0, share=0.25, passes=(0.25,), sample=(),
    )  # fmt: skip
    for one in (told, told.model_copy(update={"share": 1.0})):
        job = job_of(parted, one, None)
        for metric in job.metrics:
            codes = metric.design.codes
            counts = metric.design.simulate(np.zeros(codes, np.int64), rng)
            metric = replace(metric, collects=True)
            content = metric.content(Counted(counts, int(counts.sum()), 0), {})
            assert content is not None
            assert f"{metric.kind}.parquet" in content.files
            promised = content.statement["guarantees"]["release"]["epsilon"]
            assert promised == pytest.approx(metric.design.epsilon)
        assert job.guarantees[0].epsilon <= 9 * one.share * (1 + 1e-9)
