"""Synthetic rows: made from a release alone, near what it says, and marked as made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.fakes import canaries
from tests.golden.fixed_randomness import fixed_randomness

N = 4000
PLACES = {"ams": "nl", "rtm": "nl", "par": "fr"}
ASKED: dict[str, Any] = {
    "input": "log.parquet",
    "columns": ["city", "version", "group"],
    "hierarchies": ["city=places.csv"],
    "domains": ["version=1..4", "group=plans.txt"],
    "epsilon": 2.0,
    "output": "out",
}
PLAN = """\
collection: app
version: 1
input: log.parquet
output: released/{window}
model: shuffle
epsilon: 4
delta: 1e-6
metrics:
  - {name: all, kind: count}
  - {name: by, kind: cross-tab, columns: [version, group], domains: [version=1..4, group=plans.txt]}
"""
# Standard errors of an estimate. Noise of thousands of cells lies less far off, but for once in
# 10^8 runs, and rows lie nearer to what is fitted than half of one, as is checked apart.
FAR = 8.0


@pytest.fixture(autouse=True)
def log(workspace: Path) -> Iterator[pa.Table]:
    """A log whose columns depend on each other; some values are missing, or not declared."""
    rng = np.random.default_rng(8)
    version = rng.integers(1, 6, N)  # the fifth is not declared
    city = np.where(rng.random(N) < 0.7, (version - 1) % 3, rng.integers(0, 4, N))
    plan = np.where(rng.random(N) < 0.5, city % 3, rng.integers(0, 3, N))
    table = pa.table({
        "city": np.array([*PLACES, None], object)[city],
        "version": version,
        "group": np.array(["=free", "paid", "other"], object)[plan],
    })  # fmt: skip
    pq.write_table(table, "log.parquet")
    lines = [f"{city},{country}" for city, country in PLACES.items()]
    Path("places.csv").write_text("\n".join(["city,country", *lines]) + "\n")
    Path("plans.txt").write_text("=free\npaid\n")
    with fixed_randomness():
        yield table


def released(run, **changes: object) -> None:
    outcome = run(canaries.words("cross-tab", ASKED | changes))
    assert outcome.code == 0, outcome.said
    Path("log.parquet").unlink()  # nobody looks at it again


def statement(stem: str = "made") -> dict[str, Any]:
    return json.loads(Path(f"{stem}.statement.json").read_text())


def crossed(table: pa.Table, one: str, other: str) -> dict[tuple[object, object], int]:
    """How many rows have each pair of values; what is not declared is None."""
    known = {"version": {1, 2, 3, 4}, "group": {"=free", "paid"}, "city": {*PLACES}}
    columns = [
        [value if value in known[name] else None for value in table[name].to_pylist()]
        for name in (one, other)
    ]
    pairs = list(zip(*columns, strict=True))
    return {pair: pairs.count(pair) for pair in {*pairs}}


def test_rows_say_what_the_release_says(run, log: pa.Table) -> None:
    released(run)
    outcome = run(["synthetic", "out", "--output", "made.parquet"])
    assert outcome.code == 0, outcome.said
    made = pq.read_table("made.parquet")
    assert made.column_names == ["synthetic", "city", "version", "group"]
    assert made.schema.types == [pa.bool_(), pa.string(), pa.int64(), pa.string()]
    assert made["synthetic"].to_pylist() == [True] * len(made)
    said = statement()
    assert json.loads(made.schema.metadata[b"hushbeam.synthetic"]) == said
    assert said["rows"] == len(made) == int(outcome.out.split()[0].replace(",", ""))
    whole = json.loads(Path("out/statement.json").read_text())
    assert said["guarantee"] == whole["guarantees"]["release"]
    assert said["release"]["release_id"] == whole["release_id"]
    assert (said["synthetic"], said["further_cost"]["epsilon"]) == (True, 0.0)
    assert said["tables_not_used"] == ["country", "country × version", "country × group"]
    assert [one["table"] for one in said["tables"]] == [
        "city × version", "city × group", "version × group",
    ]  # fmt: skip
    error = whole["error"]["standard_error_of_a_cell"]
    for one, other in (("city", "version"), ("city", "group"), ("version", "group")):
        true, found = crossed(log, one, other), crossed(made, one, other)
        for pair in true.keys() | found.keys():
            assert abs(true.get(pair, 0) - found.get(pair, 0)) < FAR * error
        flat = N / len(true)  # what a table without dependence would have is far off
        assert max(abs(many - flat) for many in true.values()) > 2 * FAR * error
    assert said["distance"] < 0.1 * said["noise"] < 0.02


def test_what_three_columns_say_together_is_in_the_rows(run, log: pa.Table) -> None:
    """Their table is published under the one price, and rows are as near as noise lets them."""
    both = ["city,version,group", "version"]
    refused = run(canaries.words("cross-tab", ASKED | {"tables": both, "drawn_by": "each-report"}))
    assert (refused.code, "--drawn-by" in refused.said) == (2, True)
    four = run(canaries.words("cross-tab", ASKED | {"tables": ["city,version,group,country"]}))
    assert (four.code, "one, two or three different columns" in four.said) == (2, True)
    released(run, tables=both)
    outcome = run(["synthetic", "out", "--output", "made.parquet"])
    assert "tables of two and three columns" in outcome.out
    whole = json.loads(Path("out/statement.json").read_text())
    assert whole["guarantees"]["release"]["epsilon"] == 2.0
    made, said = pq.read_table("made.parquet"), statement()
    assert [one["table"] for one in said["tables"]] == ["city × version × group"]
    assert "what four columns" in said["in_words"]
    error = whole["error"]["standard_error_of_a_cell"]

    def counts(table: pa.Table) -> dict[tuple[object, ...], int]:
        known = {"version": {1, 2, 3, 4}, "group": {"=free", "paid"}, "city": {*PLACES}}
        columns = [
            [value if value in values else None for value in table[name].to_pylist()]
            for name, values in known.items()
        ]
        cells = list(zip(*columns, strict=True))
        return {cell: cells.count(cell) for cell in {*cells}}

    true, found = counts(log), counts(made)
    for cell in true.keys() | found.keys():
        assert abs(true.get(cell, 0) - found.get(cell, 0)) < FAR * error + 3
    assert max(abs(many - N / len(true)) for many in true.values()) > 2 * FAR * error


@pytest.mark.verify
def test_the_finest_level_that_has_tables_is_taken(run) -> None:
    released(run, tables=["country,group", "version"])
    assert run(["synthetic", "out", "--output", "made.parquet"]).code == 0
    made = pq.read_table("made.parquet")
    assert made.column_names == ["synthetic", "country", "version", "group"]
    assert {*made["country"].to_pylist()} == {"nl", "fr", None}
    assert statement()["tables_not_used"] == []
    assert [one["table"] for one in statement()["tables"]] == ["country × group"]


@pytest.mark.verify
def test_a_plan_s_release_has_one_that_is_meant(run) -> None:
    Path("plan.yaml").write_text(PLAN)
    assert run(["run", "plan.yaml", "--window", "w"]).code == 0
    Path("log.parquet").unlink()
    assert run(["synthetic", "released/w", "--output", "made.parquet"]).code == 0
    assert statement()["release"]["metric"] == "by"


@pytest.mark.verify
def test_a_column_may_be_called_as_the_mark(run) -> None:
    table = pq.read_table("log.parquet").rename_columns(["city", "synthetic", "estimate"])
    pq.write_table(table, "log.parquet")
    released(
        run, columns=["synthetic", "estimate"], hierarchies=None,
        domains=["synthetic=1..4", "estimate=plans.txt"],
    )  # fmt: skip
    assert run(["synthetic", "out", "--output", "made.parquet"]).code == 0
    names = pq.read_schema("made.parquet").names
    assert names == ["synthetic_value", "synthetic", "estimate"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["out", "--output", "made.txt"], "--output: made.txt ends in none of .parquet, .csv"),
        (["out", "--output", "made.csv", "--rows", "0"], "--rows must be a number of at least 1"),
        (
            ["out", "--output", "made.csv", "--rows", "1e20"],
            "--rows must be a number of at most 100,000,000",
        ),
        (["out", "--output", "made.csv", "--rows", "few"], "--rows must be a whole number"),
        (["out", "--output", "there.csv"], "--output: there.statement.json is there already"),
        (["nowhere", "--output", "made.csv"], "nowhere: there is no release"),
    ],
)
def test_what_cannot_be_asked(words: list[str], complaint: str, refused) -> None:
    Path("there.statement.json").write_text("{}")
    refused(["synthetic", *words], complaint)


@pytest.mark.verify
def test_a_release_without_tables_makes_no_rows(run, refused) -> None:
    assert run(["count", "--input", "log.parquet", "--epsilon", "1", "--output", "out"]).code == 0
    refused(
        ["synthetic", "out", "--output", "made.csv"], "out: name the folder of one cross-tab; there"
    )


@pytest.mark.verify
def test_a_release_that_is_damaged_makes_no_rows(run, refused) -> None:
    released(run)
    path, said = Path("out/cross-tab.parquet"), Path("out/statement.json")
    table, statement = pq.read_table(path), json.loads(said.read_text())
    place = table.column_names.index("fitted")
    large = pa.array([10**15] * len(table), pa.int64())
    texts = pa.array(["a"] * len(table))
    for damaged in (
        table.drop_columns(["fitted"]), table.slice(5), table.slice(0, len(table) - 3),
        table.slice(0, 0), table.set_column(place, "fitted", large),
        table.set_column(place, "fitted", texts),
    ):  # fmt: skip
        pq.write_table(damaged, path)
        refused(["synthetic", "out", "--output", "made.csv"], "damaged; copy the release whole")
    path.write_bytes(b"no table")
    refused(["synthetic", "out", "--output", "made.csv"], "out")
    pq.write_table(table, path)
    for lacking, complaint in (
        ("request", "damaged; copy the release whole"),
        ("guarantees", "guarantees: Field required; restore the release"),
    ):
        said.write_text(json.dumps({k: v for k, v in statement.items() if k != lacking}))
        refused(["synthetic", "out", "--output", "made.csv"], complaint)
    asked = statement["request"] | {"domains": statement["request"]["domains"][:1]}
    said.write_text(json.dumps(statement | {"request": asked}))
    refused(["synthetic", "out", "--output", "made.csv"], "damaged; copy the release whole")
    assert not list(Path().glob("made*"))


@pytest.mark.verify
def test_more_rows_than_the_memory_holds_are_refused(run, refused, monkeypatch) -> None:
    released(run)
    monkeypatch.setattr("mechanisms.postprocess.synthetic_rows.MOST_CELLS", 9)
    refused(["synthetic", "out", "--output", "made.csv"], "for the memory; ask for fewer rows")
