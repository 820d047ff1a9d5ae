"""Long files of text: their beginning is looked at, and workers count their rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.cli import main
from pipelines.errors import Notice, RequestError
from pipelines.logs import inputs
from pipelines.logs.reading import view_of
from pipelines.releases import release
from tests.oracles.transforms import run
from transforms.elements.progress import FILES, READ, ROWS
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.groups import GroupEncoder
from transforms.rows.encode import Encode
from transforms.rows.telemetry import ReadTelemetry

N = 40_000  # rows, in more bytes than are looked at


def _line(row: int) -> str:
    more = {"late": row} if row == N - 1 else {}
    return json.dumps({"city": "Oslo" if row % 4 else "Bern", "n": row, "pad": "x" * 30} | more)


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(_line, range(N))) + "\n")
    return str(path)


@pytest.fixture
def fields(tmp_path: Path) -> str:
    path = tmp_path / "log.csv.gz"
    rows = (f"{'Oslo' if row % 4 else 'Bern'},{row},{'x' * 30}" for row in range(N))
    path.write_bytes(gzip.compress("\n".join(["city,n,pad", *rows]).encode()))
    return str(path)


@pytest.mark.parametrize("name", ["lines", "fields"])
def test_rows_are_estimated_until_somebody_needs_them(name: str, request) -> None:
    telemetry = inputs.open_telemetry((request.getfixturevalue(name),))
    assert not telemetry.counts.whole
    assert N / 8 < telemetry.about < 8 * N  # how well a log packs is a guess
    assert telemetry.column_type("city", "--column") == pa.string()
    assert not telemetry.counts.whole
    with pytest.warns(Notice, match="counted first: the design of the noise needs their number"):
        assert telemetry.rows == N
    assert telemetry.seen(view_of(["m=n"], [])).rows == telemetry.about == N  # and once for all


def test_a_short_text_is_counted_at_once(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("city\nOslo\nBern\n")
    telemetry = inputs.open_telemetry((str(tmp_path / "log.csv"),))
    assert telemetry.counts.whole
    assert telemetry.rows == 2


def test_text_beside_other_formats_is_read_whole(lines: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"late": [1]}), tmp_path / "log.parquet")
    telemetry = inputs.open_telemetry((lines, str(tmp_path / "log.parquet")))
    assert telemetry.counts.whole
    assert telemetry.rows == N + 1
    with pytest.raises(RequestError, match="'late' holds text"):
        telemetry.column_type("late", "--column")


@pytest.mark.filterwarnings("ignore::pipelines.errors.Notice")
def test_a_member_that_comes_late_is_a_column(lines: str) -> None:
    telemetry = inputs.open_telemetry((lines,))
    assert telemetry.column_type("late", "--column") == pa.string()
    assert "late" in inputs.open_telemetry((lines,)).whole("it is").schemas[0].names
    seen = inputs.open_telemetry((lines,)).seen(view_of(["m=late"], []))
    assert seen.column_type("m", "--column") == pa.string()
    inputs.open_telemetry((lines,)).require_rows([("where", "late is null")])
    with pytest.raises(RequestError, match="it has: city, n, pad, late"):
        inputs.open_telemetry((lines,)).column_type("none", "--column")


def test_who_waits_is_told_why_and_only_if_need_be(lines: str, fields: str, run, workspace) -> None:
    """Columns of text with a header are all at its beginning; a draft needs no more of it."""
    drafts = {}
    for name, log in (("lines", lines), ("fields", fields)):
        drafts[name] = run(["init", log, "--output", f"{name}.yaml"])
        assert drafts[name].code == 0, drafts[name].said
    assert drafts["lines"].err.count("counted first: a column may begin late in it") == 1
    assert "counted first" not in drafts["fields"].err
    looked = run(["look", fields])
    assert looked.err.count("counted first: to tell how many there are") == 1
    assert f"{N:,}" in looked.out
    late = ["--column", "late", "--domain", "1..9", "--epsilon", "1", "--output", "out"]
    found = run(["count", "--input", lines, *late])
    assert "counted first: column 'late' is not at its beginning" in found.err
    refused = run(["count", "--input", fields, *late])
    assert refused.code == 2
    assert "counted first" not in refused.err
    moment = ["--sessions", "city,30min", "--user-column", "n", "--by-row", "--rows-per-user", "2"]
    wrong = run(["count", "--input", fields, *moment, "--epsilon", "1", "--output", "out2"])
    assert wrong.code == 2
    assert "counted first" not in wrong.err


@pytest.mark.parametrize("name", ["lines", "fields"])
def test_a_job_that_needs_no_number_reads_text_once(
    name: str, request, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(inputs, "look", None)  # whoever reads a whole file would fail
    (tmp_path / "cities.txt").write_text("Oslo\nBern\n")
    output = str(tmp_path / "release")
    words = (
        f"count --input {request.getfixturevalue(name)} --column city --epsilon 20"
        f" --domain {tmp_path}/cities.txt --output {output}"
    )
    assert main(words.split()) == 0
    table = release.read_table(output, "count.parquet")
    assert [round(one, -2) for one in table["estimate"].to_pylist()][:2] == [30_000, 10_000]


def test_declared_reports_spare_the_counting(fields: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(inputs, "look", None)
    (tmp_path / "cities.txt").write_text("Oslo\nBern\n")
    words = (
        f"histogram --input {fields} --column city --epsilon 4 --min-reports 30000"
        f" --domain {tmp_path}/cities.txt --output {tmp_path}/release"
    )
    assert main(words.split()) == 0


def test_readers_say_how_many_rows_their_files_had(lines: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    read = ReadTelemetry((lines, str(empty)), ("city",), counted=True)
    encoder = GroupEncoder((("city", DeclaredValues(("Oslo", "Bern"), True)),))
    tallies = run(lambda p: (p | read | Encode(encoder)).tallies).elements
    assert dict(tallies) == {ROWS: N, READ: N, FILES: 2}


@pytest.mark.parametrize(
    ("tallies", "whole"),
    [
        ({ROWS: N, READ: N, FILES: 1}, True),
        ({ROWS: N - 1, READ: N, FILES: 1}, False),  # a block is lost
        ({ROWS: N}, False),  # and the last of them
        ({}, False),  # and a file
        ({ROWS: 2 * N, READ: 2 * N, FILES: 2}, False),
    ],
)
def test_what_is_lost_on_the_way_is_noticed(lines: str, tallies, whole: bool) -> None:
    telemetry = inputs.open_telemetry((lines,))
    assert telemetry.read(["city"]).counted
    kept = dict(tallies)
    assert telemetry.all_came(kept) is whole
    assert kept.keys() <= {ROWS}  # what is left out of a release is told of nothing else


def test_a_file_that_is_damaged_behind_its_beginning_is_named(
    fields: str, tmp_path, capsys
) -> None:
    content = Path(fields).read_bytes()
    ruined = tmp_path / "ruined.csv.gz"
    ruined.write_bytes(content[:-2000] + b"\0" * 2000)
    words = f"count --input {ruined} --epsilon 1 --output {tmp_path}/release"
    assert main(words.split()) == 2
    assert "ruined.csv.gz is not a readable CSV file" in capsys.readouterr().err
    assert not (tmp_path / "release").exists()
