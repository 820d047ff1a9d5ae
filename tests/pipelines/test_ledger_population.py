"""A budget belongs to a population: whatever is published about it composes, whatever made it."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.channel import Guarantee
from pipelines.errors import RequestError
from pipelines.ledger.entries import Budget, Entry
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import BudgetExceeded
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

PLAN = """\
collection: {collection}
{population}version: 1
unit: user
user_column: user
input: log.parquet
output: out-{collection}
ledger: l.sqlite
budget: {{epsilon: 1.0, delta: 0}}
epsilon: 0.4
model: local
metrics:
  - {{name: city, kind: histogram, column: city, domain: 0..3, mechanism: grr}}
"""


@pytest.fixture
def ledger(tmp_path: Path) -> CollectionLedger:
    return begun(tmp_path / "ledger.sqlite", "trips", "crashes", "riders")


def spend(
    ledger: CollectionLedger, collection: str, population: str | None, epsilon: float = 0.6
) -> Entry:
    folder = str(Path(ledger.where).parent / f"{collection}-{len(ledger.entries())}")
    fingerprint = collection.encode().hex()
    asked = request(
        f"w{len(ledger.entries())}", folder, epsilon, collection=collection,
        fingerprint=fingerprint, population=population,
    )  # fmt: skip
    with ledger.spend(asked) as reservation:
        reservation.commit()
    return reservation.entry


def test_collections_of_one_population_share_its_budget(ledger: CollectionLedger) -> None:
    spend(ledger, "trips", None)
    spend(ledger, "crashes", None)  # nobody has said that they are about the same people
    with pytest.raises(BudgetExceeded, match="the budget of population 'trips'"):
        spend(ledger, "fares", "trips")
    assert spend(ledger, "fares", "trips", 0.4).people == "trips"


def test_a_collection_does_not_leave_what_it_has_spent(ledger: CollectionLedger) -> None:
    spend(ledger, "trips", None)
    with pytest.raises(RequestError, match="accounted in population 'trips'"):
        spend(ledger, "trips", "riders", 0.1)


def test_units_of_a_population_are_the_same(ledger: CollectionLedger) -> None:
    spend(ledger, "trips", None)
    rows = (Guarantee("local", 0.1, 0.0, "row", "closed form"),)
    asked = request("w", "out", collection="rows", population="trips", losses=rows)
    with pytest.raises(RequestError, match="population 'trips' is accounted per user"), \
            ledger.spend(asked):  # fmt: skip
        pytest.fail("rows and users do not compose")


def test_the_population_is_no_part_of_what_reports_mean(tmp_path: Path) -> None:
    marks = set()
    for words in ("", "population: riders\n"):
        (tmp_path / "p.yaml").write_text(PLAN.format(collection="a", population=words))
        marks.add(mark(load(str(tmp_path / "p.yaml"))))
    assert len(marks) == 1


def test_a_command_pays_beside_a_plan(run, workspace: Path) -> None:
    """The plan takes 0.4 of 1, the command 0.5; another plan of the population finds 0.1 left."""
    cities = np.arange(600) % 4
    pq.write_table(pa.table({"user": np.arange(600), "city": cities}), "log.parquet")
    for name, population in (("a", ""), ("b", "population: a\n")):
        Path(f"{name}.yaml").write_text(PLAN.format(collection=name, population=population))
    words = [
        "histogram", "--input", "log.parquet", "--column", "city", "--domain", "0..3",
        "--user-column", "user", "--model", "local", "--epsilon", "0.5", "--mechanism", "grr",
        "--ledger", "l.sqlite", "--population", "a", "--output",
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = run([*words, "none"])
        assert (first.code, "`hushbeam ledger init PLAN` begins one" in first.err) == (2, True)
        assert run(["ledger", "init", "a.yaml"]).code == 0
        strange = run([word if word != "a" else "others" for word in [*words, "none"]])
        assert (strange.code, "has no population 'others'" in strange.err) == (2, True)
        assert run(["run", "a.yaml"]).code == 0
        assert run([*words, "out"]).code == 0
        refused = run([*words, "again"])
        assert (refused.code, "Nothing was read" in refused.err) == (1, True)
        other = run(["run", "b.yaml"])
        assert (other.code, "the budget of population 'a'" in other.err) == (1, True)
    said = json.loads(run(["ledger", "explain", "--ledger", "l.sqlite", "--json"]).out)
    assert [(one["population"], one["total"]["epsilon"]) for one in said] == [("a", 0.9)]
    entry = CollectionLedger.open("l.sqlite").entries()[-1]
    assert (entry.collection[:10], entry.people, entry.state) == ("histogram-", "a", "committed")
    statement = json.loads(Path("out/statement.json").read_text())
    assert statement["release_id"] == entry.release_id
    stray = run([*words[:-5], "--population", "a", "--output", "stray"])
    assert (stray.code, "--ledger is missing" in stray.err) == (2, True)


def test_a_model_is_paid_for_too(run, workspace: Path) -> None:
    """0.8 of 1 for the first; the second, of the same people, does not fit and reads nothing."""
    x = np.linspace(-1, 1, 3000)
    pq.write_table(pa.table({"x": x, "y": x / 2}), "log.parquet")
    words = [
        "train", "--input", "log.parquet", "--number", "x=-1,1", "--target", "y=-1,1", "--epsilon",
        "0.8", "--ledger", "l.sqlite", "--population", "a",
        "--output",
    ]  # fmt: skip
    begun("l.sqlite", "a", unit="row", budget=Budget(epsilon=1, delta=2e-6))
    first = run([*words, "out"])
    assert first.code == 0, first.err
    again = run([*words, "again"])
    assert (again.code, "Nothing was read" in again.err) == (1, True)
    assert not Path("again").exists()
    (entry,) = CollectionLedger.open("l.sqlite").entries()
    assert (entry.state, entry.people, entry.metrics) == ("committed", "a", ("train",))
    assert [loss.epsilon for loss in entry.losses] == [0.8]
    statement = json.loads(Path("out/statement.json").read_text())
    assert statement["release_id"] == entry.release_id


@pytest.mark.verify
def test_a_command_that_was_killed_pays_once(run, workspace: Path) -> None:
    """After it had published: the next run finds it. Before: its reservation is gone on with."""
    pq.write_table(pa.table({"city": np.arange(600) % 4}), "log.parquet")
    begun("l.sqlite", "a", unit="row", budget=Budget(epsilon=1.5, delta=0))
    words = [
        "histogram", "--input", "log.parquet", "--column", "city", "--domain", "0..3", "--model",
        "local", "--epsilon", "0.5", "--mechanism", "grr", "--ledger", "l.sqlite", "--population",
        "a", "--output", "out",
    ]  # fmt: skip
    assert run(words).code == 0
    ledger = CollectionLedger.open("l.sqlite")
    (entry,) = ledger.entries()
    dead = {"state": "reserved", "owner": entry.owner.model_copy(update={"process": 2**22 + 1})}
    ledger.change(entry.id, lambda _: dead)
    assert run(words).code == 0  # the release is there: nothing is drawn again, or paid
    assert [(one.attempt, one.state) for one in ledger.entries()] == [(1, "committed")]
    assert run([*words[:-1], "beside"]).code == 0
    assert [entry.state for entry in ledger.entries()] == ["committed", "committed"]
    shutil.rmtree("out")
    ledger.change(entry.id, lambda _: dead)
    assert run(words).code == 0
    paid = ledger.entries()[0]
    assert (paid.id, paid.attempt, paid.state) == (entry.id, 2, "committed")
    shutil.rmtree("out")
    ledger.archive(entry.id)
    assert run(words).code == 0  # noise that is drawn anew is paid for anew
    assert [entry.state for entry in ledger.entries()] == ["committed"] * 3
