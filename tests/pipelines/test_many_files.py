"""Logs of more files than a launcher looks at: workers match them, count them and hold them."""

from __future__ import annotations

import re
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pipelines.cli.cli import main
from pipelines.errors import Notice
from pipelines.logs import inputs
from tests.oracles.transforms import run
from transforms.elements.progress import FILES, READ, ROWS
from transforms.rows.telemetry import MatchDoFn

FEW, MANY = 100, 3000


@pytest.fixture(autouse=True)
def _lowered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(inputs, "_ALL_FILES", FEW)
    monkeypatch.chdir(tmp_path)


def write(number: int, ending: str = "parquet", **odd: pa.Table) -> int:
    """How many rows there are in files of 0 to 6 rows, but for those by their names."""
    rows = 0
    for file in range(number):
        table = odd.get(f"f{file}")
        if table is None:
            table = pa.table({"n": np.arange(file % 7, dtype=np.int32), "text": ["x"] * (file % 7)})
        rows += table.num_rows
        if ending == "csv":
            pyarrow.csv.write_csv(table, f"{file:04}.csv")
        else:
            pq.write_table(table, f"{file:04}.parquet")
    return rows


def tallied(telemetry: inputs.Telemetry, columns: tuple[str, ...]) -> tuple[list[pa.Table], dict]:
    """The tables of a log, and what their readers say of it."""
    tables = run(lambda pipeline: pipeline | telemetry.read(columns)).elements
    said = [t.schema.metadata for t in tables if t.schema.metadata]
    tallies = {name: sum(int(one[name.encode()]) for one in said) for name in (READ, FILES)}
    return tables, tallies | {ROWS: sum(t.num_rows for t in tables)}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_workers_match_and_count_what_few_looks_stand_for(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, looks = write(MANY, ending), []
    real = inputs.look
    monkeypatch.setattr(inputs, "look", lambda *words: looks.append(words) or real(*words))
    telemetry = inputs.open_telemetry((f"*.{ending}",))
    assert len(looks) == inputs._SOME_FILES
    assert {Path(words[0]).stem for words in looks} >= {"0000", f"{MANY - 1:04}"}
    assert (len(telemetry.files), telemetry.counts.whole) == (MANY, False)
    assert telemetry.about == pytest.approx(rows, rel=0.5)

    graph = beam.Pipeline("FnApiRunner")
    graph | telemetry.read(("n",))
    assert len(graph.to_runner_api().SerializeToString()) < 100_000

    tables, tallies = tallied(telemetry, ("n",))
    assert tallies == {READ: rows, FILES: MANY, ROWS: rows}
    numbers = np.concatenate([t["n"].to_numpy().astype(int) for t in tables if t.num_rows])
    assert np.bincount(numbers).tolist() == [
        sum(file % 7 > value for file in range(MANY)) for value in range(6)
    ]
    assert telemetry.all_came({**tallies})
    assert not telemetry.all_came({**tallies, FILES: MANY + 1})  # one came meanwhile
    assert not telemetry.all_came({**tallies, ROWS: rows - 1})
    with pytest.warns(Notice, match="are counted first: the design of the noise"):
        assert telemetry.rows == rows


def test_files_that_several_patterns_match_are_read_once() -> None:
    rows = write(300)
    telemetry = inputs.open_telemetry(("*.parquet", "00*.parquet"))
    assert telemetry.patterns == ()
    assert tallied(telemetry, ("n",))[1] == {READ: rows, FILES: 300, ROWS: rows}


def test_files_nobody_has_looked_at_are_read_as_those_that_were() -> None:
    texts = pa.array(["y", None], pa.large_string())
    wide = pa.table({"n": pa.array([2**40, None]), "text": texts})
    nulls = pa.table({"n": pa.nulls(2), "text": pa.nulls(2)})
    rows = write(300, f7=wide, f9=nulls)
    telemetry = inputs.open_telemetry(("*.parquet",))
    assert telemetry.column_type("n", "--column") == pa.int64()
    tables, tallies = tallied(telemetry, ("n", "text"))
    assert tallies[READ] == rows
    assert {table.schema.field("n").type for table in tables if table.num_rows} == {pa.int64()}
    assert 2**40 in pa.concat_tables(t for t in tables if t.num_rows)["n"].to_pylist()


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (pa.table({"n": ["CANARY"], "text": ["x"]}), "column 'n' holds text"),
        (pa.table({"n": [0.5], "text": ["x"]}), "column 'n' holds numbers"),
        (pa.table({"n": pa.array([2**63], pa.uint64()), "text": ["x"]}), "holds integers .uint64."),
        (pa.table({"text": ["CANARY"]}), "has no column 'n'"),
    ],
)
def test_a_file_that_holds_another_thing_is_refused_by_its_name(
    odd: pa.Table, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(300, f7=odd)
    words = "count --input *.parquet --column n --domain 0..9 --epsilon 1 --output release"
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert re.search(rf"0007\.parquet is not a readable Parquet file \(.*{why}", said)
    assert "CANARY" not in said
    assert not Path("release").exists()


def test_a_release_of_many_files_counts_all_rows() -> None:
    rows = write(300)
    words = "count --input *.parquet --column n --domain 0..9 --epsilon 100 --output release"
    assert main(words.split()) == 0
    table = pq.read_table("release/count.parquet")
    assert sum(table["estimate"].to_pylist()) == pytest.approx(rows, abs=5)  # noise of 0.01


def test_matches_come_in_groups_that_lose_none() -> None:
    write(700)
    groups = [*MatchDoFn().process("*.parquet")]
    assert [len(group) for group in groups] == [256, 256, 188]
    assert len({file for group in groups for file in group}) == 700
