"""Many releases as one table."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pipelines.cli import cli
from pipelines.metrics.metric import PAGE, Content
from pipelines.plan.publish import gathered
from pipelines.releases import history, release, schema
from pipelines.releases.schema import LONG, RELEASE, joinable, joined, long
from pipelines.views.headline import Head
from pipelines.views.pages import whole

GUARANTEE = {"model": "shuffle", "epsilon": 0.5, "delta": 1e-6, "unit": "user"}
HOSTILE = '=cmd|"/c calc"!A1'


def statement(kind: str, figures: dict[str, str], **more: Any) -> dict[str, Any]:
    return {
        "statement_version": 1, "release": kind,
        "created": "2026-11-21T03:00:00+00:00", "in_words": [],
        "guarantees": {"release": GUARANTEE, "local": GUARANTEE}, "figures": figures, **more,
    }  # fmt: skip


def histogram(*values: str) -> pa.Table:
    share = [1 / len(values)] * len(values)
    ends = {"lower": [0.0] * len(values), "upper": [1.0] * len(values)}
    return pa.table({"value": values, "estimate": share, "unbiased": share} | ends)


def publish_day(day: int, folder: Path) -> None:
    """A release of a plan with a histogram, a mean of groups and a distribution."""
    mean = {"group": ["a", "b"], "estimate": [1.5, 2.5], "standard_error": [0.1, 0.2]}
    mean |= {"users": [70.0, 30.0], "users_standard_error": [2.0, 2.0]}
    bins = {"low": [0.0, 1.0], "high": [1.0, 2.5], "estimate": [0.25, 0.75]}
    made = whole(Head("", '<h1></h1>\n<p class="lead"></p>\n'), "")
    contents = {
        "cities": Content(
            {"histogram.parquet": histogram("Oslo", HOSTILE), PAGE: made},
            statement("histogram", {"histogram.parquet": "share"}, n=100),
        ),
        "delay": Content(
            {"mean.parquet": pa.table(mean), PAGE: made},
            statement("mean", {"mean.parquet": "mean"}),
        ),
        "spread": Content(
            {"distribution.parquet": pa.table(bins), PAGE: made},
            statement("distribution", {"distribution.parquet": "share"},
                      took_part={"estimate": 98.0, "standard_error": 3.0}),
        ),
    }  # fmt: skip
    publish(day, contents, folder)


def publish(day: int, contents: dict[str, Content], folder: Path) -> None:
    """One day of a plan, as a run publishes it."""
    start = datetime(2026, 11, day, tzinfo=timezone.utc)
    plan = {
        "collection": "rides", "version": 1, "window": f"2026-11-{day:02}", "fingerprint": "f",
        "from": start.isoformat(), "until": (start + timedelta(days=1)).isoformat(),
    }  # fmt: skip
    whole: dict[str, Any] = {
        "release": "plan",
        "release_id": f"{day:032x}",
        "created": "2026-11-21T03:00:00+00:00",
    }
    whole |= {"in_words": [], "plan": plan, "guarantees": {"release": GUARANTEE}}
    files, said = gathered([*contents], contents, whole)
    release.publish(str(folder / plan["window"]), files, said)


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    for day in (3, 1, 2):
        publish_day(day, tmp_path / "releases")
    return tmp_path / "releases"


def exported(releases: Path, output: Path) -> pa.Table:
    assert cli.main(["export", str(releases), "--output", str(output)]) == 0
    return pq.read_table(output)


def test_days_and_kinds_stand_in_one_table(releases: Path, tmp_path: Path) -> None:
    table = exported(releases, tmp_path / "all.parquet")
    assert table.schema.equals(LONG)
    rows = table.to_pylist()
    assert len(rows) == 3 * 6
    assert [row["window"] for row in rows] == sorted(row["window"] for row in rows)
    assert {row["collection"] for row in rows} == {"rides"}
    assert {(row["window_end"] - row["window_start"]).days for row in rows} == {1}
    first = {(row["metric"], row["group"], row["value"]): row for row in rows[:6]}
    assert first["cities", None, "Oslo"]["n"] == 100.0
    assert first["cities", None, "Oslo"]["n_standard_error"] == 0.0
    assert first["cities", None, "Oslo"]["upper"] == 1.0
    mean = first["delay", "a", None]
    assert (mean["estimate"], mean["standard_error"], mean["n"]) == (1.5, 0.1, 70.0)
    spread = first["spread", None, "1..2.5"]
    assert (spread["estimate"], spread["n"], spread["n_standard_error"]) == (0.75, 98.0, 3.0)
    assert spread["lower"] is None
    assert {row["epsilon"] for row in rows} == {0.5}


def test_of_which_release_figures_are_its_statement_says_as_its_tables_do(releases: Path) -> None:
    published = history.releases_in([str(releases)])
    parts, whole = [], []
    for one in published:
        for name, table in one.tables():
            assert {*table.column_names}.isdisjoint(RELEASE.names)
            parts.append((table, one.statement, one.figures[name]))
            whole.append(long(pq.read_table(f"{one.folder}/{name}")))
    assert joined(parts) == pa.concat_tables(whole)
    assert joined([]) == LONG.empty_table()


def test_no_text_of_a_client_is_a_formula(releases: Path, tmp_path: Path) -> None:
    output = tmp_path / "all.csv"
    assert cli.main(["export", str(releases), "--output", str(output)]) == 0
    values = pa.csv.read_csv(output)["value"].to_pylist()
    assert f"'{HOSTILE}" in values
    assert HOSTILE not in values
    assert "1..2.5" in values  # a bin is none


def test_a_release_counts_once_however_it_is_named(releases: Path, tmp_path: Path, capsys) -> None:
    day = str(releases / "2026-11-02")
    words = ["export", day, str(releases / "*"), f"{day}/cities"]
    assert cli.main([*words, "--output", str(tmp_path / "all.parquet")]) == 0
    assert pq.read_metadata(tmp_path / "all.parquet").num_rows == 18
    assert "18 figures of 9 metrics" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nowhere", "--output", "a.csv"], "nowhere: there is no release"),
        (["releases", "--output", "a.xlsx"], "a.xlsx ends in none of .parquet, .csv"),
        (["releases", "--output", "there.csv"], "there.csv is there already"),
        (["releases", "--output", "no/such/a.csv"], "cannot be written: No such file"),
        (["broken", "--output", "a.csv"], "broken/statement.json is cut off, or is no JSON"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    words: list[str], why: str, releases: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.csv").write_text("kept")
    Path("broken").mkdir()
    Path("broken/statement.json").write_text("{")
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["export", *words]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert Path("there.csv").read_text() == "kept"


def test_pages_say_where_they_belong(releases: Path) -> None:
    shown = (releases / "2026-11-01" / "cities" / PAGE).read_text()
    assert '<a href="../report.html">rides</a> · window 2026-11-01 · cities' in shown
    said = json.loads((releases / "2026-11-01" / "cities" / "statement.json").read_text())
    assert (said["collection"], said["metric"]) == ("rides", "cities")
    assert said["window"] == {
        "name": "2026-11-01",
        "start": "2026-11-01T00:00:00+00:00",
        "end": "2026-11-02T00:00:00+00:00",
    }


def test_columns_of_one_value_are_plain_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks they have: readers see texts and numbers, of the types of all tables."""
    monkeypatch.setattr(schema, "_BLOCK", 2)
    table, window = histogram(*"abcde"), {"name": "w", "start": "2026-11-01T00:00:00+00:00"}
    said = statement("histogram", {"h.parquet": "share"}, n=3, release_id="a" * 32, window=window)
    file = pq.ParquetFile(io.BytesIO(joinable({"h.parquet": table}, said)["h.parquet"]))
    made = file.read()
    assert made.schema.field("release_id").type == pa.string()
    assert pa.schema([*made.schema][: len(LONG)]).equals(LONG)
    for column, value in {"release_id": "a" * 32, "epsilon": 0.5, "n": 3.0, "group": None}.items():
        assert made[column].to_pylist() == [value] * 5
        place = made.schema.get_field_index(column)
        assert file.metadata.row_group(0).column(place).total_uncompressed_size < 200
    assert made["window_start"][4].as_py().isoformat() == window["start"]
    assert schema.own(made).equals(table)


def test_a_table_says_in_its_metadata_what_it_is() -> None:
    said = statement("histogram", {"histogram.parquet": "share"}, n=3, release_id="a" * 32)
    made = joinable({"histogram.parquet": histogram("x"), "other.bin": b"as it is"}, said)
    assert made["other.bin"] == b"as it is"
    columns = pq.read_schema(io.BytesIO(made["histogram.parquet"]))
    told = json.loads(columns.metadata[b"hushbeam"])
    assert told["version"] == 1
    assert (told["figure"], told["release_id"], told["model"]) == ("share", "a" * 32, "shuffle")


def publish_week_day(day: int, folder: Path) -> None:
    """Oslo has half of the users in the first two weeks, and a tenth afterwards."""
    oslo = 0.5 if day <= 15 else 0.1  # the 16th is a Monday
    shares = {
        "value": ["Oslo", "Bergen", None], "estimate": [oslo, 0.3, 0.7 - oslo],
        "standard_error": [0.01] * 3,
    }  # fmt: skip
    for name, times in (("", 0.02), ("_simultaneous", 0.03)):
        ends = {"lower": -times, "upper": times}
        shares |= {f"{end}{name}": [x + by for x in shares["estimate"]] for end, by in ends.items()}
    tables = {
        "cities": ("histogram", "share", shares),
        "people": ("count", "users", {"estimate": [1000 + day], "standard_error": [1.4]}),
        "delay": ("mean", "mean", {"group": ["a"], "estimate": [1.5], "standard_error": [0.1]}),
    }
    contents = {
        name: Content(
            {f"{kind}.parquet": pa.table(columns), PAGE: b""},
            statement(kind, {f"{kind}.parquet": figure}, n=100),
        )
        for name, (kind, figure, columns) in tables.items()
    }
    publish(day, contents, folder)


def test_the_query_of_the_page_joins_thirty_days_of_three_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for day in range(1, 31):
        publish_week_day(day, Path("releases"))
    page = Path(__file__).parents[2] / "docs" / "tables.md"
    (query,) = re.findall(r"```sql\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    rows = duckdb.sql(query).fetchall()
    monday = datetime(2026, 11, 16, tzinfo=timezone.utc)
    ((week, value, change, error, users),) = [row for row in rows if row[1] == "Oslo"]
    assert (week, value) == (monday, "Oslo")
    assert change == pytest.approx(-0.4)
    assert error == pytest.approx(0.01 * (2 / 7) ** 0.5)
    assert users == pytest.approx(1000 + 19)
    assert len(rows) == 1
