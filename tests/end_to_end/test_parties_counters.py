"""Counts in three parties: clients seal, the shuffler draws, and who takes part is hidden."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import MOST_SLOTS, Reports
from mechanisms.wire.sealing import create_key, public_key, seal
from pipelines.parties.device import ClientReports
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from tests.contract.laws import reach
from tests.fakes.parties import BY_NOISE, client, collect, key, masked, shuffle

PLAN = """\
collection: counted
version: 1
input: log.parquet
output: released/{window}
user_column: user
unit: user
epsilon: 9
delta: 1e-6
drawn_by: shuffler
metrics:
  - {name: cities, kind: count, column: city, domain: 0..2, rows_per_user: 2}
  - {name: people, kind: count}
  - {name: much, kind: sum, column: city, bounds: "0,2", whole_numbers: true}
"""
ORDINARY = (
    "  - {name: one, kind: histogram, column: city, domain: 0..2, min_reports: 100, "
    "drawn_by: each-report}\n"
)
WIDE = "  - {name: wide, kind: count, column: city, domain: 0..1999, rows_per_user: 1200}\n"
AVERAGE = '  - {name: avg, kind: mean, column: city, bounds: "0,2", drawn_by: shuffler}\n'
SHAPE = '  - {name: shape, kind: distribution, column: city, bounds: "0,2", drawn_by: shuffler}\n'
FREQUENT = "  - {name: often, kind: strings, search: levels, column: city, drawn_by: shuffler}\n"
VALUED = (
    "  - {name: valued, kind: histogram, column: city, domain: 0..1, rows_per_user: 2, "
    "drawn_by: shuffler}\n"
)
ROW = (
    "  - {name: row, kind: vector-mean, number: ['city=0,2', 'user=0,30'], drawn_by: shuffler,\n"
    "     category: ['city2=0..1'], expected: 30}\n"
)
IMAGE = "  - {name: image, kind: vector-mean, vector: ['x=400:0,1'], drawn_by: shuffler}\n"
PLAIN = "unsealed reports would tell the shuffler each value"


@pytest.fixture
def parted(workspace: Path) -> Split:
    """A plan, a log of 30 users, two rows each, and a key."""
    Path("plan.yaml").write_text(PLAN)
    log_and_key(workspace)
    return split(load("plan.yaml"), "d1")


def log_and_key(workspace: Path) -> None:
    users = np.arange(60) // 2
    pq.write_table(pa.table({"user": users, "city": np.arange(60) % 3}), "log.parquet")
    Path("keys").mkdir()
    create_key(workspace / "keys")


def figures(name: str, window: str = "d1") -> list[float]:
    return pq.read_table(f"released/{window}/{name}/count.parquet")["estimate"].to_pylist()


def near(parted: Split, place: int, found: list[float], truth: list[int]) -> bool:
    """Within the ends of the noise, which no draw is beyond."""
    mean = parted.counters[place].dummies.means[0]
    return all(abs(one - other) <= mean for one, other in zip(found, truth, strict=True))


@pytest.mark.verify
def test_the_road_of_counts_from_a_log_and_from_a_device(run, parted) -> None:
    """What is published lies within the noise, and nothing else tells how many took part."""
    assert run(client("--input", "log.parquet", "--output", "log.bin")).code == 0
    own = ClientReports(parted, 0, one=True, own=bytes(32))
    block, counted = own.sealed(
        [pa.table({"city": [1, 1, 1]})], public_key(Path(key()).read_bytes())
    )
    assert (len(block), counted) == (1, {"rows read": 3})
    assert len(own.sealed([], public_key(Path(key()).read_bytes()))[0]) == 0
    Path("again.bin").write_bytes(Path("log.bin").read_bytes())
    outcome = run(shuffle("log.bin", "again.bin", into="out"))
    assert outcome.code == 0
    assert "180 reports came; 90 dropped: duplicate" in outcome.out
    handed = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    outcome = run(shuffle("log.bin", "again.bin", into="out"))  # by a scheduler that tries again
    assert (outcome.code, "shuffled before, and not again: out" in outcome.out) == (0, True)
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == handed
    outcome = run(collect("out"))
    assert (outcome.code, outcome.err) == (0, "")
    assert near(parted, 0, figures("cities"), [20, 20, 20, 0])
    assert near(parted, 1, figures("people"), [30])
    (total,) = pq.read_table("released/d1/much/sum.parquet")["estimate"].to_pylist()
    most = zip(parted.counters[2].levels[:2], parted.counters[2].dummies.means[:2], strict=True)
    assert abs(total - 50) <= sum(level.weight * mean for level, mean in most)
    statement = json.loads(Path("released/d1/people/statement.json").read_text())
    whole = json.loads(Path("released/d1/statement.json").read_text())
    assert not {"n", "reports", "rows", "invalid", "min_reports"} & {*statement, *whole}
    for one in (statement, whole):
        assert one["published_exactly"] == "nothing"
        assert "the shuffler drew dummies that nobody" in " ".join(one["in_words"])
    said = json.dumps([statement, whole])
    assert "the job that read the log" not in said
    assert "Against shuffler and collector together nothing is promised" in said


@pytest.mark.verify
def test_a_log_without_rows_is_handed_in_like_any_other(run, parted) -> None:
    empty = pa.table({"user": pa.array([], pa.int64()), "city": pa.array([], pa.int64())})
    pq.write_table(empty, "empty.parquet")
    outcome = run(client("--input", "empty.parquet", "--output", "empty.bin"))
    assert outcome.code == 0, outcome.said
    assert "0 reports: there is nothing to send" in outcome.out
    assert not Path("empty.bin").exists()


@pytest.mark.verify
def test_counts_of_a_plan_whose_users_are_replaced(run, workspace, refused) -> None:
    """That somebody takes part is then not hidden, and noise is for a report that changes."""
    log_and_key(workspace)
    told = "neighbours is wrong: some of the metrics publish"
    Path("plan.yaml").write_text(f"neighbours: add-or-remove\n{PLAN}{ORDINARY}")
    refused(["check", "plan.yaml"], told)
    text = PLAN.partition("  - {name: people")[0]
    plans = []
    for which in ("add or remove", "replace"):
        Path("plan.yaml").write_text(f"neighbours: {which}\n{text}")
        plans.append(split(load("plan.yaml"), "d1"))
    hidden, replaced = plans
    assert replaced.fingerprint != hidden.fingerprint
    assert [one.counters[0].neighbours for one in plans] == ["add or remove", "replace"]
    assert replaced.counters[0].variances[0] > 2 * hidden.counters[0].variances[0]
    assert run(client("--input", "log.parquet", "--output", "log.bin")).code == 0
    assert run(shuffle("log.bin", into="out")).code == 0
    outcome = run(collect("out"))
    assert (outcome.code, outcome.err) == (0, "")
    assert near(replaced, 0, figures("cities"), [20, 20, 20, 0])
    for name in ("", "cities"):
        said = json.loads(Path("released/d1", name, "statement.json").read_text())
        promise = said["guarantees"]["release"]
        assert promise["neighbours"] == "replace"
        assert promise["epsilon"] <= 9
        assert "rows_read" not in said
        assert said["neighbours"] == "a user's rows, all of them, become any others"
        assert "It does not cover that there is such a user" in said["in_words"][1]


@pytest.mark.verify
def test_the_statements_of_two_logs_that_differ_by_one_user_are_the_same(run, parted) -> None:
    """And of nobody's: all that is said beside estimates, but for ids and times, word for word."""
    told = []
    pq.write_table(pq.read_table("log.parquet").slice(0, 58), "less.parquet")
    # Names of windows that no fingerprint in hexadecimals holds.
    for window, logs in (("w1", ["log"]), ("w2", ["less"]), ("w3", [])):
        for name in logs:
            words = client("--input", f"{name}.parquet", "--output", f"{name}.bin", window=window)
            assert run(words).code == 0
        files = [f"{name}.bin" for name in logs] or ["nobody*.bin"]
        assert run(shuffle(*files, into=f"out-{window}", window=window)).code == 0
        outcome = run(collect(f"out-{window}", window))
        said = [
            line for line in outcome.err.splitlines() if not any(said in line for said in BY_NOISE)
        ]
        assert (outcome.code, said) == (0, [])
        texts = sorted(Path("released", window).rglob("statement.json"))
        told.append([masked(path.read_text(), window) for path in texts])
        names = sorted(path.name for path in Path("released", window).rglob("*"))
        told[-1].append(str(names))
    assert told[0] == told[1] == told[2]
    assert near(parted, 1, figures("people", "w3"), [0])


@pytest.mark.verify
def test_plain_reports_are_refused_wherever_they_could_be(refused, run, parted) -> None:
    plain = {"client": ["--output", "r.bin"], "shuffle": ["--output", "out"], "collect": []}
    for party, words in plain.items():
        of_window = ["plan.yaml", "--window", "d1", "--input", "log.parquet", *words]
        refused(["parties", party, *of_window], PLAIN)
    one = shuffle("log.parquet", into="out")
    refused([*one[:-2], key(), *one[-2:]], "one key a window where dummies are the noise")
    # Reports of the form that others seal are none of these metrics'.
    messages = Reports.submitted(parted.fingerprint, 0, [1, 2], SeededRandom(1))
    sealed = seal(messages, public_key(Path(key()).read_bytes()))
    Path("r.bin").write_bytes(binary.encode(sealed))
    outcome = run(shuffle("r.bin", into="out"))
    assert "2 reports came; 2 dropped: other form of report" in outcome.out


def test_bad_requests_are_one_line(refused, parted) -> None:
    one = client("--input", "log.parquet", "--output", "r.parquet")
    refused(one, "a Parquet file has room for reports of one width")
    refused(shuffle("missing.bin", into="out"), "no file matches missing.bin")
    head = PLAN.partition("  - {")[0]  # without the metrics that would be settled with each
    Path("plan.yaml").write_text(head + "  - {name: people, kind: count}\n" + ORDINARY)
    refused(
        shuffle("log.parquet", into="out"),
        "metric one: its reports go on whenever enough have come",
    )
    Path("plan.yaml").write_text(head + FREQUENT)
    refused(shuffle("log.parquet", into="out"), "what earlier levels let stand")
    Path("plan.yaml").write_text(head + WIDE)
    refused(shuffle("log.parquet", into="out"), "room for 1,169 messages, and this one has 1,")


@pytest.mark.verify
def test_whatever_asks_for_the_shufflers_dummies_has_a_way(parted) -> None:
    """Without a least number of reports; and no more dummies than can be sealed."""
    Path("plan.yaml").write_text(PLAN + AVERAGE + SHAPE + VALUED)
    for design in split(load("plan.yaml"), "d1").counters[-3:]:
        assert design.dummies.number(design.levels) <= 1 << 18
        assert design.layout.types.size <= MOST_SLOTS


@pytest.mark.verify
def test_a_row_goes_its_way_from_a_log_and_from_a_device(run, refused, parted) -> None:
    """Of all rows of a user one counts; a row that is too long to be sealed is refused."""
    Path("plan.yaml").write_text(PLAN.partition("metrics:")[0] + "metrics:\n" + ROW)
    log = pq.read_table("log.parquet")
    log = log.append_column("city2", pa.array(np.arange(60) % 2))
    pq.write_table(log, "log.parquet")
    assert run(client("--input", "log.parquet", "--output", "log.bin")).code == 0
    own = ClientReports(split(load("plan.yaml"), "d1"), 0, one=True, own=bytes(32))
    tables = [log.slice(0, 2).drop_columns(["user"]).append_column("user", pa.array([0, 0]))]
    block, _ = own.sealed(tables, public_key(Path(key()).read_bytes()))
    assert len(block) == 1
    assert run(shuffle("log.bin", into="out")).code == 0
    outcome = run(collect("out"))
    assert (outcome.code, outcome.err) == (0, "")
    rows = pq.read_table("released/d1/row/vector-mean.parquet").to_pylist()
    for row, mean in zip(rows, (1.0, 14.5), strict=True):
        assert abs(row["users"] - 30) <= reach(row["users_standard_error"])
        assert abs(row["estimate"] - mean) < reach(row["standard_error"], 1 / 30) + 1.0
    head = PLAN.partition("metrics:")[0].replace("epsilon: 9", "epsilon: 1")
    Path("plan.yaml").write_text(head + "metrics:\n" + IMAGE)
    complaint = "metric image: clients seal 402 messages each, and the shuffler"
    refused(shuffle("log.parquet", into="out"), complaint)


@pytest.mark.verify
def test_a_device_reports_one_metric_in_either_carrier(run, workspace, parted, monkeypatch) -> None:
    """Lines on the standard input are one user's rows, and make one report."""
    for number, (metric, name) in enumerate((("cities", "a.bin"), ("people", "b.parquet"))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"0\n2\n2\n")))
        words = client("--metric", metric, "--input", "-", "--output", name)
        outcome = run([*words, "--report-secret", f"secret{number}"])
        assert outcome.code == 0
        assert "1 report in" in outcome.out
    assert run(shuffle("a.bin", "b.parquet", into="out")).code == 0
    assert run(collect("out")).code == 0
    assert near(parted, 0, figures("cities"), [1, 0, 1, 0])
    assert near(parted, 1, figures("people"), [1])
